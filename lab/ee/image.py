"""Two images: a bare Debian 13, and on it what ansible-builder makes of execution-environment.yml."""

from __future__ import annotations

import shlex
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

from lab import paths, progress
from lab.depot import cache, debian, operator_image, tools
from lab.ee import sources
from lab.nodes import mirror, podman
from lab.nodes.mirror import Mirror

REPOSITORY = "localhost/gpulab-ee"

_BASE = "localhost/gpulab-debian"
_CODENAME = "trixie"
_PACKAGES = ("ca-certificates",)
_DEFINITION = paths.REPOSITORY / "execution-environment.yml"
_COLLECTION = tuple(paths.REPOSITORY / name for name in ("galaxy.yml", "meta", "playbooks", "plugins", "roles"))
_MADE_FROM = (_DEFINITION, *_COLLECTION, Path(__file__))


def name() -> str:
    """Return the name of the image that belongs to the definition as it is now; it need not be built."""
    return f"{REPOSITORY}:{cache.tree_digest(*_MADE_FROM)[:12]}"


def build() -> None:
    """Build the execution environment unless it exists, and tag it `latest`. Raises DepotError."""
    wanted = name()
    with cache.lock("ee"):
        there = wanted in podman.images()
        if not there:
            operator_image.build_helm()
            base = _base(mirror.find())
            with progress.step("Execution environment, by ansible-builder") as step, _scratch() as work:
                _build(wanted, base, Path(work))
                step.note(wanted)
        podman.run("tag", wanted, f"{REPOSITORY}:latest", doing=f"tagging {wanted}")
        if not there:
            _remove_others(wanted)


def _build(wanted: str, base: str, work: Path) -> None:
    settings, definition = work / "pip", work / "definition"
    settings.mkdir()
    shutil.copytree(paths.REPOSITORY / "meta", definition / "meta")
    shutil.copy2(_DEFINITION, definition)
    programs = Path(sys.executable).parent
    collection: list[object] = [programs / "ansible-galaxy", "collection", "build", "--output-path", definition]
    tools.run([*collection, paths.REPOSITORY], doing="building the collection", log="ee")
    # No runtime is asked for the steps: the one that Podman prefers refuses some machines' cgroups.
    options = ["--isolation=chroot", "--network=host", "--pull=never", "--layers=false", sources.volume(settings)]
    address, digest = _helm(settings)
    argv: list[object] = [programs / "ansible-builder", "build", "--container-runtime=podman"]
    argv += [f"--file={definition / _DEFINITION.name}", f"--context={work / 'context'}", f"--tag={wanted}"]
    argv += ["--verbosity=2", f"--build-arg=EE_BASE_IMAGE={base}", f"--extra-build-cli-args={shlex.join(options)}"]
    argv += [f"--build-arg=HELM_URL={address}", f"--build-arg=HELM_SHA256={digest}"]
    tools.run(argv, doing=f"building the execution environment {wanted}", log="ee", nice=5)


def _helm(directory: Path) -> tuple[str, str]:
    """Pack the helm that the lab has built as its publisher does; return where a build finds it, and its SHA-256."""
    archive = directory / "helm.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(operator_image.helm(), "linux-amd64/helm")
    return f"file://{sources.INSIDE}/{archive.name}", cache.file_digest(archive)


def _base(source: Mirror) -> str:
    """Return the name of the bare Debian; its root file system is kept in the cache. Raises DepotError."""
    key = cache.digest(_CODENAME, source, *_PACKAGES)[:12]
    wanted = f"{_BASE}:{_CODENAME}-{key}"
    if wanted in podman.images():
        return wanted
    archive = paths.images() / f"bare-{_CODENAME}-{key}.tar"
    if not archive.is_file():
        with progress.step(f"Fetching bare Debian {_CODENAME} from {source.archive}"), _scratch() as work:
            root = Path(work, "root")
            debian.root_filesystem(root, _CODENAME, _PACKAGES, address=source.archive)
            (root / "etc/apt/sources.list").unlink(missing_ok=True)
            (root / "etc/apt/sources.list.d/debian.sources").write_text(source.sources(_CODENAME))
            packed = Path(work, "root.tar")
            argv = ["tar", "--numeric-owner", "--create", f"--file={packed}", f"--directory={root}", "."]
            tools.run(argv, doing="packing a root file system", log="ee", nice=5)
            packed.rename(archive)
        for former in paths.images().glob(f"bare-{_CODENAME}-*.tar"):
            if former != archive:
                former.unlink()
    podman.run("import", "--quiet", "--change=CMD /bin/bash", archive, wanted, doing=f"importing {wanted}")
    return wanted


def _remove_others(wanted: str) -> None:
    """Remove environments of earlier definitions that no container uses."""
    for other in podman.images():
        if other.startswith(f"{REPOSITORY}:") and other not in (wanted, f"{REPOSITORY}:latest"):
            users = podman.run("ps", "--all", "--quiet", f"--filter=ancestor={other}", doing="looking for containers")
            if not users.split():
                podman.run("rmi", other, doing=f"removing the former image {other}")


def _scratch() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix=".ee-", dir=paths.images())
