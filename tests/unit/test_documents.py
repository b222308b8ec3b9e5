"""Documents: links are valid, quoted messages exist, and every feature is mentioned."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.guides import OTHER_LABS, Checkout, Guide, blocks, pages

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not {part for part in path.relative_to(ROOT).parts if part.startswith(".") or part == "collections"}
)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_IMAGE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)|<(?:img|source)[^>]* src(?:set)?=\"([^\"]+)\"")
# A placeholder for the value in a template, which no document contains.
_VARIES = "\0"


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def prose(path: Path) -> str:
    """Return a document without its fenced blocks and inline code."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"(`+)(?:(?!\1).)+\1", "code", text)


def slug(heading: str) -> str:
    """Return the anchor of a heading, as GitHub derives it."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")


def anchors(path: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub derives them."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    found: set[str] = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *$", text, re.MULTILINE):
        base = slug(heading)
        number = next(n for n in range(1000) if (f"{base}-{n}" if n else base) not in found)
        found.add(f"{base}-{number}" if number else base)
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_links_lead_to_files_and_headings_that_exist(document: Path) -> None:
    targets = [one for one in _LINK.findall(prose(document)) if not re.match(r"[a-z]+:", one)]
    targets += [one or two for one, two in _IMAGE.findall(prose(document)) if not re.match(r"[a-z]+:", one or two)]
    for target in targets:
        path, _hash, anchor = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        assert file.exists(), f"{name(document)} links {target}: there is no such file"
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), f"{name(document)} links {target}: there is no such heading"


def section(path: Path, anchor: str) -> str:
    """Return the section below a heading, with its subsections, or the whole document if there is no anchor."""
    text = path.read_text()
    outside = re.sub(r"^```.*?^```$", lambda block: "x" * len(block[0]), text, flags=re.MULTILINE | re.DOTALL)
    headings = list(re.finditer(r"^(#{1,6}) +(.+?) *$", outside, re.MULTILINE))
    for at, heading in enumerate(headings):
        if anchor and slug(heading[2]) == anchor:
            ends = (later.start() for later in headings[at + 1 :] if len(later[1]) <= len(heading[1]))
            return text[heading.start() : next(ends, len(text))]
    return text


@cache
def within(clicks: int) -> frozenset[tuple[Path, str]]:
    """Return the documents, each with an optional anchor, within this many clicks from the README."""
    reached = {(ROOT / "README.md", "")}
    for _click in range(clicks):
        for document in {path for path, _anchor in reached}:
            for target in _LINK.findall(prose(document)):
                path, _hash, anchor = target.partition("#")
                file = (document.parent / path).resolve() if path else document
                if file in DOCUMENTS:
                    reached.add((file, anchor))
    return frozenset(reached)


# Questions of new users, the document or section with the answer, and words that it must contain.
QUESTIONS = (
    ("my GPUs show 0", "docs/troubleshooting.md#nvidiacomgpu-is-0-or-missing", "To fix it"),
    ("add a node", "docs/own-machines.md#after-the-first-run", "add a line to the inventory and run `site.yml` again"),
    ("remove a node", "docs/nodes.md#remove-a-worker", "-e node=gpu2"),
    ("upgrade Kubernetes", "docs/upgrades.md", "cluster_disruption_policy=defer"),
    ("back up", "docs/backup.md#take-a-backup-now", "gpulab.kubernetes.backup"),
    ("restore", "docs/restore.md", "-e restore_confirm=lab"),
    ("share one GPU between two", "docs/sharing-gpus.md#one-gpu-for-two-people", "host_vars/gpu1.yml"),
    ("proxy", "docs/own-machines.md#the-inventory", "behind-a-proxy"),
    ("air-gapped, offline", "docs/air-gapped.md", "containerd_registry_mirrors"),
    ("kubectl", "README.md", "kubectl --kubeconfig my-admin.conf get nodes"),
    ("uninstall", "docs/uninstall.md#the-whole-cluster", "-e reset_confirm=lab"),
    ("how long does it take", "docs/sizing.md#time", "minutes"),
    ("how much disk", "docs/sizing.md#machines", "free disk space"),
    ("Ubuntu 26.04", "docs/own-machines.md#ubuntu-2604-and-sudo-rs", "ansible_become_exe=sudo.ws"),
    ("Ubuntu 26.04, Python", "docs/own-machines.md#ubuntu-2604-and-sudo-rs", "Python 3.12"),
)


@pytest.mark.parametrize(("question", "target", "words"), QUESTIONS, ids=[row[0] for row in QUESTIONS])
def test_answers_for_new_users_are_two_clicks_from_the_readme(question: str, target: str, words: str) -> None:
    path, _hash, anchor = target.partition("#")
    assert (ROOT / path, anchor) in within(2), f"{question}: two clicks from the README don't lead to {target}"
    assert not anchor or anchor in anchors(ROOT / path)
    assert words in section(ROOT / path, anchor), f"{question}: {target} doesn't hold {words!r}"


@pytest.mark.parametrize(
    "words",
    [
        *("offline", "air-gap", "Ingress", "ingress-nginx", "Gateway API", "LoadBalancer", "JupyterHub", "Slurm"),
        *("backup", "upgrade Kubernetes", "remove a node", "Ubuntu 26.04", "LC_ALL", "ssh-copy-id", "`-k`", "sshpass"),
        *("requires the locale encoding to be UTF-8", "YAML parsing failed", "group_vars", "host_vars"),
    ],
)
def test_the_questions_contain_the_words_that_people_search_for(words: str) -> None:
    assert words in (ROOT / "docs" / "faq.md").read_text()
    assert (ROOT / "docs" / "faq.md", "") in within(1)


def test_ci_runs_the_tests_with_the_command_in_the_readme() -> None:
    _before, _heading, section = (ROOT / "README.md").read_text().partition("\n## Without a GPU\n")
    commands = [
        line.partition("#")[0].strip() for line in section.partition("```sh\n")[2].partition("```")[0].splitlines()
    ]
    (lab,) = [command for command in commands if "make lab" in command]
    (tests,) = [command for command in commands if re.search(r"make \w*test", command)]
    assert lab == "sudo -E make lab"
    run = (ROOT / ".ci" / "run").read_text().splitlines()
    assert f"run {tests}" in run, "CI runs other tests, or others than the README prints"


def test_every_limit_links_an_alternative() -> None:
    limits = (ROOT / "README.md").read_text().partition("\n## Limits\n")[2].partition("\n## ")[0]
    items = limits.split("\n- ")[1:]
    assert len(items) >= 6
    assert [item for item in items if not _LINK.search(item)] == []


@pytest.mark.parametrize("document", ["README.md", "one-machine.md"])
def test_a_guide_starts_with_the_installed_collection(document: str) -> None:
    text = (ROOT / "docs" / document).read_text()
    begins = text.find("../README.md#quick-start")
    assert 0 < begins < text.find("checkout"), "a checkout is for contributors and for the lab"


def test_the_index_links_every_document() -> None:
    linked = {(ROOT / "docs" / link).resolve() for link in _LINK.findall((ROOT / "docs" / "README.md").read_text())}
    missing = {path for path in (ROOT / "docs").glob("*.md") if path.name != "README.md"} - linked
    assert not missing, f"docs/README.md does not link {sorted(map(name, missing))}"


@pytest.mark.parametrize("page", pages())
def test_the_marked_commands_of_a_guide_are_found(page: str) -> None:
    for block in blocks(page):
        assert block.script.strip(), f"{block.name} is empty"
        assert not re.search(r"--name[ =]", block.script), f"{block.name}: the test gives the lab its name"


def test_every_marked_command_is_run_by_a_group_of_long_tests() -> None:
    marked = {page for page in pages() if blocks(page)}
    assert set(OTHER_LABS) < marked
    makefile = (ROOT / "Makefile").read_text()
    for page, group in OTHER_LABS.items():
        modules = re.search(rf"^tests_{group} := (.*)$", makefile, re.MULTILINE)
        assert modules, f"{page}: there is no group {group}"
        code = "".join((ROOT / "tests" / "integration" / module).read_text() for module in modules[1].split())
        assert f'"{page}"' in code, f"{page}: the group {group} does not run its commands"
        assert "guide.left() == []" in code, f"{page}: the group {group} does not see whether all of them have run"


@pytest.mark.parametrize(
    "marker",
    ["<!-- lab: never -->", "<!-- lab -->", "<!-- lab: prints -->", "<!-- lab: file -->", "<!-- lab: fails my.ini -->"],
)
def test_a_marker_without_a_block_is_an_error(marker: str, tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(f"# Page\n\n{marker}\n```text\nx\n```\n")
    with pytest.raises(ValueError, match=r"page\.md:3: "):
        blocks("page.md", tmp_path)


def test_output_is_compared_by_line_except_for_spaces_and_wrapping(tmp_path: Path) -> None:
    said = "<!-- lab: prints -->\n```text\na  b ... d\nnot there\n```\n"
    (tmp_path / "page.md").write_text(f"<!-- lab: fails -->\n```sh\nfalse\n```\nIt says:\n\n{said}")
    (block,) = blocks("page.md", tmp_path)
    assert (block.kind, block.script, block.name) == ("fails", "false", "page.md:1")
    assert block.missing("x\n  a    b c\td\n") == ["not there"]
    assert block.missing("a\n  b\nc d\nnot\nthere") == []
    assert block.missing(f"a b\n{'c' * 300} d\nnot there") == ["a b ... d"]


def test_a_guide_is_followed_in_its_order_and_files_are_written_and_extended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """1. Write:

   <!-- lab: file a/my.ini -->
   ```ini
   [all]
     one
   ```

<!-- lab: append a/my.ini -->
```ini
two
```

<!-- lab -->
```sh
read -r word || cat a/my.ini
```

<!-- lab: prints -->
```text
[all] one two
```

<!-- lab: fails -->
```sh
[ "$GIVEN" = no ]
```
"""
    (tmp_path / "page.md").write_text(text)
    monkeypatch.setattr("support.guides.blocks", lambda page: blocks(page, tmp_path))
    guide = Guide("page.md", Checkout(tmp_path, {"GIVEN": "yes"}))
    assert guide.through("cat").output == "[all]\n  one\ntwo\n"
    assert [block.kind for block in guide.left()] == ["fails"]
    with pytest.raises(AssertionError, match="no block with cat"):
        guide.through("cat")
    assert guide.left() == []


def quotations() -> Iterator[tuple[str, str]]:
    """Return (document, message) of all messages of this collection that guides quote."""
    for document in DOCUMENTS:
        for message in re.findall(r"^> `(.+)`$", document.read_text(), re.MULTILINE):
            yield name(document), message


def python_texts(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else _VARIES for part in node.values)


def yaml_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield re.sub(r"\{\{.*?\}\}|\{%.*?%\}", _VARIES, value, flags=re.DOTALL)
        yield from re.findall(r"'([^']{12,})'", value)
    elif isinstance(value, dict):
        for inner in value.values():
            yield from yaml_texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from yaml_texts(inner)


@cache
def texts_of_ours() -> list[str]:
    found: list[str] = []
    for path in (ROOT / "plugins").rglob("*.py"):
        found += python_texts(ast.parse(path.read_text()))
    for path in [*ROOT.glob("roles/*/*/*.yml"), *ROOT.glob("playbooks/*.yml")]:
        found += yaml_texts(yaml.safe_load(path.read_text()))
    # Backticks enclose commands in the sources and are removed before an advice is shown.
    return [" ".join(text.replace("`", "").split()) for text in found]


def is_ours(message: str) -> bool:
    parts = [re.escape(part.strip()) for part in message.split("...") if part.strip()]
    return any(re.search(".*".join(parts), text) for text in texts_of_ours())


def test_every_quoted_message_of_the_collection_exists_in_its_sources() -> None:
    found = list(quotations())
    assert len(found) >= 30
    wrong = [f"{document}: {message}" for document, message in found if not is_ours(message)]
    assert not wrong, "no source has these messages:\n" + "\n".join(wrong)


def test_a_quoted_message_that_does_not_exist_is_found() -> None:
    assert is_ours("the node is not ready: ...")
    assert not is_ours("the node is not quite ready: ...")
    assert not is_ours("... GPUs are allocatable ... the node is not ready")


def test_every_playbook_and_role_is_named_in_a_document() -> None:
    said = "\n".join(path.read_text() for path in DOCUMENTS if path.parent != ROOT / "docs" / "reference")
    for path in (ROOT / "playbooks").glob("*.yml"):
        names = rf"(gpulab\.kubernetes\.{path.stem}\b|\b{path.stem}\.yml)"
        assert re.search(names, said), f"no document names {path.name}"
    for path in (ROOT / "roles").glob("*/meta/main.yml"):
        assert re.search(rf"\b{path.parents[1].name}\b", said), f"no document names the role {path.parents[1].name}"


def test_every_symptom_has_a_remedy() -> None:
    text = (ROOT / "docs" / "troubleshooting.md").read_text()
    symptoms = re.split(r"^### ", text, flags=re.MULTILINE)[1:]
    assert len(symptoms) >= 20
    for symptom in symptoms:
        title, _end, body = symptom.partition("\n")
        assert re.search(r"[Tt]o fix it|site\.yml", body), f"{title}: what fixes it?"
        assert "\n> `" in body, f"{title}: how is it found?"


def test_the_lists_of_troubleshooting_link_every_section() -> None:
    path = ROOT / "docs" / "troubleshooting.md"
    lists, _heading, sections = path.read_text().partition("\n## ")
    linked = {link.removeprefix("#") for link in _LINK.findall(lists)}
    titles = re.findall(r"^### (.+)$", sections, re.MULTILINE)
    assert not [title for title in titles if re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") not in linked]


# Texts that people paste into a search.
SEARCHED = """\
Ansible requires the locale encoding to be UTF-8; Detected None.
Ansible could not initialize the preferred locale: unsupported locale setting
YAML parsing failed
you must install the sshpass program
Failed to initialize NVML: Unknown Error
could not select device driver "" with capabilities: [[gpu]]
Driver/library version mismatch
NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver
No devices were found
requires use of the NVIDIA open kernel modules
is not supported by open nvidia.ko because it does not include the required GPU System Processor (GSP)
Legacy drivers
BAR1 is 0M
This PCI I/O region assigned to your NVIDIA device is invalid
RmInitAdapter failed!
The NVIDIA probe routine was not called for 1 device(s)
GPU has fallen off the bus
119, ... Timeout after 6s of waiting for RPC response from GPU0 GSP!
NVreg_EnableGpuFirmware=0
SXid (PCI:
system not yet initialized
cudaErrorSystemNotReady
ERR_NVGPUCTRPERM
NVreg_RestrictProfilingToAdminUsers=0
failed to create FS watcher: too many open files
modprobe: ERROR: could not insert 'nvidia'
Key was rejected by service
Required key not available
Module nvidia is in use
Your kernel headers for kernel
CUDA Version: ERR!
License Status: Unlicensed
failed to stat CDI host device "/dev/nvidia-uvm": no such file or directory
unresolvable CDI devices
no runtime for "nvidia" is configured
0/3 nodes are available: 3 Insufficient nvidia.com/gpu
"""


@pytest.mark.parametrize("words", SEARCHED.splitlines())
def test_troubleshooting_contains_the_exact_words_that_people_search_for(words: str) -> None:
    assert words in " ".join((ROOT / "docs" / "troubleshooting.md").read_text().split())


def test_every_group_of_long_tests_is_in_the_table() -> None:
    groups = re.search(r"^GROUPS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    table = (ROOT / "docs" / "testing.md").read_text().split("## Groups of test-all")[1].split("\n## ")[0]
    assert groups and set(groups[1].split()) == set(re.findall(r"^\| `(.+?)` \|", table, re.MULTILINE))


def test_the_architecture_names_every_package() -> None:
    table = set(re.findall(r"`(_\w+(?:/|\.py))`", (ROOT / "docs" / "architecture.md").read_text()))
    utilities = [path for where in ("module_utils", "plugin_utils") for path in (ROOT / "plugins" / where).glob("_*")]
    assert table == {f"{path.name}/" if path.is_dir() else path.name for path in utilities} - {"__pycache__/"}


def test_the_recipe_for_a_training_image_names_variables_that_accept_its_values() -> None:
    recipe = (ROOT / "examples" / "training" / "Containerfile").read_text()
    defaults = yaml.safe_load((ROOT / "roles" / "torch_ddp" / "defaults" / "main.yml").read_text())
    given = dict(re.findall(r"(torch_ddp_\w+): ([^\s,]+)", recipe))
    # This is a path in the image; torch_ddp_script is a path on the controller.
    assert given == {
        "torch_ddp_image": "registry.example.org/team/train:1",
        "torch_ddp_image_script": "/workspace/train_ddp.py",
    }
    assert set(given) < set(defaults)
    images = [*re.findall(r"^FROM (\S+)$", recipe, re.MULTILINE)]
    images.append(json.loads((ROOT / "examples" / "launch" / "inference.json").read_text())["docker"]["docker_image"])
    assert set(images) == {defaults["torch_ddp_default_images"][0]}


def test_every_test_that_the_security_page_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs/security.md").read_text()))
    known = {found for path in ROOT.glob("tests/**/*.py") for found in re.findall(r"def (test_\w+)", path.read_text())}
    assert named and named - known == set()
