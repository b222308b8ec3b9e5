# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readers of what kubeadm prints: join commands since 1.9, bootstrap tokens, certificate keys, errors.

Forms of the join command: kubernetes cmd/kubeadm/app/cmd/util/join.go and its history.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError

JOIN_GROUP = "system:bootstrappers:kubeadm:default-node-token"

_TOKEN = re.compile(r"[a-z0-9]{6}\.[a-z0-9]{16}")
_HASH = re.compile(r"sha256:[0-9a-fA-F]{64}")
_KEY = re.compile(r"[0-9a-fA-F]{64}")
_SECRETS = re.compile(r"[a-z0-9]{6}\.[a-z0-9]{16}|(?<!sha256:)(?<![0-9a-fA-F])[0-9a-fA-F]{64,}")
_SECRET_FLAGS = re.compile(r"(--(?:discovery-|tls-bootstrap-)?token|--certificate-key)([ \t]+|=)(?!-)\S+")
_PIECES = re.compile(r"[A-Za-z0-9]{0,6}\.[a-z0-9]{8,}")
_ENDPOINT = re.compile(
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|(?P<name>[A-Za-z0-9](?:[\w.-]*\w)?)):(?P<port>\d{1,5})", re.ASCII
)
_COMMAND = re.compile(r"(?:^|[\s/\"'`>])kubeadm[ \t]+join[ \t]+")
_CONTINUED = re.compile(r"\\[ \t]*\r?\n")
_CONTROL_PLANE = ("--control-plane", "--experimental-control-plane")
_SKIP = "--discovery-token-unsafe-skip-ca-verification"
_SWITCHES = (*_CONTROL_PLANE, _SKIP, "--dry-run")


class KubeadmTextError(DomainError):
    """kubeadm printed something that can't be made sense of. The text shows it with its secrets masked."""


@dataclass(frozen=True)
class JoinCommand:
    """What a C(kubeadm join) command line says."""

    host: str
    port: int
    token: str
    ca_cert_hashes: tuple[str, ...]
    certificate_key: str | None = None
    control_plane: bool = False
    unsafe_skip_ca_verification: bool = False


@dataclass(frozen=True)
class Token:
    """A bootstrap token. ``expires`` is None for one that never does."""

    token: str
    expires: datetime | None
    usages: tuple[str, ...]
    groups: tuple[str, ...]
    description: str | None

    def lets_join(self, now: datetime, life: timedelta) -> bool:
        """Whether a worker can join with it, and still can after that time."""
        return (
            {"authentication", "signing"} <= set(self.usages)
            and JOIN_GROUP in self.groups
            and (self.expires is None or self.expires - now >= life)
        )


def mask(text: str) -> str:
    """The text without bootstrap tokens and certificate keys; CA hashes are no secret and stay."""
    return _SECRETS.sub("********", _SECRET_FLAGS.sub(r"\1\2********", text))


def is_ca_hash(text: str) -> bool:
    """Whether this is the hash of a CA's public key, as kubeadm writes it."""
    return bool(_HASH.fullmatch(text))


def join_command(text: str, control_plane: bool = False) -> JoinCommand:
    """The join command in the output of C(kubeadm token create --print-join-command) or C(kubeadm init).

    For a worker the command for workers is taken, or the one for control planes less what makes it one. Raises
    KubeadmTextError when there is none, when it is not valid, and when two commands disagree.
    """
    lines = _command_lines(_CONTINUED.sub(" ", text))
    if not lines:
        # Nothing is known about this text, so whatever might be a piece of a token is masked as well.
        shown = _PIECES.sub("********", mask(text))[:400]
        raise KubeadmTextError(f"Error while reading the join command of kubeadm: there is none in {shown!r}")
    found = [_join_line(line) for line in lines]
    same = [command for command in found if command.control_plane == control_plane]
    if not same and not control_plane:
        same = [_for_worker(command) for command in found]
    if not same:
        raise KubeadmTextError(
            "Error while reading the join command of kubeadm: none of them is for a control plane: "
            + mask(f"kubeadm join {lines[0]}")
        )
    if len(set(same)) > 1:
        raise KubeadmTextError(
            "Error while reading the join command of kubeadm: there are several that differ: "
            + "; ".join(mask(f"kubeadm join {line}") for line in lines)
        )
    return same[0]


def tokens(text: str) -> list[Token]:
    """The bootstrap tokens in the output of C(kubeadm token list -o json), a stream of JSON objects."""
    found = []
    decoder = json.JSONDecoder()
    position = text.find("{")
    while position >= 0:
        try:
            data, position = decoder.raw_decode(text, position)
            found.append(_token(data))
        except (ValueError, RecursionError) as error:
            raise KubeadmTextError(f"Error while reading the bootstrap tokens of kubeadm: {error}") from error
        position = text.find("{", position)
    return found


