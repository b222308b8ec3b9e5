# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Partition a host's GPUs as declared. Everything is checked before a change, and read again afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._command import CommandError, Result, Runner
from .._errors import DomainError
from .._nvidia.root import NVIDIA_SMI
from .._nvidia.sharing import layout_of
from . import profiles as mig
from .placement import Placement, place
from .profiles import Gpu, Instance, Profile

_DOING = "Error while checking the MIG layout"


@dataclass
class State:
    """Current state of a host. ``profiles`` are each GPU's MIG profiles, empty if unknown."""

    gpus: list[Gpu] = field(default_factory=list)
    instances: list[Instance] = field(default_factory=list)
    profiles: dict[int, list[Profile]] = field(default_factory=dict)

    def instances_of(self, gpu: int) -> list[Instance]:
        return [instance for instance in self.instances if instance.gpu == gpu]


@dataclass(frozen=True)
class Wish:
    """Wanted state of one GPU: ``parts`` are its MIG devices, empty for no MIG."""

    gpu: Gpu
    parts: tuple[Placement, ...] = ()

    @property
    def profiles(self) -> list[str]:
        return sorted(profile.name for profile, _start in self.parts)

    @property
    def create(self) -> str:
        """The argument of ``nvidia-smi mig -cgi``, by profile id because names differ between drivers."""
        return ",".join(f"{profile.id}:{start}" for profile, start in self.parts)

    def fulfilled(self, state: State) -> bool:
        gpu = next((gpu for gpu in state.gpus if gpu.index == self.gpu.index), None)
        if gpu is None or gpu.current is None:
            return not self.parts
        there = state.instances_of(gpu.index)
        if not self.parts:
            return not gpu.current and not gpu.pending and not there
        # Another arrangement of the same profiles is equivalent.
        same = sorted(instance.profile for instance in there) == self.profiles
        return gpu.current and bool(gpu.pending) and same and all(instance.whole for instance in there)


def wishes(state: State, layout: Any) -> list[Wish]:
    """Return the wanted state of every GPU. Raise DomainError with all errors; nothing is changed before."""
    found, wrong = [], []
    for gpu in state.gpus:
        wanted = layout_of(layout, gpu.index)
        try:
            found.append(Wish(gpu, tuple(_placed(gpu, wanted, state.profiles.get(gpu.index, [])) if wanted else ())))
        except DomainError as error:
            wrong.append(f"GPU {gpu.index} ({gpu.name}): {error}")
    indexes = {str(gpu.index) for gpu in state.gpus}
    if isinstance(layout, dict):
        unknown = sorted(str(key) for key in layout if str(key) not in indexes)
        wrong += [f"there is no GPU {key}, this host has {', '.join(sorted(indexes)) or 'none'}" for key in unknown]
    if wrong:
        raise DomainError(f"{_DOING}: {'; '.join(wrong)}. Nothing was changed: correct cluster_gpu_sharing.")
    return found


def _placed(gpu: Gpu, wanted: Any, profiles: Sequence[Profile]) -> list[Placement]:
    if gpu.current is None:
        raise DomainError("it does not support MIG")
    if not profiles:
        raise DomainError(
            "nvidia-smi does not list its profiles while MIG is off, and this collection does not know them. Run "
            f"nvidia-smi -i {gpu.index} -mig 1 once, while nothing uses the GPU, and run again"
        )
    return place(wanted, profiles)


def foreign(state: State) -> None:
    """Raise DomainError if MIG was set up by something other than this collection."""
    cut = [f"GPU {gpu.index}: {_parts(state, gpu)}" for gpu in state.gpus if gpu.current or gpu.pending]
    if cut:
        raise DomainError(
            "Error while partitioning the GPUs: this collection does not manage their MIG devices "
            f"({'; '.join(cut)}). Declare this layout in cluster_gpu_sharing to keep it, or let it be "
            "replaced with nvidia_device_plugin_replace_foreign_mig=true. Nothing was changed."
        )


