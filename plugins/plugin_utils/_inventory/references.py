# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find undefined names in inventory templates, and vault values without a password.

A template may refer to names that are set later in the run: facts, defaults of roles, variables of plays. This does not
apply to connection variables, which Ansible needs before it reads facts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from jinja2 import Undefined, UndefinedError

from ...module_utils._problem import Problem

_COLLECTION = Path(__file__).resolve().parents[3]
_NEEDED_TO_CONNECT = "Ansible needs the value to connect to the host"
_NAME = re.compile(r"'(\w+)' is undefined")
_ATTRIBUTE = re.compile(r"has no (?:attribute|element) '?([\w.-]+)'?")
_WORD = re.compile(r"[A-Za-z_]\w*")
_DEFINED = re.compile(r"^[ -]*([a-z]\w*):|register: (\w+)", re.MULTILINE)
_TEMPLATE = re.compile(r"\{[{%].*?[}%]\}", re.DOTALL)
_METHODS = {"get", "items", "keys", "values"}
_GUARDED = re.compile(r"\{%|\b(?:default|if|defined|undefined)\b|\|\s*d\b")
_GROUP = re.compile(
    r"""(?<![\w.])groups\s*(?:\[\s*(['"])(?P<quoted>[^'"]+)\1\s*\]|\.(?P<dotted>[A-Za-z_]\w*))"""
    r"""(?P<item>\s*(?:\[\s*-?[0-9]+\s*\]|\|\s*(?:first|last|random)\b))?"""
)
_HOSTVARS = re.compile(
    r"""(?<![\w.])hostvars\s*"""
    r"""(?:\[\s*(?:(['"])(?P<quoted>[^'"]+)\1|(?P<inner>groups(?:[^][]|\[[^][]*\])*))\s*\]|\.(?P<dotted>[A-Za-z_]\w*))"""
    r"""(?:\.(?P<attribute>[A-Za-z_]\w*)|\[\s*(['"])(?P<key>\w+)['"]\s*\])?"""
)
# hostvars is not available while hostvars are evaluated.
_NEVER_JUDGED = {"hostvars", "vars", "omit"}
_FACTS = {*_NEVER_JUDGED, "ansible_facts", "ansible_local", "preflight_host"}
# Prefixes of names that roles define, and of facts that Ansible injects.
_DEFINED_LATER = re.compile(r"_|ansible_")
# Variables that the plugins ssh, paramiko_ssh, local, sudo, su and sh use, and Ansible itself before a module runs.
CONNECTION = frozenset(
    f"ansible_{name}"
    for name in re.findall(
        r"\w+",
        """
    async_dir become become_exe become_flags become_method become_pass become_password become_user common_remote_group
    connection connection_user control_path control_path_dir host host_key_checking module_compression
    no_target_syslog password pipelining port private_key private_key_file private_key_passphrase python_interpreter
    remote_tmp scp_executable scp_extra_args sftp_batch_mode sftp_executable sftp_extra_args
    shell_allow_world_readable_temp shell_executable shell_type ssh_args ssh_common_args ssh_executable ssh_extra_args
    ssh_host ssh_host_key_checking ssh_pass ssh_password ssh_password_mechanism ssh_pipelining ssh_pkcs11_provider
    ssh_port ssh_private_key ssh_private_key_file ssh_private_key_passphrase ssh_retries ssh_timeout
    ssh_transfer_method ssh_use_tty ssh_user ssh_verbosity sshpass_prompt su_exe su_flags su_pass su_prompt_l10n
    su_user sudo_chdir sudo_exe sudo_flags sudo_pass sudo_user system_tmpdirs timeout user
    """,
    )
)


@cache
def texts_of_roles() -> tuple[str, ...]:
    """Return the texts of all YAML files in roles and playbooks."""
    files = (path for folder in ("roles", "playbooks") for path in (_COLLECTION / folder).rglob("*.yml"))
    return tuple(path.read_text(encoding="utf-8") for path in files)


