# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A complete acceptance: keep valid earlier verifications, verify the rest, and store the result."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from .._cluster import device_plugins, objects
from .._cluster.api import Api, ApiError
from .._cluster.dra import read_claims
from .._cluster.watching import Watch
from .._training.judge import free_gpus
from . import verdict as reports
from .memory import Memory
from .network import Network
from .pods import Settings
from .problems import find_remedy
from .run import Run
from .target import (
    SILENT,
    Host,
    PluginLog,
    Target,
    known_gpus,
    label_problem,
    still_connected,
    still_proven,
    targets,
)

_STAYS = (
    "This persists until the plugin restarts: when nvidia-smi shows that the GPU is healthy, run "
    "`kubectl --namespace {namespace} delete pod {name}`"
)
# gpu-feature-discovery reads the GPUs once a minute.
_LABELLING = 90


class Session:
    """One call of the module."""

    def __init__(self, api: Api, settings: Settings, hosts: Sequence[Host]) -> None:
        self._api = api
        self._settings = settings
        self._hosts = hosts
        self._nodes: list[dict[str, Any]] = []
        # From the last look at the cluster.
        self.free_gpus: dict[str, int] = {}
        self._found = self._look()
        uids = {node["metadata"]["name"]: node["metadata"]["uid"] for node in self._nodes}
        self._memory = Memory(api, uids)
        self._earlier = {host.node: self._memory.entry(host.node) for host in hosts}

    @property
    def warnings(self) -> list[str]:
        return self._memory.warnings

    def accept(self, force: bool, dry: bool) -> tuple[bool, dict[str, Any]]:
        """Return whether anything was verified or stored now, and the report.

        A dry run returns what it would do; its report is empty if there is anything to verify.
        """
        kept = {
            target.name: reports.kept_entry(target, self._earlier[target.name])
            for target in self._found
            if not force and still_proven(target, self._earlier[target.name], self._settings.image)
        }
        network = self._memory.network
        connected = not force and still_connected(self._found, network)
        todo = [target for target in self._found if target.name not in kept]
        if dry and (todo or not connected):
            return True, {}
        proven, fresh = ({}, {}) if connected and not todo else self._prove(todo, [] if connected else self._found)
        report = self._whole({**kept, **proven}, {**network, "kept": True} if connected else fresh)
        changes = self._memory.changes(self._records(report), self._network(report["network"]))
        stored = bool(changes) if dry else self._memory.save(changes)
        return stored or bool(todo) or not connected, report

    def look(self) -> dict[str, Any]:
        """Return the report without running pods: earlier verifications that are still valid, the rest unverified."""
        hosts = {target.name: self._looked_at(target) for target in self._found}
        network = self._memory.network
        return self._whole(hosts, {**network, "kept": True} if network else {})

    def _looked_at(self, target: Target) -> dict[str, Any]:
        entry, image = self._earlier[target.name], self._settings.image
        # Problems of a verification are still reported if nothing has changed since.
        failed = bool(entry and entry["problems"]) and entry["fingerprint"] == target.fingerprint(image)
        if still_proven(target, entry, image) or (failed and target.provable):
            return reports.kept_entry(target, entry)
        return reports.unproven_entry(target, image, self._plugin_log(target), entry)

    def _prove(self, todo: Sequence[Target], nodes: Sequence[Target]) -> tuple[dict[str, Any], dict[str, Any]]:
        run = Run(self._api, self._settings)
        with run.namespace():
            run.verify([target for target in todo if target.provable], [target for target in nodes if target.ready])
            network: dict[str, Any] = {}
            if nodes:
                network = {**Network(self._api, run, self._settings.namespace).verify(), "kept": False}
            if not any(proof.trouble for proof in run.proofs_of_kind("gpu")):
                with Watch(self._api) as watch:
                    run.until(lambda: self._labelled(watch), _LABELLING, watch)
            after = {target.name: target for target in self._look()}
        network["nodes"] = [after[target.name].identity for target in nodes]
        proofs, moment = objects.grouped(run.proofs, lambda proof: proof.node), _now()
        proven = {}
        for target in todo:
            # Pods that held a GPU at any time during the verification count, because GPUs in use can't be verified.
            now = after[target.name]
            held = {name: {**pods, **now.held.get(name, {})} for name, pods in target.held.items()}
            final = replace(now, held=held)
            proven[target.name] = {
                **reports.host_entry(
                    final,
                    proofs.get(target.name, []),
                    self._settings.image,
                    self._plugin_log(final),
                    self._earlier[target.name],
                ),
                "proven_at": moment,
            }
        return proven, network

    def _look(self, watch: Watch | None = None) -> list[Target]:
        lists = watch or self._api
        self._nodes, pods = lists.items("/api/v1/nodes"), lists.items("/api/v1/pods")
        claims = read_claims(lists, pods)
        others = [pod for pod in pods if pod["metadata"].get("namespace") != self._settings.namespace]
        self.free_gpus = free_gpus(self._nodes, others, claims, self._settings.tolerations)
        return targets(self._hosts, self._nodes, pods, claims, self._settings.namespace)

    def _labelled(self, watch: Watch) -> bool:
        self._found = self._look(watch)
        return not any(label_problem(target) for target in self._found if target.node)

    def _plugin_log(self, target: Target) -> PluginLog:
        """Return the device plugin's log lines about GPUs that it does not offer."""
        if target.node is None or not target.differing:
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
                return PluginLog(words, stays or find_remedy(words))
        return PluginLog("it has no pod on this node")

    def _whole(self, hosts: Mapping[str, Any], network: Mapping[str, Any]) -> dict[str, Any]:
        ordered = {each.name: hosts[each.name] for each in self._found}
        cluster = {"kubernetes_version": self._api.get("/version")["gitVersion"], "endpoint": self._api.endpoint}
        return reports.whole(ordered, network, cluster, _now())

    def _records(self, report: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return what to store for each host; nothing is known about unreachable hosts."""
        return {
            target.name: {
                **entry,
                "pods": entry["gpus"]["pods"],
                **known_gpus(target.host, self._earlier[target.name]),
            }
            for target in self._found
            for entry in [report["hosts"][target.name]]
            if target.host.state != SILENT
        }

    def _network(self, network: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what to store for the network; a run for some hosts keeps the verification of all."""
        before = self._memory.network
        fewer = not network.get("problems") and set(network["nodes"]) < set(before.get("nodes", []))
        return before if fewer else network


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
