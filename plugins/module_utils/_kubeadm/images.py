# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pulls the images of a control plane that the host does not have yet, one by one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .._command import CommandError, CommandNotFoundError
from .run import Kubeadm

# As often as kubeadm itself tries.
_ATTEMPTS = 5


@dataclass
class Outcome:
    """``known``: whether the images could be asked for; before kubeadm is installed, check mode can't."""

    changed: bool = True
    known: bool = True
    images: list[str] = field(default_factory=list)
    pulled: list[str] = field(default_factory=list)


class KubeadmImages:
    """``module`` is an AnsibleModule; ``pause`` is the time between two attempts, in seconds."""

    def __init__(self, module: Any, executable: str, timeout: float, root: str, pause: float = 2) -> None:
        self._module = module
        self._kubeadm = Kubeadm(module, executable, timeout, root)
        self._pause = pause

    def apply(self, config: str) -> Outcome:
        """Raises CommandError with what the runtime says of an image."""
        try:
            images = self._kubeadm.images(config)
            missing = [image for image in images if not self._has(image)]
        except CommandNotFoundError:
            if not self._module.check_mode:
                raise
            return Outcome(known=False)
        if not self._module.check_mode:
            for number, image in enumerate(missing):
                self._pull(image, missing[:number])
        return Outcome(bool(missing), True, images, missing)

    def _has(self, image: str) -> bool:
        # It ends with 1 for an image that is not there, and when the runtime does not answer: then the pull says why.
        return self._kubeadm.runner.run(["crictl", "inspecti", "--quiet", image]).rc == 0

    def _pull(self, image: str, before: Sequence[str]) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            result = self._kubeadm.runner.run(["crictl", "pull", image])
            if result.rc == 0:
                return
            if attempt < _ATTEMPTS:
                time.sleep(self._pause)
        raise CommandError(
            f"Error while pulling the image {image}: {result.said}. Images that were already pulled are kept. Check "
            "whether this host can reach the registry, or set containerd_registry_mirrors; then run again.",
            pulled=list(before),
            **result.fields(),
        )
