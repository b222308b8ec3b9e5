# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Trains a small network with DistributedDataParallel: NCCL on GPUs, gloo without.

Runs under torchrun, or as a single process. A step uses the same samples regardless of the number of processes, so the
result does not depend on it. Checkpoints are written completely or not at all; a run resumes from the newest one that
all processes can read. The last line is a summary that the role torch_ddp collects.

Runs on PyTorch 1.13 and newer.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

# The role torch_ddp reads the summary from the line that starts with this.
SUMMARY = "TORCH_DDP_SUMMARY "
CHECKPOINT = re.compile(r"step-(\d{10})\.node-\d+\.pt")
FEATURES = 32


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--samples", type=int, default=8192, help="samples per epoch")
    parser.add_argument("--batch", type=int, default=256, help="samples per step, of all processes together")
    parser.add_argument("--width", type=int, default=64, help="width of the hidden layers")
    parser.add_argument("--learning-rate", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--step-delay", type=float, default=0, help="seconds to wait after each step")
    parser.add_argument("--checkpoints", type=Path, default=os.environ.get("TORCH_DDP_CHECKPOINTS"))
    parser.add_argument("--checkpoint-every", type=int, default=10, help="steps between two checkpoints")
    parser.add_argument("--keep", type=int, default=3, help="number of checkpoints to keep")
    parser.add_argument("--fresh", action="store_true", default=os.environ.get("TORCH_DDP_RESUME") == "false")
    parser.add_argument("--no-training", action="store_true", help="only measure the all-reduce")
    parser.add_argument("--all-reduce-mib", type=int, nargs="*", default=[1, 8], help="sizes to measure")
    chosen = parser.parse_args(argv)
    if chosen.samples % chosen.batch:
        parser.error(f"--samples {chosen.samples} is not a multiple of --batch {chosen.batch}")
    return chosen


def say(text: str) -> None:
    # In a single write: all processes of a pod write to the same log.
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class Group:
    """The processes of the training, and the device of this one."""

    def __init__(self) -> None:
        self.local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        self.node = int(os.environ.get("GROUP_RANK", "0"))
        self.nodes = int(os.environ.get("GROUP_WORLD_SIZE", "1"))
        on_gpu = torch.cuda.is_available()
        self.device = torch.device("cuda", self.local_rank) if on_gpu else torch.device("cpu")
        if on_gpu:
            torch.cuda.set_device(self.device)
        limit = timedelta(seconds=int(os.environ.get("TORCH_DDP_COLLECTIVE_TIMEOUT", "600")))
        backend = "nccl" if on_gpu else "gloo"
        if "RANK" in os.environ:
            dist.init_process_group(backend, timeout=limit)
        else:
            dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1, timeout=limit)
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def say(self, text: str) -> None:
        if self.rank == 0:
            say(text)

    def each(self, mine: Any) -> list[Any]:
        """Return the values of all processes, by rank."""
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, mine)
        return found


class Checkpoints:
    """A directory of checkpoints, shared by all nodes or separate on each node.

    One process per node writes ``step-<step>.node-<node>.pt``. All processes have the same parameters, so any file of a
    step can be used.
    """

    def __init__(self, group: Group, directory: Path, keep: int) -> None:
        self._group = group
        self._directory = directory
        self._keep = max(1, keep)
        directory.mkdir(parents=True, exist_ok=True)

    def write(self, step: int, state: dict[str, Any]) -> None:
        """Write to a temporary file and rename it, so that no run finds an incomplete checkpoint."""
        if self._group.local_rank:
            return
        with tempfile.NamedTemporaryFile(dir=self._directory, prefix=".writing-", delete=False) as work:
            torch.save(state, work)
            work.flush()
            os.fsync(work.fileno())
        Path(work.name).replace(self._directory / f"step-{step:010d}.node-{self._group.node}.pt")
        for old in sorted(self._steps(), reverse=True)[self._keep :]:
            self._remove(f"step-{old:010d}.node-{self._group.node}.pt")

    def read(self) -> dict[str, Any] | None:
        """Return the newest state that all processes can read, or None."""
        unreadable: set[int] = set()
        while True:
            common = set.intersection(*map(set, self._group.each(self._steps() - unreadable)))
            if not common:
                return None
            newest = max(common)
            state = self._load(newest)
            if all(self._group.each(state is not None)):
                return state
            unreadable.add(newest)

    def clear(self) -> None:
        if self._group.local_rank == 0:
            self._remove("step-*.pt")
            self._remove(".writing-*")
        dist.barrier()

    def _steps(self) -> set[int]:
        names = (CHECKPOINT.fullmatch(path.name) for path in self._directory.iterdir())
        return {int(name[1]) for name in names if name}

    def _load(self, step: int) -> dict[str, Any] | None:
        for path in sorted(self._directory.glob(f"step-{step:010d}.node-*.pt")):
            try:
                state: dict[str, Any] = torch.load(path, map_location=self._group.device)
                return state
            except Exception as error:  # torch.load raises whatever its unpickler does
                say(f"{path} can't be read: {error}")
        return None

    def _remove(self, pattern: str) -> None:
        for path in self._directory.glob(pattern):
            path.unlink(missing_ok=True)


def network(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))


