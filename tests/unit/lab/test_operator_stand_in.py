"""The stand-in for the GPU Operator's chart: it accepts the real chart's values, and its parts fit together."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.depot import operator_image, versions

ROOT = Path(__file__).resolve().parents[3]
VALUES = yaml.safe_load((operator_image.CHART / "values.yaml").read_text())
CONFIG = {"create": True, "name": "c", "default": "a", "data": {"a": "version: v1\n"}}


def test_the_chart_uses_images_and_versions_of_the_depot() -> None:
    table = versions.table()
    for name in ("devicePlugin", "gfd"):
        assert VALUES[name]["version"] == table["nvidia_device_plugin"]
    assert VALUES["node-feature-discovery"]["image"].endswith(f":{table['node_feature_discovery']}")
    operator = VALUES["operator"]
    assert f"{operator['repository']}/{operator['image']}:{operator['version']}" == operator_image.REFERENCE


KUBECTL = """#!/bin/sh
echo "$*" >>"$PLACE/calls"
case "$*" in
*"get lease"*) printf %s "$HOLDER" ;;
*"get clusterpolicies"*) [ "$(grep -c "get clusterpolicies" "$PLACE/calls")" -gt 3 ] || printf %s "$OLDEST" ;;
*"get nodes"*) echo "$NODES" ;;
*"--filename=-"*) cat >/dev/null ;;
esac
"""
POLICY, GPU = {"OLDEST": "cluster-policy"}, {"NODES": "node/gpu1"}


def stub(place: Path, cluster: dict[str, str]) -> tuple[list[str], list[str]]:
    """Return the stub's calls in two reconciliations, and the statuses that it sets: policy, state, reason."""
    for name, script in {"kubectl": KUBECTL, "sleep": '#!/bin/sh\necho "sleep $*" >>"$PLACE/calls"\n'}.items():
        (place / name).write_text(script)
        (place / name).chmod(0o755)
    about = {"PLACE": str(place), "NAMESPACE": "gpu-operator", "POD_NAME": "gpu-operator-1", "HOLDER": "", "NODES": ""}
    environ = {**about, **POLICY, **cluster, "PATH": f"{place}:{os.environ['PATH']}"}
    subprocess.run(["sh", str(ROOT / "lab/depot/operator/stub")], env=environ, check=True, capture_output=True)
    calls = (place / "calls").read_text().splitlines()
    said = []
    for call in calls:
        if call.startswith("patch clusterpolicy"):
            status = json.loads(call.partition("--patch=")[2])["status"]
            said.append(f"{call.split()[2]} {status['state']} {status['conditions'][0]['reason']}")
    return calls, said


READY = "cluster-policy ready Reconciled"


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        (GPU, ["cluster-policy notReady Error", READY]),
        # Like the operator, the stub is ready while no node has the labels that it looks for.
        ({}, ["cluster-policy ready NFDLabelsMissing"]),
        ({**GPU, "OLDEST": "other"}, ["other notReady Error", "other ready Reconciled"]),
    ],
)
def test_the_stub_reports_the_same_status_as_the_operator(
    tmp_path: Path, cluster: dict[str, str], said: list[str]
) -> None:
    calls, found = stub(tmp_path, cluster)
    assert found == said
    labelled = [call.rpartition(" ")[2] for call in calls if call.startswith("label ")]
    assert ("nvidia.com/gpu.present=true" in labelled) == ("NODES" in cluster)


@pytest.mark.parametrize(("holder", "waits"), [("", False), ("gpu-operator-1_1", False), ("gpu-operator-0_1", True)])
def test_the_stub_waits_for_the_lease_of_a_former_leader(tmp_path: Path, holder: str, waits: bool) -> None:
    calls, _said = stub(tmp_path, {**GPU, "HOLDER": holder})
    before = calls[: next(number for number, call in enumerate(calls) if "get clusterpolicies" in call)]
    assert ("sleep 17" in before) == waits
    assert before[-1] == "--namespace=gpu-operator apply --filename=-"


@pytest.mark.skipif(not operator_image.helm().is_file(), reason="helm is not built")
@pytest.mark.parametrize("more", [{}, {"dcgmExporter": {"enabled": False}}, {"nfd": {"enabled": False}}])
def test_helm_can_render_the_chart(tmp_path: Path, more: dict[str, Any]) -> None:
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
    assert ("DaemonSet/nfd-worker" in objects) == ("Deployment/nfd-gc" in objects) == ("nfd" not in more)
    hook = objects["Job/gpu-operator-clean-up"]
    assert hook["metadata"]["annotations"] == {"helm.sh/hook": "pre-delete"}
    assert hook["spec"]["template"]["spec"]["containers"][0]["image"] != operator_image.REFERENCE
    for operand in operands:
        if operand["kind"] == "DaemonSet":
            assert [owner["kind"] for owner in operand["metadata"]["ownerReferences"]] == ["ClusterPolicy"]