def certificate_key(text: str) -> str:
    """The key in the output of C(kubeadm init phase upload-certs --upload-certs), or of C(kubeadm init)."""
    keys = [line.strip() for line in text.splitlines() if _KEY.fullmatch(line.strip())]
    keys = keys or re.findall(r"--certificate-key[ =]([0-9a-fA-F]{64})\b", text)
    if len(set(keys)) != 1:
        raise KubeadmTextError(f"Error while reading the certificate key of kubeadm: none in {mask(text)[:400]!r}")
    return keys[0]


def complaint(stdout: str, stderr: str) -> str:
    """What kubeadm complains about: from its first error line on, without warnings and secrets."""
    lines = [line for line in stderr.splitlines() if not re.match(r"\s*[IW]\d{4} ", line)]
    for number, line in enumerate(lines):
        if re.match(r"error|.*\[ERROR |E\d{4} |.*error execution phase", line):
            lines = lines[number:]
            break
    trailer = "To see the stack trace of this error"
    text = "\n".join(line for line in lines if not line.startswith(trailer)).strip()
    return mask(text or stdout.strip()[-2000:] or "nothing")


def _command_lines(text: str) -> list[str]:
    """What follows C(kubeadm join) in each line that is a command and not prose."""
    lines = []
    for line in text.split("\n"):
        start = _COMMAND.search(line)
        if start and "--" in line[start.end() :]:
            lines.append(line[start.end() :].strip())
    return lines


def _join_line(line: str) -> JoinCommand:
    flags, positional = _flags(line.split())
    shown = mask(f"kubeadm join {line}")[:400]
    chosen = flags.get("--token", []) or flags.get("--discovery-token", [])
    match = _ENDPOINT.fullmatch(positional[0]) if len(positional) == 1 else None
    hashes = tuple(sorted({value.lower() for value in flags.get("--discovery-token-ca-cert-hash", [])}))
    keys = flags.get("--certificate-key", [])
    skip = _SKIP in flags
    wrong = None
    if not match or not 0 < int(match["port"]) < 65536:
        wrong = "it names no endpoint host:port"
    elif len(set(chosen)) != 1 or not _TOKEN.fullmatch(chosen[0]):
        wrong = "it has no valid token"
    elif not all(is_ca_hash(value) for value in hashes) or not (hashes or skip):
        wrong = "it has no valid CA certificate hash"
    elif len(set(keys)) > 1 or not all(_KEY.fullmatch(key) for key in keys):
        wrong = "it has no valid certificate key"
    if wrong or not match:
        raise KubeadmTextError(f"Error while reading the join command of kubeadm: {wrong}: {shown}")
    return JoinCommand(
        host=match["v6"] or match["name"],
        port=int(match["port"]),
        token=chosen[0],
        ca_cert_hashes=hashes,
        certificate_key=keys[0] if keys else None,
        control_plane=any(flag in flags for flag in _CONTROL_PLANE),
        unsafe_skip_ca_verification=skip,
    )


def _flags(words: Iterable[str]) -> tuple[dict[str, list[str]], list[str]]:
    flags: dict[str, list[str]] = {}
    positional = []
    waiting = None
    for quoted in words:
        word = quoted.strip("\"'`")
        if waiting:
            flags[waiting].append(word)
            waiting = None
        elif word.startswith("-"):
            name, equals, value = word.partition("=")
            flags.setdefault(name, []).extend([value] if equals else [])
            waiting = None if equals or name in _SWITCHES else name
        else:
            positional.append(word)
    return flags, positional


def _for_worker(command: JoinCommand) -> JoinCommand:
    return JoinCommand(
        host=command.host,
        port=command.port,
        token=command.token,
        ca_cert_hashes=command.ca_cert_hashes,
        unsafe_skip_ca_verification=command.unsafe_skip_ca_verification,
    )


def _token(data: Any) -> Token:
    if not isinstance(data, dict) or not isinstance(data.get("token"), str) or not _TOKEN.fullmatch(data["token"]):
        raise ValueError("an object holds no token")
    expires = data.get("expires")
    return Token(
        token=data["token"],
        expires=_time(expires) if expires else None,
        usages=_strings(data.get("usages")),
        groups=_strings(data.get("groups")),
        description=data["description"] if isinstance(data.get("description"), str) else None,
    )


def _strings(value: Any) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _time(value: Any) -> datetime:
    # RFC 3339 as Go writes it; fromisoformat of Python 3.9 knows neither Z nor nanoseconds.
    match = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)", str(value))
    if not match:
        raise ValueError(f"{value!r} is no time")
    zone = "+00:00" if match[2] == "Z" else match[2]
    return datetime.fromisoformat(match[1] + zone).astimezone(timezone.utc)
