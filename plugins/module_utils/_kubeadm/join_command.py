# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse kubeadm's output: join commands since 1.9, certificate keys, errors.

Source of the join command: kubernetes cmd/kubeadm/app/cmd/util/join.go and its history.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from .text import ENDPOINT, mask, mask_pieces, plain, unreadable
from .tokens import is_token

_WHAT = "join command"
_HASH = re.compile(r"sha256:[0-9a-fA-F]{64}")
_KEY = re.compile(r"[0-9a-fA-F]{64}")
_COMMAND = re.compile(r"(?<![\w.-])kubeadm[ \t\xa0]+join[ \t\xa0]+")
_CONTINUED = re.compile(r"\\[ \t]*\n")
# A command without these flags is part of a sentence, such as ``kubeadm join --help``.
_TELLING = re.compile(r"--(?:token|discovery-|tls-bootstrap-token|certificate-key)")
_CONTROL_PLANE = ("--control-plane", "--experimental-control-plane")
_SKIP = "--discovery-token-unsafe-skip-ca-verification"
_SWITCHES = (
    *_CONTROL_PLANE,
    _SKIP,
    "--dry-run",
    "--skip-preflight-checks",
    "--logtostderr",
    "--alsologtostderr",
    "--skip-headers",
    "--skip-log-headers",
    "--one-output",
    "--add-dir-header",
)


@dataclass(frozen=True)
class JoinCommand:
    """A parsed ``kubeadm join`` command line. An IPv6 ``host`` has no brackets."""

    host: str
    port: int
    token: str
    ca_cert_hashes: tuple[str, ...]
    certificate_key: str | None = None
    control_plane: bool = False
    unsafe_skip_ca_verification: bool = False


def is_ca_hash(text: str) -> bool:
    """Return whether the text is the hash of a CA's public key in kubeadm's form."""
    return bool(_HASH.fullmatch(text))


def join_command(text: str, control_plane: bool = False) -> JoinCommand:
    """Return the join command in the output of ``kubeadm token create --print-join-command`` or ``kubeadm init``.

    If there is no command for workers, the control plane's command is used without its control plane flags. Raise
    KubeadmTextError if there is no command, if it is not valid, or if two commands differ.
    """
    lines = _command_lines(_CONTINUED.sub(" ", plain(text)))
    if not lines:
        raise unreadable(_WHAT, f"there is none in {mask_pieces(plain(text))!r}")
    found = [_join_line(line) for line in lines]
    same = [command for command in found if command.control_plane == control_plane]
    if not same and not control_plane:
        same = [replace(command, control_plane=False, certificate_key=None) for command in found]
    if not same:
        raise unreadable(_WHAT, "none of them is for a control plane", f"kubeadm join {lines[0]}")
    other = next((number for number, command in enumerate(same) if command != same[0]), None)
    if other is not None:
        shown = f"kubeadm join {lines[found.index(same[0])]}; kubeadm join {lines[found.index(same[other])]}"
        raise unreadable(_WHAT, "there are several that differ", shown)
    return same[0]


def certificate_key(text: str) -> str:
    """Return the key in the output of ``kubeadm init phase upload-certs --upload-certs`` or ``kubeadm init``."""
    text = plain(text)
    keys = [line.strip() for line in text.split("\n") if _KEY.fullmatch(line.strip())]
    keys = keys or re.findall(r"--certificate-key[ \t]*[ =][ \t]*([0-9a-fA-F]{64})\b", text)
    if len(set(keys)) != 1:
        wrong = "there are several" if keys else f"there is none in {mask_pieces(text)!r}"
        raise unreadable("certificate key", wrong)
    return keys[0]


def complaint(stdout: str, stderr: str) -> str:
    """Return kubeadm's error message from its first error line on, without warnings and secrets."""
    lines = [line for line in plain(stderr).split("\n") if not re.match(r"\s*[IW]\d{4} ", line)]
    for number, line in enumerate(lines):
        if re.match(r"error|.*\[ERROR |E\d{4} |.*error execution phase", line):
            lines = lines[number:]
            break
    trailer = "To see the stack trace of this error"
    text = "\n".join(line for line in lines if not line.startswith(trailer)).strip()
    return mask(text or plain(stdout).strip()[-2000:] or "nothing")


def _command_lines(text: str) -> list[str]:
    """Return the arguments of each ``kubeadm join`` that is a command and not part of a sentence."""
    lines = []
    for line in text.split("\n"):
        starts = list(_COMMAND.finditer(line))
        ends = [match.start() for match in starts[1:]] + [len(line)]
        commands = [line[match.end() : end].strip() for match, end in zip(starts, ends)]
        lines += [command for command in commands if _TELLING.search(command)]
    return lines


def _join_line(line: str) -> JoinCommand:
    flags, positional = _flags(line.split())
    chosen = flags.get("--token") or flags.get("--discovery-token") or []
    host, port = _endpoint(positional)
    values = ",".join(flags.get("--discovery-token-ca-cert-hash", [])).split(",")
    hashes = tuple(sorted({value.lower() for value in values if value}))
    dangling = "" in flags.get("--discovery-token-ca-cert-hash", [])
    keys = flags.get("--certificate-key", [])
    skip = _is_on(flags, _SKIP)
    wrong = None
    if not host:
        wrong = "it names no endpoint host:port"
    elif len(set(chosen)) != 1 or not is_token(chosen[0]):
        wrong = "it has no valid token"
    elif dangling or not all(is_ca_hash(value) for value in hashes) or not (hashes or skip):
        wrong = "it has no valid CA certificate hash"
    elif len(set(keys)) > 1 or not all(_KEY.fullmatch(key) for key in keys):
        wrong = "it has no valid certificate key"
    if wrong:
        raise unreadable(_WHAT, wrong, f"kubeadm join {line}")
    return JoinCommand(
        host=host,
        port=port,
        token=chosen[0],
        ca_cert_hashes=hashes,
        certificate_key=keys[0] if keys else None,
        control_plane=any(_is_on(flags, flag) for flag in _CONTROL_PLANE),
        unsafe_skip_ca_verification=skip,
    )


def _flags(words: Iterable[str]) -> tuple[dict[str, list[str]], list[str]]:
    flags: dict[str, list[str]] = {}
    positional = []
    waiting = None
    for quoted in words:
        word = quoted.strip("\"'`,;()")
        if waiting and not word.startswith("--"):
            flags[waiting].append(word)
            waiting = None
        elif word.startswith("-"):
            name, equals, value = word.partition("=")
            flags.setdefault(name, []).extend([value.strip("\"'")] if equals else [])
            waiting = None if equals or name in _SWITCHES else name
        elif word:
            positional.append(word)
    if waiting:
        flags[waiting].append("")
    return flags, positional


def _is_on(flags: dict[str, list[str]], name: str) -> bool:
    values = flags.get(name)
    return values is not None and (values[-1].lower() if values else "true") not in ("false", "f", "0")


def _endpoint(positional: list[str]) -> tuple[str, int]:
    """Return host and port; the host is empty if they are not valid."""
    match = ENDPOINT.fullmatch(positional[0]) if len(positional) == 1 else None
    if not match or not 0 < int(match["port"]) < 65536:
        return "", 0
    host = match["v6"] or match["name"]
    try:
        if match["v6"]:
            ipaddress.IPv6Address(host)
        elif re.fullmatch(r"[\d.]+", host):
            ipaddress.IPv4Address(host)
    except ValueError:
        return "", 0
    return ("" if ".." in host else host), int(match["port"])
