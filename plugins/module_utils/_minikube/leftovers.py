# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remove what minikube with the driver none writes to the host and `minikube delete` leaves.

Sources, all of minikube v1.38.1: pkg/minikube/cni/bridge.go, pkg/minikube/bootstrapper/bsutil/files.go and
ktmpl/kubelet.go, pkg/drivers/none/none.go (cleanupPaths). Files are only removed if their content is minikube's,
because another cluster may use the same paths by now.
"""

from __future__ import annotations

from .._command import Runner
from .._errors import DomainError
from .._files import put_file, text_or_nothing, under
from .._first_run import FirstRun
from .._json import read_object

NETWORK = "/etc/cni/net.d/1-k8s.conflist"
DROP_IN = "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf"
BRIDGE = "bridge"

_PROGRAMS = "/var/lib/minikube/binaries/"


def is_network(text: str) -> bool:
    """Return whether the text is the configuration of minikube's pod network."""
    try:
        values = read_object(text, "the CNI configuration")
    except DomainError:
        return False
    plugins = values.get("plugins")
    first = plugins[0] if isinstance(plugins, list) and plugins else None
    return (
        values.get("name") == BRIDGE
        and isinstance(first, dict)
        and (first.get("type"), first.get("bridge")) == ("bridge", BRIDGE)
    )


def is_drop_in(text: str) -> bool:
    """Return whether the drop-in starts minikube's kubelet."""
    return any(line.startswith(f"ExecStart={_PROGRAMS}") for line in text.splitlines())


def remove(runner: Runner, root: str, check: bool, first_run: FirstRun) -> list[str]:
    """Return what was removed, or would be with ``check``. Raises CommandError and OSError."""
    network, drop_in = is_network(text_or_nothing(root, NETWORK)), is_drop_in(text_or_nothing(root, DROP_IN))
    # Nothing names the interface's owner; it is minikube's if minikube's configuration exists.
    bridge = network and under(root, f"/sys/class/net/{BRIDGE}/bridge").is_dir()
    files = [path for path, found in ((NETWORK, network), (DROP_IN, drop_in)) if found]
    if not check:
        if bridge:
            runner.check(["ip", "link", "delete", BRIDGE, "type", "bridge"], f"removing minikube's interface {BRIDGE}")
        first_run.keep_files({path: under(root, path) for path in files})
        for path in files:
            put_file(under(root, path), None)
        if drop_in:
            runner.check(["systemctl", "daemon-reload"], "reloading systemd without minikube's kubelet")
    return [f"interface {BRIDGE}"] * bridge + files
