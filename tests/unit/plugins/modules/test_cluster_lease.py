# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import shlex
import socket
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.kubeconfig import read_kubeconfig
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.lease import read
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.probe import Api, ApiBusyError
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.undo import RENEWAL, Undo
from apiserver import ApiServer, Authority
from hypothesis import given
from hypothesis import strategies as st

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
LEASE = f"{LEASES}/gpulab-kubernetes"
ME, OTHER = "alice@laptop", "bob@desk"


class Cluster:
    """A cluster whose API stores the lease, like a real one."""

    def __init__(self, root: Path, run: Any, api: ApiServer) -> None:
        self.root, self._run, self.api = root, run, api
        self.version = 1
        api.after_write = self._keep

    def run(self, check: bool = False, **changes: Any) -> dict[str, Any]:
        result: dict[str, Any] = self._run(
            "cluster_lease", {"holder": ME, "root": str(self.root), "patience": 0, **changes}, check=check
        )
        return result

    def held_by(self, holder: str, ago: float = 0, duration: Any = 900) -> None:
        time = (datetime.now(timezone.utc) - timedelta(seconds=ago)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": holder, "leaseDurationSeconds": duration, "acquireTime": time, "renewTime": time}
        metadata = {"resourceVersion": "7", "annotations": {"gpulab.io/purpose": "Change the driver"}}
        self.api.answers[LEASE] = (200, {"metadata": metadata, "spec": spec})

    @property
    def lease(self) -> dict[str, Any] | None:
        return self.api.answers[LEASE][1]["spec"] if LEASE in self.api.answers else None

    def _keep(self, method: str, path: str, body: Any) -> None:
        if method == "DELETE":
            self.api.answers.pop(LEASE, None)
        else:
            self.version += 1
            self.api.answers[LEASE] = (
                200,
                {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}},
            )


@pytest.fixture
def cluster(tmp_path: Path, run_module: Any, api: ApiServer, authority: Authority) -> Cluster:
    root = tmp_path / "root"
    (root / "etc/kubernetes").mkdir(parents=True)
    (root / "etc/kubernetes/admin.conf").write_text(authority.kubeconfig(api.url))
    return Cluster(root, run_module, api)


def test_the_lease_is_taken_renewed_and_released(cluster: Cluster) -> None:
    first = cluster.run(purpose="Make the cluster")
    assert (first["changed"], first["held"], first["taken_from"]) == (True, True, "")
    taken = cluster.lease
    assert taken and taken["holderIdentity"] == ME and taken["leaseDurationSeconds"] == 120
    second = cluster.run()
    assert (second["changed"], second["held"]) == (False, True)
    renewed = cluster.lease
    assert renewed and renewed["acquireTime"] == taken["acquireTime"] and renewed["renewTime"] > taken["renewTime"]
    assert [method for method, _path, _body in cluster.api.written] == ["POST", "PUT"]
    assert cluster.run(state="released")["changed"] and cluster.lease is None
    assert cluster.api.written[-1][2]["preconditions"] == {"resourceVersion": "3"}
    assert not cluster.run(state="released")["changed"]


@pytest.mark.parametrize("check", [False, True])
def test_the_lease_of_another_holder_is_refused_with_all_known_facts(cluster: Cluster, check: bool) -> None:
    cluster.held_by(OTHER, ago=60)
    result = cluster.run(check)
    assert result["failed"] and cluster.api.written == []
    for words in (OTHER, "Change the driver", "UTC", f'{{"cluster_lease_break": "{OTHER}"}}'):
        assert words in result["msg"]
    # The lease of another holder is not released, either.
    assert not cluster.run(state="released")["changed"] and cluster.api.written == []


@pytest.mark.parametrize(
    ("holder", "ago", "options", "taken_from"),
    [
        (OTHER, 901, {}, OTHER),
        (OTHER, 10, {"break_holder": OTHER}, OTHER),
        (ME, 10, {}, ""),
        ("", 10, {}, ""),
    ],
)
def test_an_expired_a_broken_and_an_unused_lease_can_be_taken(
    cluster: Cluster, holder: str, ago: float, options: dict[str, Any], taken_from: str
) -> None:
    cluster.held_by(holder, ago)
    result = cluster.run(**options)
    assert (result["held"], result["taken_from"]) == (True, taken_from)
    assert cluster.api.written[-1][2]["metadata"]["resourceVersion"] == "7"


def test_only_the_lease_of_the_named_holder_is_broken(cluster: Cluster) -> None:
    cluster.held_by("carol@desk")
    assert cluster.run(break_holder=OTHER)["failed"]


