"""The report's page in a real Chromium: layout, accessibility, and no code execution through its texts."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import report_samples
from support.chromium import Tab, chromium
from support.hosts import ROOT

AXE = ROOT / ".cache" / "axe" / "axe_playwright_python" / "axe.min.js"
# Returns the violations found by axe: rules with their first element.
RUN_AXE = "axe.run().then(({violations}) => violations.map(({id, nodes}) => `${id}: ${nodes[0].html}`))"
UNFOLD = "for (const each of document.querySelectorAll('details')) each.open = true"
CHECKS = (Path(__file__).parent / "checks.js").read_text()
SAMPLES = {
    "well": report_samples.well,
    "ill": report_samples.ill,
    "fleet": report_samples.fleet,
    "quiet": lambda: report_samples.fleet(problems=False),
    "hostile": report_samples.hostile,
}
PHONE, LAPTOP, WIDE = 360, 1280, 1920
BAD = """<!doctype html><html><body style="background: #fff"><h1>One</h1><h3>Three</h3>
<p style="color: #999">pale</p><div style="width: 900px">wide</div><svg></svg><img src="http://192.0.2.1/x.png">
<table><tr><td>1</td></tr></table><script>console.log(1)</script></body></html>"""


def render(source: Path) -> subprocess.CompletedProcess[str]:
    """Create a report's page as a user does, without a host."""
    command = ["ansible-playbook", "playbooks/report.yml", "-e", f"report_source={source}"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


def axe(tab: Tab) -> list[str]:
    """Return axe's findings on the page. `make report-test` downloads axe."""
    tab.evaluate(AXE.read_text())
    found: list[str] = tab.evaluate(RUN_AXE)
    return found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    for name, sample in SAMPLES.items():
        (folder / f"{name}.json").write_text(json.dumps(sample()))
    with ThreadPoolExecutor(len(SAMPLES)) as pool:
        for done in pool.map(render, [folder / f"{name}.json" for name in SAMPLES]):
            assert done.returncode == 0, done.stdout + done.stderr
    return {name: folder / f"{name}.html" for name in SAMPLES}


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with chromium(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser.tab()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, PHONE, 768, LAPTOP, WIDE])
@pytest.mark.parametrize("name", SAMPLES)
def test_the_page_is_readable_on_every_screen_size(
    tab: Tab, pages: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    tab.open(pages[name], width=width, scheme=scheme)
    assert tab.evaluate(CHECKS) == []
    tab.evaluate(UNFOLD)
    assert tab.evaluate(CHECKS) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, LAPTOP, WIDE])
@pytest.mark.parametrize("name", SAMPLES)
def test_axe_finds_no_violation(tab: Tab, pages: dict[str, Path], name: str, width: int, scheme: str) -> None:
    tab.open(pages[name], width=width, scheme=scheme)
    tab.evaluate(UNFOLD)
    assert axe(tab) == []


@pytest.mark.parametrize("name", SAMPLES)
def test_the_page_loads_nothing_and_runs_nothing(tab: Tab, pages: dict[str, Path], name: str) -> None:
    tab.open(pages[name])
    assert tab.requests == [pages[name].as_uri()]
    assert tab.messages == []


