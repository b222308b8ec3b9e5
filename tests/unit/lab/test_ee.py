"""Building the execution environment: settings that are passed from this machine, and when it is built again."""

from __future__ import annotations

import configparser
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab import parts
from lab.ee import image, sources
from lab.nodes.errors import LabError

LISTED = """global.cert='/home/somebody/ca.pem'
global.index-url='https://user:secret@pypi.example.org/simple'
install.trusted-host='pypi.example.org'
:env:.find-links='/srv/wheels'
:env:.index-url='https://other.example.org/simple'
:env:.extra-index-url='https://a.example.org/simple\\nhttps://b.example.org/simple'
"""


def test_pip_settings_that_work_in_the_container_are_used_and_the_environment_wins() -> None:
    assert sources.pip_settings(LISTED) == [
        "extra-index-url = https://a.example.org/simple https://b.example.org/simple",
        "index-url = https://other.example.org/simple",
        "trusted-host = pypi.example.org",
    ]
    assert sources.pip_settings("") == []


LINES = st.builds("{}.{}={}".format, st.sampled_from(["global", ":env:"]), st.sampled_from(["proxy", "x"]), st.text())


@given(st.lists(LINES | st.text()).map("\n".join))
def test_any_pip_configuration_gives_valid_lines_for_pip(listed: str) -> None:
    configparser.ConfigParser(interpolation=None).read_string("\n".join(["[global]", *sources.pip_settings(listed)]))


def test_the_pip_settings_are_private_and_name_the_certificate_authorities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_listed", lambda: LISTED)
    authorities = tmp_path / "all.crt"
    authorities.write_text("certificates")
    directory = tmp_path / "pip"
    directory.mkdir()
    assert sources.volume(directory, authorities) == f"--volume={directory}:/etc/xdg/pip:ro"
    path = directory / "pip.conf"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    written = configparser.ConfigParser(interpolation=None)
    written.read(path)
    assert written["global"]["cert"] == "/etc/xdg/pip/ca.crt"
    assert (directory / "ca.crt").read_text() == "certificates"


def test_without_own_certificate_authorities_pip_uses_its_bundled_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_listed", lambda: "")
    sources.volume(tmp_path, tmp_path / "absent")
    assert (tmp_path / "pip.conf").read_text() == "[global]\n"


def test_a_changed_definition_is_another_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    former = image.name()
    changed = tmp_path / "execution-environment.yml"
    changed.write_text("version: 3\n")
    monkeypatch.setattr(image, "_MADE_FROM", (changed, *image._MADE_FROM[1:]))
    assert image.name() != former
    assert image.name().startswith(f"{image.REPOSITORY}:")


def test_an_unknown_part_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(LabError, match=r"--with flying: there is no such part, only: .*ee"):
        parts.check(["ee", "flying"])
    parts.check(list(parts.PARTS))
