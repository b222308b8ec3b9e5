# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start, stop or delete a profile with the program minikube."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from .._command import CommandError, Runner
from .._files import read_text
from . import profile
from .profile import Profile


class Machine:
    """One profile of one user. With ``check``, actions are only listed."""

    def __init__(self, runner: Runner, binary: str, name: str, home: Path, check: bool) -> None:
        self._runner, self._binary, self._name, self._home, self._check = runner, binary, name, home, check
        self.done: list[str] = []

    @property
    def kubeconfig(self) -> Path:
        return self._home / ".kube" / "config"

    def found(self) -> Profile | None:
        """Return the existing profile, None if there is none. Raise DomainError."""
        text = read_text(self._home / ".minikube" / "profiles" / self._name / "config.json")
        return None if text is None else profile.read_config(text)

    def state(self) -> str:
        """Return the state of the profile. Raise DomainError."""
        # The exit status is a bit mask of components that are not running.
        return profile.read_status(self._runner.run([self._binary, "status", *self._own, "--output=json"]).stdout)

    def start(self, arguments: Sequence[str], environ: Mapping[str, str]) -> None:
        """Start the profile. Raise CommandError."""
        self._do("start", [*self._own, "--interactive=false", *arguments], environ)

    def stop(self) -> None:
        """Stop the profile. Raise CommandError."""
        self._do("stop", self._own)

    def delete(self) -> None:
        """Delete the profile. Raise CommandError."""
        self._do("delete", self._own)

    def addon(self, verb: str, name: str) -> None:
        """Enable or disable an addon. Raise CommandError."""
        self._do("addons", [verb, name, *self._own])

    def content(self) -> str:
        """Return a description of the objects that deleting the profile would delete."""
        argv = ["kubectl", f"--kubeconfig={self.kubeconfig}", f"--context={self._name}", "get", "--output=json"]
        argv += ["--all-namespaces", "--request-timeout=20s", "pods,persistentvolumeclaims"]
        try:
            return profile.content(self._runner.check(argv, "listing its objects", timeout=60).stdout)
        except CommandError:
            return "pods and persistent volume claims: unknown, because it does not answer"

    @property
    def _own(self) -> list[str]:
        return [f"--profile={self._name}"]

    def _do(self, verb: str, arguments: Sequence[str], environ: Mapping[str, str] | None = None) -> None:
        self.done.append(" ".join([verb, *(argument for argument in arguments[:2] if verb == "addons")]))
        if not self._check:
            doing = f"running minikube {self.done[-1]} for the profile {self._name}"
            self._runner.check([self._binary, verb, *arguments], doing, environ=environ)