@cache
def _names_in_roles() -> set[str]:
    """Return the names that roles and playbooks define at runtime, and other keys in their files."""
    found = {name for text in texts_of_roles() for pair in _DEFINED.findall(text) for name in pair}
    return {name for name in found if "_" in name}


@dataclass(frozen=True)
class Scope:
    """What a host's templates may refer to; ``raw`` are its unevaluated variables, ``later`` names defined elsewhere.

    ``host`` returns the variables of another host in the inventory, None if there is no such host.
    """

    raw: Mapping[str, Any]
    later: Collection[str] = ()
    host: Callable[[str], Mapping[str, Any] | None] | None = None

    def defines_later(self, name: str, connection: bool) -> bool:
        if name in _NEVER_JUDGED or name in self.later:
            return True
        return not connection and (name in _FACTS or bool(_DEFINED_LATER.match(name)) or name in _names_in_roles())

    def templates(self, name: str) -> Iterator[str]:
        """Yield the templates of a variable, and of the variables that it refers to."""
        left, seen = [name], {name}
        while left:
            for text in _texts(self.raw.get(left.pop())):
                for template in _TEMPLATE.findall(text):
                    yield template
                    new = {word for word in _WORD.findall(template) if word in self.raw} - seen
                    seen |= new
                    left += sorted(new)

    def words(self, name: str) -> set[str]:
        """Return all identifiers in the templates of a variable, and of the variables that it refers to."""
        return {word for template in self.templates(name) for word in _WORD.findall(template)}


