# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubeconfigs that run no program and read no file, built from the fields of others.

A kubeconfig can name a program (``exec``), files and a proxy, so loading one from a host would let that host run
programs: https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/.
"""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from .._kubeadm.kubeconfig import ORIGINAL_SERVER, Kubeconfig, KubeconfigError, host_port, read_kubeconfig

_NAMES = {"cluster": "kubernetes", "user": "kubernetes-admin"}
_DEEPEST = 50
_LONGEST = 1024 * 1024
# Settings that kubectl can convert to data.
_FILES = {"certificate-authority", "client-certificate", "client-key"}
_CONTEXT = f"{_NAMES['user']}@{_NAMES['cluster']}"


def read(text: str, context: str = "", addresses: Collection[str] = ()) -> Kubeconfig:
    """Return the fields of the named or current context. Requires PyYAML.

    ``addresses``: permitted names and addresses of its server; empty for any.
    Raise KubeconfigError for an unusable kubeconfig, or one with more than a server and credentials.
    """
    if len(text) > _LONGEST:
        raise KubeconfigError(f"Error while reading a kubeconfig: it is larger than {_LONGEST} bytes")
    config = read_kubeconfig(text, context, _load)
    if config.unsafe:
        raise KubeconfigError(
            f"Error while reading a kubeconfig: it has {' and '.join(config.unsafe)}. Only a server, and the data of "
            "CA, client certificate and key, or a token are accepted, because the rest can run programs, read files "
            "or redirect connections on the machine that uses it"
            + ("; kubectl config view --flatten --minify puts files into it" if set(config.unsafe) <= _FILES else "")
        )
    data = {
        "certificate-authority-data": config.ca,
        "client-certificate-data": config.client_certificate,
        "client-key-data": config.client_key,
    }
    for name, pem in data.items():
        # TLS would only report "PEM lib", and only after a server has answered.
        if pem and "-----BEGIN " not in pem:
            raise KubeconfigError(f"Error while reading a kubeconfig: {name} is not PEM")
    if not (config.client_certificate and config.client_key) and not config.token:
        raise KubeconfigError("Error while reading a kubeconfig: it has neither a client certificate nor a token")
    if config.token and not config.token.isprintable():
        raise KubeconfigError("Error while reading a kubeconfig: its token has characters that no token has")
    if addresses and _plain(config.host) not in {_plain(address) for address in addresses}:
        raise KubeconfigError(
            f"Error while reading a kubeconfig: its server is {config.host}, which is not an address of the control "
            f"plane. If it is right, set cluster_api_endpoint to {host_port(config.host, config.port)}"
        )
    return config


def build(config: Kubeconfig, tunnel_port: int = 0, namespace: str = "") -> dict[str, Any]:
    """Return a kubeconfig with only these fields.

    With ``tunnel_port`` the server is this port of the loopback address; its certificate must still be for the real
    name, and an extension contains the real server. ``namespace`` is the default namespace.
    """
    cluster: dict[str, Any] = {"server": f"https://127.0.0.1:{tunnel_port}" if tunnel_port else config.server}
    if tunnel_port:
        cluster["extensions"] = [{"name": ORIGINAL_SERVER, "extension": {"server": config.server}}]
    if config.ca:
        cluster["certificate-authority-data"] = _encoded(config.ca)
    name = config.tls_server_name or (config.host if tunnel_port else None)
    if name:
        cluster["tls-server-name"] = name
    user: dict[str, Any] = {}
    if config.client_certificate and config.client_key:
        user["client-certificate-data"] = _encoded(config.client_certificate)
        user["client-key-data"] = _encoded(config.client_key)
    if config.token:
        user["token"] = config.token
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAMES["cluster"], "cluster": cluster}],
        "contexts": [{"name": _CONTEXT, "context": {**_NAMES, **({"namespace": namespace} if namespace else {})}}],
        "current-context": _CONTEXT,
        "users": [{"name": _NAMES["user"], "user": user}],
    }


def by_address(config: Kubeconfig, address: str) -> Kubeconfig:
    """Return a kubeconfig with an address instead of its server's name, for which the certificate must be."""
    server = f"https://{host_port(address, config.port)}"
    return replace(config, server=server, host=address, tls_server_name=config.tls_server_name or config.host)


def build_contexts(configs: Mapping[str, Kubeconfig], current: str) -> dict[str, Any]:
    """Return a kubeconfig like ``build`` with a context for each of these servers, which have the same user."""
    whole, user = build(configs[current]), _NAMES["user"]
    names = {name: f"{user}@{name}" for name in configs}
    return {
        **whole,
        "clusters": [{**build(config)["clusters"][0], "name": name} for name, config in configs.items()],
        "contexts": [{"name": names[name], "context": {"cluster": name, "user": user}} for name in configs],
        "current-context": names[current],
    }


def _load(text: str) -> Any:
    # This file is also imported by roles that need no API.
    import yaml

    depth = 0
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            # Merged aliases can make a short text take hours, and tags can make PyYAML fail in many ways.
            if isinstance(event, yaml.AliasEvent) or getattr(event, "tag", None):
                raise ValueError("it has YAML aliases or tags, which Kubernetes' programs do not write")
            # PyYAML's run time grows with the depth.
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:
                raise ValueError(f"it is nested more than {_DEEPEST} levels deep")
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        # The message quotes the file, which contains keys.
        raise ValueError(f"it is not valid YAML ({type(error).__name__})") from None


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _plain(address: str) -> str:
    try:
        return str(ipaddress.ip_address(address.strip("[]")))
    except ValueError:
        return address.lower().rstrip(".")