def test_one_of_two_simultaneous_runs_is_refused(cluster: Cluster) -> None:
    def meanwhile(method: str, path: str, body: Any) -> None:
        cluster.held_by(OTHER)

    cluster.api.answers[f"POST {LEASES}"] = (409, {"message": "exists"})
    cluster.api.after_write = meanwhile
    result = cluster.run()
    assert result["failed"] and OTHER in result["msg"]


def test_check_mode_writes_nothing(cluster: Cluster) -> None:
    result = cluster.run(check=True)
    assert (result["changed"], result["held"]) == (True, False) and cluster.api.written == []


def test_without_a_cluster_there_is_no_lease_to_take(cluster: Cluster) -> None:
    (cluster.root / "etc/kubernetes/admin.conf").unlink()
    assert (cluster.run()["held"], cluster.api.asked) == (False, [])


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_an_api_that_refuses_the_request_is_an_error(cluster: Cluster, status: int) -> None:
    cluster.api.answers[LEASE] = (status, {"message": "etcd is down"})
    result = cluster.run()
    assert result["failed"] and "etcd is down" in result["msg"] and "another run could change" in result["msg"]
    # A lease that can't be released expires by itself.
    result = cluster.run(state="released")
    assert not result["failed"] and "etcd is down" in str(result["warnings"])


@pytest.mark.parametrize(("status", "held"), [(401, False), (403, False), (503, None), (200, True)])
def test_an_incomplete_init_continues_without_the_lease(cluster: Cluster, status: int, held: bool | None) -> None:
    """kubeadm gives the administrator permissions only after the API server has started."""
    record = cluster.root / "var/lib/gpulab/kubeadm-init.json"
    record.parent.mkdir(parents=True)
    record.write_text("{}")
    if status != 200:
        cluster.api.answers[LEASE] = (status, {"message": "forbidden"})
    result = cluster.run()
    assert result["failed"] == (held is None)
    assert held is None or (result["held"], result["api_silent"]) == (held, not held)


def test_a_slow_server_counts_as_running(api: ApiServer, authority: Authority, tmp_path: Path) -> None:
    client = Api(read_kubeconfig(authority.kubeconfig(api.url)), str(tmp_path), timeout=0.2)
    api.before_answer = lambda: time.sleep(0.5)
    with pytest.raises(ApiBusyError, match="does not answer"):
        client.get(LEASE)


def test_a_server_without_a_tls_handshake_counts_as_running(authority: Authority, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = f"https://127.0.0.1:{listening.getsockname()[1]}"
        client = Api(read_kubeconfig(authority.kubeconfig(server)), str(tmp_path), timeout=0.2)
        with pytest.raises(ApiBusyError, match="does not answer"):
            client.get(LEASE)


@pytest.mark.parametrize(("status", "ready"), [(503, 200), (403, 403), (403, 500)])
def test_an_api_that_recovers_is_waited_for(cluster: Cluster, status: int, ready: int) -> None:
    cluster.api.answers |= {LEASE: (status, {"message": "not yet"}), "/readyz": (ready, "")}

    def recover() -> None:
        if len(cluster.api.asked) > 3:
            cluster.api.answers.pop(LEASE, None)
            cluster.api.before_answer = lambda: None

    cluster.api.before_answer = recover
    assert cluster.run(patience=30)["held"] and cluster.lease


def test_a_release_waits_for_an_api_that_recovers(cluster: Cluster) -> None:
    assert cluster.run()["held"]
    there, asked = cluster.api.answers[LEASE], len(cluster.api.asked)
    cluster.api.answers[LEASE] = (503, {"message": "not yet"})

    def recover() -> None:
        if len(cluster.api.asked) > asked + 1 and cluster.api.answers.get(LEASE, there) != there:
            cluster.api.answers[LEASE] = there

    cluster.api.before_answer = recover
    assert cluster.run(state="released", patience=30)["changed"]
    assert cluster.lease is None


@pytest.mark.parametrize(("local", "held"), [("gone", False), ("api", True), ("cut off", False), (None, False)])
def test_only_an_api_that_is_unreachable_at_all_addresses_is_a_warning(
    cluster: Cluster, authority: Authority, local: str | None, held: bool
) -> None:
    """For example, the load balancer in front of it may be down."""
    gone = authority.kubeconfig("https://127.0.0.1:1")
    conf = cluster.root / "etc/kubernetes"
    (conf / "admin.conf").write_text(gone)
    if local:
        texts = {"gone": gone, "api": authority.kubeconfig(cluster.api.url), "cut off": "clusters:"}
        (conf / "controller-manager.conf").write_text(texts[local])
    result = cluster.run()
    assert (result["failed"], result["held"], result["api_silent"]) == (False, held, not held)
    assert held or "another run could change" in str(result["warnings"])


@pytest.mark.parametrize("interrupted", [True, False])
def test_a_kubeconfig_that_an_interrupted_renewal_has_emptied_is_explained(cluster: Cluster, interrupted: bool) -> None:
    if interrupted:
        Undo(str(cluster.root)).begin(["/etc/kubernetes/admin.conf"], RENEWAL)
    (cluster.root / "etc/kubernetes/admin.conf").write_text("")
    result = cluster.run()
    assert result["failed"]
    assert ("run gpulab.kubernetes.renew_certificates first" in result["msg"]) == interrupted


def test_a_kubeconfig_that_runs_a_program_is_refused(cluster: Cluster) -> None:
    path = cluster.root / "etc/kubernetes/admin.conf"
    path.write_text(path.read_text().partition("    client-certificate-data")[0] + "    exec:\n      command: touch\n")
    result = cluster.run()
    assert result["failed"] and "admin.conf: it has exec, which would run a program" in result["msg"]
    assert cluster.api.asked == []


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.sampled_from(["spec", "metadata", "renewTime", "annotations", "holderIdentity"]), inner)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["spec", "metadata", "kind"]), _JSON))
def test_any_response_is_read(body: dict[str, Any]) -> None:
    assert read(body) is None or body["spec"]


