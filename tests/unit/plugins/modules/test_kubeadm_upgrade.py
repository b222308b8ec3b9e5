# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apiserver import ApiServer, Authority, kubeconfig
from control_plane_host import COMPONENTS, ControlPlaneHost, healthy_port
from control_plane_host import KUBEADM as RENEWALS

# Replaces one manifest after the other, etcd first, as kubeadm does. At the point that the file "stop" names, it has
# moved a manifest away and not written the new one. The component in the file "break" does not start.
KUBEADM = """
import json, pathlib, sys, time
root = pathlib.Path({root!r})
words = sys.argv[1:]
with (root / "log").open("a") as log:
    log.write(" ".join(["kubeadm", *(words[:words.index("--config")] if "--config" in words else words)]) + "\\n")
etcd = (root / "etcd-tag").read_text()
if words[0] == "version":
    sys.exit(print((root / "kubeadm-version").read_text()))
text = pathlib.Path(words[words.index("--config") + 1]).read_text()
if words[:3] == ["config", "images", "list"]:
    sys.exit(print(f"registry.example/kube-proxy:v1.37.2\\nregistry.example/etcd:{etcd}"))
(root / "configuration").write_text(text)
for component in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"):
    path = root / f"etc/kubernetes/manifests/{component}.yaml"
    if not path.exists():
        continue
    new = path.read_text().replace(f"{component}:v1.36.5", f"{component}:{etcd if component == 'etcd' else 'v1.37.2'}")
    stop = root / "stop"
    if stop.exists() and stop.read_text() == component:
        path.unlink()
        (root / "stopped").touch()
        while stop.exists():
            time.sleep(0.05)
    broken = root / "break"
    if broken.exists() and broken.read_text() == component:
        path.write_text(new.replace("    - --", "    - --broken\\n    - --", 1))
        sys.exit("error: could not upgrade " + component)
    if new != path.read_text():
        path.write_text(new)
(root / "var/lib/kubelet/config.yaml").write_text("new\\n")
if (root / "break").exists():
    sys.exit("error: " + (root / "break").read_text())
"""
CONFIGURATION = {
    "apiVersion": "kubeadm.k8s.io/v1beta4",
    "kind": "UpgradeConfiguration",
    "apply": {"patches": {"directory": "/etc/kubernetes/patches"}},
    "node": {"patches": {"directory": "/etc/kubernetes/patches"}},
}


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with healthy_port() as found:
        yield found


class UpgradeHost(ControlPlaneHost):  # type: ignore[misc]
    def prepare(self) -> None:
        self.install()
        self.prepare_kubeadm()
        (self.root / "kubeadm-version").write_text("v1.37.2\n")
        (self.root / "etcd-tag").write_text("v1.36.6")
        self.kubelet = self.root / "var/lib/kubelet/config.yaml"
        self.kubelet.parent.mkdir(parents=True)
        self.kubelet.write_text("old\n")

    def prepare_kubeadm(self) -> None:
        self.programs.python("kubeadm", KUBEADM.replace("{root!r}", repr(str(self.root))))

    def options(self, **changes: Any) -> dict[str, Any]:
        given = {
            "root": str(self.root),
            "version": "1.37.2",
            "action": "apply",
            "etcd": "v1.36.6",
            "health_timeout": 15,
        }
        return {**given, "configuration": CONFIGURATION, "timeout": 60, **changes}

    def upgrade(self, check: bool = False, **changes: Any) -> dict[str, Any]:
        result: dict[str, Any] = self._run("kubeadm_upgrade", self.options(**changes), check=check)
        return result

    def kill(self, component: str, **changes: Any) -> None:
        self._interrupt("kubeadm_upgrade", self.options(**changes), self.kubeadm, component, True)

    @property
    def calls(self) -> list[str]:
        return [line for line in self.log if line.startswith("kubeadm upgrade")]


@pytest.fixture
def host(
    tmp_path: Path, programs: Any, run_module: Any, api: ApiServer, authority: Authority, port: int
) -> UpgradeHost:
    made = UpgradeHost(tmp_path / "host", programs, run_module, api, authority, port)
    made.prepare()
    return made


