"""A stateful stand-in for W&B's cloud: the GraphQL operations that wandb's SDK and its launch agent call.

It is not W&B: the requests were recorded from wandb 0.31.0, and the behavior of W&B's servers was inferred from wandb's
source: they replace template variables, store the queues, and pass each item to one agent.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from support.wandb_stand_in_artifacts import Artifact

Values = dict[str, Any]
# The guide's team.
KEY, ENTITY, PROJECT = "only_for_the_stand_in_of_wandb".ljust(40, "0"), "my-team", "model-registry"
_OPERATION = re.compile(r"^\s*(?:query|mutation)\s+(\w+)", re.MULTILINE)
_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_USER = {"id": "VXNlcjox", "name": "Lab", "username": "lab", "email": "lab@example.org", "admin": False, "flags": "{}"}


class RefusedError(Exception):
    """An error in GraphQL's form, with HTTP status 200."""


@dataclass
class StandIn:
    """The running stand-in: its state, and the name of every operation."""

    url: str = ""
    keys: set[str] = field(default_factory=lambda: {KEY})
    queues: dict[str, Values] = field(default_factory=dict)
    configs: dict[str, Values] = field(default_factory=dict)
    items: dict[str, Values] = field(default_factory=dict)
    agents: dict[str, Values] = field(default_factory=dict)
    runs: dict[str, Values] = field(default_factory=dict)
    artifacts: list[Artifact] = field(default_factory=list)
    operations: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    # Operations that this server does not support, like an older one.
    unsupported: set[str] = field(default_factory=set)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def queue(self, name: str) -> Values:
        return next(queue for queue in self.queues.values() if queue["name"] == name)

    def items_of(self, name: str) -> list[Values]:
        return [item for item in self.items.values() if item["queue"] == name]

    def answer(self, query: str, variables: Values) -> Values:
        """Answer one operation of a user with a known key. Raises RefusedError."""
        found = _OPERATION.search(query)
        name = found[1] if found else ""
        with self._lock:
            self.operations.append(name)
            if name in self.unsupported:
                field_name = name[:1].lower() + name[1:]
                raise RefusedError(f'Cannot query field "{field_name}" on type "Mutation".')
            action = getattr(self, "_" + re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower(), None)
            if action is None:
                self.unknown.append(f"{query}\n{json.dumps(variables)}")
                return {}
            answered: Values = action(variables)
            return answered

    def _number(self, kind: str) -> str:
        return f"{kind}-{len(self.operations)}"

    def _viewer(self, _: Values) -> Values:
        teams = {"edges": [{"node": {"name": ENTITY}}]}
        keys: Values = {"edges": []}
        return {"viewer": {**_USER, "entity": ENTITY, "deletedAt": None, "teams": teams, "apiKeys": keys}}

    _get_viewer = _get_default_entity = _viewer

    def _project(self, entity: str) -> None:
        if entity != ENTITY:
            raise RefusedError(f"permission denied: entity {entity} not found during upsertModel")

    def _create_project(self, variables: Values) -> Values:
        given = variables["input"]
        self._project(given["entityName"])
        project = {"id": "UHJvamVjdDox", "name": given["name"], "entityName": given["entityName"]}
        return {"result": {"project": project, "model": project, "inserted": False}}

    def _upsert_run_queue(self, variables: Values) -> Values:
        self._project(variables["entityName"])
        name = variables["queueName"]
        identity = next((key for key, queue in self.queues.items() if queue["name"] == name), self._number("queue"))
        config = f"config-of-{identity}"
        declared = json.loads(variables["templateVariables"] or "{}")
        self.configs[config] = {
            "config": json.loads(variables["resourceConfig"]),
            "resource": variables["resourceType"],
            "templateVariables": [{"name": n, "schema": json.dumps(v["schema"])} for n, v in declared.items()],
        }
        self.queues[identity] = {
            "id": identity,
            "name": name,
            "access": "PROJECT",
            "createdBy": "1",
            "defaultResourceConfigID": config,
            "prioritizationMode": variables["prioritizationMode"] or "DISABLED",
            "externalLinks": variables["externalLinks"],
        }
        return {"upsertRunQueue": {"success": True, "configSchemaValidationErrors": []}}

    def _create_run_queue(self, variables: Values) -> Values:
        raise RefusedError(f"no queue {variables['queueName']} is created in passing here")

    def _delete_run_queue(self, variables: Values) -> Values:
        self.queues.pop(variables["id"])
        return {"deleteRunQueues": {"success": True, "clientMutationId": None}}

    def _get_run_queue_metadata(self, variables: Values) -> Values:
        if variables["entityName"] != ENTITY:
            return {"project": None}
        found = [queue for queue in self.queues.values() if queue["name"] == variables["runQueue"]]
        return {"project": {"runQueue": found[0] if found else None}}

    def _get_default_resource_config(self, variables: Values) -> Values:
        return {"entity": {"defaultResourceConfig": self.configs[variables["id"]]}}

    def _get_run_queue_items(self, variables: Values) -> Values:
        edges = [{"node": {"id": item["id"]}} for item in self.items_of(variables["runQueue"])]
        return {"project": {"runQueue": {"runQueueItems": {"edges": edges}}}}

    def _get_run_queue_item(self, variables: Values) -> Values:
        return {"project": {"runQueue": {"runQueueItem": self.items.get(variables["itemId"])}}}

    def _project_run_queues(self, _: Values) -> Values:
        return {"project": {"runQueues": list(self.queues.values())}}

    def _push_to_run_queue_by_name(self, variables: Values) -> Values:
        queue = next((each for each in self.queues.values() if each["name"] == variables["queueName"]), None)
        if queue is None:
            raise RefusedError(f"run queue {variables['queueName']} not found")
        return {"pushToRunQueueByName": self._push(queue, variables)}

    def _push_to_run_queue(self, variables: Values) -> Values:
        # The SDK's fallback after any failure of the other operation.
        return {"pushToRunQueue": self._push(self.queues[variables["queueID"]], variables)}

    def _push(self, queue: Values, variables: Values) -> Values:
        config = self.configs[queue["defaultResourceConfigID"]]
        spec = json.loads(variables["runSpec"])
        values = _values(config["templateVariables"], json.loads(variables.get("templateVariableValues") or "{}"))
        resource = {"resource": config["resource"]}
        arguments = spec.get("resource_args") or config["config"]["resource_args"]
        spec = {**spec, **resource, "resource_args": _filled(arguments, values), "author": "lab"}
        identity = self._number("item")
        item = {"id": identity, "state": "PENDING", "associatedRunId": None, "queue": queue["name"], "runSpec": spec}
        self.items[identity] = {**item, "message": "", "warnings": []}
        return {"runQueueItemId": identity, "runSpec": json.dumps(spec)}

    def _create_launch_agent(self, variables: Values) -> Values:
        identity = self._number("agent")
        agent = {"id": identity, "name": identity, "hostname": variables["hostname"], "agentStatus": "POLLING"}
        more = {"runQueues": variables["queues"], "stopPolling": False, "heartbeatAt": None}
        self.agents[identity] = {**agent, **more, "config": json.loads(variables["agentConfig"])}
        return {"createLaunchAgent": {"launchAgentId": identity}}

    def _launch_agent(self, variables: Values) -> Values:
        return {"launchAgent": self.agents[variables["agentId"]]}

    def _update_launch_agent(self, variables: Values) -> Values:
        self.agents[variables["agentId"]]["agentStatus"] = variables["agentStatus"]
        return {"updateLaunchAgent": {"success": True}}

    def _entity_is_team(self, variables: Values) -> Values:
        return {"entity": {"id": "RW50aXR5OjE=", "isTeam": True} if variables["entity"] == ENTITY else None}

    def _pop_from_run_queue(self, variables: Values) -> Values:
        for item in self.items_of(variables["queueName"]):
            if item["state"] == "PENDING":
                item["state"] = "LEASED"
                return {"popFromRunQueue": {"runQueueItemId": item["id"], "runSpec": item["runSpec"]}}
        return {"popFromRunQueue": None}

    def _ack_run_queue_item(self, variables: Values) -> Values:
        self.items[variables["itemId"]] |= {"state": "CLAIMED", "associatedRunId": variables["runId"]}
        return {"ackRunQueueItem": {"success": True}}

    def _fail_run_queue_item(self, variables: Values) -> Values:
        self.items[variables["runQueueItemId"]] |= {"state": "FAILED", "message": variables["message"]}
        return {"failRunQueueItem": {"success": True}}

    def _update_run_queue_item_warning(self, variables: Values) -> Values:
        self.items[variables["runQueueItemId"]]["warnings"].append(variables["message"])
        return {"updateRunQueueItemWarning": {"success": True}}

    def _run_stopped_status(self, variables: Values) -> Values:
        run = self.runs.get(variables["runId"])
        return {"project": {"run": {"stopped": run.get("stopped", False)} if run else None}}

    def _run_state(self, variables: Values) -> Values:
        run = self.runs.get(variables["name"])
        return {"project": {"run": {"state": run["state"]} if run else None}}

    def _server_features_query(self, _: Values) -> Values:
        return {"serverInfo": {"features": []}}

    def _upsert_bucket(self, variables: Values) -> Values:
        name = variables["name"]
        # A run is written several times, and may have been stopped meanwhile.
        run = self.runs.setdefault(name, {"config": {}, "summary": {}})
        run["state"] = "running"
        run["config"] |= json.loads(variables.get("config") or "{}")
        for item in self.items.values():
            if item["associatedRunId"] == name:
                item["state"] = "CLAIMED"
        project = {"id": "UHJvamVjdDox", "name": variables["project"], "entity": {"id": "RW50aXR5OjE=", "name": ENTITY}}
        fields = {"id": f"run-{name}", "name": name, "displayName": name, "description": None, "config": "{}"}
        bucket = {**fields, "sweepName": None, "project": project, "historyLineCount": 0}
        return {"upsertBucket": {"bucket": bucket, "inserted": True}}

    def _artifact_membership_by_name(self, variables: Values) -> Values:
        name = variables["name"].partition(":")[0]
        found = [each.answer() for each in self.artifacts if each.name == name]
        return {"project": {"artifactCollectionMembership": found[0] if found else None}}

    def _use_artifact(self, variables: Values) -> Values:
        return {"useArtifact": {"artifact": {"id": variables["artifactID"]}}}

    def _artifact_by_id(self, variables: Values) -> Values:
        found = [each.answer()["artifact"] for each in self.artifacts if each.id == variables["id"]]
        return {"artifact": found[0] if found else None}

    def _fetch_artifact_manifest(self, variables: Values) -> Values:
        return {"artifact": {"currentManifest": {"file": {"directUrl": f"{self.url}/stored/{variables['id']}"}}}}

    def _get_artifact_membership_file_urls(self, variables: Values) -> Values:
        edges = [
            {"node": {"__typename": "File", "name": name, "directUrl": f"{self.url}/stored/{artifact.id}/{name}"}}
            for artifact in self.artifacts
            if artifact.name == variables["collection"]
            for name in artifact.files
        ]
        files = {"pageInfo": {"__typename": "PageInfo", "endCursor": None, "hasNextPage": False}, "edges": edges}
        collection = {"__typename": "ArtifactSequence", "artifactMembership": {"files": files}}
        return {"project": {"artifactCollection": collection}}

    def stored(self, path: str) -> bytes | None:
        """Return the content below /stored: the manifest of an artifact, or one of its files."""
        identity, _, name = path.partition("/")
        for artifact in self.artifacts:
            if artifact.id == identity:
                text = artifact.files.get(name) if name else json.dumps(artifact.manifest())
                return text.encode() if text is not None else None
        return None

    def _organization_core_weave_organization_id(self, _: Values) -> Values:
        return {"entity": {"organization": {"coreWeaveOrganizationId": None}}}

    def _create_run_files(self, variables: Values) -> Values:
        files = [{"name": name, "uploadUrl": f"{self.url}/upload/{name}"} for name in variables["files"]]
        return {"createRunFiles": {"runID": f"run-{variables['run']}", "uploadHeaders": [], "files": files}}

    def stream(self, run: str, body: Values) -> None:
        """Receive what a run sends while it runs."""
        with self._lock:
            kept = self.runs.setdefault(run, {"state": "running", "config": {}, "summary": {}})
            for line in body.get("files", {}).get("wandb-summary.json", {}).get("content", []):
                kept["summary"] |= json.loads(line)
            if body.get("complete"):
                kept["state"] = "failed" if body.get("exitcode") else "finished"
                for item in self.items.values():
                    if item["associatedRunId"] == run and item["state"] == "CLAIMED":
                        item["state"] = "FINISHED"


