# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Change the endpoint in the objects of a running cluster: the ConfigMaps of kubeadm and kube-proxy, and kube-proxy."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .._errors import DomainError
from .._files import difference
from .._json import as_mapping, as_mappings, as_text
from .._words import listing
from .endpoint_text import with_endpoint
from .probe import Answer, Api, ApiConflictError, ApiRefusedError, ApiSilentError
from .run import EXCEPTIONS, PROXIES

_MAPS = "/api/v1/namespaces/{}/configmaps/{}"
_PROXY = ("kube-system", "kube-proxy", "kubeconfig.conf")
# kubeadm-config is last: with it, the cluster has the new endpoint for later runs.
_INFO = (("kube-public", "cluster-info", "kubeconfig"), ("kube-system", "kubeadm-config", "ClusterConfiguration"))
_DAEMONSET = "/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy"
_ANNOTATION = "gpulab.io/api-endpoint"
_PAUSE_S = 1.0
_ROLLOUT_S = 300.0
_Edit = Callable[[Any], Any]


class ClusterEndpoint:
    """Changes the objects. ``nodes`` are the names of the nodes that know the new endpoint."""

    def __init__(self, api: Api, new: str, former: list[str], nodes: Sequence[str], timeout: float) -> None:
        self._api, self._new, self._former = api, new, former
        self._nodes, self._timeout = nodes, timeout
        self.changes: list[str] = []
        self.diff: list[dict[str, str]] = []

    def check(self) -> None:
        """Raise DomainError if a node would not find the new endpoint, or an object can't be changed."""
        problem = nodes_problem(self._get("/api/v1/nodes").items(), self._nodes)
        if problem:
            raise DomainError(f"Error while changing the endpoint in the cluster: {problem}")
        for place in (_PROXY, *_INFO):
            found = self._get(_MAPS.format(*place[:2]))
            # A cluster may have another service proxy.
            if found.status != 404:
                self._texts(place, found.body)

    def ensure(self, wait: bool) -> None:
        """Change what differs. With ``wait``, wait for the pods of kube-proxy. Raise DomainError."""
        self.check()
        self._config_map(_PROXY)
        if self._edit(_DAEMONSET, self._with_restart):
            self.changes.append("DaemonSet kube-proxy in kube-system: restarted; connections continue")
        if wait:
            await_rollout(lambda: as_mapping(self._get(_DAEMONSET).body), max(self._timeout, _ROLLOUT_S))
        for place in _INFO:
            self._config_map(place)

    def _texts(self, place: Sequence[str], body: Any) -> tuple[str, str]:
        """Return the text in a ConfigMap, and the text that it must have."""
        namespace, name, key = place
        text = as_text(as_mapping(as_mapping(body).get("data")).get(key))
        try:
            return text, with_endpoint(text, self._new, self._former)
        except DomainError as error:
            raise DomainError(
                f"Error while changing the endpoint in the ConfigMap {name} in {namespace}: {error}. Change it there "
                f"(kubectl -n {namespace} edit configmap {name}), and run this again."
            ) from None

    def _config_map(self, place: Sequence[str]) -> None:
        namespace, name, key = place
        path = _MAPS.format(namespace, name)
        texts: tuple[str, str] = ("", "")

        def edit(body: Any) -> Any:
            nonlocal texts
            texts = self._texts(place, body)
            return {**body, "data": {**body["data"], key: texts[1]}}

        if self._edit(path, edit):
            self.changes.append(f"ConfigMap {name} in {namespace}: the endpoint is {self._new}")
            # The rest of the text may contain secrets, such as in extraEnvs.
            before, after = (text.splitlines(keepends=True) for text in texts)
            lines = [
                "".join(line for line in one if line not in other) for one, other in ((before, after), (after, before))
            ]
            self.diff.append(difference(Path(path), *lines))

    def _with_restart(self, daemonset: Any) -> Any:
        """Let kube-proxy read its kubeconfig again, and reach the new endpoint without a proxy."""
        body = copy.deepcopy(daemonset)
        template = body["spec"]["template"]
        template.setdefault("metadata", {}).setdefault("annotations", {})[_ANNOTATION] = self._new
        host = self._new.rpartition(":")[0]
        for container in as_mapping(template.get("spec")).get("containers") or ():
            _exempt(container.get("env") or [], host)
        return body

    def _edit(self, path: str, edit: _Edit) -> bool:
        """Change an object, which others may change meanwhile. Return whether it was changed, or would be."""
        deadline, sent = time.monotonic() + self._timeout, False
        while True:
            try:
                found = self._api.get(path)
                body = found.body if found.status == 404 else edit(found.body)
                if body == found.body:
                    return sent
                sent = True
                self._api.send("PUT", path, body)
                return True
            except (ApiConflictError, ApiSilentError) as error:
                self._wait(deadline, error, path)
            except ApiRefusedError as error:
                raise _failure(error, path) from error

    def _get(self, path: str) -> Answer:
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return self._api.get(path)
            except ApiSilentError as error:
                self._wait(deadline, error, path)
            except ApiRefusedError as error:
                raise _failure(error, path) from error

    @staticmethod
    def _wait(deadline: float, error: DomainError, path: str) -> None:
        if time.monotonic() >= deadline:
            raise _failure(error, path) from error
        time.sleep(_PAUSE_S)


