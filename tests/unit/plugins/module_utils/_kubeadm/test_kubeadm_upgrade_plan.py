# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.text import KubeadmTextError
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.upgrade_plan import (
    Component,
    ConfigVersion,
    Upgrade,
    UpgradePlan,
    upgrade_plan,
)
from kubeadm_texts import (
    KLOG,
    PLAN,
    PLAN_1_9,
    PLAN_HEAD,
    PLAN_V1ALPHA2,
    PLAN_V1ALPHA3,
    PLAN_YAML,
    UP_TO_DATE_1_9,
)

SERIES = "version in the v1.36 series"
BY_HAND = ConfigVersion("kubelet.config.k8s.io", None, "v1beta1", True)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\t"])
def test_text_output_is_read(end: str) -> None:
    plan = upgrade_plan(PLAN.replace("\n", end))
    assert (plan.cluster_version, plan.kubeadm_version) == ("v1.36.1", "v1.36.4")
    (upgrade,) = plan.upgrades
    assert (upgrade.version, upgrade.description) == ("v1.36.4", SERIES)
    assert upgrade.components[:3] == (
        Component("kubelet", "v1.36.1", "v1.36.4", "cp1"),
        Component("kubelet", "v1.36.0", "v1.36.4", "worker1"),
        Component("kube-apiserver", "v1.36.1", "v1.36.4", "cp1"),
    )
    assert upgrade.components[5:] == (
        Component("kube-proxy", "1.36.1", "v1.36.4"),
        Component("CoreDNS", "v1.12.1", "v1.12.1"),
        Component("etcd", "3.6.4-0", "3.6.11-0", "cp1"),
    )
    assert plan.config_versions == (ConfigVersion("kubeproxy.config.k8s.io", "v1alpha1", "v1alpha1", False), BY_HAND)


def test_components_in_old_output_get_their_present_names() -> None:
    plan = upgrade_plan(PLAN_1_9)
    first, second = plan.upgrades
    assert (first.version, second.version) == ("v1.8.6", "v1.9.0-beta.1")
    assert second.description == "experimental version"
    assert first.components == (
        Component("kubelet", "v1.8.0", "v1.8.6", count=1),
        Component("kubelet", "v1.8.1", "v1.8.6", count=2),
        Component("kube-apiserver", "v1.8.1", "v1.8.6"),
        Component("kube-controller-manager", "v1.8.1", "v1.8.6"),
        Component("kube-scheduler", "v1.8.1", "v1.8.6"),
        Component("kube-proxy", "v1.8.1", "v1.8.6"),
        Component("kube-dns", "1.14.4", "1.14.5"),
    )
    assert second.components[4:6] == (Component("CoreDNS", None, "1.0.1"), Component("kube-dns", "1.14.4", None))


@pytest.mark.parametrize("text", [json.dumps(PLAN_V1ALPHA3, indent=4), PLAN_YAML, f"{KLOG}\n{PLAN_YAML}"])
def test_v1alpha3_output_is_read(text: str) -> None:
    components = (
        Component("kubelet", "v1.36.1", "v1.36.4", "cp1"),
        Component("kube-apiserver", "v1.36.1", "v1.36.4", "cp1"),
        Component("CoreDNS", "v1.12.1", "v1.12.1"),
    )
    assert upgrade_plan(text) == UpgradePlan((Upgrade("v1.36.4", SERIES, components),), (BY_HAND,))


def test_v1alpha2_output_has_an_object_for_each_upgrade() -> None:
    other = json.loads(json.dumps(PLAN_V1ALPHA2).replace("v1.36.4", "v1.37.0"))
    plan = upgrade_plan(json.dumps(PLAN_V1ALPHA2, indent=4) + "\n" + json.dumps(other, indent=4) + "\n")
    assert [(upgrade.version, upgrade.description) for upgrade in plan.upgrades] == [
        ("v1.36.4", None),
        ("v1.37.0", None),
    ]
    assert plan.upgrades[0].components[0] == Component("kubelet", "v1.36.1", "v1.36.4", count=2)
    assert plan.config_versions == (BY_HAND,)


@pytest.mark.parametrize(
    "text",
    [
        UP_TO_DATE_1_9,
        PLAN_HEAD,
        '{"kind": "UpgradePlan", "apiVersion": "output.kubeadm.k8s.io/v1alpha3"}',
        "apiVersion: output.kubeadm.k8s.io/v1alpha3\nkind: UpgradePlan\n",
    ],
)
def test_a_plan_may_contain_no_upgrade(text: str) -> None:
    assert upgrade_plan(text).upgrades == ()


ROW = "kube-scheduler            cp1       v1.36.1   v1.36.4"
BAD = {
    "empty": "",
    "an error": "error: couldn't upgrade control plane",
    "fatal": f"{PLAN_HEAD}[upgrade/versions] FATAL: no route to host\n",
    "before the versions were known": PLAN_HEAD[: PLAN_HEAD.index("[upgrade/versions] Latest")],
    "cut in a table": PLAN[: PLAN.index("kube-scheduler")],
    "cut before the table": PLAN[: PLAN.index("COMPONENT                 NODE")],
    "cut before the command": PLAN[: PLAN.index("\tkubeadm upgrade apply")],
    "another version": PLAN.replace("apply v1.36.4", "apply v1.36.5"),
    "no API server": PLAN.replace("kube-apiserver", "kube-spiserver"),
    "two API servers": PLAN.replace(ROW, "kube-apiserver            cp2       v1.36.1   v1.37.0"),
    "a row too long": PLAN.replace(ROW, "kube-scheduler   of the control plane cp1 v1.36.1   v1.36.4"),
    "a row with nothing": PLAN.replace(ROW, "kube-scheduler            cp1"),
    "a yes that is none": PLAN.replace("yes\n", "maybe\n"),
    "JSON cut": json.dumps(PLAN_V1ALPHA3)[:-4],
    "other JSON": json.dumps({**PLAN_V1ALPHA3, "kind": "Images"}),
    "no list": json.dumps({**PLAN_V1ALPHA3, "availableUpgrades": {}}),
    "no objects": json.dumps({**PLAN_V1ALPHA2, "components": ["kubelet"]}),
    "no components": json.dumps({**PLAN_V1ALPHA2, "components": []}),
    "version is a number": json.dumps({**PLAN_V1ALPHA2, "components": [{"name": "kube-apiserver", "newVersion": 1}]}),
    "configuration without a word": json.dumps({**PLAN_V1ALPHA2, "configVersions": [{"group": "a"}]}),
    "configuration without a group": json.dumps(
        {**PLAN_V1ALPHA2, "configVersions": [{"manualUpgradeRequired": False}]}
    ),
    "YAML that is odd": PLAN_YAML.replace("kind: UpgradePlan", "kind: &a UpgradePlan"),
    "YAML list": "kind:\n- UpgradePlan\n",
    "YAML cut": PLAN_YAML[: PLAN_YAML.index("kind:")],
}


@pytest.mark.parametrize("why", BAD)
def test_output_of_another_form_is_an_error(why: str) -> None:
    with pytest.raises(KubeadmTextError, match=r"^Error while reading the upgrade plan of kubeadm: "):
        upgrade_plan(BAD[why])