def data(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return learnable samples, identical in every process: shapes (count, FEATURES) and (count, 1)."""
    source = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, FEATURES, generator=source)
    weights = torch.randn(FEATURES, 1, generator=torch.Generator().manual_seed(7)) / FEATURES**0.5
    return inputs, torch.sin(inputs @ weights)


class Training:
    """The model of this process and its progress. Each process takes its share of every step's samples."""

    def __init__(self, group: Group, options: argparse.Namespace) -> None:
        self._group = group
        self._options = options
        torch.manual_seed(options.seed)
        self._plain = network(options.width).to(group.device)
        devices = [group.local_rank] if group.device.type == "cuda" else None
        self._model = DistributedDataParallel(self._plain, device_ids=devices)
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=options.learning_rate, momentum=0.9)
        self._samples = tuple(part.to(group.device) for part in data(options.samples, options.seed))
        self._unseen = tuple(part.to(group.device) for part in data(1024, options.seed + 1_000_000))
        self._places = [(options.batch * rank) // group.size for rank in range(group.size + 1)]
        self.step, self.resumed_from = 0, 0
        self.losses: list[float] = []
        self.trained, self.seconds = 0, 0.0
        self._store = Checkpoints(group, options.checkpoints, options.keep) if options.checkpoints else None

    def resume(self) -> None:
        if self._store and self._options.fresh:
            self._store.clear()
        state = self._store.read() if self._store else None
        if state:
            self._plain.load_state_dict(state["model"])
            self._optimizer.load_state_dict(state["optimizer"])
            self.step = self.resumed_from = state["step"]
            self.losses = list(state["losses"])
            self._group.say(f"resumed from step {self.step}")

    def run(self) -> None:
        steps = self._options.samples // self._options.batch
        while self.step < self._options.epochs * steps:
            started = time.monotonic()
            epoch, place = divmod(self.step, steps)
            order = torch.randperm(
                self._options.samples, generator=torch.Generator().manual_seed(self._options.seed * 10_007 + epoch)
            )
            self._learn(order[place * self._options.batch : (place + 1) * self._options.batch])
            self.step += 1
            self.seconds += time.monotonic() - started
            self.trained += self._options.batch
            if place + 1 == steps:
                self.losses.append(self.loss())
                self._group.say(
                    f"epoch {epoch + 1}/{self._options.epochs} step {self.step} loss {self.losses[-1]:.6f} "
                    f"{self.trained / self.seconds:.0f} samples/s"
                )
            if self._store and (self.step % self._options.checkpoint_every == 0 or place + 1 == steps):
                self._store.write(self.step, self._state())
            time.sleep(self._options.step_delay)

    def loss(self) -> float:
        """Return the mean squared error of this process's model on samples that were not used for training."""
        with torch.no_grad():
            inputs, wanted = self._unseen
            return float(nn.functional.mse_loss(self._plain(inputs), wanted))

    def fingerprint(self) -> float:
        """Return a number that differs if parameters differ."""
        return float(sum(parameter.double().abs().sum() for parameter in self._plain.parameters()))

    def _learn(self, chosen: torch.Tensor) -> None:
        begin, end = self._places[self._group.rank : self._group.rank + 2]
        mine = chosen[begin:end].to(self._group.device)
        inputs, wanted = (part[mine] for part in self._samples)
        self._optimizer.zero_grad()
        # DDP averages over the processes, so each one contributes its part of the step's mean.
        share = self._group.size / len(chosen)
        (nn.functional.mse_loss(self._model(inputs), wanted, reduction="sum") * share).backward()
        self._optimizer.step()

    def _state(self) -> dict[str, Any]:
        return {
            "model": self._plain.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "step": self.step,
            "losses": self.losses,
        }


def all_reduce(group: Group, mebibytes: int, rounds: int = 10) -> dict[str, float]:
    """Measure the all-reduce of a tensor: seconds, and algorithm and bus GB/s as nccl-tests defines them."""
    tensor = torch.ones(mebibytes * 2**18, device=group.device)
    for _round in range(2):
        dist.all_reduce(tensor)
    wait(group)
    dist.barrier()
    started = time.monotonic()
    for _round in range(rounds):
        tensor.fill_(1)
        dist.all_reduce(tensor)
    wait(group)
    seconds = max(group.each((time.monotonic() - started) / rounds))
    if float(tensor[0]) != group.size:
        raise RuntimeError(f"all-reduce of ones over {group.size} processes gave {float(tensor[0])}")
    speed = mebibytes * 2**20 / seconds / 1e9
    return {
        "mib": mebibytes,
        "seconds": seconds,
        "algorithm_gb_per_s": speed,
        "bus_gb_per_s": speed * 2 * (group.size - 1) / group.size,
    }


def wait(group: Group) -> None:
    if group.device.type == "cuda":
        torch.cuda.synchronize()


def train(group: Group, options: argparse.Namespace) -> dict[str, Any]:
    """Train, and return the summary's entries, which are the same in all processes."""
    training = Training(group, options)
    training.resume()
    training.run()
    marks = group.each((training.loss(), training.fingerprint()))
    return {
        "steps": training.step,
        "resumed_from": training.resumed_from,
        "samples_per_s": training.trained / training.seconds if training.trained else None,
        "loss": training.losses,
        "rank_losses": [loss for loss, _fingerprint in marks],
        "ranks_equal": len(set(marks)) == 1,
    }


def main() -> None:
    options = arguments()
    group = Group()
    summary: dict[str, Any] = {
        "torch": torch.__version__,
        "backend": dist.get_backend(),
        "device": torch.cuda.get_device_name(group.device) if group.device.type == "cuda" else "cpu",
        "nodes": group.nodes,
        "processes": group.size,
    }
    group.say(f"{group.size} processes on {group.nodes} nodes, {summary['backend']}, {summary['device']}")
    if not options.no_training:
        summary |= train(group, options)
        # If the model is the last object to release the process group, it waits for gloo's threads while it holds
        # Python's lock, which these threads need to exit, so the process never ends.
        gc.collect()
    summary["all_reduce"] = [all_reduce(group, size) for size in options.all_reduce_mib] if group.size > 1 else []
    group.say(SUMMARY + json.dumps(summary))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
