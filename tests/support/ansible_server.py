# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs ansible-playbook in forks of one process that has imported Ansible and this collection's filters.

Ansible reads its settings when it is imported, so each set of settings needs a server.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os
import sys
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path

from support.fork_server import ForkServer, serve

_LAUNCHER = f"""
import sys
sys.path.append({str(Path(__file__).parents[1])!r})
from support import ansible_server
del sys.path[-1]
ansible_server.serve_playbooks()
"""
_servers: dict[frozenset[tuple[str, str]], ForkServer] = {}


def playbook_server(environ: Mapping[str, str]) -> ForkServer:
    """Return the server for the settings of this environment. Only the latest one is kept."""
    names = {"HOME", "LANG", "LC_ALL", "NO_COLOR", "PYTHONPATH"}
    settings = frozenset(
        (name, value)
        for name, value in environ.items()
        if (name.startswith("ANSIBLE_") and name != "ANSIBLE_LOCAL_TEMP") or name in names
    )
    if settings not in _servers:
        close()
        _servers[settings] = ForkServer([sys.executable, "-P", "-c", _LAUNCHER], environ)
    return _servers[settings]


@atexit.register
def close() -> None:
    """End the server."""
    while _servers:
        _servers.popitem()[1].close()


def serve_playbooks() -> None:
    """Run in a fork what `ForkServer.run` asks for: ansible-playbook with arguments."""
    # Messages that Ansible prints on import belong to the output of each run.
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        _load()
        file.seek(0)
        messages = file.read().decode()

    def run(*arguments: str) -> None:
        from ansible import constants
        from ansible.cli.playbook import PlaybookCLI

        # Most runs are too short for a collection to pay.
        gc.disable()
        sys.stderr.write(messages)
        warnings.filterwarnings("ignore", message="AnsibleCollectionFinder has already been configured")
        constants.DEFAULT_LOCAL_TMP = constants.config.get_config_value("DEFAULT_LOCAL_TMP")
        sys.argv = ["ansible-playbook", *arguments]
        PlaybookCLI.cli_executor(sys.argv)

    serve(lambda *_arguments: None, run)


def _load() -> None:
    """Import what most plays use."""
    from ansible import constants
    from ansible.plugins import loader

    importlib.import_module("ansible.cli.playbook")
    loader.init_plugin_loader()
    with contextlib.suppress(Exception):
        loader.filter_loader.get("gpulab.kubernetes.preflight_report")
    plugins = {
        loader.action_loader: ("assert", "copy", "debug", "fail", "include_vars", "normal", "set_fact", "set_stats"),
        loader.callback_loader: (constants.DEFAULT_STDOUT_CALLBACK, *constants.CALLBACKS_ENABLED),
        loader.connection_loader: ("local", "ssh"),
        loader.inventory_loader: constants.INVENTORY_ENABLED,
        loader.lookup_loader: ("vars", "varnames"),
        loader.shell_loader: ("sh",),
        loader.strategy_loader: ("linear", "free"),
    }
    for kind, names in plugins.items():
        for name in names:
            kind.get(name, class_only=True)
