# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pull the missing images of a control plane, one by one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .._command import CommandError, CommandNotFoundError
from .run import Kubeadm

# The number of attempts that kubeadm itself makes.
_ATTEMPTS = 5


@dataclass
class Outcome:
    """Result of pulling images. ``known`` is False if they can't be listed yet (check mode without kubeadm)."""

    changed: bool = True
    known: bool = True
    images: list[str] = field(default_factory=list)
    pulled: list[str] = field(default_factory=list)


class KubeadmImages:
    """Pulls images with crictl. ``module`` is an AnsibleModule; ``pause`` is between two attempts, in seconds."""

    def __init__(self, module: Any, executable: str, timeout: float, root: str, pause: float = 2) -> None:
        self._module = module
        self._kubeadm = Kubeadm(module, executable, timeout, root)
        self._pause = pause

    def apply(self, config: str, images: Sequence[str] = ()) -> Outcome:
        """Pull the missing images; raise CommandError with the message of the container runtime.

        Without a ``config``, they are ``images``.
        """
        try:
            images = self._kubeadm.images(config) if config else list(images)
            missing = [image for image in images if not self._has(image)]
        except CommandNotFoundError:
            if not self._module.check_mode:
                raise
            return Outcome(known=False)
        if not self._module.check_mode:
            for number, image in enumerate(missing):
                self._pull(image, missing[:number])
            if missing:
                self._kubeadm.sync()
        return Outcome(bool(missing), True, images, missing)

    def _has(self, image: str) -> bool:
        # crictl also exits with 1 if the runtime does not answer; the pull then reports the cause.
        return self._kubeadm.runner.run(["crictl", "inspecti", "--quiet", image]).rc == 0

    def _pull(self, image: str, before: Sequence[str]) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            result = self._kubeadm.runner.run(["crictl", "pull", image])
            if result.rc == 0:
                return
            if attempt < _ATTEMPTS:
                time.sleep(self._pause)
        raise CommandError(
            f"Error while pulling the image {image}: {result.message}. Images that were already pulled are kept. Check "
            "whether this host can reach the registry, or set containerd_registry_mirrors; then run again.",
            pulled=list(before),
            **result.fields(),
        )
