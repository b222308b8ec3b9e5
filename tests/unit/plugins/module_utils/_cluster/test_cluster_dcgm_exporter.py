# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.dcgm_exporter import gpus_of, plan, unmeasured

OURS = {"app.kubernetes.io/managed-by": "gpulab.kubernetes"}
SPACE = "dcgm-exporter"


def thing(kind: str, name: str = SPACE, namespace: str = "", ours: bool = True, image: str = "x") -> dict[str, Any]:
    place = {"namespace": namespace} if namespace else {}
    template = {"spec": {"containers": [{"name": "a", "image": image}]}}
    return {
        "kind": kind,
        "metadata": {"name": name, **place, "labels": OURS if ours else {}},
        "spec": {"template": template},
    }


WANTED = [thing("Namespace"), thing("Service", namespace=SPACE), thing("DaemonSet", namespace=SPACE)]
RUNTIME = thing("RuntimeClass", "nvidia", ours=False)
EXPORTER = "nvcr.io/nvidia/k8s/dcgm-exporter:4.5.3-4.8.2-distroless"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# own\n\nDCGM_FI_DEV_GPU_TEMP, gauge, GPU temperature (in C).\nDCGM_FI_DRIVER_VERSION, label, Driver\n", ""),
        ('DCGM_FI_DEV_SM_CLOCK,gauge,"Clock, in MHz."\n', ""),
        ("DCGM_FI_DEV_GPU_TEMP\n", "a line of dcgm_exporter_counters is 'DCGM_FI_DEV_GPU_TEMP'"),
        ("DCGM_FI_DEV_SM_CLOCK, gauge, Clock, in MHz\n", "Write a DCGM field, its type (gauge, counter,"),
        ("DCGM_FI_DEV_SM_CLOCK, speed, Clock\n", "'DCGM_FI_DEV_SM_CLOCK, speed, Clock'"),
    ],
)
def test_invalid_lines_of_the_counters_are_refused(text: str, words: str) -> None:
    wanted = [*WANTED, {**thing("ConfigMap", namespace=SPACE), "data": {"counters.csv": text}}]
    obstacle = plan([RUNTIME], wanted).obstacle
    assert words in obstacle if words else not obstacle


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([RUNTIME], ""),
        ([RUNTIME, *WANTED], ""),
        ([RUNTIME, thing("DaemonSet", "flannel", "kube-flannel", ours=False)], ""),
        ([], "the cluster has no RuntimeClass nvidia"),
        (
            [RUNTIME, thing("DaemonSet", "nvidia-dcgm-exporter", "gpu-operator", ours=False, image=EXPORTER)],
            "the DaemonSet gpu-operator/nvidia-dcgm-exporter, not managed by this collection, exports the metrics",
        ),
        (
            [RUNTIME, thing("DaemonSet", SPACE, "metrics", image=f"{EXPORTER}@sha256:{'0' * 64}")],
            "it runs in the namespace metrics already. Keep dcgm_exporter_namespace=metrics",
        ),
        (
            [RUNTIME, thing("Namespace", ours=False), thing("DaemonSet", namespace=SPACE)],
            "not created by this collection: Namespace dcgm-exporter. Choose another dcgm_exporter_namespace",
        ),
        (
            [RUNTIME, thing("Namespace"), thing("Service", namespace=SPACE, ours=False)],
            "not created by this collection: Service dcgm-exporter/dcgm-exporter.",
        ),
    ],
)
def test_obstacles_to_an_installation_are_reported(found: list[dict[str, Any]], words: str) -> None:
    obstacle = plan(found, WANTED).obstacle
    assert obstacle.startswith(words) if words else not obstacle


@pytest.mark.parametrize(
    ("found", "kinds", "kept"),
    [
        ([RUNTIME], [], ""),
        ([RUNTIME, *WANTED], ["DaemonSet", "Service", "Namespace"], ""),
        ([*WANTED, thing("Pod", "dcgm-exporter-x", SPACE)], ["DaemonSet", "Service", "Namespace"], ""),
        (
            [*WANTED, thing("Pod", "mine", SPACE, ours=False)],
            ["DaemonSet", "Service"],
            "Its namespace stays, because it has other pods: dcgm-exporter/mine.",
        ),
        ([thing("Namespace", ours=False), WANTED[2], thing("Pod", "mine", SPACE, ours=False)], ["DaemonSet"], ""),
    ],
)
def test_only_objects_of_this_collection_are_removed(found: list[dict[str, Any]], kinds: list[str], kept: str) -> None:
    decided = plan(found, WANTED)
    assert ([each["kind"] for each in decided.removed], decided.kept) == (kinds, kept)


ONE = {"index": 0, "uuid": "GPU-1", "pci_bus_id": "00000000:3B:00.0", "problems": []}
TWO = {"index": 1, "uuid": "GPU-2", "pci_bus_id": "00000000:5E:00.0", "problems": ["GPU is lost", "reboot"]}
PCI = ["0000:3b:00.0", "0000:5e:00.0"]


