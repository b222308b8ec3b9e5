"""Artifacts of the stand-in for W&B's cloud, from which an agent fetches and builds a job of source code."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from typing import Any

Values = dict[str, Any]


@dataclass(frozen=True)
class Artifact:
    """One version of a job or of source code; ``files`` are texts by name."""

    entity: str
    project: str
    name: str
    kind: str
    files: dict[str, str]

    def answer(self) -> Values:
        """Return the fields that the SDK requests."""
        project = {"id": "UHJvamVjdDox", "internalId": "UHJvamVjdDox", "name": self.project}
        collection = {"name": self.name, "project": {**project, "entity": {"name": self.entity}}}
        now = "2026-11-26T00:00:00Z"
        artifact = {
            "__typename": "Artifact",
            "id": self.id,
            "artifactSequence": {"__typename": "ArtifactSequence", **collection},
            "versionIndex": 0,
            "artifactType": {"name": self.kind},
            "description": None,
            "metadata": "{}",
            "ttlDurationSeconds": -2,
            "ttlIsInherited": True,
            "tags": [],
            "historyStep": None,
            "state": "COMMITTED",
            "size": sum(len(text.encode()) for text in self.files.values()),
            "digest": hashlib.md5(json.dumps(self.files).encode()).hexdigest(),
            "commitHash": "0",
            "fileCount": len(self.files),
            "createdAt": now,
            "updatedAt": now,
        }
        membership = {"__typename": "ArtifactCollectionMembership", "id": f"{self.id}m", "versionIndex": 0}
        shown = {"__typename": "ArtifactSequence", **collection}
        return {**membership, "createdAt": now, "aliases": [], "artifactCollection": shown, "artifact": artifact}

    @property
    def id(self) -> str:
        return base64.b64encode(f"Artifact:{self.kind}-{self.name}".encode()).decode()

    def manifest(self) -> Values:
        """Return the list of its files with their MD5 sums, which are also their names in the storage."""
        contents = {
            name: {"digest": _digest(text), "size": len(text.encode()), "birthArtifactID": self.id}
            for name, text in self.files.items()
        }
        policy = {"storageLayout": "V2"}
        return {
            "version": 1,
            "storagePolicy": "wandb-storage-policy-v1",
            "storagePolicyConfig": policy,
            "contents": contents,
        }


def job(entity: str, project: str, name: str, source: dict[str, str], entrypoint: list[str]) -> list[Artifact]:
    """Return a job and its source code with its own Dockerfile."""
    code = Artifact(entity, project, f"source-{name}", "code", source)
    described = {
        "source_type": "artifact",
        "source": {
            "artifact": f"wandb-artifact://_id/{code.id}",
            "entrypoint": entrypoint,
            "notebook": False,
            "dockerfile": "Dockerfile",
        },
        "input_types": {"wb_type": "typedDict", "params": {"type_map": {}}},
        "output_types": {"wb_type": "typedDict", "params": {"type_map": {}}},
        "runtime": "3.13.0",
    }
    files = {"wandb-job.json": json.dumps(described), "requirements.frozen.txt": ""}
    return [Artifact(entity, project, name, "job", files), code]


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.md5(text.encode()).digest()).decode()
