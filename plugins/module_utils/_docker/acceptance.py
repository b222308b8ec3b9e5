# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verify with containers that Docker assigns all GPUs, each single GPU, and no GPU without a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._acceptance.verdict import SIMULATED
from .._command import CommandTimeoutError, Result, Runner
from .._errors import DomainError
from .._nvidia_smi.listing import read_list

_ADVICE = "Check nvidia-smi -L and nvidia-ctk cdi list on the host, and run again."
_NAME = "gpulab-check"


def units(text: str) -> list[str]:
    """Return the UUIDs in ``nvidia-smi -L`` that a container can request: GPUs, or their MIG devices if partitioned."""
    found = []
    for gpu in read_list(text).gpus:
        parts = [device["uuid"] for device in gpu["mig"]["devices"]]
        found += parts or [gpu["uuid"]]
    return [uuid for uuid in found if uuid]


class Acceptance:
    """Runs the containers. ``image`` has a shell, and its own command exits with 0 if a GPU computes."""

    def __init__(self, runner: Runner, image: str) -> None:
        self._runner = runner
        self._image = image
        self._failed: Result | None = None

    def verify(self) -> dict[str, Any]:
        """Verify the GPUs. Raise DomainError with all problems."""
        there = units(self._runner.check(["nvidia-smi", "-L"], "listing the GPUs of the host").stdout)
        if not there:
            raise DomainError(f"Error while listing the GPUs of the host: nvidia-smi -L lists none. {_ADVICE}")
        self._pull()
        problems = self._seen("all GPUs", "all", there)
        said = []
        for uuid in there:
            problems += self._seen(f"the GPU {uuid}", f"device={uuid}", [uuid])
            check = self._run(["--gpus", f"device={uuid}", self._image])
            said.append(check.stdout)
            if check.rc != 0:
                problems.append(f"the check on the GPU {uuid} failed: {check.message}")
        problems += self._isolated()
        if problems:
            raise DomainError(
                "Error while verifying the GPUs with Docker containers:\n"
                + "\n".join(f"- {problem}" for problem in problems)
                + f"\n{_ADVICE}",
                problems=problems,
                **(self._failed.fields() if self._failed else {}),
            )
        return {"gpus": there, "simulated": any(SIMULATED in text for text in said)}

    def _pull(self) -> None:
        if self._runner.run(["docker", "image", "inspect", "--format", "{{.Id}}", self._image]).rc == 0:
            return
        result = self._runner.run(["docker", "pull", "--quiet", self._image])
        if result.rc != 0:
            raise DomainError(
                f"Error while pulling the image {self._image}: {result.message}. Check whether this host can reach the "
                "registry, or set docker_check_image to an image that it can pull; then run again.",
                **result.fields(),
            )

    def _run(self, arguments: Sequence[str]) -> Result:
        try:
            done = self._runner.run(["docker", "run", "--rm", f"--name={_NAME}", "--network=none", *arguments])
        except CommandTimeoutError:
            # The docker command was stopped, but the container still runs.
            self._runner.run(["docker", "rm", "--force", _NAME])
            raise
        if done.rc != 0:
            self._failed = self._failed or done
        return done

    def _seen(self, what: str, request: str, wanted: Sequence[str]) -> list[str]:
        done = self._run(["--gpus", request, "--entrypoint=nvidia-smi", self._image, "-L"])
        if done.rc != 0:
            return [f"a container that requests {what} did not run: {done.message}"]
        seen = units(done.stdout)
        if sorted(seen) == sorted(wanted):
            return []
        return [f"a container that requests {what} has {_listed(seen)}, not {_listed(wanted)}"]

    def _isolated(self) -> list[str]:
        done = self._run(["--entrypoint=/bin/sh", self._image, "-c", "echo /dev/nvidia*"])
        if done.rc != 0:
            return [f"a container without a GPU did not run: {done.message}"]
        # An unmatched pattern is not expanded.
        seen = done.stdout.split()
        return [] if seen == ["/dev/nvidia*"] else [f"a container that requests no GPUs has {_listed(seen)}"]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(sorted(names)) or "none"
