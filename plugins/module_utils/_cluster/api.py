# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one way in which modules talk to the Kubernetes API: paths and plain dictionaries, errors with its words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from ansible.module_utils.basic import missing_required_lib

from .._api_path import path_problem
from .._errors import DomainError
from .._kubeadm.kubeconfig import KubeconfigError
from . import kubeconfig as kubeconfigs

_ADVICE = "Is the control plane up, and can this host reach it (cluster_api_delegate)?"


class ApiError(DomainError):
    """The API refused, or could not be asked. ``status`` is the HTTP status, 0 when there was no answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message, status=status)
        self.status = status


class Api:
    """A client for one cluster, from a kubeconfig file.

    ``timeout`` is the limit in seconds of a single request.
    """

    def __init__(self, kubeconfig: str, timeout: float = 20) -> None:
        try:
            # Filters import this file, too, without needing a client, and loading it takes as long as a task.
            import urllib3
            from kubernetes import config
        except ImportError as error:
            raise DomainError(missing_required_lib("kubernetes"), exception=str(error)) from error
        self._urllib3: Any = urllib3
        client_config: Any = config
        try:
            text = Path(kubeconfig).expanduser().read_text(encoding="utf-8")
            kubeconfig_fields = kubeconfigs.read(text)
            client = client_config.new_client_from_config_dict(kubeconfigs.build(kubeconfig_fields))
        except (client_config.ConfigException, KubeconfigError, OSError, ValueError) as error:
            reason = str(error).removeprefix("Error while reading a kubeconfig: ")
            raise ApiError(f"Error while reading the kubeconfig {kubeconfig}: {reason}") from error
        self.server: str = client.configuration.host
        # Without a tunnel, whose port is another one each time.
        self.endpoint: str = kubeconfig_fields.original_server or self.server
        self._pool = client.rest_client.pool_manager
        self._timeout = timeout
        self._headers = {
            setting["key"]: setting["value"]
            for setting in client.configuration.auth_settings().values()
            if setting["in"] == "header" and setting["value"]
        }

    def get(self, path: str, **query: str) -> dict[str, Any]:
        """An object or a list, as the API gives it."""
        found: dict[str, Any] = json.loads(self._request("GET", path, query))
        return found

    def find(self, path: str) -> dict[str, Any] | None:
        """An object, None when there is none."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    def items(self, path: str, **query: str) -> list[dict[str, Any]]:
        """All objects of a list. With a ``limit`` they are read in pages of so many."""
        page = self.get(path, **query)
        found: list[dict[str, Any]] = page.get("items") or []
        while (page.get("metadata") or {}).get("continue"):
            page = self.get(path, **{**query, "continue": page["metadata"]["continue"]})
            found += page.get("items") or []
        return found

    def text(self, path: str, **query: str) -> str:
        """What the API answers that isn't JSON: logs and proxied requests."""
        return self._request("GET", path, query)

    def text_within(self, seconds: float, path: str, **query: str) -> str:
        """The same, but asked only once and for so long: the API may wait for a kubelet that is gone."""
        return self._request("GET", path, query, patience=seconds)

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        created: dict[str, Any] = json.loads(self._request("POST", path, body=body))
        return created

    def apply(
        self, path: str, body: dict[str, Any], manager: str = "gpulab.kubernetes", dry: bool = False
    ) -> dict[str, Any]:
        """Create an object, or make it what is given (server-side apply), and return it. ``dry``: as if.

        What a ``manager`` applied before and does not apply again is removed, so whoever has a part of an object to
        itself takes a name of its own.
        """
        query = {"fieldManager": manager, "force": "true", **({"dryRun": "All"} if dry else {})}
        applied: dict[str, Any] = json.loads(self._request("PATCH", path, query, body, "application/apply-patch+yaml"))
        return applied

    def merge(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Change an object in one step, and return it; what is null in ``body`` is removed (JSON merge patch).

        With a resourceVersion in it, status 409 means that somebody else was faster.
        """
        changed: dict[str, Any] = json.loads(
            self._request("PATCH", path, body=body, content_type="application/merge-patch+json")
        )
        return changed

    def delete(self, path: str, **query: str) -> None:
        """Delete one object; one that is gone already is no error."""
        try:
            self._request("DELETE", path, query)
        except ApiError as error:
            if error.status != 404:
                raise

    def _request(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        body: dict[str, Any] | None = None,
        content_type: str = "application/json",
        patience: float | None = None,
    ) -> str:
        _check_path(method, path)
        url = f"{self.server.rstrip('/')}{path}" + (f"?{urlencode(query)}" if query else "")
        try:
            answer = self._pool.request(
                method,
                url,
                body=None if body is None else json.dumps(body).encode(),
                headers={**self._headers, "Accept": "application/json, */*", "Content-Type": content_type},
                timeout=patience or self._timeout,
                retries=self._urllib3.Retry(
                    total=0 if patience else 3,
                    backoff_factor=0.5,
                    redirect=0,
                    allowed_methods=("GET", "PATCH", "DELETE"),
                ),
            )
        except self._urllib3.exceptions.HTTPError as error:
            reason = getattr(error, "reason", None) or error
            raise ApiError(
                f"Error while asking the API at {self.server} ({method} {path}): {reason}. {_ADVICE}"
            ) from error
        text: str = answer.data.decode("utf-8", "replace")
        if answer.status >= 400:
            raise ApiError(
                f"Error while asking the API ({method} {path}): {_message(text, answer.status)}", answer.status
            )
        return text


def _check_path(method: str, path: str) -> None:
    problem = path_problem(path)
    if problem:
        raise ApiError(f"Error while asking the API ({method} {path!r:.300}): {problem}")


def _message(text: str, status: int) -> str:
    """The API's own words out of its Status object."""
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text.strip() or f"HTTP status {status}"