@pytest.mark.parametrize(
    ("renewed", "duration"),
    [("2026-11-23T22:40:00Z", "900"), ("9999-12-31T23:59:59Z", 900), ("soon", 900), (None, 900), (1e300, 900)],
)
def test_a_lease_without_an_end_counts_as_unused(renewed: Any, duration: Any) -> None:
    spec = {"holderIdentity": OTHER, "renewTime": renewed, "leaseDurationSeconds": duration}
    assert read({"metadata": {}, "spec": spec}) is None


@pytest.mark.parametrize("time", ["2026-11-23T22:40:00Z", "2026-11-23T22:40:00.5Z", "2026-11-23T22:40:00.123456789Z"])
def test_times_of_any_precision_are_read(time: str) -> None:
    lease = read({"metadata": {}, "spec": {"holderIdentity": OTHER, "renewTime": time, "leaseDurationSeconds": 60}})
    assert lease and lease.until.replace(microsecond=0) == datetime(2026, 11, 23, 22, 41, tzinfo=timezone.utc)


@pytest.mark.parametrize(("context", "held"), [("minikube", True), ("other", False), ("", False)])
def test_the_cluster_is_that_of_the_given_context(
    cluster: Cluster, authority: Authority, context: str, held: bool
) -> None:
    """The kubeconfig of minikube's user may have other clusters and another current context."""
    path = cluster.root / "home/ada/.kube/config"
    path.parent.mkdir(parents=True)
    text = authority.kubeconfig(cluster.api.url).replace("  name: somebody@kubernetes", "  name: minikube")
    entry = "- context:\n    cluster: gone\n    user: gone\n  name: other\n"
    two = "- cluster:\n    server: https://127.0.0.1:1\n  name: gone\n"
    text = text.replace("contexts:\n", f"contexts:\n{entry}").replace("clusters:\n", f"clusters:\n{two}")
    path.write_text(text.replace("current-context: somebody@kubernetes", "current-context: other"))
    result = cluster.run(kubeconfig="/home/ada/.kube/config", context=context)
    assert (result.get("held", False), cluster.lease is not None) == (held, held)
    # Without that kubeconfig, the host's own cluster is not used.
    path.unlink()
    assert not cluster.run(kubeconfig="/home/ada/.kube/config", context=context)["held"]


@pytest.mark.parametrize(
    "holder",
    [
        "bob {{ lookup('pipe', 'reboot') }}",
        "{% raw %}",
        "bob $(reboot)",
        "bob`reboot`",
        '"bob"',
        "bob\nError while",
        "\x1b[2J",
        "b" * 5000,
    ],
)
def test_an_unprintable_or_overlong_holder_is_not_part_of_a_command(cluster: Cluster, holder: str) -> None:
    cluster.held_by(holder)
    words = cluster.run()["msg"]
    assert "cluster_lease_break" not in words and "kubectl --namespace kube-system delete lease" in words
    assert words.isprintable() and len(words) < 1000


def test_a_command_quotes_the_holder_for_the_shell(cluster: Cluster) -> None:
    cluster.held_by("o'brien@desk (run 4711)")
    words = cluster.run()["msg"]
    assert shlex.split(words.partition(" -e ")[2])[0] == '{"cluster_lease_break": "o\'brien@desk (run 4711)"}'