def _values(variables: list[Values], given: Values) -> Values:
    schemas = {each["name"]: json.loads(each["schema"]) for each in variables}
    for name, value in given.items():
        schema = schemas.get(name)
        if schema is None:
            raise RefusedError(f"template variable {name} is not one of the queue")
        if "maximum" in schema and value > schema["maximum"]:
            raise RefusedError(f"template variable {name}: {value} is greater than the maximum of {schema['maximum']}")
    return {**{name: schema.get("default") for name, schema in schemas.items()}, **given}


def _filled(value: Any, values: Values) -> Any:
    """Replace template variables by values; a number stays a number only if it is the whole text."""
    if isinstance(value, dict):
        return {key: _filled(each, values) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, values) for each in value]
    if isinstance(value, str):
        alone = _VARIABLE.fullmatch(value)
        if alone and alone[1] in values:
            return values[alone[1]]
        return _VARIABLE.sub(lambda match: str(values.get(match[1], match[0])), value)
    return value


class _Handler(BaseHTTPRequestHandler):
    stand_in: StandIn
    protocol_version = "HTTP/1.1"
    server_version = "stand-in-for-WandB"

    def do_POST(self) -> None:
        body = self._body()
        if self.path.startswith(("/sdk/otel/", "/upload/")):
            return self._send(200, {})
        if not self._known():
            return self._send(401, {"errors": [{"message": "invalid API key", "extensions": {"code": "PERMISSION"}}]})
        if stream := re.fullmatch(r"/files/[^/]+/[^/]+/([^/]+)/file_stream", self.path):
            self.stand_in.stream(stream[1], json.loads(body or b"{}"))
            return self._send(200, {})
        if self.path != "/graphql":
            return self._send(404, {"error": f"no {self.path} here"})
        asked = json.loads(body)
        try:
            return self._send(200, {"data": self.stand_in.answer(asked["query"], asked.get("variables") or {})})
        except RefusedError as error:
            return self._send(200, {"data": None, "errors": [{"message": str(error)}]})

    def do_GET(self) -> None:
        kind, _, path = self.path.lstrip("/").partition("/")
        found = self.stand_in.stored(unquote(path)) if kind == "stored" else None
        if found is None:
            self.stand_in.unknown.append(f"GET {self.path}")
            return self._send(404, {"error": f"no {self.path} here"})
        return self._answer(200, found, "application/octet-stream")

    def do_PUT(self) -> None:
        self.do_POST()

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def _body(self) -> bytes:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body

    def _known(self) -> bool:
        kind, _, value = self.headers.get("Authorization", "").partition(" ")
        if kind == "Basic":
            value = base64.b64decode(value).decode().partition(":")[2]
        return value in self.stand_in.keys

    def _send(self, status: int, answer: Values) -> None:
        self._answer(status, json.dumps(answer).encode(), "application/json")

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing about clients that close their connection."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def running(address: str = "127.0.0.1", port: int = 0) -> Iterator[StandIn]:
    """Run a stand-in on an address of this machine during the block."""
    stand_in = StandIn()
    handler = type("Handler", (_Handler,), {"stand_in": stand_in})
    with _Server((address, port), handler) as server:
        stand_in.url = f"http://{address}:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield stand_in
        finally:
            server.shutdown()
