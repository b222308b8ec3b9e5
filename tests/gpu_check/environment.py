"""Environments for programs, without the variables that change which GPUs a program gets."""

from __future__ import annotations

import os
from pathlib import Path

_DROPPED = ("CUDA_VISIBLE_", "CUDA_DEVICE_", "NVIDIA_", "ANSIBLE_", "TORCH_DDP_", "RANK", "WORLD_SIZE", "MASTER_")
_STANDARD = ("/usr/lib/x86_64-linux-gnu/", "/lib/x86_64-linux-gnu/", "/usr/lib64/", "/lib64/")


def clean(work: Path) -> dict[str, str]:
    """Return the environment of programs that use GPUs. Files for the home directory go to ``work``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_DROPPED)}
    path = kept.get("PATH") or "/usr/local/bin:/usr/bin:/bin"
    own = {"PATH": f"{path}:/usr/local/nvidia/bin:/usr/sbin:/sbin", "HOME": str(work), "TMPDIR": str(work)}
    # Python still finds packages that users installed for themselves.
    return {"PYTHONUSERBASE": str(Path("~/.local").expanduser()), **kept, **own}


def for_ansible(base: dict[str, str], site: Path, kit: Path, work: Path) -> dict[str, str]:
    """Return Ansible's environment, with the kit's packages and programs and without any user settings."""
    (work / "ansible.cfg").touch()
    return {
        **base,
        "PYTHONPATH": str(site),
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PATH": f"{kit / 'bin'}:{base['PATH']}",
        "ANSIBLE_COLLECTIONS_PATH": str(kit),
        "ANSIBLE_CONFIG": str(work / "ansible.cfg"),
        "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default",
        "ANSIBLE_LOCAL_TEMP": str(work / "ansible"),
        "ANSIBLE_REMOTE_TEMP": str(work / "ansible"),
        "LC_ALL": "C.UTF-8",
    }


def is_standard(library: str) -> bool:
    """Return whether a library is in a directory that distributions use."""
    return library.startswith(_STANDARD)


def with_libraries(base: dict[str, str], library: str) -> dict[str, str]:
    """Return an environment in which programs find the driver's other libraries next to ``library``."""
    if not library or is_standard(library):
        return base
    known = base.get("LD_LIBRARY_PATH", "")
    return {**base, "LD_LIBRARY_PATH": f"{Path(library).parent}{':' if known else ''}{known}"}
