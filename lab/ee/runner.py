"""Settings with which ansible-runner starts the execution environment on this machine."""

from __future__ import annotations

from typing import Any

from lab.ee import image
from lab.nodes import podman, system


def settings() -> dict[str, Any]:
    """Return ansible-runner's settings of process isolation, as AWX sets them.

    Additions are for this machine: the lab's networks are reached through the host network, and Podman must not request
    higher limits than the caller has.
    """
    return {
        "process_isolation": True,
        "process_isolation_executable": "podman",
        "container_image": image.name(),
        "container_options": ["--user=root", "--pull=never", "--network=host", *podman.runtime(), *system.limits()],
    }
