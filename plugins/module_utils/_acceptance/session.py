# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole acceptance: what an earlier verification covers is kept, the rest is proven, and the result remembered."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from .._cluster import device_plugins
from .._cluster.api import Api, ApiError
from . import verdict as reports
from .network import Network
from .pods import LABELS, Settings
from .run import Run
from .target import Host, PluginLog, Target, label_problem, still_connected, still_proven, targets

_STAYS = (
    "This persists until the plugin restarts: when nvidia-smi shows that the GPU is healthy, run "
    "kubectl --namespace {namespace} delete pod {name}"
)
# Where the verification is remembered: it goes with the cluster, and any controller finds it.
_MEMORY = "/api/v1/namespaces/kube-system/configmaps/gpulab-acceptance"
# gpu-feature-discovery looks at the GPUs once a minute.
_LABELLING = 90


class Session:
    """One call of the module."""

    def __init__(self, api: Api, settings: Settings, hosts: Sequence[Host]) -> None:
        self._api = api
        self._settings = settings
        self._hosts = hosts
        self._found = self._look()
        self._earlier = self._remembered()

    def accept(self, force: bool, dry: bool) -> tuple[bool, dict[str, Any]]:
        """(whether anything was proven now, the report). A dry run says what it would do, with an empty report."""
        earlier: Mapping[str, Any] = {} if force else self._earlier
        kept = {
            target.name: {**entry, "kept": True}
            for target in self._found
            for entry in [earlier.get("hosts", {}).get(target.name)]
            if still_proven(target, entry, self._settings.image)
        }
        network = earlier.get("network")
        connected = still_connected(self._found, network)
        todo = [target for target in self._found if target.name not in kept]
        if not todo and connected:
            return False, self._whole(kept, {**dict(network or {}), "kept": True})
        if dry:
            return True, {}
        proven, fresh = self._prove(todo, [] if connected else self._found)
        report = self._whole({**kept, **proven}, {**dict(network or {}), "kept": True} if connected else fresh)
        self._remember(report)
        return True, report

    def look(self) -> dict[str, Any]:
        """The report of what is there now, without any pod: what still holds of the last one, the rest unproven."""
        hosts = {target.name: self._looked_at(target) for target in self._found}
        network = self._earlier.get("network") or {}
        return self._whole(hosts, {**network, "kept": True} if network else {})

    def _looked_at(self, target: Target) -> dict[str, Any]:
        entry, image = self._earlier.get("hosts", {}).get(target.name), self._settings.image
        # What went wrong in a verification is still to be told when nothing has changed since.
        failed = bool(entry and entry.get("problems")) and entry.get("fingerprint") == target.fingerprint(image)
        if still_proven(target, entry, image) or (failed and target.provable):
            return {**entry, "kept": True}
        return reports.unproven_entry(target, image, self._plugin_log(target), entry)

    def _prove(self, todo: Sequence[Target], nodes: Sequence[Target]) -> tuple[dict[str, Any], dict[str, Any]]:
        run = Run(self._api, self._settings)
        with run.namespace():
            run.verify([target for target in todo if target.provable], [target for target in nodes if target.ready])
            network: dict[str, Any] = {}
            if nodes:
                network = {**Network(self._api, run, self._settings.namespace).verify(), "kept": False}
            if not any(proof.trouble for proof in run.of("gpu")):
                run.until(self._labelled, _LABELLING)
            after = {target.name: target for target in self._look()}
        network["nodes"] = [after[target.name].identity for target in nodes]
        moment = _now()
        proven = {}
        for target in todo:
            # Who held a GPU at any time of the verification counts: what was in use then could not be proven.
            now = after[target.name]
            held = {name: {**pods, **now.held.get(name, {})} for name, pods in target.held.items()}
            final = replace(now, held=held)
            proofs = [proof for proof in run.proofs if proof.node == target.name]
            proven[target.name] = {
                **reports.host_entry(
                    final,
                    proofs,
                    self._settings.image,
                    self._plugin_log(final),
                    self._earlier.get("hosts", {}).get(target.name),
                ),
                "proven_at": moment,
            }
        return proven, network

    def _look(self) -> list[Target]:
        nodes, pods = self._api.items("/api/v1/nodes"), self._api.items("/api/v1/pods")
        return targets(self._hosts, nodes, pods, self._settings.namespace)

    def _labelled(self) -> bool:
        self._found = self._look()
        return not any(label_problem(target) for target in self._found if target.node)

    def _plugin_log(self, target: Target) -> PluginLog:
        """What the device plugin on a node says about GPUs that it does not offer."""
        if target.node is None or not target.lacking:
            return PluginLog()
        namespace = self._settings.plugin_namespace
        query = {"labelSelector": f"app={device_plugins.APP}", "fieldSelector": f"spec.nodeName={target.name}"}
        pods = self._api.items(f"/api/v1/namespaces/{namespace}/pods", **query)
        for pod, _daemonset in device_plugins.managed(pods, [namespace]):
            name = pod["metadata"]["name"]
            with contextlib.suppress(ApiError):
                lines = self._api.text(f"/api/v1/namespaces/{namespace}/pods/{name}/log", tailLines="200").splitlines()
                telling = [line for line in lines if "unhealthy" in line or line[:1] in ("E", "F")] or lines[-1:]
                words = " / ".join(telling[-3:])
                stays = _STAYS.format(namespace=namespace, name=name) if "unhealthy" in words else ""
                return PluginLog(words, stays)
        return PluginLog("it has no pod on this node")

    def _whole(self, hosts: Mapping[str, Any], network: Mapping[str, Any]) -> dict[str, Any]:
        # Of a verification that is kept, too, this is what is so now.
        ordered = {each.name: {**hosts[each.name], "isolated": reports.isolated(each)} for each in self._found}
        cluster = {"kubernetes_version": self._api.get("/version")["gitVersion"], "endpoint": self._api.server}
        return reports.whole(ordered, network, cluster, _now())

    def _remembered(self) -> dict[str, Any]:
        stored = self._api.find(_MEMORY)
        try:
            found = json.loads(stored["data"]["report"]) if stored else {}
        except (ValueError, KeyError, TypeError):
            # Somebody has edited it: then there is no earlier verification.
            return {}
        return found if isinstance(found, dict) else {}

    def _remember(self, report: Mapping[str, Any]) -> None:
        known = {node["metadata"]["name"] for node in self._api.items("/api/v1/nodes")}
        others = {name: entry for name, entry in self._earlier.get("hosts", {}).items() if name in known}
        network, before = report["network"], self._earlier.get("network") or {}
        if not network["problems"] and set(network["nodes"]) < set(before.get("nodes", [])):
            # A run for some hosts takes nothing from what was proven for all.
            network = before
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "gpulab-acceptance", "namespace": "kube-system", "labels": LABELS},
            "data": {"report": json.dumps({**report, "hosts": {**others, **report["hosts"]}, "network": network})},
        }
        self._api.apply(_MEMORY, body)


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