def _exempt(environment: list[dict[str, Any]], host: str) -> None:
    """Let a container reach a host without a proxy. kubeadm init copies the proxy variables of its own environment."""
    given = {as_text(each.get("name")): each for each in environment}
    proxies, exceptions = ([given[name] for name in names if name in given] for names in (PROXIES, EXCEPTIONS))
    # A variable that is read from another object has valueFrom.
    if not any(each.get("value") or each.get("valueFrom") for each in proxies):
        return
    if not exceptions:
        environment.append({"name": EXCEPTIONS[0], "value": host})
    for variable in exceptions:
        value = as_text(variable.get("value"))
        if "valueFrom" not in variable and host not in value.replace(" ", "").split(","):
            variable["value"] = f"{value},{host}" if value else host


def _failure(error: DomainError, path: str) -> DomainError:
    return DomainError(f"Error while changing the endpoint in the cluster: {error} ({path}). Run this again.")


def nodes_problem(nodes: Sequence[Any], known: Sequence[str]) -> str:
    """Return why kube-proxy on a node would not find the new endpoint, as sentences, empty if each will."""
    ready = {as_text(as_mapping(as_mapping(node).get("metadata")).get("name")): _is_ready(node) for node in nodes}
    unknown = sorted(set(ready) - set(known))
    if unknown:
        return (
            f"these nodes have no host in the inventory, and would not know the name: {listing(unknown)}. Add the "
            "hosts, or remove the nodes (kubectl delete node), and run this again."
        )
    unready = sorted(name for name, is_ready in ready.items() if not is_ready)
    if unready:
        return f"these nodes are not ready: {listing(unready)}. Repair or remove them, and run this again."
    return ""


def _is_ready(node: Any) -> bool:
    conditions = as_mappings(as_mapping(as_mapping(node).get("status")).get("conditions"))
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def await_rollout(read: Callable[[], Mapping[str, Any]], limit: float) -> None:
    """Wait until all pods of a DaemonSet are new, or raise DomainError if none has become new for ``limit`` seconds."""
    deadline, most = time.monotonic() + limit, 0
    while True:
        daemonset = read()
        missing = rollout_missing(daemonset) if daemonset.get("metadata") else ""
        if not missing:
            return
        if _new_pods(daemonset) > most:
            deadline, most = time.monotonic() + limit, _new_pods(daemonset)
        if time.monotonic() >= deadline:
            raise DomainError(
                f"Error while restarting kube-proxy with its new endpoint: {missing}. See kubectl -n kube-system "
                "get pods -l k8s-app=kube-proxy -o wide, and run this again; the former endpoint is still valid."
            )
        time.sleep(_PAUSE_S)


def rollout_missing(daemonset: Mapping[str, Any]) -> str:
    """Return what a DaemonSet's rollout lacks, empty if all its pods are of the current template and available."""
    status, metadata = as_mapping(daemonset.get("status")), as_mapping(daemonset.get("metadata"))
    wanted = _number(status.get("desiredNumberScheduled"))
    if _number(status.get("observedGeneration")) < _number(metadata.get("generation")):
        return "its controller has not seen the change yet"
    ready = min(_new_pods(daemonset), _number(status.get("numberAvailable")))
    return "" if ready >= wanted else f"{ready} of {wanted} nodes have a new pod"


def _new_pods(daemonset: Mapping[str, Any]) -> int:
    return _number(as_mapping(daemonset.get("status")).get("updatedNumberScheduled"))


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