def _texts(value: Any) -> Iterator[str]:
    """Yield the strings in a value. Encrypted values are skipped, because reading them would decrypt them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for entry in value.values():
            yield from _texts(entry)
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from _texts(entry)


def words(value: Any) -> set[str]:
    """Return all identifiers in the templates of a value."""
    return {word for text in _texts(value) for template in _TEMPLATE.findall(text) for word in _WORD.findall(template)}


def plain(value: Any) -> Any:
    """Return a value without Ansible's own objects, whose copies would copy much of Ansible.

    Raises UndefinedError, with its cause, for a template with an undefined name.
    """
    if isinstance(value, Undefined):
        str(value)
    if isinstance(value, Mapping):
        return {key: plain(entry) for key, entry in value.items()}
    return [plain(entry) for entry in value] if isinstance(value, (list, tuple)) else value


def is_unset(value: Any) -> bool:
    """Return whether a value is null or ``omit``, for which Ansible uses its own default."""
    return value is None or type(value).__name__ == "_OmitType"


def connection_variables(scope: Scope) -> list[str]:
    """Return the connection variables that must be evaluated: templates and encrypted values."""
    found = [(name, value) for name, value in scope.raw.items() if name in CONNECTION]
    return [name for name, value in found if not _is_literal(value)]


def _is_literal(value: Any) -> bool:
    return "{" not in value if isinstance(value, str) else isinstance(value, (int, float, type(None)))


def problems(host: str, name: str, variables: Mapping[str, Any], scope: Scope, connection: bool) -> Iterator[Problem]:
    """Find out why a variable has no value in this run or, for ``connection``, before hosts are contacted."""
    try:
        str(plain(variables[name]))
    except (UndefinedError, AnsibleError) as error:
        found = dict.fromkeys(_missing(name, scope)) if connection else {}
        for what, do in found:
            yield Problem("variable_undefined", what, name, _NEEDED_TO_CONNECT, do, host)
        if not found:
            yield from _judged(host, name, error, scope, connection)


def _missing(name: str, scope: Scope) -> Iterator[tuple[str, str]]:
    """Yield hosts and groups in templates that the inventory doesn't have, and what to do.

    Templates with conditions and defaults don't need them.
    """
    groups = scope.raw.get("groups") or {}
    for template in scope.templates(name):
        if _GUARDED.search(template):
            continue
        for found in _GROUP.finditer(template):
            group = found["quoted"] or found["dotted"]
            is_right = group in groups and (groups[group] or not found["item"])
            if groups and group not in _METHODS and not is_right:
                lack = "is empty" if group in groups else "the inventory does not have"
                yield (
                    f"{name} refers to the group {group}, which {lack}",
                    f"Add {f'hosts to the group {group}' if group in groups else f'the group {group} with its hosts'} "
                    "in the inventory, or correct the name",
                )
        for found in _HOSTVARS.finditer(template):
            yield from _missing_of_host(name, scope, _named_host(found, groups), found["key"] or found["attribute"])


def _named_host(found: re.Match[str], groups: Mapping[str, Any]) -> str:
    """Return the host that a template names, literally or as the first of a group; empty if neither."""
    inner = _GROUP.fullmatch(found["inner"].strip()) if found["inner"] else None
    if inner:
        hosts = groups.get(inner["quoted"] or inner["dotted"]) or [""]
        return str(hosts[0]) if re.search(r"0|first", inner["item"] or "") else ""
    return found["quoted"] or found["dotted"] or ""


def _missing_of_host(name: str, scope: Scope, host: str, attribute: str | None) -> Iterator[tuple[str, str]]:
    if not scope.host or not host or host in _METHODS:
        return
    variables = scope.host(host)
    if variables is None:
        yield (
            f"{name} refers to the host {host}, which is not in the inventory",
            f"Add the host {host} to the inventory, or correct the name",
        )
    elif attribute and attribute not in variables and attribute not in scope.later and attribute not in _METHODS:
        yield (
            f"{name} refers to {attribute} of the host {host}, which is not defined",
            f"Define {attribute} for {host} in the inventory, or correct the name",
        )


def _judged(host: str, name: str, error: Exception, scope: Scope, connection: bool) -> Iterator[Problem]:
    # Ansible passes template errors on as undefined values; the cause shows the difference.
    cause = error.__cause__ or (error if isinstance(error, AnsibleError) else None)
    message = " ".join(str(cause or error).split())
    why = _NEEDED_TO_CONNECT if connection else "The roles need the value"
    missing, attribute = _NAME.search(str(error)), _ATTRIBUTE.search(str(error))
    if cause and "vault" in f"{type(cause).__name__} {message}".lower():
        yield Problem(
            "vault_locked",
            f"{name} is encrypted with Ansible Vault, and the password is missing or wrong",
            name,
            why,
            "Run again with --ask-vault-pass or --vault-password-file FILE",
            host,
        )
    elif cause and not missing and not attribute:
        if connection or _is_broken(cause):
            yield Problem(
                "template_wrong",
                f"{name} is not a valid template: {message}"
                if _is_broken(cause)
                else f"{name} can't be evaluated: {message}",
                name,
                why,
                "Correct the template, or write the value itself",
                host,
            )
    elif missing and not scope.defines_later(missing[1], connection):
        yield Problem(
            "variable_undefined",
            f"{name} refers to {missing[1]}, which is not defined",
            name,
            why,
            f"Define {missing[1]} in the inventory (group_vars, host_vars), correct the name, or give the file that "
            "defines it (-e @FILE)",
            host,
        )
    elif attribute and not missing:
        yield from _without(host, name, attribute[1], message, scope, connection, why)


def _without(
    host: str, name: str, attribute: str, message: str, scope: Scope, connection: bool, why: str
) -> Iterator[Problem]:
    words = scope.words(name)
    if not words or words & (_NEVER_JUDGED if connection else _FACTS):
        return
    if words & _FACTS:
        what, do = f"{name} refers to facts, which are not known yet", "Write the value itself"
    elif "groups" in words:
        what = f"{name} refers to the group {attribute}, which the inventory does not have or which is empty"
        do = f"Add the group {attribute} with its hosts to the inventory, or correct the name"
    else:
        what, do = f"{name} can't be evaluated: {message}", "Correct the name, or define what it refers to"
    yield Problem("variable_undefined", what, name, why, do, host)


def _is_broken(cause: BaseException) -> bool:
    return "Syntax error" in str(cause) or "Recursive loop" in str(cause)
