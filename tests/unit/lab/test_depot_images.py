"""Images: all digests are correct, and a registry that verifies them gets what the manifest lists."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import json
import os
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.depot import oci
from lab.depot.cache import DepotError
from lab.depot.deb import Link
from lab.depot.registry import Registry, digests, split


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@pytest.fixture
def layer(tmp_path: Path) -> oci.Layer:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF" * 1000)
    files: dict[str, oci.Content] = {"/usr/bin/program": program, "/etc/conf": "a\n", "/usr/bin/p": Link("program")}
    return oci.files_layer(tmp_path / "layer", files, {"/tmp": 0o1777})


def test_digests_are_those_of_the_compressed_file_and_the_tar(layer: oci.Layer) -> None:
    data = layer.path.read_bytes()

    assert layer.digest == digest(data)
    assert layer.tar_digest == digest(gzip.decompress(data))


def test_archive_members_have_their_modes(layer: oci.Layer) -> None:
    with tarfile.open(layer.path) as tar:
        modes = {member.name: (member.mode, member.linkname) for member in tar}

    assert modes == {
        "etc": (0o755, ""),
        "tmp": (0o1777, ""),
        "usr": (0o755, ""),
        "usr/bin": (0o755, ""),
        "etc/conf": (0o644, ""),
        "usr/bin/p": (0o777, "program"),
        "usr/bin/program": (0o755, ""),
    }


def test_a_directory_tree_keeps_hard_links_and_omits_devices(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "a").write_text("x")
    (root / "bin" / "b").hardlink_to(root / "bin" / "a")
    (root / "proc").mkdir()
    os.mkfifo(root / "pipe")
    made = oci.tree_layer(tmp_path / "layer", root)

    with tarfile.open(made.path) as tar:
        assert {member.name: member.islnk() for member in tar} == {"bin": False, "bin/a": False, "bin/b": True}


def test_the_manifest_lists_every_blob(layer: oci.Layer) -> None:
    settings = oci.Settings(entrypoint=["/usr/bin/program"], user="65534", environment={"A": "b"})
    config, manifest = oci.image([layer], settings)

    described = json.loads(manifest)
    assert described["config"]["digest"] == digest(config)
    assert described["layers"][0]["digest"] == layer.digest
    assert described["layers"][0]["size"] == layer.path.stat().st_size
    inside = json.loads(config)
    assert inside["rootfs"]["diff_ids"] == [layer.tar_digest]
    assert inside["config"]["Entrypoint"] == ["/usr/bin/program"]
    assert inside["config"]["User"] == "65534"
    assert "A=b" in inside["config"]["Env"]


class FakeRegistry(http.server.BaseHTTPRequestHandler):
    """Stores blobs and manifests, and refuses content that does not match its digest."""

    blobs: dict[str, bytes]
    manifests: dict[str, bytes]
    uploads: list[str]

    def do_HEAD(self) -> None:
        self._answer(200 if self.path.rpartition("/")[2] in self.blobs else 404)

    def do_POST(self) -> None:
        self._answer(202, f"http://{self.headers['Host']}{self.path}upload?state=1")

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if "/manifests/" in self.path:
            self.manifests[self.path] = data
            self._answer(201)
            return
        name = self.path.rpartition("digest=")[2]
        if name == digest(data):
            self.blobs[name] = data
            self.uploads.append(name)
        self._answer(201 if name == digest(data) else 400)

    def _answer(self, status: int, location: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        if location:
            self.send_header("Location", location)
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """Print nothing."""


@pytest.fixture
def server() -> Iterator[type[FakeRegistry]]:
    handler = type("Handler", (FakeRegistry,), {"blobs": {}, "manifests": {}, "uploads": []})
    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    handler.port = listening.server_address[1]  # type: ignore[attr-defined]
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    yield handler
    listening.shutdown()
    listening.server_close()


def test_a_push_uploads_blobs_and_the_manifest(server: type[FakeRegistry], layer: oci.Layer) -> None:
    registry = Registry("127.0.0.1", server.port)  # type: ignore[attr-defined]
    registry.push("registry.k8s.io/tool:v1", [layer], oci.Settings())

    manifest = json.loads(server.manifests["/v2/registry.k8s.io/tool/manifests/v1"])
    named = {manifest["config"]["digest"], *(part["digest"] for part in manifest["layers"])}
    assert named == set(server.blobs)


def test_an_existing_blob_is_not_uploaded_again(server: type[FakeRegistry], layer: oci.Layer) -> None:
    registry = Registry("127.0.0.1", server.port)  # type: ignore[attr-defined]
    registry.push("registry.k8s.io/tool:v1", [layer], oci.Settings())
    registry.push("registry.k8s.io/tool:v2", [layer], oci.Settings())

    assert server.uploads.count(layer.digest) == 1
    assert len(server.manifests) == 2


def test_a_refusal_of_the_registry_is_an_error(server: type[FakeRegistry], layer: oci.Layer) -> None:
    wrong = oci.Layer(layer.path, "sha256:" + "0" * 64, layer.tar_digest)
    with pytest.raises(DepotError, match=r"PUT .* gave 400"):
        Registry("127.0.0.1", server.port).push("a/b:c", [wrong], oci.Settings())  # type: ignore[attr-defined]


def test_a_registry_name_may_have_a_port() -> None:
    assert split("registry.k8s.io/coredns/coredns:v1.14.2") == ("registry.k8s.io/coredns/coredns", "v1.14.2")


def test_digests_are_read_from_the_storage_by_the_full_image_name(lab_cache: Path) -> None:
    assert digests() == {}
    root = lab_cache / "registry/docker/registry/v2/repositories"
    wanted = {"registry.k8s.io/pause:3.10.2": "sha256:" + "1" * 64, "nvcr.io/nvidia/k8s/a.b:v1": "sha256:" + "2" * 64}
    for reference, value in wanted.items():
        name, tag = split(reference)
        link = root / name / "_manifests/tags" / tag / "current/link"
        link.parent.mkdir(parents=True)
        link.write_text(value)
        # Former manifests of the tag are ignored.
        (link.parent.parent / "index/sha256/3").mkdir(parents=True)
    assert digests() == wanted
