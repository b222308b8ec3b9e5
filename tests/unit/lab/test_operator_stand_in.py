"""The stand-in for the GPU Operator's chart takes values of the real one, and its parts fit together."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.depot import operator_image, versions

ROOT = Path(__file__).resolve().parents[3]
VALUES = yaml.safe_load((operator_image.CHART / "values.yaml").read_text())
KEYS = yaml.safe_load((ROOT / "roles/gpu_operator/files/values-v26.7.0.yml").read_text())["keys"]
CONFIG = {"create": True, "name": "c", "default": "a", "data": {"a": "version: v1\n"}}


def unknown(values: dict[str, Any], keys: Any, above: str = "") -> list[str]:
    if not isinstance(keys, dict):
        return []
    found = [above + name for name in values if name not in keys]
    nested = [(name, value) for name, value in values.items() if isinstance(value, dict) and name in keys]
    return found + [path for name, value in nested for path in unknown(value, keys[name], f"{above}{name}.")]


def test_it_has_no_values_of_its_own() -> None:
    assert unknown(VALUES, KEYS) == []


def test_it_runs_what_the_depot_has() -> None:
    table = versions.table()
    for name in ("devicePlugin", "gfd"):
        assert VALUES[name]["version"] == table["nvidia_device_plugin"]
    assert VALUES["node-feature-discovery"]["image"].endswith(f":{table['node_feature_discovery']}")
    operator = VALUES["operator"]
    assert f"{operator['repository']}/{operator['image']}:{operator['version']}" == operator_image.REFERENCE


def test_the_stub_is_a_script_that_parses() -> None:
    subprocess.run(["sh", "-n", str(ROOT / "lab/depot/operator/stub")], check=True)


@pytest.mark.skipif(not operator_image.helm().is_file(), reason="helm is not built")
@pytest.mark.parametrize("more", [{}, {"dcgmExporter": {"enabled": False}}, {"nfd": {"enabled": False}}])
def test_helm_renders_it(tmp_path: Path, more: dict[str, Any]) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"devicePlugin": {"config": CONFIG}, **more}))
    command = [str(operator_image.helm()), "template", "x", str(operator_image.CHART), "--values", str(values)]
    done = subprocess.run([*command, "--namespace=gpu-operator"], capture_output=True, text=True, check=True)
    objects = {f"{each['kind']}/{each['metadata']['name']}": each for each in yaml.safe_load_all(done.stdout) if each}
    assert objects["ClusterPolicy/cluster-policy"]["spec"]["devicePlugin"]["config"] == {"name": "c", "default": "a"}
    assert objects["ConfigMap/c"]["data"] == CONFIG["data"]
    operands = list(yaml.safe_load_all(objects["ConfigMap/operands"]["data"]["operands.yaml"]))
    names = {operand["metadata"]["name"] for operand in operands if operand["kind"] == "DaemonSet"}
    exporter = set() if "dcgmExporter" in more else {"nvidia-dcgm-exporter"}
    assert names == {"nvidia-device-plugin-daemonset", "gpu-feature-discovery"} | exporter
    assert ("DaemonSet/nfd-worker" in objects) == ("nfd" not in more)
    for operand in operands:
        if operand["kind"] == "DaemonSet":
            assert [owner["kind"] for owner in operand["metadata"]["ownerReferences"]] == ["ClusterPolicy"]
