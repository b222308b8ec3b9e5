"""Faults of a node's GPUs, switched on by editing the state of its simulated driver in place.

The state is one file that containers were given too, so a fault reaches the device plugin's container at once.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

from lab.depot.cache import DepotError
from lab.gpusim.library import DRIVERS

# Runs a command in the node as root and returns its standard output; raises when the command fails.
NodeExec = Callable[[Sequence[str]], str]

KINDS = ("lost", "xid:<number>", "mismatch", "unload", "load:<version>", "dkms:<version>", "clear")

_RUN = "/run/nvidia-simulated"
_STATE = f"{_RUN}/state.json"
_PROC_VERSION = f"{_RUN}/proc/nvidia/version"
_BROKEN = f"{_RUN}/broken"
_MODULE = "/usr/lib/nvidia-simulated/module"
_EPOCH = 1767225600
_LOST_XID = 79


def fault(node_exec: NodeExec, kind: str, gpu: int | None = None) -> str:
    """Switch a fault on, or all of them off, and return one sentence that says what is now the case.

    lost: the GPU has fallen off the bus (with Xid 79); xid:<number>: the driver reports that error for the GPU;
    mismatch: another driver version is loaded than the library's; unload: the driver is gone, whoever uses it;
    load:<version>: the kernel refuses the module of that version; dkms:<version>: DKMS can't build it;
    clear: everything is well again. `gpu` is the minor number, 0 by default, for the first two.
    Raises DepotError for an unknown kind, a GPU that isn't there and a node without a loaded driver.
    """
    if kind.startswith(("load:", "dkms:")):
        return _break(node_exec, kind)
    if kind == "unload":
        node_exec([_MODULE, "unload", "--force", "nvidia"])
        return "The driver is unloaded; `clear` loads it again."
    state = _read(node_exec)
    if kind == "clear":
        return _clear(node_exec, state)
    if not state.get("driver"):
        raise DepotError(f"Error while switching on {kind}: the simulated driver is not loaded on this node.")
    if kind == "mismatch":
        other = next(version for version in DRIVERS if version != state["driver"])
        _write(node_exec, {**state, "faults": [*state["faults"], {"kind": "mismatch"}]})
        _pretend(node_exec, other)
        return f"The driver seems to be {other}, the library is {state['driver']}."
    number = _xid(kind)
    minor = gpu or 0
    known = [entry["minor"] for entry in state["silicon"]["gpus"]]
    if minor not in known:
        raise DepotError(f"Error while switching on {kind}: GPU {minor} is not there, {known} are.")
    entry: dict[str, Any] = {"kind": "xid", "gpu": minor, "xid": number} if number else {"kind": "lost", "gpu": minor}
    _write(node_exec, {**state, "faults": [*state["faults"], {**entry, "sequence": _sequence(state)}]})
    if number:
        return f"The driver reported Xid {number} for GPU {minor}."
    return f"GPU {minor} is lost (Xid {_LOST_XID})."


def _break(node_exec: NodeExec, kind: str) -> str:
    """Note it for the module and for the driver's packages, which look there."""
    what, _, version = kind.partition(":")
    if version not in DRIVERS:
        raise DepotError(f"Error while switching on {kind}: the lab has the drivers {', '.join(DRIVERS)}.")
    node_exec(["sh", "-c", f'mkdir -p {_RUN} && echo "$1" >>{_BROKEN}', "sh", f"{what} {version}"])
    return f"The module of {version} {'is refused by the kernel' if what == 'load' else 'can not be built'}."


def _xid(kind: str) -> int:
    """Return the number of an Xid fault, 0 for a lost GPU."""
    if kind == "lost":
        return 0
    found = re.fullmatch(r"xid:([1-9][0-9]{0,3})", kind)
    if not found:
        raise DepotError(f"Error while switching on {kind}: known faults are {', '.join(KINDS)}.")
    return int(found[1])


def _sequence(state: dict[str, Any]) -> int:
    """Number a fault above all before it, cleared ones and those of an earlier load of the driver included."""
    last: int = max([state.get("sequence", 0), *(entry.get("sequence", 0) for entry in state["faults"])])
    return max(last + 1, int((time.time() - _EPOCH) * 10))


def _clear(node_exec: NodeExec, state: dict[str, Any]) -> str:
    node_exec(["sh", "-c", f"rm -f {_BROKEN}"])
    if not state.get("driver"):
        node_exec(["modprobe", "--all", "nvidia", "nvidia_modeset", "nvidia_uvm"])
        return "The driver is loaded."
    _write(node_exec, {**state, "faults": [], "sequence": _sequence(state) - 1})
    _pretend(node_exec, state["driver"])
    return "All faults are cleared."


def _read(node_exec: NodeExec) -> dict[str, Any]:
    text = node_exec(["sh", "-c", f"if [ -s {_STATE} ]; then cat {_STATE}; fi"])
    state: dict[str, Any] = json.loads(text) if text.strip() else {}
    return state


def _write(node_exec: NodeExec, state: dict[str, Any]) -> None:
    # Into the same file: a new one in its place would never reach the containers.
    node_exec(["sh", "-c", f'printf "%s\\n" "$1" >{_STATE}', "sh", json.dumps(state)])


def _pretend(node_exec: NodeExec, version: str) -> None:
    text = node_exec(["cat", _PROC_VERSION])
    changed = re.sub(r"  [0-9]+(\.[0-9]+)+  ", f"  {version}  ", text, count=1)
    node_exec(["sh", "-c", f'printf "%s" "$1" >{_PROC_VERSION}', "sh", changed])
