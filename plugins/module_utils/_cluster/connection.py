# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Connections to the API from the fields of a kubeconfig.

The Kubernetes client would do the same, but importing it takes longer than most requests, in each task.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any
from urllib.request import getproxies

from .._kubeadm.kubeconfig import Kubeconfig

# Pods are asked about in parallel.
_CONNECTIONS = 20


def pool(config: Kubeconfig) -> Any:
    """Return a pool of connections to the server, through the proxy of the environment if there is one.

    Raises ImportError without urllib3, and OSError if the certificates or the key can't be used.
    """
    import urllib3

    settings = {"ssl_context": _context(config), "cert_reqs": "CERT_REQUIRED", "maxsize": _CONNECTIONS}
    if config.tls_server_name:
        settings["server_hostname"] = config.tls_server_name
    proxy = _proxy(config.server)
    if proxy.startswith("socks"):
        from urllib3.contrib.socks import SOCKSProxyManager

        return SOCKSProxyManager(proxy, **settings)
    return urllib3.ProxyManager(proxy, **settings) if proxy else urllib3.PoolManager(**settings)


def _context(config: Kubeconfig) -> Any:
    """The settings of TLS. ssl.SSLError, if it refuses them, is an OSError."""
    from urllib3.util.ssl_ import create_urllib3_context

    context = create_urllib3_context()
    if config.ca:
        context.load_verify_locations(cadata=config.ca)
    else:
        context.load_default_certs()
    if config.client_certificate and config.client_key:
        # OpenSSL reads them from files alone; they are gone before the server is asked.
        with tempfile.TemporaryDirectory() as scratch:
            certificate, key = Path(scratch, "certificate"), Path(scratch, "key")
            certificate.write_text(config.client_certificate)
            key.touch(mode=0o600)
            key.write_text(config.client_key)
            context.load_cert_chain(certificate, key)
    return context


def _proxy(server: str) -> str:
    """The proxy of the environment for this server, empty for none."""
    proxies = getproxies()
    proxy = proxies.get("https") or proxies.get("all") or ""
    if not proxy:
        return ""
    # Networks count in its no_proxy, which they don't in that of Python.
    from kubernetes.client.rest import should_bypass_proxies

    return "" if should_bypass_proxies(server, proxies.get("no") or "") else proxy
