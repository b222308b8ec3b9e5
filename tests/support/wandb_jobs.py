"""Jobs for a queue of the simulated W&B server, through wandb's own SDK."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from typing import Any

from support.hosts import ROOT
from support.wandb_stand_in import ENTITY, StandIn

PYTHON = ROOT / ".cache" / "venv-wandb" / "bin" / "python"
_LAUNCH = """
import json, sys
from wandb.sdk.launch._launch_add import launch_add
item = launch_add(name="job", **json.loads(sys.argv[1]))
print(item.id)
"""


def push(wandb: StandIn, key: str, **job: Any) -> dict[str, Any]:
    """Put a job into a queue, and return W&B's record of it."""
    argument = json.dumps({"project": "p", "entity": ENTITY, **job})
    own = {"WANDB_API_KEY": key, "WANDB_BASE_URL": wandb.url, "WANDB_ERROR_REPORTING": "false"}
    command = [str(PYTHON), "-c", _LAUNCH, argument]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, **own})
    assert done.returncode == 0, done.stderr
    return wandb.items[done.stdout.split()[-1]]


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    """Wait until the condition is true. Raises AssertionError after the timeout."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(1)
