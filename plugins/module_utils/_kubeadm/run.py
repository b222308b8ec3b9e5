# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run kubeadm with a private configuration file, one process at a time; secrets in its output are masked."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .._command import CommandError, CommandTimeoutError, Runner
from .._errors import DomainError
from .._files import put_file, text_or_nothing, under
from .._host import hosts_file
from .._reset import containers
from .._reset.known import BRIDGE
from .join_command import complaint
from .text import mask

# Messages of cobra about a command or flag that this version does not know.
_UNKNOWN = re.compile(r"unknown (?:shorthand )?flag|unknown command|invalid subcommand")
# Path of the discovery kubeconfig in a JoinConfiguration while ``kubeadm join`` runs.
DISCOVERY = "/run/gpulab/kubeadm-discovery.yaml"
# Directories that kubeadm, and the programs that it starts, write to. containerd syncs its database, but not the files
# of images, and does not unpack them again.
_WRITTEN = ("/etc/kubernetes", "/var/lib/kubelet", "/var/lib/etcd", "/var/lib/containerd")
# A file system may have much to write that others have changed. Nothing can end a sync whose disk does not respond.
_SYNC_TIMEOUT = 120.0
# kubeadm commands that change a host and must not run simultaneously.
_CHANGING = ("certs", "init", "join", "reset", "upgrade")

# Flannel writes the addresses of the node's pods here, and its plugin reads them to make the bridge.
_SUBNET = "/run/flannel/subnet.env"

# The variables that programs in Go read; they ignore the second exceptions if they have the first.
PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")
EXCEPTIONS = ("NO_PROXY", "no_proxy")


