"""A stateful stand-in for AWX's API, /api/v2, with everything that awx.awx needs to configure what awx/ describes.

It is not AWX: it runs no job, has one user, and shares no code with AWX. It listens on the loopback address.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from support.awx_stand_in_fields import KINDS, UNIFIED
from support.awx_stand_in_store import SECRET, Item, RefusedError, Store

Query = Mapping[str, list[str]]
API = "/api/v2/"
USER, PASSWORD, TOKEN = "admin", "only-for-the-stand-in", "token-of-the-stand-in"
# Query parameters of a list that are not fields.
_PAGING = {"page", "page_size", "order_by"}
# The first match answers, so the objects of an endpoint come last.
_ROUTES = (
    ("GET", r"me/", "_me"),
    ("POST", r"tokens/", "_new_token"),
    ("DELETE", r"tokens/(\d+)/", "_drop_token"),
    ("OPTIONS", r"organizations/(?:(\d+)/)?", "_allowed"),
    ("GET", r"(job_templates|workflow_job_templates)/(\d+)/survey_spec/", "_survey"),
    ("POST", r"(job_templates|workflow_job_templates)/(\d+)/survey_spec/", "_set_survey"),
    ("POST", r"job_templates/(\d+)/launch/", "_launch"),
    ("POST", r"workflow_job_template_nodes/(\d+)/create_approval_template/", "_approval"),
    ("POST", r"workflow_approval_templates/", "_refuse"),
    ("GET", r"(\w+)/", "_list"),
    ("GET", r"(\w+)/(\d+)/", "_item"),
    ("POST", r"(\w+)/", "_create"),
    ("PATCH", r"(\w+)/(\d+)/", "_change"),
    ("DELETE", r"(\w+)/(\d+)/", "_delete"),
    ("GET", r"(\w+)/(\d+)/(\w+)/", "_members"),
    ("POST", r"(\w+)/(\d+)/(\w+)/", "_associate"),
)


@dataclass
class StandIn:
    """The running stand-in: its state, and every request that changed something."""

    address: str
    store: Store
    changes: list[str] = field(default_factory=list)
    tokens: set[int] = field(default_factory=set)
    # Whether the user may create organizations, and the organizations that the user administers. None: the token is
    # read-only.
    administrator: bool | None = True
    administers: set[int] = field(default_factory=set)
    # Path of the API, which differs behind a gateway.
    api: str = API

    def names(self, endpoint: str) -> list[str]:
        return [item["name"] for item in self.store.all(endpoint)]

    def find(self, endpoint: str, name: str) -> Item:
        return next(item for item in self.store.all(endpoint) if item["name"] == name)

    def answer(self, method: str, path: str, query: Query, body: Any) -> tuple[int, Any]:
        """Answer one request of an authenticated user. Raises RefusedError."""
        if method not in ("GET", "OPTIONS") and not path.startswith("tokens/") and not self._may_write(path):
            raise RefusedError(403, {"detail": "You do not have permission to perform this action."})
        for allowed, pattern, action in _ROUTES:
            found = re.fullmatch(pattern, path)
            if method == allowed and found:
                answer: tuple[int, Any] = getattr(self, action)(*found.groups(), query if method == "GET" else body)
                if method not in ("GET", "OPTIONS") and not path.startswith("tokens/"):
                    self.changes.append(f"{method} {path}")
                return answer
        raise RefusedError(405, {"detail": f'Method "{method}" not allowed.'})

    def _me(self, _query: Any) -> tuple[int, Any]:
        return 200, {"count": 1, "results": [{"id": 1, "username": USER}]}

    def _may_write(self, path: str) -> bool:
        if self.administrator is None:
            return False
        return self.administrator or (path != "organizations/" and bool(self.administers))

    def _allowed(self, number: str | None, _body: Any) -> tuple[int, Any]:
        """Return what the user may do with organizations, or with one; PUT stands for changing it."""
        may = self.administrator or (self.administrator is not None and number and int(number) in self.administers)
        return 200, {
            "name": "Organizations",
            "actions": {"GET": {}, **({"PUT" if number else "POST": {}} if may else {})},
        }

    def _new_token(self, _body: Any) -> tuple[int, Any]:
        self.tokens.add(number := len(self.tokens) + 1)
        return 201, {"id": number, "token": TOKEN}

    def _drop_token(self, number: str, _body: Any) -> tuple[int, Any]:
        self.tokens.remove(int(number))
        return 204, None

    def _survey(self, endpoint: str, number: str, _query: Any) -> tuple[int, Any]:
        return 200, self.store.surveys.get(self.store.get(endpoint, int(number))["id"], {})

    def _set_survey(self, endpoint: str, number: str, body: Any) -> tuple[int, Any]:
        self.store.set_survey(self.store.get(endpoint, int(number))["id"], body)
        return 200, {}

    def _launch(self, number: str, body: Any) -> tuple[int, Any]:
        variables, ignored = self.store.launch(int(number), body.get("extra_vars", {}))
        return 201, {"extra_vars": json.dumps(variables), "ignored_fields": {"extra_vars": ignored} if ignored else {}}

    def _approval(self, number: str, body: Any) -> tuple[int, Any]:
        node = self.store.get("workflow_job_template_nodes", int(number))
        made = self.store.create("workflow_approval_templates", body)
        node["unified_job_template"] = made["id"]
        return 201, self._shown("workflow_approval_templates", made)

    def _refuse(self, _body: Any) -> tuple[int, Any]:
        raise RefusedError(405, {"detail": 'Method "POST" not allowed.'})

    def _list(self, endpoint: str, query: Query) -> tuple[int, Any]:
        return 200, self._page(endpoint, query)

    def _item(self, endpoint: str, number: str, _query: Any) -> tuple[int, Any]:
        return 200, self._shown(endpoint, self.store.get(endpoint, int(number)))

    def _create(self, endpoint: str, body: Any) -> tuple[int, Any]:
        return 201, self._shown(endpoint, self.store.create(endpoint, body))

    def _change(self, endpoint: str, number: str, body: Any) -> tuple[int, Any]:
        return 200, self._shown(endpoint, self.store.change(endpoint, int(number), body))

    def _delete(self, endpoint: str, number: str, _body: Any) -> tuple[int, Any]:
        self.store.delete(endpoint, int(number))
        return 204, None

    def _members(self, endpoint: str, number: str, association: str, _query: Any) -> tuple[int, Any]:
        members = self.store.members(endpoint, int(number), association)
        return 200, {"count": len(members), "next": None, "results": [{"id": member} for member in members]}

    def _associate(self, endpoint: str, number: str, association: str, body: Any) -> tuple[int, Any]:
        self.store.associate(endpoint, int(number), association, body)
        return 204, None

    def _page(self, endpoint: str, query: Query) -> Item:
        wanted = {key: value for key, value in query.items() if key not in _PAGING}
        found = [item for item in self.store.all(endpoint) if self._fits(endpoint, item, wanted)]
        size, page = int(query.get("page_size", ["25"])[0]), int(query.get("page", ["1"])[0])
        rest = len(found) > page * size
        following = urlencode({**query, "page": page + 1}, doseq=True)
        shown = [self._shown(endpoint, item) for item in found[(page - 1) * size : page * size]]
        return {"count": len(found), "next": f"{self.api}{endpoint}/?{following}" if rest else None, "results": shown}

    def _fits(self, endpoint: str, item: Item, wanted: Query) -> bool:
        """Return whether an object has all required values, and one of the values that are given with or__."""
        own = self._endpoint_of(endpoint, item)
        found = {key: self.store.value(own, item, key.removeprefix("or__")) in values for key, values in wanted.items()}
        either = [fits for key, fits in found.items() if key.startswith("or__")]
        return all(fits for key, fits in found.items() if not key.startswith("or__")) and (not either or any(either))

    def _endpoint_of(self, endpoint: str, item: Item) -> str:
        if endpoint != "unified_job_templates":
            return endpoint
        return next(one for one in UNIFIED if item["id"] in self.store.objects[one])

    def _shown(self, endpoint: str, item: Item) -> Item:
        endpoint = self._endpoint_of(endpoint, item)
        url = f"{self.api}{endpoint}/{item['id']}/"
        related = {name: f"{url}{name}/" for name in KINDS[endpoint].associations}
        shown = {**item, "type": KINDS[endpoint].name, "url": url, "related": related, "summary_fields": {}}
        if "organization" in shown or endpoint == "job_templates":
            shown["organization"] = self.store.organization_of(endpoint, item)
        if endpoint in ("job_templates", "workflow_job_templates"):
            related["survey_spec"] = f"{url}survey_spec/"
        launched = item["unified_job_template"] if endpoint == "workflow_job_template_nodes" else None
        if launched:
            launches = self._endpoint_of("unified_job_templates", {"id": launched})
            related["unified_job_template"] = f"{self.api}{launches}/{launched}/"
        if endpoint == "projects":
            shown["status"] = self.store.project_status(item["id"])
        if endpoint == "credentials":
            kind = self.store.get("credential_types", item["credential_type"])
            secret = {one["id"] for one in kind["inputs"]["fields"] if one["secret"]}
            shown["inputs"] = {k: SECRET if k in secret else value for k, value in item["inputs"].items()}
        return shown


class _Handler(BaseHTTPRequestHandler):
    stand_in: StandIn
    server_version = "stand-in-for-AWX"

    def answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        target = urlsplit(self.path)
        try:
            if self.headers.get("Authorization") not in (f"Bearer {TOKEN}", _basic()):
                raise RefusedError(401, {"detail": "Authentication credentials were not provided."})
            if not target.path.startswith(self.stand_in.api):
                raise RefusedError(404, {"detail": "Not found."})
            path = target.path.removeprefix(self.stand_in.api)
            status, answer = self.stand_in.answer(self.command, path, parse_qs(target.query), body)
        except RefusedError as refused:
            status, answer = refused.status, refused.answer
        self._send(status, answer)

    def _send(self, status: int, answer: Any) -> None:
        content = b"" if status == HTTPStatus.NO_CONTENT else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        # The version from which fields and rules were taken.
        self.send_header("X-API-Product-Name", "AWX")
        self.send_header("X-API-Product-Version", "24.6.1")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_arguments: Any) -> None:
        """Print nothing: StandIn.changes has all changes."""


def _basic() -> str:
    return "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


@contextmanager
def running(repositories: Mapping[str, Path]) -> Iterator[StandIn]:
    """Run an empty stand-in during the block; its projects come from these directories."""
    stand_in = StandIn("", Store(repositories))
    methods = {f"do_{method}": _Handler.answer for method in ("GET", "OPTIONS", "POST", "PATCH", "DELETE")}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"stand_in": stand_in, **methods}))
    stand_in.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield stand_in
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
