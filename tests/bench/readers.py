"""Measure the readers and print JSON: ms per read, and how the time grows with the length of garbage.

READERS maps each reader's name to a function of one text, which may raise a DomainError.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "collections"), str(ROOT / "tests" / "unit" / "fixtures")]

import smi_tables
import smi_texts
from ansible_collections.gpulab.kubernetes.plugins.module_utils._containerd import files
from ansible_collections.gpulab.kubernetes.plugins.module_utils._docker import settings
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError
from ansible_collections.gpulab.kubernetes.plugins.module_utils._host import swap_state
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm import (
    certs,
    join_command,
    kubeconfig,
    tokens,
    upgrade_plan,
    version,
    x509,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia_smi import facts
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._containerd import config
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._cuda import families

EPOCH = datetime.fromtimestamp(0, tz=timezone.utc)
Reader = Callable[[str], object]

READERS: list[tuple[str, Reader]] = [
    ("nvidia-smi", facts.read),
    ("kubeadm join command", join_command.join_command),
    ("kubeadm tokens", tokens.tokens),
    ("kubeadm certificates", lambda text: certs.expiration(text, EPOCH)),
    ("kubeadm version", version.version),
    ("kubeadm upgrade plan", upgrade_plan.upgrade_plan),
    ("kubeconfig", kubeconfig.read_kubeconfig),
    ("certificates", x509.certificates),
    ("containerd configuration", lambda text: config.merge([config.parse("it", text)])),
    ("containerd imports", files.import_patterns),
    ("daemon.json", settings.read_daemon),
    ("fstab", swap_state.without_swap),
    ("/proc/swaps", swap_state.active_swaps),
    ("name of a GPU", families.identify),
]
# Maximum of time(10 MB) / time(1 MB) of garbage, for each reader.
MOST_GROWTH = 15
GPUS = (1, 8, 64)
MEGABYTE = 1_000_000

# Garbage that resembles what a reader expects: random characters, and starts of lines that never end.
NOISE = "".join(chr(33 + (7 * number * number + 11 * number) % 94) for number in range(4001))
GARBAGE = {
    "noise": NOISE,
    "lines": NOISE[:60] + "\n",
    "blanks": " ",
    "xml": "<nvidia_smi_log><gpu>",
    "table": "| NVIDIA-SMI |   0  T4  Off | 00000000:10:00.0 Off | 0 |\n",
    "csv": "index, uuid, name\n",
    "list": "GPU 0: T4 (UUID: GPU-",
    "log": "==NVSMI LOG==\nGPU 00000000:10:00.0\n    A : [Deprecated",
    "join": "kubeadm join 10.0.0.1:6443 --token abcdef.0123456789abcdef \\\n",
    "json": '{"a": [{"b": "',
    "toml": '[plugins."io.containerd"]\na = [',
    "tables": '[[plugins]]\nname = "a"\n',
    "fstab": "UUID=1 none swap sw 0 0\t",
}


def forms(count: int) -> dict[str, str]:
    """Return all forms of nvidia-smi's output for a host with this many GPUs."""
    gpus = tuple(smi_texts.Gpu(index) for index in range(count))
    fields = "count,index,uuid,name,pci.bus_id,driver_version,memory.total,memory.used,temperature.gpu,power.draw"
    return {
        "xml": smi_texts.xml(gpus),
        "csv": smi_texts.csv(fields, gpus),
        "list": smi_texts.listed(gpus),
        "table": smi_tables.many(count),
        "text": smi_texts.logged(gpus),
    }


def seconds(read: Reader, text: str, times: int) -> float:
    """Return the lowest CPU time of a few reads, which is the least disturbed by other work on the machine."""
    best = float("inf")
    for _ in range(times):
        started = time.process_time()
        with contextlib.suppress(DomainError):
            read(text)
        best = min(best, time.process_time() - started)
    return best


def per_read() -> dict[str, dict[str, float]]:
    """Return ms per read of each form, by number of GPUs."""
    return {
        form: {str(count): round(1000 * seconds(facts.read, forms(count)[form], 5), 2) for count in GPUS}
        for form in forms(1)
    }


def growth(read: Reader, units: Iterable[str]) -> dict[str, float]:
    """Return the worst case over all garbage: seconds for 10 MB, and their ratio to those for 1 MB."""
    worst = {"s": 0.0, "ratio": 0.0}
    for unit in units:
        small, large = (seconds(read, (unit * (size // len(unit) + 1))[:size], 3) for size in (MEGABYTE, 10 * MEGABYTE))
        # Times below a few ms are noise.
        ratio = large / max(small, 0.005)
        worst = {"s": max(worst["s"], round(large, 2)), "ratio": max(worst["ratio"], round(ratio, 1))}
    return worst


def measure() -> dict[str, object]:
    """Return all figures. ``ok`` tells whether every reader's time grows within its limit."""
    grown = {}
    for name, read in READERS:
        print(f"bench: {name}, garbage ...", file=sys.stderr, flush=True)
        grown[name] = growth(read, GARBAGE.values())
    return {
        "ms_per_read": per_read(),
        "garbage": grown,
        "limit": MOST_GROWTH,
        "ok": all(figures["ratio"] <= MOST_GROWTH for figures in grown.values()),
    }


def main() -> None:
    figures = measure()
    print(json.dumps(figures, indent=2))
    if not figures["ok"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