@pytest.mark.parametrize(
    ("entry", "names"),
    [
        ({}, []),
        ({"gpus": [], "pci": []}, []),
        ({"gpus": [ONE], "pci": PCI[:1]}, ["GPU 0 (GPU-1, 00000000:3B:00.0)"]),
        ({"gpus": [ONE], "pci": PCI}, ["GPU 0 (GPU-1, 00000000:3B:00.0)", "a GPU (00000000:5E:00.0)"]),
        ({"gpus": [ONE], "pci": PCI, "expected": 1}, ["GPU 0 (GPU-1, 00000000:3B:00.0)"]),
        ({"gpus": [], "pci": PCI, "complaint": "no driver"}, ["a GPU (00000000:3B:00.0)", "a GPU (00000000:5E:00.0)"]),
        # A GPU without a known address is one of the others on the bus.
        ({"gpus": [ONE, {"index": 1}], "pci": PCI}, ["GPU 0 (GPU-1, 00000000:3B:00.0)", "GPU 1"]),
        ({"pci": PCI[:1], "expected": 2}, ["a GPU (00000000:3B:00.0)", "a GPU that is not on the PCI bus"]),
        ({"pci": ["10001:3b:00.0"]}, ["a GPU (00010001:3B:00.0)"]),
    ],
)
def test_the_expected_gpus_of_a_host_are_determined(entry: dict[str, Any], names: list[str]) -> None:
    assert [str(gpu) for gpu in gpus_of(entry)] == names


def test_a_gpu_is_reported_with_the_drivers_message() -> None:
    assert [gpu.complaint for gpu in gpus_of({"gpus": [ONE, TWO], "pci": PCI})] == ["", "GPU is lost; reboot"]
    assert [gpu.complaint for gpu in gpus_of({"pci": PCI[:1], "complaint": "no driver"})] == ["no driver"]


def sample(family: str, uuid: str, bus: str, value: str = "33", **more: str) -> str:
    labels = {
        "gpu": "0" if uuid == "GPU-1" else "1",
        "UUID": uuid,
        "pci_bus_id": bus,
        "device": "nvidia0",
        "modelName": 'Tesla "T4"',
        **more,
    }
    text = ",".join('{}="{}"'.format(name, each.replace('"', '\\"')) for name, each in labels.items())
    return f"{family}{{{text}}} {value}\n"


TEMPERATURE = "# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (in C).\n# TYPE DCGM_FI_DEV_GPU_TEMP gauge\n"
FIRST = sample("DCGM_FI_DEV_GPU_TEMP", "GPU-1", "00000000:3B:00.0", Hostname="gpu1")
SECOND = sample("DCGM_FI_DEV_GPU_TEMP", "GPU-2", "00000000:5E:00.0")
PART = sample("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "GPU-2", "00000000:5E:00.0", "0.000000", GPU_I_ID="7")
XID = sample("DCGM_FI_DEV_XID_ERRORS", "GPU-2", "00000000:5E:00.0", "79", err_msg="GPU has fallen off the bus {a} 1")


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        (TEMPERATURE + FIRST + SECOND, []),
        (TEMPERATURE + FIRST + PART, []),
        (TEMPERATURE + FIRST, ["1"]),
        # The exporter keeps the last Xid of a lost GPU.
        (TEMPERATURE + FIRST + XID, ["1"]),
        (TEMPERATURE, ["0", "1"]),
        ("", ["0", "1"]),
        ("<html>not found</html>", ["0", "1"]),
    ],
)
def test_a_gpu_without_a_measured_value_is_missing(text: str, missing: list[str]) -> None:
    assert [gpu.index for gpu in unmeasured(gpus_of({"gpus": [ONE, TWO], "pci": PCI}), text)] == missing


def test_a_gpu_unknown_to_the_driver_is_identified_by_its_address() -> None:
    gpus = gpus_of({"pci": PCI})
    assert [gpu.address for gpu in unmeasured(gpus, FIRST)] == ["00000000:5E:00.0"]
    assert len(unmeasured(gpus_of({"gpus": [{"index": 0}]}), sample("DCGM_FI_DEV_GPU_TEMP", "", ""))) == 1


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (FIRST + XID, "GPU 1 (GPU-2, 00000000:5E:00.0)"),
        (FIRST, "GPU 1"),
        # The number may belong to another GPU by now.
        (FIRST + SECOND, "GPU 1"),
    ],
)
def test_a_lost_gpu_with_only_a_number_is_missing_under_the_exporters_name(text: str, name: str) -> None:
    lost = {"index": 1, "uuid": None, "pci_bus_id": None, "problems": ["GPU is lost"]}
    gpus = gpus_of({"gpus": [{**ONE, "pci_bus_id": None}, lost], "pci": PCI})
    (found,) = unmeasured(gpus, text)
    assert (str(found), found.complaint) == (name, "GPU is lost")
