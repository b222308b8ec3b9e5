"""The image registry while images are stored: a process of the depot's server on the loopback address."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from lab import paths
from lab.depot import golang, oci, recipes
from lab.depot.cache import DepotError

_START_TIMEOUT = 20.0


class Registry:
    """A client of the OCI distribution protocol for a registry without credentials."""

    def __init__(self, host: str, port: int) -> None:
        self.address = f"{host}:{port}"
        self._host = host
        self._port = port

    def push(self, reference: str, layers: list[oci.Layer], settings: oci.Settings) -> None:
        """Store an image under registry.example/path/name:tag.

        Raises DepotError.
        """
        repository, tag = split(reference)
        config, manifest = oci.image(layers, settings)
        for digest, content in oci.blobs(layers, config):
            self._blob(repository, digest, content)
        self._expect(201, "PUT", f"/v2/{repository}/manifests/{tag}", manifest, {"Content-Type": oci.MANIFEST})

    def answers(self) -> bool:
        """Return whether the registry is up."""
        try:
            return self._request("GET", "/v2/", None, {})[0] == 200
        except OSError:
            return False

    def _blob(self, repository: str, digest: str, content: Path | bytes) -> None:
        if self._request("HEAD", f"/v2/{repository}/blobs/{digest}", None, {})[0] == 200:
            return
        location = self._expect(202, "POST", f"/v2/{repository}/blobs/uploads/", None, {})
        target = urlsplit(location)
        query = f"{target.query}&digest={digest}" if target.query else f"digest={digest}"
        kind = {"Content-Type": "application/octet-stream"}
        self._expect(201, "PUT", f"{target.path}?{query}", content, kind)

    def _expect(self, wanted: int, method: str, path: str, body: Path | bytes | None, headers: dict[str, str]) -> str:
        status, location, said = self._request(method, path, body, headers)
        if status != wanted:
            raise DepotError(f"Error while storing an image: {method} {path} gave {status}: {said}")
        return location

    def _request(
        self, method: str, path: str, body: Path | bytes | None, headers: dict[str, str]
    ) -> tuple[int, str, str]:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=120)
        try:
            if isinstance(body, Path):
                with body.open("rb") as source:
                    length = {"Content-Length": str(body.stat().st_size)}
                    connection.request(method, path, body=source, headers={**headers, **length})
            else:
                connection.request(
                    method, path, body=body, headers={**headers, "Content-Length": str(len(body or b""))}
                )
            answer = connection.getresponse()
            return answer.status, answer.getheader("Location") or "", answer.read(2000).decode(errors="replace")
        finally:
            connection.close()


def split(reference: str) -> tuple[str, str]:
    """Return the repository and the tag of a full image name."""
    repository, _mark, tag = reference.rpartition(":")
    return repository, tag


def holds(reference: str) -> bool:
    """Return whether the storage contains an image, without a running registry."""
    repository, tag = split(reference)
    return (_repositories() / repository / "_manifests" / "tags" / tag / "current" / "link").is_file()


def digests() -> dict[str, str]:
    """Return the digest of each image in the storage by its full name, without a running registry."""
    found = {}
    for link in sorted(_repositories().glob("**/_manifests/tags/*/current/link")):
        tag = link.parent.parent
        found[f"{tag.parents[2].relative_to(_repositories())}:{tag.name}"] = link.read_text().strip()
    return found


def _repositories() -> Path:
    return paths.registry() / "docker" / "registry" / "v2" / "repositories"


@contextmanager
def writable() -> Iterator[Registry]:
    """Run the registry on a free port of the loopback address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = golang.build(recipes.server()) / "depot-server"
    argv = [str(server), f"-registry=127.0.0.1:{port}", f"-storage={paths.registry()}", "-writable"]
    with (paths.logs() / "registry.log").open("ab") as log:
        # The registry reads REGISTRY_* from the environment as settings.
        environment = {key: value for key, value in os.environ.items() if not key.startswith("REGISTRY_")}
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
    try:
        registry = Registry("127.0.0.1", port)
        deadline = time.monotonic() + _START_TIMEOUT
        while not registry.answers():
            if process.poll() is not None or time.monotonic() > deadline:
                raise DepotError(f"Error while starting the registry: see {paths.logs() / 'registry.log'}.")
            time.sleep(0.1)
        yield registry
    finally:
        process.terminate()
        process.wait()
