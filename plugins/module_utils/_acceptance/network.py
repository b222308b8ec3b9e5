# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verify the pod network: pods connect to each other across nodes, and to a Service by address and name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .._cluster.api import Api, ApiError
from .pods import PORT, SERVICE
from .problems import problem
from .run import PodProof, Run, in_parallel

# kube-proxy and DNS need a moment to learn of a new Service. This time is common to all connections; otherwise a few
# silent nodes would use up the time for the others. After that, a failure counts if it persists for _AGAIN seconds.
_SETTLING, _AGAIN = 60, 10


def pairs(nodes: Sequence[str]) -> list[tuple[str, str]]:
    """Return a ring through all nodes, in both directions: each node sends and receives, in few requests."""
    ring = [(node, nodes[(place + 1) % len(nodes)]) for place, node in enumerate(nodes)]
    return list(dict.fromkeys([*ring, *((there, here) for here, there in ring)])) if len(nodes) > 1 else []


def answer(text: str) -> tuple[bool, str]:
    """Return whether a connection succeeded, and its response (agnhost netexec, /dial)."""
    try:
        told = json.loads(text)
        if told.get("responses"):
            return True, str(told["responses"][0])
        return False, "; ".join(told.get("errors") or []) or "no answer"
    except (ValueError, AttributeError, RecursionError):
        return False, text.strip() or "no answer"


class Network:
    """Connects pods to each other through the API's proxy."""

    def __init__(self, api: Api, run: Run, namespace: str) -> None:
        self._api = api
        self._run = run
        self._namespace = namespace
        self._clock = api.clock
        self._settled = 0.0

    def verify(self) -> dict[str, Any]:
        """Return the report's section about the network; all failures are in ``problems``."""
        pods = {proof.node: proof for proof in self._run.proofs_of_kind("network")}
        problems = [
            problem("network_pod_failed", proof.node, f"the pod of the network check failed: {proof.trouble}")
            for proof in pods.values()
            if proof.trouble
        ]
        well = {node: proof for node, proof in pods.items() if not proof.trouble}
        self._settled = self._clock() + _SETTLING
        across = in_parallel(lambda pair: self._across(well[pair[0]], well[pair[1]]), pairs(list(well)))
        address = self._api.get(f"/api/v1/namespaces/{self._namespace}/services/{SERVICE}")["spec"]["clusterIP"]
        service = in_parallel(
            lambda proof: self._everyone(proof, "service_not_reached", "Service", address), well.values()
        )
        name = f"{SERVICE}.{self._namespace}.svc"
        names = in_parallel(lambda proof: self._everyone(proof, "dns_not_reached", "DNS name", name), well.values())
        for dialled in (*across, *service, *names):
            if not dialled["ok"]:
                problems.append(problem(dialled["kind"], dialled["from"], f"{dialled['what']}: {dialled['said']}"))
        return {
            "pod_to_pod": [{"from": each["from"], "to": each["to"], "ok": each["ok"]} for each in across],
            "service": bool(service) and all(each["ok"] for each in service),
            "dns": bool(names) and all(each["ok"] for each in names),
            "problems": [each.entry() for each in problems],
        }

    def _across(self, here: PodProof, there: PodProof) -> dict[str, Any]:
        ok, said = self._dial(here, there.address, PORT, there.name)
        what = f"pod network: a pod on {here.node} can't reach {there.address} on {there.node}"
        found = {"from": here.node, "to": there.node, "ok": ok, "said": said, "what": what}
        return {"kind": "pod_network_broken", **found}

    def _everyone(self, here: PodProof, kind: str, label: str, host: str) -> dict[str, Any]:
        ok, said = self._dial(here, host, 80, "")
        what = f"a pod on {here.node} can't reach {label} {host}"
        return {"kind": kind, "from": here.node, "ok": ok, "said": said, "what": what}

    def _dial(self, here: PodProof, host: str, port: int, expected: str) -> tuple[bool, str]:
        result = (False, "no answer")

        def once() -> bool:
            nonlocal result
            path = f"/api/v1/namespaces/{self._namespace}/pods/{here.name}:{PORT}/proxy/dial"
            try:
                text = self._api.text(path, host=host, port=str(port), request="hostname", protocol="http", tries="1")
                result = answer(text)
            except ApiError as error:
                result = (False, str(error))
            if result[0] and expected and result[1] != expected[:63]:
                result = (False, f"{result[1]} answered instead of {expected}")
            return result[0]

        self._run.until(once, max(_AGAIN, self._settled - self._clock()))
        return result