def test_the_layout_checks_detect_a_bad_page(tab: Tab, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text(BAD)
    tab.open(page, width=360)
    found = " / ".join(tab.evaluate(CHECKS))
    for words in ("contrast 2.85", "wide, not 360", "skips a level", "without a caption", "text alternative"):
        assert words in found
    assert "does not belong here" in found and "no language" in found
    assert len(tab.requests) == 2
    found = " / ".join(axe(tab))
    for rule in ("color-contrast", "html-has-lang", "image-alt", "document-title"):
        assert rule in found


def test_markup_in_names_is_shown_as_text(tab: Tab, pages: dict[str, Path]) -> None:
    tab.open(pages["hostile"])
    names = tab.evaluate("[...document.querySelectorAll('h3')].map((each) => each.textContent)")
    assert sorted(names) == sorted(report_samples.hostile()["hosts"])
    label = tab.evaluate("document.querySelector('svg[role=img]').getAttribute('aria-label')")
    assert report_samples.HOSTILE in label
    assert tab.evaluate("document.querySelectorAll('.links path').length") == 27


@pytest.mark.parametrize("name", ["well", "ill"])
def test_the_drawing_shows_every_gpu_with_its_state(tab: Tab, pages: dict[str, Path], name: str) -> None:
    tab.open(pages[name])
    shown: list[str] = tab.evaluate("[...document.querySelectorAll('.tile')].map((each) => each.dataset.gpu)")
    expected = {
        "well": {"verified": 6},
        "ill": {"verified": 5, "in_use": 1, "unverified": 1, "unhealthy": 1, "unknown": 2, "shared": 2},
    }
    assert Counter(shown) == expected[name]
    assert tab.evaluate("document.querySelectorAll('.slices li').length") == {"well": 0, "ill": 4}[name]
    assert tab.evaluate("document.querySelectorAll('.links path').length") == 0


def test_assistive_technology_gets_tables_and_pictures_on_phones_too(tab: Tab, pages: dict[str, Path]) -> None:
    tab.open(pages["ill"], width=360)
    told = tab.accessible()
    assert {"table", "rowheader", "columnheader", "cell", "heading", "list", "main"} <= {role for role, _name in told}
    assert ("heading", "4 errors, 2 warnings") in told
    tab.open(pages["fleet"], width=360)
    assert ("image", "7 other GPUs, all verified") in tab.accessible()


def test_healthy_nodes_of_a_large_cluster_can_be_expanded(tab: Tab, pages: dict[str, Path]) -> None:
    tab.open(pages["fleet"])
    height = "document.body.scrollHeight"
    folded = tab.evaluate(height)
    assert tab.evaluate("[...document.querySelectorAll('details')].map((each) => each.open)").count(True) == 0
    tab.evaluate(UNFOLD)
    assert tab.evaluate(height) > folded + 500
    assert tab.evaluate("document.querySelectorAll('.pool .dots i').length") == 27 * 8 + 10 * 8


def test_the_drawing_has_no_line_to_collapsed_nodes(tab: Tab, pages: dict[str, Path]) -> None:
    line = "getComputedStyle(document.querySelector('.net'), '::before').content"
    for name, expected in (("fleet", '""'), ("quiet", "none")):
        tab.open(pages[name])
        assert tab.evaluate(line) == expected


def test_the_table_of_contents_links_each_section(tab: Tab, pages: dict[str, Path]) -> None:
    tab.open(pages["fleet"])
    missing = "[...document.querySelectorAll('nav a')].filter((each) => !document.querySelector(each.hash)).length"
    assert tab.evaluate("document.querySelectorAll('nav a').length") == 6 and tab.evaluate(missing) == 0


def test_commands_can_be_copied(tab: Tab, pages: dict[str, Path]) -> None:
    tab.open(pages["ill"])
    found = tab.evaluate("[...document.querySelectorAll('.actions pre code')].map((each) => each.innerText)")
    assert (
        "ansible-playbook gpulab.kubernetes.verify -i research.ini -K" in found
        and "ansible-playbook gpulab.kubernetes.renew_certificates -i research.ini -K" in found
    )
    color = "getComputedStyle(document.querySelector('{}')).color"
    assert tab.evaluate(color.format(".actions pre code")) == tab.evaluate(color.format("body"))


def test_the_most_urgent_action_comes_first(tab: Tab, pages: dict[str, Path]) -> None:
    tab.open(pages["ill"])
    told = tab.evaluate("[...document.querySelectorAll('.actions strong')].map((each) => each.textContent)")
    assert told == [action["host"] for action in report_samples.ill()["actions"]]


def test_the_page_is_the_same_without_javascript(tab: Tab, pages: dict[str, Path]) -> None:
    tab.open(pages["ill"])
    with_script = tab.evaluate("document.body.innerText")
    tab.open(pages["ill"], script=False)
    assert tab.evaluate("document.body.innerText") == with_script


def test_the_page_prints_dark_on_white_with_any_color_scheme(tab: Tab, pages: dict[str, Path]) -> None:
    tab.open(pages["ill"], width=800, scheme="dark")
    tab.media("dark", "print")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert tab.evaluate("getComputedStyle(document.body).color") == "rgb(26, 33, 43)"
    assert tab.pdf().startswith(b"%PDF-")


def test_collapsed_content_is_printed(tab: Tab, pages: dict[str, Path]) -> None:
    tab.open(pages["fleet"], width=800)
    row = "[...document.querySelectorAll('[data-table] tbody tr')].at(-1).checkVisibility()"
    assert tab.evaluate(row) is False
    tab.media("light", "print")
    assert tab.evaluate(row) is True


def test_the_page_is_visible_in_both_color_schemes(tab: Tab, pages: dict[str, Path], tmp_path: Path) -> None:
    pictures = []
    for scheme in ("light", "dark"):
        tab.open(pages["ill"], scheme=scheme)
        tab.screenshot(tmp_path / f"{scheme}.png")
        pictures.append((tmp_path / f"{scheme}.png").read_bytes())
    assert pictures[0] != pictures[1]
    # The picture of an empty page has a tenth of this size.
    assert min(map(len, pictures)) > 50_000


def test_a_file_that_is_not_a_report_is_one_clear_error(tmp_path: Path) -> None:
    source = tmp_path / "report.json"
    source.write_text('{"hosts": []}')
    done = render(source)
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert "Error while reading the report: its hosts is a list" in said and "Traceback" not in said
    assert not source.with_suffix(".html").exists()
