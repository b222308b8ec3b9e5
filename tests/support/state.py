"""Snapshots of a host, to compare before and after."""

from __future__ import annotations

from support.hosts import Host, Inventory

# A running cluster writes below /var/lib/kubelet and /var/lib/etcd by itself.
SNAPSHOT = """
dpkg-query -W -f '${Package} ${Version} ${Status}\\n'
find /etc /usr/local /opt /var/lib/kubelet /var/lib/etcd /var/lib/cni /home -xdev \
  -not -path '/var/lib/kubelet/*/*' -not -path '/var/lib/etcd/*/*' \
  -not -path '/var/lib/cni/*' -not -path '*/.ansible*' -printf '%p %y %m %s %T@\\n' 2>/dev/null | sort
cat /proc/swaps
systemctl list-units --type service --state running --no-legend --plain | awk '{print $1}' | grep -v '^session-\\|^user'
sysctl -n net.ipv4.ip_forward
"""
SERVICES = "systemctl show --property=ActiveEnterTimestampMonotonic,MainPID containerd.service kubelet.service"


def snapshot(host: Host) -> list[str]:
    """Return lines that describe the host: packages, configuration files, swap, services, sysctls."""
    return host.run(SNAPSHOT).splitlines()


def snapshots(inventory: Inventory) -> dict[str, list[str]]:
    return {name: snapshot(host) for name, host in inventory.hosts.items()}


def differences(before: dict[str, list[str]], after: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the lines that only one of two snapshots has, by host, or nothing if they are equal."""
    found = {name: sorted(set(lines) ^ set(after[name])) for name, lines in before.items()}
    return {name: lines for name, lines in found.items() if lines}


def services(inventory: Inventory) -> dict[str, str]:
    """Return start times and process IDs of containerd and kubelet, by host."""
    return {name: host.run(SERVICES) for name, host in inventory.hosts.items()}
