"""Simulate a host: answer each module with the recorded result of another host (see the callback "recorder")."""

from __future__ import annotations

import re
from pathlib import Path

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ConnectionBase

DOCUMENTATION = """
name: recordings
short_description: Stand in for a host
version_added: 0.2.0
description:
  - For the bench of this collection. Nothing is connected to.
options:
  recorded:
    description: The recordings of the host that this one is a copy of.
    type: path
    required: true
    vars:
      - name: bench_recorded
  replace:
    description: What is this host's own, by what it is in the recordings.
    type: dict
    default: {}
    vars:
      - name: bench_replace
"""
MODULE = re.compile(rb"^ansible_module='(?:[\w.]+\.)?(\w+)',$", re.M)


class Connection(ConnectionBase):  # type: ignore[misc]
    transport = "recordings"
    has_pipelining = True

    def _connect(self) -> Connection:
        return self

    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> tuple[int, bytes, bytes]:
        found = MODULE.search(in_data or b"")
        kept = Path(self.get_option("recorded")) / f"{found[1].decode() if found else 'none'}.json"
        if not kept.is_file():
            raise AnsibleConnectionFailure(f"no recording for {kept}: {cmd[:200]}")
        answer = kept.read_text()
        for recorded, own in self.get_option("replace").items():
            answer = re.sub(rf"(?<![\w.]){re.escape(recorded)}(?![\w.])", own, answer)
        return 0, answer.encode(), b""

    def put_file(self, in_path: str, out_path: str) -> None:
        raise AnsibleConnectionFailure(f"a stand-in takes no file: {in_path}")

    def fetch_file(self, in_path: str, out_path: str) -> None:
        raise AnsibleConnectionFailure(f"a stand-in has no file: {in_path}")

    def close(self) -> None:
        return
