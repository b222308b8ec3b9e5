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
_LOCAL = "localhost/gpulab-wandb"
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
                cache.replace_text(_stamp(), _key())


def _is_stored() -> bool:
    return registry.holds(REFERENCE) and _stamp().is_file() and _stamp().read_text() == _key()


def _key() -> str:
    return cache.digest(REFERENCE, cache.tree_digest(Path(__file__).resolve(), _CONTEXT))


def _stamp() -> Path:
    return paths.registry() / "made" / "wandb-image.key"


def _store(target: Registry) -> None:
    base, local = (f"{_LOCAL}:{kind}-{_key()[:12]}" for kind in ("base", "agent"))
    with tempfile.TemporaryDirectory(prefix="gpulab-wandb-") as work:
        root, archive, settings = (Path(work, name) for name in ("root", "root.tar", "pip"))
        settings.mkdir()
        debian.root_filesystem(root, _SUITE, _PACKAGES)
        argv = ["tar", "--numeric-owner", "--create", f"--file={archive}", f"--directory={root}", "."]
        tools.run(argv, doing="packing a root file system", log="podman", nice=5)
        tools.run(["podman", "import", "--quiet", archive, base], doing=f"importing {base}", log="podman")
        try:
            # No runtime is asked for the steps: the one that Podman prefers refuses some machines' cgroups.
            argv = ["podman", "build", "--isolation=chroot", "--network=host", "--pull=never", "--layers=false"]
            argv += [sources.volume(settings), f"--build-arg=PYTHON={base}", f"--tag={local}", str(_CONTEXT)]
            tools.run(argv, doing=f"building {REFERENCE}", log="podman", nice=5)
            argv = ["podman", "push", "--quiet", "--tls-verify=false", local]
            tools.run([*argv, f"docker://{target.address}/{REFERENCE}"], doing=f"storing {REFERENCE}", log="podman")
        finally:
            argv = ["podman", "rmi", "--ignore", local, base]
            tools.run(argv, doing="removing the local copies of the agent's image", log="podman")
