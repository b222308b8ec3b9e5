# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One step of DistributedDataParallel, and nothing else: NCCL on GPUs, gloo without.

It shows what a script needs to run under torchrun. Each process takes the GPU of its local rank; afterwards, all
processes must have the same parameters.
"""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    on_gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if on_gpu else "gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)

    model = nn.Sequential(nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 5)).to(device)
    parallel = DistributedDataParallel(model, device_ids=[device.index] if on_gpu else None)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
    # Different samples in each process: only the averaged gradients keep the parameters equal.
    torch.manual_seed(rank)
    loss = nn.functional.mse_loss(parallel(torch.randn(20, 10, device=device)), torch.randn(20, 5, device=device))
    loss.backward()
    optimizer.step()

    mine = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    everyone = [torch.empty_like(mine) for _rank in range(size)]
    dist.all_gather(everyone, mine)
    if not all(torch.equal(mine, other) for other in everyone):
        raise RuntimeError("the processes have different parameters")
    # In a single write: all processes of a pod write to the same log.
    sys.stdout.write(f"rank {rank} of {size}: {dist.get_backend()}, {device}, all processes have the same parameters\n")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
