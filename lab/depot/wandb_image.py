"""The image of W&B's launch agent for a lab, from the collection's own Containerfile on Debian's Python.

W&B's own image can't be had everywhere. This one has another name, and is also what the test's jobs run in.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from lab import paths, progress
from lab.depot import cache, debian, registry, tools
from lab.depot.registry import Registry
from lab.ee import sources

REFERENCE = "ghcr.io/gpulab/wandb-launch-agent:0.31.0"
_SUITE = "trixie"
# In place of docker.io/library/python, which can't be had everywhere either.
_PACKAGES = ("python3", "python3-venv", "git", "ca-certificates")
_CONTEXT = paths.REPOSITORY / "roles" / "wandb_launch" / "files" / "agent"


def build() -> None:
    """Make the image and store it, unless the registry has it, made from the same. Raises DepotError."""
    if not _is_stored():
        with cache.lock("depot"), registry.writable() as target:
            if not _is_stored():
                with progress.step(f"Image {REFERENCE}"):
                    _store(target)
                cache.replace_text(_stamp(), key())


def _is_stored() -> bool:
    return registry.holds(REFERENCE) and _stamp().is_file() and _stamp().read_text() == key()


def key() -> str:
    """Key of everything that the image depends on."""
    return cache.digest(REFERENCE, cache.tree_digest(Path(__file__).resolve(), _CONTEXT))


def _stamp() -> Path:
    return paths.registry() / "made" / "wandb-image.key"


def _store(target: Registry) -> None:
    base = f"localhost/gpulab-wandb-base:{key()[:12]}"
    with tempfile.TemporaryDirectory(prefix="gpulab-wandb-") as work:
        root, archive, settings = (Path(work, name) for name in ("root", "root.tar", "pip"))
        settings.mkdir()
        debian.root_filesystem(root, _SUITE, _PACKAGES)
        argv = ["tar", "--numeric-owner", "--create", f"--file={archive}", f"--directory={root}", "."]
        tools.run(argv, doing="packing a root file system", log="podman", nice=5)
        tools.run(["podman", "import", "--quiet", archive, base], doing=f"importing {base}", log="podman")
        try:
            build_and_push(target, REFERENCE, _CONTEXT, sources.volume(settings), f"--build-arg=PYTHON={base}")
        finally:
            tools.run(["podman", "rmi", "--ignore", base], doing="removing the base of an image", log="podman")


def build_and_push(target: Registry, reference: str, context: Path, *arguments: str | Path) -> None:
    """Build the Containerfile of a directory, and store its image in the registry. Raises DepotError."""
    local = f"localhost/gpulab-build:{cache.digest(reference)[:12]}"
    # No runtime is asked for the steps: the one that Podman prefers refuses some machines' cgroups.
    argv = ["podman", "build", "--isolation=chroot", "--network=host", "--layers=false", "--tls-verify=false"]
    try:
        argv += [*map(str, arguments), f"--tag={local}", str(context)]
        tools.run(argv, doing=f"building {reference}", log="podman", nice=5)
        argv = ["podman", "push", "--quiet", "--tls-verify=false", local, f"docker://{target.address}/{reference}"]
        tools.run(argv, doing=f"storing {reference}", log="podman")
    finally:
        tools.run(["podman", "rmi", "--ignore", local], doing="removing a local copy of an image", log="podman")
