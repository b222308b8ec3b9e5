"""Download nvidia-smi from Debian's non-free component, with the user's own apt and mirror.

Its license allows neither redistribution nor reverse engineering: it is downloaded on the user's machine, unpacked for
this one program, and stays in the user's cache.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from lab import paths
from lab.depot import cache, debian, tools

_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_PROGRAM = "usr/lib/nvidia/current/nvidia-smi"


def nvidia_smi(suite: str, mirror: str | None = None) -> Path:
    """Return the program of a Debian suite, which is next to its copyright file.

    `mirror` is the address of a Debian archive, by default GPULAB_DEBIAN_MIRROR or the host's own apt source. Raises
    DepotError if there is neither, or the download fails.
    """
    target = paths.component_dir("nvidia-smi", suite)
    if not (target / "nvidia-smi").is_file():
        with cache.lock(f"nvidia-smi-{suite}"), tempfile.TemporaryDirectory() as work:
            package = _download(suite, mirror or debian.mirror(), Path(work))
            tools.run(["dpkg-deb", "--extract", package, Path(work, "unpacked")], doing="unpacking nvidia-smi")
            with cache.fresh(target, package.name) as directory:
                for name in (_PROGRAM, "usr/share/doc/nvidia-smi/copyright"):
                    shutil.copy(Path(work, "unpacked", name), directory)
    return target / "nvidia-smi"


def _download(suite: str, mirror: str, work: Path) -> Path:
    if not _KEYRING.is_file():
        raise cache.DepotError(
            f"Error while fetching nvidia-smi: {_KEYRING} is not there. Install debian-archive-keyring."
        )
    for part in ("state/lists/partial", "cache/archives/partial", "download"):
        Path(work, part).mkdir(parents=True)
    Path(work, "sources.list").write_text(f"deb [signed-by={_KEYRING}] {mirror} {suite} non-free\n")
    options = {
        "Dir::Etc::sourcelist": work / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Dir::State": work / "state",
        "Dir::State::status": "/dev/null",
        "Dir::Cache": work / "cache",
        "APT::Architecture": "amd64",
        "APT::Sandbox::User": "",
    }
    apt = ["apt-get", "--quiet", *(f"--option={name}={value}" for name, value in options.items())]
    doing = f"fetching nvidia-smi of {suite} from {mirror}"
    tools.run([*apt, "update"], doing=doing, log="gpusim")
    tools.run([*apt, "download", "nvidia-smi"], doing=doing, log="gpusim", cwd=work / "download")
    return next(Path(work, "download").glob("nvidia-smi_*.deb"))
