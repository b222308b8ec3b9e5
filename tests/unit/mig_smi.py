# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-smi, as far as MIG goes: texts as drivers 535 and 550 print them, and a stand-in that keeps a state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

A100 = "NVIDIA A100-SXM4-40GB"

PROFILES = """\
+-----------------------------------------------------------------------------+
| GPU instance profiles:                                                      |
| GPU   Name             ID    Instances   Memory     P2P    SM    DEC   ENC  |
|                              Free/Total   GiB              CE    JPEG  OFA  |
|=============================================================================|
|   0  MIG 1g.5gb        19     0/7        4.75       No     14     0     0   |
|                                                             1     0     0   |
+-----------------------------------------------------------------------------+
|   0  MIG 1g.5gb+me     20     0/1        4.75       No     14     1     0   |
|                                                             1     1     1   |
+-----------------------------------------------------------------------------+
|   0  MIG 1g.10gb       15     1/4        9.62       No     14     1     0   |
|                                                             1     0     0   |
+-----------------------------------------------------------------------------+
|   0  MIG 2g.10gb       14     1/3        9.75       No     28     1     0   |
|                                                             2     0     0   |
+-----------------------------------------------------------------------------+
|   0  MIG 3g.20gb        9     0/2        19.62      No     42     2     0   |
|                                                             3     0     0   |
+-----------------------------------------------------------------------------+
|   0  MIG 4g.20gb        5     0/1        19.62      No     56     2     0   |
|                                                             4     0     0   |
+-----------------------------------------------------------------------------+
|   0  MIG 7g.40gb        0     0/1        39.50      No     98     5     0   |
|                                                             7     1     1   |
+-----------------------------------------------------------------------------+
"""

PLACEMENTS = """\
GPU  0 Profile ID 19 Placements: {0,1,2,3,4,5,6}:1
GPU  0 Profile ID 20 Placements: {0,1,2,3,4,5,6}:1
GPU  0 Profile ID 15 Placements: {0,2,4,6}:2
GPU  0 Profile ID 14 Placements: {0,2,4}:2
GPU  0 Profile ID  9 Placements: {0,4}:4
GPU  0 Profile ID  5 Placement : {0}:4
GPU  0 Profile ID  0 Placement : {0}:8
"""

INSTANCES = """\
+-------------------------------------------------------+
| GPU instances:                                        |
| GPU   Name             Profile  Instance   Placement  |
|                          ID       ID       Start:Size |
|=======================================================|
|   0  MIG 1g.5gb          19        7          3:1     |
+-------------------------------------------------------+
|   0  MIG 3g.20gb          9        1          4:4     |
+-------------------------------------------------------+
|   1  MIG 1g.5gb+me       20        8          0:1     |
+-------------------------------------------------------+
"""

COMPUTE_INSTANCES = """\
+--------------------------------------------------------------------+
| Compute instances:                                                 |
| GPU     GPU       Name             Profile   Instance   Placement  |
|       Instance                       ID        ID       Start:Size |
|         ID                                                         |
|====================================================================|
|   0      7       MIG 1g.5gb           0         0          0:1     |
+--------------------------------------------------------------------+
|   0      1       MIG 1c.3g.20gb       0         0          0:1     |
+--------------------------------------------------------------------+
|   1      8       MIG 1g.5gb           0         0          0:1     |
+--------------------------------------------------------------------+
"""

