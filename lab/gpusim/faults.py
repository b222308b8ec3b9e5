"""Set and clear faults of a node's GPUs by editing the state of its simulated driver in place.

The state is one file that is also mounted into containers, so a fault immediately reaches the device plugin.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

from lab.depot.cache import DepotError
from lab.gpusim.library import DRIVERS

# A function that runs a command in the node as root and returns its output; raises if the command fails.
NodeExec = Callable[[Sequence[str]], str]

KINDS = ("lost", "xid:<number>", "pending", "mismatch", "unload", "load:<version>", "dkms:<version>", "clear")

_RUN = "/run/nvidia-simulated"
_STATE = f"{_RUN}/state.json"
_PROC_VERSION = f"{_RUN}/proc/nvidia/version"
_BROKEN = f"{_RUN}/broken"
_MODULE = "/usr/lib/nvidia-simulated/module"
_EPOCH = 1767225600
_LOST_XID, _PENDING_XID, _RECOVERY_XID = 79, 63, 154
# The driver's text after the Xid number.
_WORDS = {
    48: "An uncorrectable double bit error (DBE) has been detected in the framebuffer.",
    _PENDING_XID: "Row Remapper: New row (0x0000000000000000) marked for remapping, reset gpu to activate.",
    _LOST_XID: "GPU has fallen off the bus.",
    _RECOVERY_XID: "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)",
}


def fault(node_exec: NodeExec, kind: str, gpu: int | None = None) -> str:
    """Set a fault, or clear all of them, and return a sentence with the new state.

    lost: the GPU has fallen off the bus (with Xid 79); xid:<number>: the driver reports that error for the GPU as an
    event and in the kernel log; pending: bad memory waits for a reset (with Xid 63);
    mismatch: the loaded driver has another version than the library; unload: the driver is unloaded, even if in use;
    load:<version>: the kernel refuses the module of that version; dkms:<version>: DKMS can't build it;
    clear: all faults are cleared, which is also written to the kernel log. `gpu` is the minor number, 0 by default, for
    the first three.
    Raises DepotError for an unknown kind, a missing GPU, and a node without a loaded driver.
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
    entry: dict[str, Any] = {"kind": kind.partition(":")[0], "gpu": minor, "sequence": _sequence(state)}
    if entry["kind"] == "xid":
        entry["xid"] = number
    _write(node_exec, {**state, "faults": [*state["faults"], entry]})
    _log(node_exec, state, minor, number)
    if kind == "pending":
        return f"Bad memory of GPU {minor} waits for a reset (Xid {number})."
    return (
        f"GPU {minor} is lost (Xid {number})."
        if kind == "lost"
        else f"The driver reported Xid {number} for GPU {minor}."
    )


def _log(node_exec: NodeExec, state: dict[str, Any], minor: int, number: int) -> None:
    """Write the driver's kernel log message into the node's journal, because all nodes share the kernel log."""
    bus = next(entry["bus_id"] for entry in state["silicon"]["gpus"] if entry["minor"] == minor)
    address = str(bus).lower().rpartition(".")[0][-10:]
    text = f"NVRM: Xid (PCI:{address}): {number}, pid='<unknown>', name=<unknown>, "
    text += _WORDS.get(number, "reported by the simulated driver")
    node_exec(["logger", "--tag", "kernel", "--priority", "kern.err", text])


def _break(node_exec: NodeExec, kind: str) -> str:
    """Record a fault that the simulated module and the driver's packages read."""
    what, _, version = kind.partition(":")
    if version not in DRIVERS:
        raise DepotError(f"Error while switching on {kind}: the lab has the drivers {', '.join(DRIVERS)}.")
    node_exec(["sh", "-c", f'mkdir -p {_RUN} && echo "$1" >>{_BROKEN}', "sh", f"{what} {version}"])
    return f"The module of {version} {'is refused by the kernel' if what == 'load' else 'can not be built'}."


def _xid(kind: str) -> int:
    """Return the Xid number of a fault."""
    if kind in ("lost", "pending"):
        return _LOST_XID if kind == "lost" else _PENDING_XID
    found = re.fullmatch(r"xid:([1-9][0-9]{0,3})", kind)
    if not found:
        raise DepotError(f"Error while switching on {kind}: known faults are {', '.join(KINDS)}.")
    return int(found[1])


def _sequence(state: dict[str, Any]) -> int:
    """Return a number higher than those of all earlier faults, even cleared or from earlier loads of the driver."""
    last: int = max([state.get("sequence", 0), *(entry.get("sequence", 0) for entry in state["faults"])])
    return max(last + 1, int((time.time() - _EPOCH) * 10))


def _clear(node_exec: NodeExec, state: dict[str, Any]) -> str:
    node_exec(["sh", "-c", f"rm -f {_BROKEN}"])
    if not state.get("driver"):
        node_exec(["modprobe", "--all", "nvidia", "nvidia_modeset", "nvidia_uvm"])
        return "The driver is loaded."
    _write(node_exec, {**state, "faults": [], "sequence": _sequence(state) - 1})
    _pretend(node_exec, state["driver"])
    for minor in sorted({entry["gpu"] for entry in state["faults"] if "gpu" in entry}):
        _log(node_exec, state, minor, _RECOVERY_XID)
    return "All faults are cleared."


def _read(node_exec: NodeExec) -> dict[str, Any]:
    text = node_exec(["sh", "-c", f"if [ -s {_STATE} ]; then cat {_STATE}; fi"])
    state: dict[str, Any] = json.loads(text) if text.strip() else {}
    return state


def _write(node_exec: NodeExec, state: dict[str, Any]) -> None:
    # Write to the same file: a replaced file would not reach the containers.
    node_exec(["sh", "-c", f'printf "%s\\n" "$1" >{_STATE}', "sh", json.dumps(state)])


def _pretend(node_exec: NodeExec, version: str) -> None:
    text = node_exec(["cat", _PROC_VERSION])
    changed = re.sub(r"  [0-9]+(\.[0-9]+)+  ", f"  {version}  ", text, count=1)
    node_exec(["sh", "-c", f'printf "%s" "$1" >{_PROC_VERSION}', "sh", changed])
