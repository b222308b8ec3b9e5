# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out the plan of a reset. Each step can be repeated, so that a run after an interruption continues."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from .._apt.cli import Apt
from .._apt.dpkg import Package
from .._command import CommandError
from .._errors import DomainError
from .._files import put_file, sync_path, under
from .._nvidia.kernel_module import Driver
from .._systemd import Systemd
from .._words import listing
from . import containers, known, model
from .model import KEEP, ORDER, REMOVE, RESTORE, Action
from .readings import Host
from .shared_files import File

_REMOVED = re.compile(r"^(?:Purg|Remv) (\S+)", re.MULTILINE)
_NOUVEAU = "/etc/modprobe.d/gpulab-nouveau.conf"
# Services that stay, and the verb with which they read restored files.
_READERS = (
    ("/etc/containerd/", "try-restart", "containerd"),
    ("/etc/docker/", "try-restart", "docker"),
    ("/etc/NetworkManager/", "try-reload-or-restart", "NetworkManager"),
    ("/etc/exports.d/", "try-reload-or-restart", "nfs-server"),
)
_MASKED = re.compile(r"/etc/systemd/system/([^/]+\.(?:swap|service|target))")


class Reset:
    """Carries out actions on a host. ``packages`` are the installed ones; ``left`` names what could not be undone."""

    def __init__(self, host: Host, apt: Apt, packages: Mapping[str, Package]) -> None:
        self._host, self._runner, self._root = host, host.runner, host.root
        self._systemd = Systemd(self._runner)
        self._apt = apt
        self._packages = packages
        self.left: list[str] = []

    def check(self, actions: Sequence[Action]) -> None:
        """Raise DomainError if something is mounted below a directory, or apt would remove more than the plan has."""
        unmounted = {action.name for action in actions if action.kind == model.MOUNT}
        for action in actions:
            if action.do == REMOVE and action.kind in (model.DIRECTORY, model.DATA):
                self._refuse_mounts(under(self._root, action.name), unmounted)
        names = [action.name for action in actions if (action.do, action.kind) == (REMOVE, model.PACKAGE)]
        if not names:
            return
        output = self._apt.purge(names, f"simulating the removal of {listing(names)}", simulate=True).stdout
        more = sorted({name.partition(":")[0] for name in _REMOVED.findall(output)} - {*names})
        if more:
            raise DomainError(
                f"Error while removing packages: apt would also remove {listing(more)}, which this collection did not "
                "install. Nothing was changed. Remove these packages first, and run again."
            )

    def apply(self, actions: Sequence[Action]) -> None:
        steps: dict[str, Callable[[Sequence[Action]], None]] = {
            model.UNIT: self._stop,
            model.CONTAINERS: lambda _chosen: containers.stop(self._runner, self._root),
            model.MOUNT: self._unmount,
            model.LINK: self._unlink,
            model.RULES: lambda _chosen: self._clean_packet_filter(),
            model.KUBECONFIG: self._clear,
            model.MODULE: self._unload,
            model.PACKAGE: self._purge,
            model.HOLD: self._hold,
            model.FILE: self._restore_files,
            model.SERVICE: self._restore_services,
            model.DIRECTORY: self._clear,
            model.DATA: self._clear,
            model.SYSCTL: self._restore_sysctls,
            model.SWAP: self._restore_swap,
            model.RECORD: self._clear,
        }
        for kind in ORDER:
            chosen = [action for action in actions if action.kind == kind and (action.do != KEEP or action.value)]
            if chosen:
                steps[kind](chosen)

    def _stop(self, actions: Sequence[Action]) -> None:
        for action in actions:
            self._systemd.do("stop", action.name)
            self._systemd.do("disable", action.name)

    def _unmount(self, actions: Sequence[Action]) -> None:
        for action in actions:
            # Containers that have ended have taken some with them.
            if self._is_mounted(action.name) and self._runner.run(["umount", action.name]).rc != 0:
                # The server of a network file system may be gone.
                result = self._runner.run(["umount", "--force", "--lazy", action.name])
                if result.rc != 0 and self._is_mounted(action.name):
                    raise DomainError(f"Error while unmounting {action.name}: {result.message}")

    def _is_mounted(self, name: str) -> bool:
        return name in self._host.mount_points()

    def _unlink(self, actions: Sequence[Action]) -> None:
        for action in actions:
            self._runner.check(["ip", "link", "delete", action.name], f"removing the link {action.name}")

    def _clean_packet_filter(self) -> None:
        has_other_cni = bool(self._host.cni())
        for program, removal in self._host.packet_filter(has_other_cni).removals.items():
            argv = [f"{program}-restore", "--noflush", "--wait=10"]
            self._runner.check(argv, f"removing the cluster's rules with {program}", data=removal.text)
        # Tables of iptables are empty only now.
        for family, name in self._host.packet_filter(has_other_cni).tables:
            self._runner.check(["nft", "delete", "table", family, name], f"removing the table {family} {name}")

    def _unload(self, _actions: Sequence[Action]) -> None:
        service = self._systemd.unit(known.PERSISTENCED)
        if service.running:
            self._systemd.do("stop", known.PERSISTENCED)
        if service.file_state == "enabled":
            self._systemd.do("disable", known.PERSISTENCED)
        outcome = Driver(self._runner, self._root, check=False).remove()
        if outcome.reboot_required:
            self.left.append(f"kernel module nvidia: {outcome.reason}. It stays until the next boot")

    def _purge(self, actions: Sequence[Action]) -> None:
        names = [action.name for action in actions]
        with contextlib.suppress(CommandError):
            self._apt.configure_pending()
        self._apt.purge(names, f"removing {listing(names)}")

    def _hold(self, actions: Sequence[Action]) -> None:
        for state in ("hold", "install"):
            names = [action.name for action in actions if action.value == state]
            if names:
                self._apt.hold([self._packages[name] for name in names], state)

    def _restore_files(self, actions: Sequence[Action]) -> None:
        unmasked = []
        for action in actions:
            path, masked = under(self._root, action.name), _MASKED.fullmatch(action.name)
            if action.do == KEEP:
                self._put(path.with_name(f"{path.name}.before-gpulab"), action.value)
            elif action.do == RESTORE:
                self._put(path, action.value)
            else:
                unmasked += [masked[1]] if masked and path.is_symlink() else []
                self._remove(action.name)
        names = [action.name for action in actions if action.do != KEEP]
        if _NOUVEAU in names and self._runner.find("update-initramfs"):
            self._runner.check(
                ["update-initramfs", "-u"], "removing the block of nouveau from the initramfs", timeout=600
            )
        self._systemd.do("daemon-reload")
        for prefix, verb, service in _READERS:
            if any(name.startswith(prefix) for name in names) and self._systemd.unit(service).running:
                self._systemd.do(verb, service)
        for name in unmasked:
            self._attempt(["systemctl", "start", name], f"{name} could not be started")

    def _put(self, path: Path, file: File) -> None:
        if file.link:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
            path.symlink_to(file.link)
            sync_path(path.parent)
        else:
            put_file(path, file.data, file.mode, (file.uid, file.gid) if os.geteuid() == 0 else None)

    def _restore_services(self, actions: Sequence[Action]) -> None:
        for action in actions:
            # It may have been a unit of a package that is removed now.
            for verb in action.value if self._systemd.unit(action.name).exists else ():
                self._systemd.do(verb, action.name)

    def _restore_sysctls(self, actions: Sequence[Action]) -> None:
        for action in actions:
            try:
                under(self._root, f"/proc/sys/{action.name}").write_text(f"{action.value}\n", encoding="utf-8")
            except OSError as error:
                self.left.append(f"sysctl {action.name}: {error.strerror}")

    def _restore_swap(self, _actions: Sequence[Action]) -> None:
        self._attempt(["swapon", "--all"], "swap could not be turned on")

    def _attempt(self, argv: Sequence[str], failure: str) -> None:
        """Run a program whose failure does not end the reset."""
        try:
            result = self._runner.run(argv)
            if result.rc != 0:
                self.left.append(f"{failure}: {result.message}")
        except CommandError as error:
            self.left.append(f"{failure}: {error}")

    def _clear(self, actions: Sequence[Action]) -> None:
        for action in actions:
            self._remove(action.name)

    def _remove(self, name: str) -> None:
        """Remove a file or a directory, and parents that become empty; a mount point or link to a directory stays."""
        path = under(self._root, name)
        try:
            if path.is_dir():
                self._refuse_mounts(path)
                for child in path.iterdir():
                    _remove_tree(child)
                if path.is_symlink() or path.is_mount():
                    return
                path.rmdir()
            else:
                path.unlink(missing_ok=True)
            if path.parent.is_dir():
                sync_path(path.parent)
        except OSError as error:
            raise DomainError(f"Error while removing {error.filename or name}: {error.strerror or error}") from error
        self._remove_empty(path.parent)

    def _refuse_mounts(self, path: Path, unmounted: Collection[str] = ()) -> None:
        real = f"{path.resolve()}/"
        points = [point for point in self._host.mount_points() if point not in unmounted]
        found = [point for point in points if str(under(self._root, point)).startswith(real)]
        if found:
            raise DomainError(
                f"Error while removing {path}: something is mounted there, so that its data would be lost: "
                f"{listing(found[:5])}. Unmount it, and run again."
            )

    def _remove_empty(self, path: Path) -> None:
        for directory in (path, *path.parents):
            name = f"/{directory.relative_to(self._root)}" if directory != Path(self._root) else "/"
            stays = name in known.STANDING or not directory.is_dir() or directory.is_mount()
            if stays or any(directory.iterdir()) or self._is_packaged(name):
                return
            directory.rmdir()

    def _is_packaged(self, name: str) -> bool:
        """Return whether a directory belongs to a package; also if that is unknown."""
        try:
            return self._runner.run(["dpkg-query", "--search", name]).rc == 0
        except CommandError:
            return True

    def forget(self) -> None:
        """Remove what lets a later run continue."""
        self._remove(known.STATE)


def _remove_tree(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
