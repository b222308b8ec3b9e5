# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of nvidia-smi through the years, with hosts that don't exist."""

from __future__ import annotations

OLD = """Mon Mar  4 09:15:22 2019
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 418.126.02   Driver Version: 418.126.02   CUDA Version: 10.1     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  Tesla V100-SXM2...  Off  | 00000000:1A:00.0 Off |                    3 |
| N/A   41C    P0    58W / 300W |   1214MiB / 32480MiB |     17%   E. Thread  |
+-------------------------------+----------------------+----------------------+
|   1  Tesla V100-SXM2...  On   | 00000000:1C:00.0 Off |                  Off |
| N/A   38C    P0    N/A /  N/A |      0MiB / 32480MiB |      0%   Prohibited |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                       GPU Memory |
|  GPU       PID   Type   Process name                             Usage      |
|=============================================================================|
|    0     23145      C   python3 -m train                            1203MiB |
|    1       901      G   /usr/lib/xorg/Xorg                             8MiB |
+-----------------------------------------------------------------------------+
"""

_BOX = "+-----------------------------------------------------------------------------------------+"

HEADINGS = """+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
"""
RULE = "+-----------------------------------------+------------------------+----------------------+\n"


def processes(*rows: str) -> str:
    none = "|  No running processes found                                                             |"
    return f"""
{_BOX}
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
{chr(10).join(rows or [none])}
{_BOX}
"""


def head(driver: str, cuda: str, new: bool = False) -> str:
    names = ("KMD Version:", "CUDA UMD Version:") if new else ("Driver Version:", "CUDA Version:")
    text = f"| NVIDIA-SMI {driver:<22}{names[0]} {driver:<15}{names[1]} {cuda}"
    return f"{_BOX}\n{text:<90}|\n"


def rows(first: str, second: str, third: str) -> str:
    return f"{first}\n{second}\n{third}\n{RULE}"


WSL = (
    head("545.29.06", "12.3")
    + HEADINGS
    + rows(
        "|   0  NVIDIA GeForce RTX 3070 ...    On  | 00000000:01:00.0  On |                  N/A |",
        "| N/A   48C    P8              14W /  N/A | 1305MiB /  8192MiB     |      6%      Default |",
        "|                                         |                        |                  N/A |",
    )
    + processes("|    0   N/A  N/A        24      G   /Xwayland                                   N/A      |")
)

# A GPU without memory of its own.
SHARED_MEMORY = (
    head("580.142", "13.0")
    + HEADINGS
    + rows(
        "|   0  NVIDIA GB10                    Off |   0000000F:01:00.0 Off |                  N/A |",
        "| N/A   37C    P8              4W /  N/A  | Not Supported          |      0%      Default |",
        "|                                         |                        |                  N/A |",
    )
    + processes()
)

# Inside of a container the names of processes are missing.
CONTAINER = (
    head("616.56", "13.4", new=True)
    + HEADINGS
    + rows(
        "|   0  NVIDIA B300 SXM6 AC            On  |   0000000A:1B:00.0 Off |                    0 |",
        "| N/A   44C    P0            312W / 1100W |   9201MiB / 275040MiB  |     88%      Default |",
        "|                                         |                        |            Disabled* |",
    )
    + processes("|    0   N/A  N/A            4711      C                                         9190MiB |")
)

_MIG_HEAD = f"""
{_BOX}
| MIG devices:                                                                            |
"""
_MIG_GPU = rows(
    "|   0  NVIDIA A100-SXM4-40GB          On  |   00000000:07:00.0 Off |                   On |",
    "| N/A   33C    P0             51W /  400W |      39MiB /  40960MiB |     N/A      Default |",
    "|                                         |                        |              Enabled |",
)

# One cell of memory for the compute instances of one GPU instance, as drivers printed it at first.
MIG_ONE_CELL = (
    head("470.256.02", "11.4")
    + HEADINGS
    + _MIG_GPU
    + _MIG_HEAD
    + """+------------------+----------------------+-----------+-----------------------+
| GPU  GI  CI  MIG |         Memory-Usage |        Vol|         Shared        |
|      ID  ID  Dev |           BAR1-Usage | SM     Unc| CE  ENC  DEC  OFA  JPG|
|                  |                      |        ECC|                       |
|==================+======================+===========+=======================|
|  0    1   0   0  |     21MiB / 20096MiB | 14      0 |  3   0    2    0    0 |
|                  |      0MiB / 32767MiB |           |                       |
+------------------+                      +-----------+-----------------------+
|  0    1   1   1  |                      | 28      0 |  3   0    2    0    0 |
|                  |                      |           |                       |
+------------------+----------------------+-----------+-----------------------+
|  0    2   0   2  |     18MiB /  9856MiB | 14      0 |  1   0    1    0    0 |
|                  |      0MiB / 16383MiB |           |                       |
+------------------+----------------------+-----------+-----------------------+
"""
    + processes("|    0    1    1            5150      C   ./solve --deep                                 3MiB |")
)

MIG_SHARED = (
    head("590.61", "13.1")
    + HEADINGS
    + _MIG_GPU
    + _MIG_HEAD
    + """+------------------+----------------------------------+-----------+-----------------------+
| GPU  GI  CI  MIG |              Shared Memory-Usage |        Vol|        Shared         |
|      ID  ID  Dev |                Shared BAR1-Usage | SM     Unc| CE ENC  DEC  OFA  JPG |
|                  |                                  |        ECC|                       |
|==================+==================================+===========+=======================|
|  0    1   0   0  |              21MiB / 20096MiB    | 14      0 |  3   0    2    0    0 |
|                  |               0MiB / 32767MiB    |           |                       |
+------------------+----------------------------------+-----------+-----------------------+
|  0    1   1   1  |              21MiB / 20096MiB    | 28      0 |  3   0    2    0    0 |
|                  |               0MiB / 32767MiB    |           |                       |
+------------------+----------------------------------+-----------+-----------------------+
|  0    2   0   2  |              18MiB / 9856MiB     | 14      0 |  1   0    1    0    0 |
|                  |               0MiB / 16383MiB    |           |                       |
+------------------+----------------------------------+-----------+-----------------------+
"""
    + processes("|    0    1    1            5150      C   ./solve --deep                            3MiB |")
)


def many(count: int, lost: str = "") -> str:
    """So many GPUs; ``lost`` is printed above, and then GPU 1 is left out."""
    none = "Off".rjust(21)
    gpus = "".join(
        rows(
            f"| {index:>3}  NVIDIA RTX A6000               Off |   {index:08X}:20:00.0 Off |{none} |",
            "| 30%   33C    P8              6W /  300W |      10MiB /  49140MiB |      0%      Default |",
            "|                                         |                        |                  N/A |",
        )
        for index in range(count)
        if not (lost and index == 1)
    )
    return lost + "Fri Nov 20 21:00:01 2026\n" + head("610.77.01", "13.3", new=True) + HEADINGS + gpus + processes()


ILL = (
    head("535.261.03", "12.2")
    + HEADINGS
    + rows(
        "|   0  ERR!                          ERR! |   00000000:25:00.0 ERR!|                 ERR! |",
        "|ERR!  ERR! ERR!             ERR! /  ERR! | GPU requires reset     |    ERR!         ERR! |",
        "|                                         |                        |                 ERR! |",
    )
    + processes()
)
