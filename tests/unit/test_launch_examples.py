"""The jobs of examples/launch: their structure, and the image generation job with a stand-in for wandb.

The test group launch has wandb itself read the files; it is not installed here.
"""

from __future__ import annotations

import json
import runpy
import struct
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "launch"
PROGRAM = EXAMPLES / "image-job" / "generate.py"
GPU = "GPU-0e3a0f5c-6f4d-4f8e-8f8e-000000000001"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.json")), ids=lambda path: str(path.stem))
def test_a_job_has_an_image_with_a_registry_and_programs_that_compile(path: Path) -> None:
    job = json.loads(path.read_text())
    assert job.keys() == {"docker", "overrides"}
    assert job["docker"].keys() == {"docker_image"}
    assert job["docker"]["docker_image"].startswith("docker.io/")
    assert job["overrides"].keys() <= {"entry_point", "args", "run_config"}
    command = job["overrides"].get("entry_point") or job["overrides"].get("args") or []
    if command:
        assert command[:2] == ["sh", "-c"] and len(command) == 4
        compile(command[3], str(path), "exec")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home, working directory and GPU of a container."""
    smi = tmp_path / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text(f"#!/bin/sh\necho 'GPU 0: Tesla T4 (UUID: {GPU})'\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", str(smi.parent), prepend=":")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("HF_HOME", raising=False)
    return tmp_path


def run(place: Path, monkeypatch: pytest.MonkeyPatch, **overrides: Any) -> dict[str, Any]:
    summary: dict[str, Any] = {}

    @contextmanager
    def init(config: dict[str, Any]) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(config={**config, **overrides}, summary=summary)

    env = ModuleType("wandb.env")
    env.get_artifact_dir = lambda: str(place / "artifacts")  # type: ignore[attr-defined]
    wandb = ModuleType("wandb")
    wandb.init, wandb.env = init, env  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    monkeypatch.setitem(sys.modules, "wandb.env", env)
    runpy.run_path(str(PROGRAM), run_name="__main__")
    return summary


def test_the_second_job_finds_the_weights_of_the_first_in_the_cache(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(place, monkeypatch) == {"cached": False, "gpus": [GPU], "images": 2}
    assert [path.name for path in (place / ".cache" / "huggingface" / "patterns").iterdir()] == ["gpulab--pattern.bin"]
    assert run(place, monkeypatch)["cached"]
    monkeypatch.setenv("HF_HOME", str(place / "claim" / "huggingface"))
    assert not run(place, monkeypatch)["cached"]
    assert (place / "claim" / "huggingface" / "patterns").is_dir()


def test_each_prompt_has_its_own_png(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(place, monkeypatch, prompts=["a", "b", "c"])
    images = [path.read_bytes() for path in sorted((place / "artifacts" / "images").iterdir())]
    assert len(set(images)) == 3
    for image in images:
        assert image[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">II", image[16:24]) == (64, 64)
        (length,) = struct.unpack(">I", image[33:37])
        assert image[37:41] == b"IDAT"
        assert len(zlib.decompress(image[41 : 41 + length])) == 64 * 65
