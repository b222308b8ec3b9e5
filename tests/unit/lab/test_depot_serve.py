"""The depot's container, with a fake podman that keeps its containers in a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from lab import paths
from lab.depot import cache, recipes, serve

PODMAN = """\
import json, os, sys
from pathlib import Path
state_file = Path(__file__).with_name("state.json")
state = json.loads(state_file.read_text())
argv = [a for a in sys.argv[1:] if not a.startswith("--runtime=")]
state["calls"].append(argv)
name = next((part for a in argv for part in [a.rpartition("=")[2].strip("^$")] if part.startswith("gpulab-depot")), "")
container = state["containers"].get(name)
command = argv[0]
def option(name):
    return next((a.split("=", 1)[1] for a in argv if a.startswith(f"--{name}=")), "")
if command == "images":
    print("\\n".join(state["images"]))
elif command == "import":
    state["images"].append(argv[-1])
elif command == "run":
    if state.get("broken"):
        state["containers"][name] = {"running": False}
        state_file.write_text(json.dumps(state))
        sys.exit("Error: no")
    network, ip = option("network").split(":ip=")
    files = next(a for a in argv if a.endswith(":/files:ro")).removeprefix("--volume=").split(":")[0]
    image = next(a for a in argv if a.startswith("localhost/"))
    state["containers"][name] = {"running": True, "image": image, "files": files, "networks": {network: ip}}
elif command == "ps":
    print(name if container and "-aq" not in argv else "")
elif command == "inspect":
    print(json.dumps([{
        "Id": container.get("id", "/"), "ImageName": container["image"],
        "State": {"Running": container["running"], "Status": "running" if container["running"] else "exited",
                  "Pid": os.getppid()},
        "Mounts": [{"Destination": "/files", "Source": container["files"]}],
        "NetworkSettings": {"Networks": {n: {"IPAddress": a} for n, a in container["networks"].items()}}}]))
elif command == "network" and argv[1] == "connect":
    container["networks"][argv[-2]] = option("ip")
elif command == "network" and argv[1] == "disconnect":
    container["networks"].pop(argv[-2])
elif command == "start":
    container["running"] = True
elif command == "rm":
    state["containers"].pop(name, None)
state_file.write_text(json.dumps(state))
"""


class Podman:
    """The fake podman's state, and the commands that it received."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._state = directory / "state.json"
        self.write({"calls": [], "images": [], "containers": {}})
        program = directory / "podman"
        program.write_text(f"#!{sys.executable}\n{PODMAN}")
        program.chmod(0o755)

    def read(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(self._state.read_text())
        return state

    def write(self, state: dict[str, Any]) -> None:
        self._state.write_text(json.dumps(state))

    @property
    def container(self) -> Any:
        return self.read()["containers"].get(serve.container())

    def calls(self, command: str) -> list[list[str]]:
        return [call for call in self.read()["calls"] if call[0] == command]


@pytest.fixture
def podman(tmp_path: Path, lab_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Podman:
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    with cache.fresh(recipes.server().directory, recipes.server().key) as work:
        (work / "depot-server").write_text("")
    return Podman(tmp_path / "bin")


def test_the_depot_is_only_reachable_on_the_labs_network(podman: Podman) -> None:
    depot = serve.ensure_serving("gpulab-lab", "10.1.0.2")

    assert depot == serve.Depot("http://10.1.0.2", "10.1.0.2:5000")
    assert podman.container["networks"] == {"gpulab-lab": "10.1.0.2"}
    [started] = podman.calls("run")
    assert [part for part in started if part.startswith(("-p", "--publish", "--network=host"))] == []


def test_a_second_call_starts_nothing(podman: Podman) -> None:
    serve.ensure_serving("gpulab-lab", "10.1.0.2")
    serve.ensure_serving("gpulab-lab", "10.1.0.2")

    assert len(podman.calls("run")) == 1
    assert podman.calls("network") == []


def test_labs_share_one_container(podman: Podman) -> None:
    serve.ensure_serving("gpulab-a", "10.1.0.2")
    serve.ensure_serving("gpulab-b", "10.2.0.2")

    assert len(podman.calls("run")) == 1
    assert serve.networks() == {"gpulab-a": "10.1.0.2", "gpulab-b": "10.2.0.2"}


def test_the_container_is_removed_with_its_last_lab(podman: Podman) -> None:
    serve.ensure_serving("gpulab-a", "10.1.0.2")
    serve.ensure_serving("gpulab-b", "10.2.0.2")
    serve.detach("gpulab-a")
    assert serve.networks() == {"gpulab-b": "10.2.0.2"}

    serve.detach("gpulab-b")
    assert podman.container is None
    serve.detach("gpulab-b")


def test_detaching_an_unknown_lab_changes_nothing(podman: Podman) -> None:
    serve.ensure_serving("gpulab-a", "10.1.0.2")
    serve.detach("gpulab-other")

    assert serve.networks() == {"gpulab-a": "10.1.0.2"}


def test_a_stopped_container_is_started_again(podman: Podman) -> None:
    serve.ensure_serving("gpulab-a", "10.1.0.2")
    state = podman.read()
    state["containers"][serve.container()]["running"] = False
    podman.write(state)
    serve.ensure_serving("gpulab-a", "10.1.0.2")

    assert podman.container["running"]


def test_a_container_whose_processes_were_killed_is_replaced(podman: Podman) -> None:
    serve.ensure_serving("gpulab-a", "10.1.0.2")
    serve.ensure_serving("gpulab-b", "10.2.0.2")
    state = podman.read()
    state["containers"][serve.container()]["id"] = "not in the control group of any process"
    podman.write(state)
    serve.ensure_serving("gpulab-a", "10.1.0.2")

    assert len(podman.calls("run")) == 2
    assert serve.networks() == {"gpulab-a": "10.1.0.2", "gpulab-b": "10.2.0.2"}


def test_labs_with_different_caches_have_separate_containers(
    podman: Podman, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = str(paths.cache_root())
    serve.ensure_serving("gpulab-a", "10.1.0.2")
    monkeypatch.setenv("GPULAB_CACHE", str(tmp_path / "other"))
    with cache.fresh(recipes.server().directory, recipes.server().key) as work:
        (work / "depot-server").write_text("")
    serve.ensure_serving("gpulab-b", "10.2.0.2")

    assert podman.container["files"] == str(tmp_path / "other" / "www")
    assert serve.networks() == {"gpulab-b": "10.2.0.2"}
    serve.detach("gpulab-b")
    assert podman.container is None
    monkeypatch.setenv("GPULAB_CACHE", first)
    assert serve.networks() == {"gpulab-a": "10.1.0.2"}


def test_a_container_that_fails_to_start_is_removed(podman: Podman) -> None:
    podman.write({**podman.read(), "broken": True})
    with pytest.raises(cache.DepotError, match="starting the depot's container"):
        serve.ensure_serving("gpulab-a", "10.1.0.2")

    assert podman.container is None
