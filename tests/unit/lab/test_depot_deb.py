"""Packages: dpkg reads back the given fields and files, and the same input gives the same bytes."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from lab.depot import apt, deb

dpkg = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb reads the packages back")


def make(out: Path, **changes: object) -> Path:
    arguments: dict[str, object] = {
        "files": {"/usr/bin/tool": "#!/bin/sh\necho hi\n", "/etc/tool.conf": "a = 1\n", "/usr/bin/t": deb.Link("tool")},
        "conffiles": ["/etc/tool.conf"],
        "depends": ["libc6 (>= 2.34)", "mount"],
        "scripts": {"postinst": "#!/bin/sh\nexit 0\n"},
        "description": "A tool\nMore about it.\n\nThe end.",
        **changes,
    }
    return deb.make("tool", "1.2-3", out=out, **arguments)  # type: ignore[arg-type]


def ask(*argv: object) -> str:
    return subprocess.run([str(part) for part in argv], check=True, capture_output=True, text=True).stdout


@dpkg
def test_dpkg_reads_the_control_fields(tmp_path: Path) -> None:
    package = make(tmp_path, fields={"Provides": "other"}, architecture="all")

    assert package.name == "tool_1.2-3_all.deb"
    fields = ("Package", "Version", "Architecture", "Depends", "Provides")
    read = [ask("dpkg-deb", "-f", package, field).strip() for field in fields]
    assert read == ["tool", "1.2-3", "all", "libc6 (>= 2.34), mount", "other"]
    assert ask("dpkg-deb", "-f", package, "Description") == "A tool\n More about it.\n .\n The end.\n"
    assert ask("dpkg-deb", "-I", package, "conffiles") == "/etc/tool.conf\n"
    assert ask("dpkg-deb", "-I", package, "postinst") == "#!/bin/sh\nexit 0\n"


@dpkg
def test_files_keep_mode_owner_link_and_content(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF")
    program.chmod(0o755)
    secret = deb.File("s", 0o600)
    package = make(tmp_path, files={"/opt/p": program, "/etc/tool.conf": "a\n", "/etc/s": secret, "/l": deb.Link("x")})

    data = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        members = {member.name: member for member in tar}
        assert {name: members[name].mode for name in ("./opt/p", "./etc/tool.conf", "./etc/s", "./opt")} == {
            "./opt/p": 0o755,
            "./etc/tool.conf": 0o644,
            "./etc/s": 0o600,
            "./opt": 0o755,
        }
        assert members["./l"].linkname == "x"
        assert {(member.uname, member.uid) for member in members.values()} == {("root", 0)}
        content = tar.extractfile("./opt/p")
        assert content is not None
        assert content.read() == b"\x7fELF"


@dpkg
def test_dpkg_verifies_the_checksums(tmp_path: Path) -> None:
    root = tmp_path / "root"
    package = make(tmp_path, scripts={}, directories=["/var/lib/tool"])
    ask("dpkg-deb", "-x", package, root)
    sums = ask("dpkg-deb", "-I", package, "md5sums")

    assert subprocess.run(["md5sum", "-c", "-"], cwd=root, input=sums, text=True, check=False).returncode == 0
    assert (root / "var/lib/tool").is_dir()


def test_the_same_input_gives_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = make(tmp_path / "a").read_bytes()
    monkeypatch.setattr("time.time", lambda: 4e9)

    assert make(tmp_path / "b").read_bytes() == first


def test_the_repository_reads_the_control_file(tmp_path: Path) -> None:
    assert apt.control(make(tmp_path)).startswith("Package: tool\nVersion: 1.2-3\n")


def test_an_epoch_is_not_part_of_the_file_name(tmp_path: Path) -> None:
    assert deb.make("tool", "1:2.0-1", out=tmp_path).name == "tool_2.0-1_amd64.deb"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"files": {"usr/bin/tool": "x"}, "conffiles": []}, "absolute"),
        ({"files": {"/usr/../tool": "x"}, "conffiles": []}, "absolute"),
        ({"directories": ["var"]}, "absolute"),
        ({"conffiles": ["/etc/other.conf"]}, "does not hold"),
        ({"scripts": {"postinstall": "x"}}, "postinst"),
    ],
)
def test_input_that_dpkg_would_refuse_is_refused(tmp_path: Path, changes: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make(tmp_path, **changes)
    assert not list(tmp_path.glob("*.deb"))