def test_the_first_control_plane_applies_the_version(host: UpgradeHost) -> None:
    changes = [f"{name}: v1.36.5 -> {'v1.36.6' if name == 'etcd' else 'v1.37.2'}" for name in COMPONENTS]
    preview = host.upgrade(check=True)
    assert (preview["changed"], preview["changes"], host.log) == (True, changes, [])
    result = host.upgrade()
    assert (result["changed"], result["action"], result["changes"]) == (True, "apply", changes)
    assert host.calls == ["kubeadm upgrade apply --yes"]
    assert set(host.started) == set(COMPONENTS)
    given = json.loads((host.root / "configuration").read_text().removeprefix("---\n"))
    assert given["apply"] == {"patches": {"directory": "/etc/kubernetes/patches"}, "kubernetesVersion": "v1.37.2"}
    assert not host.record.exists()


def test_the_others_follow_once(host: UpgradeHost) -> None:
    assert host.upgrade(action="node")["action"] == "node"
    given = json.loads((host.root / "configuration").read_text().removeprefix("---\n"))
    assert given["node"] == CONFIGURATION["node"]
    again = host.upgrade(action="node")
    assert (again["changed"], host.calls) == (False, ["kubeadm upgrade node"])


def test_a_worker_gets_the_configuration_of_its_kubelet(host: UpgradeHost) -> None:
    for path in host.manifests.iterdir():
        path.unlink()
    assert host.upgrade(check=True, action="node")["changed"]
    assert host.upgrade(action="node")["changed"]
    assert host.kubelet.read_text() == "new\n"
    assert not host.upgrade(action="node")["changed"]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("kubeadm-version", "v1.36.5\n", "kubeadm is v1.36.5. Install its package of this version first"),
        ("etcd-tag", "v1.37.0", "kubeadm would install etcd v1.37.0, and not v1.36.6"),
        ("members-down", "cp1", "etcd has no quorum"),
    ],
)
def test_nothing_changes_if_a_condition_is_not_met(host: UpgradeHost, name: str, text: str, words: str) -> None:
    (host.root / name).write_text(text)
    result = host.upgrade()
    assert result["failed"] and words in result["msg"]
    assert (host.calls, host.record.exists()) == ([], False)


@pytest.mark.parametrize("component", ["etcd", "kube-scheduler"])
def test_the_files_from_before_are_restored_if_a_component_does_not_start(host: UpgradeHost, component: str) -> None:
    before = {name: host.manifest(name) for name in COMPONENTS}
    (host.root / "break").write_text(component)
    result = host.upgrade()
    assert result["failed"] and result["undone"]
    assert f"could not upgrade {component}" in result["msg"]
    assert "The files from before are in place again, and the control plane is healthy." in result["msg"]
    assert {name: host.manifest(name) for name in COMPONENTS} == before
    assert (host.kubelet.read_text(), host.record.exists()) == ("old\n", False)
    (host.root / "break").unlink()
    assert not host.upgrade()["failed"]


def test_a_new_minor_of_etcd_is_undone_only_by_a_restore(host: UpgradeHost) -> None:
    (host.root / "etcd-tag").write_text("v1.37.0")
    (host.root / "break").write_text("kube-apiserver")
    result = host.upgrade(etcd="v1.37.0")
    assert "etcd may have written with its new minor already" in result["msg"]
    assert "restore the backup that was taken before the upgrade (gpulab.kubernetes.restore" in result["msg"]
    assert "etcd:v1.37.0" in host.manifest("etcd")
    assert host.record.exists()


def test_what_fails_after_the_components_is_repeated(host: UpgradeHost) -> None:
    """The cluster has the new version already, so nothing is undone."""
    (host.root / "break").write_text("addons")
    result = host.upgrade()
    assert "All its components are healthy, and have the new version." in result["msg"]
    assert "v1.37.2" in host.manifest()
    (host.root / "break").unlink()
    result = host.upgrade(action="node")
    assert (result["interrupted"], result["action"], host.record.exists()) == (True, "apply", False)