def _parts(state: State, gpu: Gpu) -> str:
    return (
        ", ".join(instance.profile for instance in state.instances_of(gpu.index))
        or "MIG mode is on, without MIG devices"
    )


def described(gpus: Iterable[tuple[Gpu, Sequence[str]]]) -> str:
    """Return one line per GPU for a diff."""
    return "".join(f"GPU {gpu.index}: {', '.join(sorted(profiles)) or 'whole'}\n" for gpu, profiles in gpus)


class Geometry:
    def __init__(self, runner: Runner, program: str = NVIDIA_SMI) -> None:
        self._runner = runner
        self._program = program

    def read(self) -> State:
        """Read the current state. Raise CommandError if nvidia-smi is missing or lists no GPU."""
        query = [f"--query-gpu={','.join(mig.QUERY)}", "--format=csv,noheader,nounits"]
        answer = self._runner.run([self._program, *query])
        state = State(mig.parse_gpus(answer.stdout))
        if not state.gpus and answer.rc != 0:
            raise CommandError(f"Error while querying nvidia-smi for the GPUs: {answer.message}", **answer.fields())
        capable = [gpu for gpu in state.gpus if gpu.current is not None]
        if not capable:
            return state
        if any(gpu.current for gpu in capable):
            state.instances = mig.parse_instances(self._list("-lgi"), self._list("-lci"))
        listed = self._list("-lgip")
        names, engines = mig.parse_profiles(listed), mig.parse_engines(listed)
        places = mig.parse_placements(self._list("-lgipp"))
        for gpu in capable:
            index = gpu.index
            state.profiles[index] = mig.combine(names.get(index, []), places.get(index, {}), gpu, engines.get(index))
        return state

    def _list(self, what: str) -> str:
        # The exit status depends on the version, and on GPUs that are not listed.
        return self._runner.run([self._program, "mig", what]).stdout

    def apply(self, wanted: Sequence[Wish]) -> State:
        """Partition the GPUs that differ. Raise DomainError if nvidia-smi shows another state afterwards."""
        state = self.read()
        done: dict[int, list[Result]] = {}
        for wish in wanted:
            if not wish.fulfilled(state):
                done[wish.gpu.index] = self._cut(wish, state)
        state = self.read()
        wrong = [
            f"GPU {wish.gpu.index} ({wish.gpu.name}): {self._verdict(wish, state)}, after nvidia-smi printed: "
            f"{' / '.join(each.message for each in done.get(wish.gpu.index, []))}"
            for wish in wanted
            if not wish.fulfilled(state)
        ]
        if wrong:
            failed = next((each.fields() for results in done.values() for each in results if each.rc != 0), {})
            raise DomainError(f"Error while partitioning the GPUs: {'; '.join(wrong)}", **failed)
        return state

    def _cut(self, wish: Wish, state: State) -> list[Result]:
        index, now = str(wish.gpu.index), next(gpu for gpu in state.gpus if gpu.index == wish.gpu.index)
        steps: list[list[str]] = []
        if state.instances_of(now.index):
            steps += [["mig", "-i", index, "-dci"], ["mig", "-i", index, "-dgi"]]
        if (now.current, now.pending) != (bool(wish.parts), bool(wish.parts)):
            steps.append(["-i", index, "-mig", "1" if wish.parts else "0"])
        if wish.parts:
            steps.append(["mig", "-i", index, "-cgi", wish.create, "-C"])
        return [self._runner.run([self._program, *step]) for step in steps]

    def _verdict(self, wish: Wish, state: State) -> str:
        now = next((gpu for gpu in state.gpus if gpu.index == wish.gpu.index), None)
        if now is None:
            return "it is gone"
        if now.current != now.pending:
            return (
                f"its MIG mode is still {'on' if now.current else 'off'} and will change at the next GPU reset. "
                "Something on this host uses it: check fuser -v /dev/nvidia*, and stop that process or reboot; then "
                "run again"
            )
        there = ", ".join(instance.profile for instance in state.instances_of(now.index)) or "nothing"
        return f"its MIG devices are {there}, not {', '.join(wish.profiles) or 'nothing'}"
