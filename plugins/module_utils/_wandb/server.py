# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Access W&B through its SDK, which is imported only when needed, because most users do not have it."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .._errors import DomainError
from .errors import explained
from .queue import CA_VARIABLES, Queue, from_api

TRIED = "0.31.0"
_PROJECT = "model-registry"
_SETTINGS = {"WANDB_SILENT": "true", "WANDB_ERROR_REPORTING": "false", "WANDB_DISABLE_GIT": "true"}
_NO_ACCESS = "check that you have access to this entity"


class Server:
    """A W&B server, accessed with an API key. All methods raise DomainError."""

    def __init__(self, url: str, key: str, entity: str, authorities: str = "") -> None:
        self._url, self._entity = url.rstrip("/"), entity
        os.environ.update(_SETTINGS)
        if authorities:
            if not Path(authorities).is_file():
                raise DomainError(
                    f"Error while reading the certificate authorities of W&B: there is no file {authorities}. Correct "
                    "wandb_launch_ca_bundle. Nothing was changed."
                )
            os.environ.update(dict.fromkeys(CA_VARIABLES, authorities))
        try:
            from wandb.sdk.launch.api import LaunchApi
        except ImportError as error:
            raise DomainError(
                f"Error while loading wandb, the SDK of W&B: {error}. Install wandb=={TRIED} for the Python of "
                f"wandb_launch_python (requirements-wandb.txt). Nothing was changed."
            ) from error
        with self._doing("signing in"):
            self._api: Any = LaunchApi(overrides={"base_url": self._url, "entity": entity}, api_key=key)
            self._api.entity_is_team(entity)

    def names(self) -> list[str]:
        """Return the names of the entity's queues; before the first one, W&B has no project for them."""
        with self._doing("reading the queues"):
            try:
                return [each["name"] for each in self._api.get_project_run_queues(self._entity, _PROJECT)]
            except Exception as error:
                if _NO_ACCESS in str(error):
                    return []
                raise

    def read(self, name: str) -> Queue | None:
        """Return a queue, None if it does not exist."""
        if name not in self.names():
            return None
        with self._doing(f"reading the queue {name}"):
            found = self._api.run_queue(self._entity, name)
            mode = found.prioritization_mode
            if found._default_resource_config_id is None:
                return from_api(name, {}, "", [], mode)
            # RunQueue loads the type together with these two.
            return from_api(name, found.default_resource_config, found.type, found.template_variables, mode)

    def write(self, queue: Queue) -> None:
        """Create a queue or replace its settings."""
        with self._doing(f"writing the queue {queue.name}"):
            self._api.upsert_run_queue(
                queue.name,
                dict(queue.arguments),
                queue.resource,
                entity=self._entity,
                template_variables={name: {"schema": dict(schema)} for name, schema in queue.variables.items()},
                prioritization_mode=queue.prioritization,
            )

    def delete(self, name: str) -> None:
        """Delete a queue and the items waiting in it."""
        with self._doing(f"deleting the queue {name}"):
            self._api.run_queue(self._entity, name).delete()

    def states(self, name: str) -> dict[str, int]:
        """Return how many of a queue's first 100 items are in each state, such as pending."""
        with self._doing(f"reading the items of the queue {name}"):
            found: dict[str, int] = {}
            for item in self._api.run_queue(self._entity, name).items:
                found[item.state] = found.get(item.state, 0) + 1
            return found

    @contextlib.contextmanager
    def _doing(self, what: str) -> Iterator[None]:
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                yield
        except DomainError:
            raise
        except Exception as error:
            cause = explained(f"{type(error).__name__}: {error}", self._url, self._entity)
            raise DomainError(f"Error while {what} at W&B: {cause}.") from error


def config_problems(config: dict[str, Any]) -> list[str]:
    """Return what W&B's own schema rejects in an agent's configuration."""
    from wandb.sdk.launch.agent.config import AgentConfig, ValidationError

    try:
        AgentConfig(**config)
    except ValidationError as error:
        return [f"{'.'.join(str(part) for part in each['loc'])}: {each['msg']}" for each in error.errors()]
    return []