# Keeps {"gpus": [{"name", "memory", "mode", "held", "parts": [[profile id, start], ...]}], "quiet"} in a file.
STAND_IN = """
import json, pathlib, sys
path = pathlib.Path({state!r})
state = json.loads(path.read_text())
asked = sys.argv[1:]
with open(str(path) + ".log", "a") as log:
    log.write(" ".join(asked) + "\\n")
names = {{19: ("1g.5gb", 1), 20: ("1g.5gb+me", 1), 15: ("1g.10gb", 2), 14: ("2g.10gb", 2), 9: ("3g.20gb", 4),
         5: ("4g.20gb", 4), 0: ("7g.40gb", 8)}}
first = {{19: 7, 20: 7, 15: 3, 14: 3, 9: 1, 5: 1, 0: 0}}
chosen = [int(asked[asked.index("-i") + 1])] if "-i" in asked else range(len(state["gpus"]))
gpus = [(index, state["gpus"][index]) for index in chosen]

def word(on):
    return "[N/A]" if on is None else "Enabled" if on else "Disabled"

def number(gpu, part):
    before = [other for other in gpu["parts"][: gpu["parts"].index(part)] if first[other[0]] == first[part[0]]]
    return first[part[0]] + len(before)

def done(status=0):
    path.write_text(json.dumps(state))
    sys.exit(status)

if any(argument.startswith("--query-gpu") for argument in asked):
    for index, gpu in gpus:
        print(f"{{index}}, GPU-{{index}}, {{gpu['name']}}, {{gpu['memory']}}, {{word(gpu['mode'])}}, "
              f"{{word(gpu.get('pending', gpu['mode']))}}")
    done(15 if state.get("lost") else 0)
if "-mig" in asked:
    on = asked[asked.index("-mig") + 1] == "1"
    for index, gpu in gpus:
        gpu["pending"] = on
        if gpu.get("held"):
            print(f"Warning: MIG mode is in pending enable state for GPU {{index}}:In use by another client")
        else:
            gpu["mode"] = on
    print("All done.")
    done()
if not any(gpu["mode"] for _index, gpu in gpus) and ("-lgip" not in asked or state["quiet"]):
    print("No MIG-enabled devices found.")
    done(6 if state["quiet"] else 0)
if "-lgip" in asked:
    if not all(gpu["mode"] for _index, gpu in gpus):
        print("Failed to display GPU instance profiles: Not Supported")
        done(3)
    print({profiles!r})
elif "-lgipp" in asked:
    print({placements!r})
elif "-lgi" in asked:
    for index, gpu in gpus:
        for part in gpu["parts"]:
            name, size = names[part[0]]
            place = f"{{number(gpu, part)}}          {{part[1]}}:{{size}}     |"
            print(f"|   {{index}}  MIG {{name}}          {{part[0]}}        {{place}}")
elif "-lci" in asked:
    for index, gpu in gpus:
        for part in gpu["parts"]:
            name = f"MIG {{names[part[0]][0]}}           0         0          0:1     |"
            print(f"|   {{index}}      {{number(gpu, part)}}       {{name}}")
elif "-dgi" in asked:
    for index, gpu in gpus:
        gpu["parts"] = []
elif "-cgi" in asked:
    for index, gpu in gpus:
        for wanted in asked[asked.index("-cgi") + 1].split(","):
            profile, start = map(int, wanted.split(":"))
            taken = {{place for part in gpu["parts"] for place in range(part[1], part[1] + names[part[0]][1])}}
            if taken & set(range(start, start + names[profile][1])) or state.get("refuses"):
                print("Failed to create GPU instances: Insufficient Resources")
                done(0)
            gpu["parts"].append([profile, start])
done()
"""


class Smi:
    """The state behind a stand-in, and what it was asked."""

    def __init__(self, directory: Path, programs: Any, gpus: list[dict[str, Any]], **more: Any) -> None:
        self._path = directory / "smi.json"
        self.write({"gpus": gpus, "quiet": False, **more})
        text = STAND_IN.format(state=str(self._path), profiles=PROFILES, placements=PLACEMENTS)
        programs.python("nvidia-smi", text)

    def write(self, state: dict[str, Any]) -> None:
        self._path.write_text(json.dumps(state))

    def change(self, **values: Any) -> None:
        self.write({**self.state, **values})

    @property
    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._path.read_text())
        return found

    @property
    def changes(self) -> list[str]:
        """The calls that change something."""
        log = Path(f"{self._path}.log")
        calls = log.read_text().splitlines() if log.exists() else []
        return [call for call in calls if set(call.split()) & {"-mig", "-cgi", "-dgi", "-dci"}]


def a100(mode: bool | None = False, parts: list[list[int]] | None = None, **more: Any) -> dict[str, Any]:
    return {"name": A100, "memory": 40960, "mode": mode, "parts": parts or [], **more}


T4 = {"name": "Tesla T4", "memory": 15360, "mode": None, "parts": []}