@pytest.mark.parametrize("component", COMPONENTS)
def test_an_upgrade_that_was_killed_between_two_renames_continues(host: UpgradeHost, component: str) -> None:
    host.kill(component)
    path = host.manifests / f"{component}.yaml"
    assert not path.exists()
    repaired = host.upgrade(action="repair")
    assert not repaired["failed"], repaired["msg"]
    assert (repaired["changed"], repaired["changes"]) == (
        True,
        [f"restored /etc/kubernetes/manifests/{component}.yaml"],
    )
    # etcd may have written already what its former version can't read.
    assert ("v1.36.6" if component == "etcd" else "v1.36.5") in path.read_text()
    assert not host.upgrade(action="repair")["changed"]
    result = host.upgrade(action="node")
    assert (result["interrupted"], result["action"]) == (True, "apply")
    assert (host.upgrade(action="node")["changed"], host.record.exists()) == (False, False)


@pytest.mark.parametrize("etcd", ["v1.36.6", "v1.37.0"])
@pytest.mark.parametrize("state", ["changing", "undoing"])
def test_an_api_server_that_does_not_start_is_replaced_by_the_former_one(
    host: UpgradeHost, etcd: str, state: str
) -> None:
    """The plan needs the API. The new etcd stays if it has another minor."""
    before = {name: host.manifest(name) for name in COMPONENTS}
    (host.root / "etcd-tag").write_text(etcd)
    host.kill("kube-controller-manager", etcd=etcd)
    (host.manifests / "kube-controller-manager.yaml").write_text(before["kube-controller-manager"])
    assert not host.upgrade(action="repair")["changed"]
    host.edit("kube-apiserver", "--broken")
    host.record.write_text(host.record.read_text().replace('"changing"', f'"{state}"'))
    host.api.answers["/healthz"] = (500, {"message": "no"})
    preview = host.upgrade(action="repair", check=True)
    assert preview["changed"] and "--broken" in host.manifest()
    host.api.answers["/healthz"] = (200, "ok")
    repaired = host.upgrade(action="repair", health_timeout=5)
    assert (repaired["changed"], repaired["changes"]) == (preview["changed"], preview["changes"]), repaired
    if etcd == "v1.36.6":
        assert {name: host.manifest(name) for name in COMPONENTS} == before
        assert not host.record.exists()
    else:
        assert (host.manifest(), etcd in host.manifest("etcd")) == (before["kube-apiserver"], True)
    assert not host.upgrade(action="node", etcd=etcd)["failed"]
    assert not host.record.exists()


def test_a_repair_that_does_not_help_says_what_is_in_place(host: UpgradeHost) -> None:
    host.kill("kube-controller-manager")
    (host.manifests / "kube-controller-manager.yaml").write_text("")
    host.api.answers["/healthz"] = (500, {"message": "no"})
    lost = host.upgrade(action="repair", health_timeout=1)["msg"]
    assert "files that its interruption had lost were restored, but kube-apiserver is not healthy" in lost
    (host.root / "broken").write_text("etcd")
    without = host.upgrade(action="repair", health_timeout=1)["msg"]
    assert "the control plane did not become healthy with the files from before: etcd is not" in without
    for message in (lost, without):
        assert "run gpulab.kubernetes.upgrade_cluster again" in message


def test_a_repair_undoes_nothing_while_etcd_lacks_its_quorum(host: UpgradeHost) -> None:
    host.kill("kube-controller-manager")
    name = "manifests/kube-controller-manager.yaml"
    (host.etc / name).write_text(host.copy(name).read_text())
    host.api.answers["/healthz"] = (500, {"message": "no"})
    path = host.manifests / "etcd.yaml"
    path.write_text(path.read_text().replace("containerPort: ", "containerPort: 1"))
    result = host.upgrade(action="repair", health_timeout=1)
    assert "etcd runs, but is not healthy" in result["msg"] and "Nothing was changed" in result["msg"]
    assert '"changing"' in host.record.read_text()


