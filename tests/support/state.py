"""What a host is like, to compare before and after."""

from __future__ import annotations

from support.hosts import Host, Inventory

# A cluster that runs writes below /var/lib/kubelet and /var/lib/etcd by itself.
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
    """Return lines that describe the host: packages, files of its configuration, swap, services, sysctls."""
    return host.run(SNAPSHOT).splitlines()


def snapshots(inventory: Inventory) -> dict[str, list[str]]:
    return {name: snapshot(host) for name, host in inventory.hosts.items()}


def differences(before: dict[str, list[str]], after: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the lines of two snapshots that only one of them has, by host; nothing where they are the same."""
    found = {name: sorted(set(lines) ^ set(after[name])) for name, lines in before.items()}
    return {name: lines for name, lines in found.items() if lines}


def services(inventory: Inventory) -> dict[str, str]:
    """Return for each host since when containerd and kubelet run, and as which processes."""
    return {name: host.run(SERVICES) for name, host in inventory.hosts.items()}