class Kubeadm:
    """Runs kubeadm. ``executable`` is a name or path, ``timeout`` limits each run in seconds."""

    def __init__(self, module: Any, executable: str, timeout: float, root: str = "/") -> None:
        self._module = module
        self.runner = Runner(module, timeout=timeout)
        self._executable = executable
        self._timeout = timeout
        self._root = root

    def run(self, arguments: Sequence[str], doing: str, environ: Mapping[str, str] | None = None) -> str:
        """Return kubeadm's stdout. Raise CommandError with its error message; all texts are masked."""
        try:
            names = hosts_file.block_names(text_or_nothing(self._root, hosts_file.PATH))
            direct = without_proxy(os.environ, names)
            result = self.runner.run([self._executable, *arguments], environ={**direct, **(environ or {})})
        except CommandTimeoutError as error:
            said = str(error).removeprefix("Error while running ")
            raise CommandError(f"Error while {doing}: {said}", **_masked(error.fields)) from error
        if result.rc != 0:
            said = complaint(result.stdout, result.stderr)
            raise CommandError(f"Error while {doing}: {said}", **_masked(result.fields()))
        return result.stdout

    def run_known(self, calls: Sequence[Sequence[str]], doing: str) -> str:
        """Run the first of these calls that this version of kubeadm knows, as ``run`` does."""
        for call in calls[:-1]:
            try:
                return self.run(call, doing)
            except CommandError as error:
                if not _UNKNOWN.search(str(error)):
                    raise
        return self.run(calls[-1], doing)

    def validate(self, config: str) -> None:
        """Validate a configuration strictly with kubeadm. Raise CommandError for an unknown field."""
        with _private_file(under(self._root, "/run/gpulab/kubeadm-validate.yaml"), config) as path:
            self.run(["config", "validate", "--config", str(path)], "checking the configuration for kubeadm")

    def images(self, config: str) -> list[str]:
        """Return the images that an init with this configuration needs."""
        with _private_file(under(self._root, "/run/gpulab/kubeadm-images.yaml"), config) as path:
            listed = self.run(["config", "images", "list", "--config", str(path)], "listing the control plane's images")
        return [line.strip() for line in listed.splitlines() if line.strip()]

    def run_with(
        self, command: str, config: str, ignored: Sequence[str], doing: str, discovery: str | None = None
    ) -> bool:
        """Run ``kubeadm init`` or ``join`` with a temporary, private configuration file.

        ``discovery`` is the text of the file DISCOVERY, which the configuration refers to. Return whether what kubeadm
        has written is on the disk.
        """
        flags = [f"--ignore-preflight-errors={','.join(ignored)}"] if ignored else []
        self._remove_former_network()
        with contextlib.ExitStack() as files:
            if discovery:
                files.enter_context(_private_file(under(self._root, DISCOVERY), discovery))
            path = files.enter_context(_private_file(under(self._root, f"/run/gpulab/kubeadm-{command}.yaml"), config))
            try:
                self.run([command, "--config", str(path), *flags], doing)
            finally:
                # A kubeadm that failed may have got as far as a cluster that is in use.
                synced = self.sync()
        return synced

    def _remove_former_network(self) -> None:
        """Remove what ``kubeadm reset`` leaves of a former pod network, unless pods are running or use the bridge.

        A new node may get other addresses for its pods. Pods that start before flannel would get the former ones, and
        CNI's plugin then refuses all later pods.
        """
        ports = under(self._root, f"/sys/class/net/{BRIDGE}/brif")
        if containers.are_running(self._root) or (ports.is_dir() and any(ports.iterdir())):
            return
        if ports.is_dir():
            self.runner.check(["ip", "link", "delete", BRIDGE], f"removing the bridge {BRIDGE} of a former cluster")
        put_file(under(self._root, _SUBNET), None)

    def sync(self) -> bool:
        """Make the files of kubeadm, kubelet and containerd survive a power failure, which these programs do not.

        Return whether they do. A failure is a warning: these programs have done their work.
        """
        found = [str(path) for path in (under(self._root, name) for name in _WRITTEN) if path.exists()]
        if not found:
            return True
        try:
            doing = "writing what kubeadm has changed to the disk"
            self.runner.check(["sync", "--file-system", *found], doing, timeout=_SYNC_TIMEOUT)
        except DomainError as error:
            self._module.warn(f"{error}. A power failure in the next minutes could damage files in {', '.join(found)}.")
            return False
        return True

    def phase(self, arguments: Sequence[str], config: str, doing: str, dry_run: Path | None = None) -> str:
        """Run a command with a temporary, private configuration file.

        With ``dry_run``, a phase of ``kubeadm init`` writes its files into this directory, and changes nothing.
        """
        flags = ["--dry-run"] if dry_run else []
        environ = {"KUBEADM_INIT_DRYRUN_DIR": str(dry_run)} if dry_run else None
        with _private_file(under(self._root, "/run/gpulab/kubeadm-phase.yaml"), config) as path:
            return self.run([*arguments, "--config", str(path), *flags], doing, environ)

    def wait_for_others(self) -> None:
        """Wait for a running kubeadm, such as one whose controller was killed."""
        deadline = time.monotonic() + self._timeout
        while True:
            others = list(_others(self._executable))
            if not others:
                return
            if time.monotonic() >= deadline:
                pid, line = others[0]
                raise DomainError(
                    f"Error while waiting for another kubeadm (process {pid}, {mask(line)}): it is still running "
                    f"after {self._timeout:g} s. Check what it is waiting for, and end it if it is stuck."
                )
            time.sleep(1)

    def stop_kubelet(self) -> None:
        """Stop the kubelet; do nothing if the host has no such unit."""
        result = self.runner.run(["systemctl", "stop", "kubelet"])
        if result.rc not in (0, 5):
            raise CommandError(f"Error while stopping the kubelet: {result.message}", **result.fields())


def without_proxy(environ: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """Return the variables that let a program reach these names without a proxy, none if it uses no proxy.

    A host may have proxies in /etc/environment, which don't know names that resolve to 127.0.0.1. kubeadm also copies
    the variables into the pods that it creates.
    """
    if not names or not any(environ.get(key) for key in PROXIES):
        return {}
    found = {key: environ[key] for key in EXCEPTIONS if environ.get(key)} or {EXCEPTIONS[0]: ""}
    listed = {key: value.split(",") if value else [] for key, value in found.items()}
    return {key: ",".join([*there, *(name for name in names if name not in there)]) for key, there in listed.items()}


def _masked(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: mask(value) if isinstance(value, str) else value for key, value in fields.items()}


@contextlib.contextmanager
def _private_file(path: Path, text: str) -> Iterator[Path]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # A file left by a killed run may have any mode.
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise DomainError(f"Error while writing {path}: {error.strerror}") from error
    try:
        yield path
    finally:
        with contextlib.suppress(OSError):
            path.unlink()


def _others(executable: str) -> Iterator[tuple[int, str]]:
    name = Path(executable).name
    namespace = _link("/proc/self/ns/pid")
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")[:-1]
            # A script appears after its interpreter. Other PID namespaces belong to containers of other clusters.
            found = [word for place, word in enumerate(words[1:3]) if Path(words[place]).name == name]
            if found and found[0] in _CHANGING and _link(f"{entry}/ns/pid") == namespace:
                yield int(entry.name), " ".join(words)


def _link(path: str) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115 - a link of the kernel, not a path
    except OSError:
        return ""