def test_a_component_that_does_not_change_keeps_its_container(host: UpgradeHost) -> None:
    """A manifest that was written again with the same text is newer than its container."""
    (host.root / "etcd-tag").write_text("v1.36.5")
    (host.manifests / "etcd.yaml").touch()
    result = host.upgrade(etcd="v1.36.5")
    assert (result["failed"], host.started) == (False, [name for name in COMPONENTS if name != "etcd"])


def renews(host: UpgradeHost) -> None:
    """Let kubeadm renew certificates."""
    host.programs.python("kubeadm", RENEWALS.replace("{root!r}", repr(str(host.root))))
    for name in ("pki/apiserver.crt", "admin.conf"):
        (host.root / "seed/renewed" / Path(name).name).write_text((host.etc / name).read_text())


@pytest.mark.parametrize("name", ["pki/apiserver.crt", "admin.conf"])
def test_expired_certificates_are_renewed_although_an_upgrade_was_interrupted(host: UpgradeHost, name: str) -> None:
    (host.root / "etcd-tag").write_text("v1.37.0")
    host.kill("kube-scheduler", etcd="v1.37.0")
    manifests = {name: host.manifest(name) for name in COMPONENTS if name != "kube-scheduler"}
    (host.manifests / "kube-scheduler.yaml").write_text(host.copy("manifests/kube-scheduler.yaml").read_text())
    record, valid = host.record.read_text(), (host.etc / name).read_text()
    renews(host)
    pair = host.authority.issue("kubernetes-admin", days=-1)
    expired = pair[0] if name.endswith(".crt") else kubeconfig(host.api.url, host.authority.pem, *pair)
    for path in (host.etc / name, host.copy(name)):
        path.write_text(expired)
    refused = host.upgrade(action="repair", health_timeout=1)["msg"]
    assert f"{name}). Run gpulab.kubernetes.renew_certificates first" in refused
    result = host.run(certificates="expired", compare=False)
    assert result["changed"], result
    assert (host.etc / name).read_text() == valid
    assert {name: host.manifest(name) for name in manifests} == manifests
    assert not host.run(verify=True, compare=False)["failed"]
    assert json.loads(host.record.read_text()) == json.loads(record)
    host.prepare_kubeadm()
    # An undo does not return to the certificates that have expired.
    host.record.write_text(record.replace('"changing"', '"undoing"'))
    assert host.upgrade(action="repair")["changed"]
    assert (host.etc / name).read_text() == valid
    assert host.upgrade(action="node", etcd="v1.37.0")["action"] == "apply"
    assert not host.record.exists()


def test_certificates_that_have_expired_among_the_copies_alone_are_no_reason_to_renew(host: UpgradeHost) -> None:
    host.kill("kube-scheduler")
    host.copy("pki/apiserver.crt").write_text(host.authority.issue("kubernetes", days=-1)[0])
    renews(host)
    assert not host.run(certificates="expired", compare=False)["changed"]


def test_other_changes_wait_until_the_upgrade_is_complete(host: UpgradeHost) -> None:
    host.kill("kube-scheduler")
    assert "its upgrade was interrupted. Complete it first" in host.run()["msg"]


def test_only_the_newest_copies_of_kubeadm_stay(host: UpgradeHost) -> None:
    names = ["kubeadm-backup-etcd-2026-01-01-10-00-00", "kubeadm-backup-etcd-2026-06-01-10-00-00"]
    names += ["kubeadm-backup-manifests-2026-01-01-10-00-00", "kubeadm-kubelet-config1234", "kubeadm-kubelet-config99"]
    for name in names:
        (host.etc / "tmp" / name).mkdir(parents=True)
    host.upgrade(action="node", check=True)
    assert {path.name for path in (host.etc / "tmp").iterdir()} == {*names}
    host.upgrade(action="node")
    left = sorted(path.name.rstrip("-0123456789") for path in (host.etc / "tmp").iterdir())
    assert left == ["kubeadm-backup-etcd", "kubeadm-backup-manifests", "kubeadm-kubelet-config"]
