# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What prevents Docker from being set up as declared on a host, checked before any change."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ...module_utils._docker import logs

# dockerd refuses to start if a setting is in daemon.json and also an option in its unit.
_OPTIONS = ("containerd", "hosts")
# moby, daemon/pkg/registry/config.go: ValidateMirror
_MIRROR = re.compile(r"https?://[^\s/?#@]+(?:/[^\s?#]*)?", re.ASCII)
_DIRECTORY = re.compile(r"(?:/[^/\s]+)+", re.ASCII)
# Docker's built-in runtimes.
_RUNTIMES = ("", "runc", "io.containerd.runc.v2")


def problems(
    found: Mapping[str, Any],
    version: str,
    table: Mapping[str, Any],
    system: str,
    gpus: str,
    wanted: Mapping[str, Any],
) -> Iterator[str]:
    """Yield sentences, each with what to do. ``found`` is the result of docker_info.

    ``gpus`` is how containers get GPUs, ``none`` on a host without GPUs. ``wanted`` are the settings default_runtime,
    honor_visible_devices, log_options, registry_mirrors, data_root and daemon_settings, and whether the host is a node
    of a Kubernetes cluster (kubernetes).
    """
    for one in found["rootless"]:
        yield (
            f"User {one['user']} has a rootless Docker ({one['file']}), and two Docker daemons on one host are easily "
            "confused: remove it as that user (dockerd-rootless-setuptool.sh uninstall), or exclude this host."
        )
    if found["snap"]:
        yield (
            "Docker is installed as a snap, whose settings are in other files: remove it (snap remove docker), or "
            "exclude this host."
        )
    if version not in table:
        yield f"Docker {version} is not in the table of versions: set docker_version to {' or '.join(table)}."
    elif system not in table[version]["packages"]:
        there = ", ".join(table[version]["packages"])
        yield (
            f"The table has no packages of Docker {version} for {system}, only for {there}: choose another "
            "docker_version."
        )
    yield from _form_problems(wanted)
    yield from _log_problems(found, wanted)
    settings = wanted["daemon_settings"] if isinstance(wanted["daemon_settings"], Mapping) else {}
    runtime = wanted["default_runtime"]
    if runtime == "nvidia" and gpus != "runtime":
        yield (
            "docker_default_runtime is nvidia, but this runtime exists only on hosts with GPUs and "
            "docker_gpus=runtime: set docker_gpus=runtime, or remove docker_default_runtime for this host."
        )
    elif runtime not in (*_RUNTIMES, "nvidia", *(settings.get("runtimes") or {})):
        yield (
            f"docker_default_runtime is {runtime}, but no runtime of that name is declared: add it with its path to "
            "runtimes in docker_daemon_settings."
        )
    yield from _default_runtime_problems(found, gpus, settings)
    if gpus != "none" and (settings.get("features") or {}).get("cdi") is False:
        yield (
            "docker_daemon_settings disables features.cdi, without which containers do not get GPUs: remove it, or set "
            "docker_gpus=none."
        )
    if wanted["honor_visible_devices"]:
        yield from _visible_device_problems(gpus, settings.get("default-runtime") or runtime, wanted["kubernetes"])
    if found["unknown_users"]:
        yield (
            f"docker_users contains {', '.join(found['unknown_users'])}, but this host has no such user: create the "
            "user first, or remove the name."
        )
    for name in _OPTIONS:
        if settings.get(name) is not None:
            yield (
                f"docker_daemon_settings contains {name}, which Docker's systemd unit already passes as an option, "
                "and Docker does not start with both: remove the setting, or change the unit with your own drop-in."
            )


def _default_runtime_problems(found: Mapping[str, Any], gpus: str, settings: Mapping[str, Any]) -> Iterator[str]:
    """Check the default runtime: declared, in the present daemon.json, a path, or a runtime name of containerd."""
    name = str(settings.get("default-runtime") or "")
    declared = (*_RUNTIMES, *(settings.get("runtimes") or {}), *(["nvidia"] if gpus == "runtime" else []))
    if name not in declared and not found["configured"] and not {".", "/"} & set(name):
        yield (
            f"docker_daemon_settings: default-runtime is {name}, but no runtime of that name is declared, and Docker "
            + (
                "would not start: set docker_gpus=runtime on a host with GPUs, or remove it; with docker_gpus=cdi "
                "containers get GPUs with the usual runtime."
                if name == "nvidia"
                else "would not start: add it with its path to runtimes."
            )
        )


def _visible_device_problems(gpus: str, runtime: str, kubernetes: bool) -> Iterator[str]:
    what = "docker_honor_visible_devices is set, but"
    if kubernetes:
        yield (
            f"{what} this host runs Kubernetes, where every pod could then use all GPUs: remove "
            "docker_honor_visible_devices for this host."
        )
    if gpus == "cdi":
        yield f"{what} only the runtime nvidia reads NVIDIA_VISIBLE_DEVICES: set docker_gpus=runtime."
    if runtime == "nvidia":
        yield (
            f"{what} nvidia is the default runtime, and CUDA images set NVIDIA_VISIBLE_DEVICES=all, so their "
            "containers would get all GPUs without a request: remove docker_default_runtime, and choose the runtime "
            "for each container."
        )


def _log_problems(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[str]:
    """Check the declared log driver. If daemon.json may set it, docker_daemon_config checks the result instead."""
    settings, options = wanted["daemon_settings"], wanted["log_options"]
    if not isinstance(settings, Mapping) or not isinstance(options, Mapping):
        return
    own = settings.get("log-opts", {})
    if own is not None and not isinstance(own, Mapping):
        yield "docker_daemon_settings: log-opts must be a mapping, such as {tag: docker}."
    elif own is not None and (settings.get("log-driver") or not found["configured"]):
        name = logs.driver(settings)
        merged = {**logs.supported_options(name, options), **own}
        for problem in logs.problems(name, {key: value for key, value in merged.items() if value is not None}):
            yield (
                f"In docker_log_options and docker_daemon_settings, {problem}, and Docker would not start: correct "
                "log-driver or log-opts."
            )


def _form_problems(wanted: Mapping[str, Any]) -> Iterator[str]:
    """Check values for a wrong form, with which Docker does not start, now or after the next boot."""
    options = wanted["log_options"]
    if not isinstance(options, Mapping):
        yield "docker_log_options must be a mapping, such as {max-size: 100m}."
    else:
        for name, value in options.items():
            if not isinstance(value, str):
                yield f"docker_log_options: {name} must be a string, but {value!r:.40} is not: quote it."
    mirrors = wanted["registry_mirrors"]
    if not isinstance(mirrors, list):
        yield "docker_registry_mirrors must be a list of URLs, such as [https://mirror.example.org]."
    else:
        for mirror in mirrors:
            if not _MIRROR.fullmatch(str(mirror)):
                yield (
                    f"docker_registry_mirrors: {str(mirror)!r:.80} must be a URL without a user, such as "
                    "https://mirror.example.org."
                )
    root = wanted["data_root"]
    if root and (not _DIRECTORY.fullmatch(str(root)) or ".." in str(root).split("/")):
        yield f"docker_data_root: {str(root)!r:.80} must be an absolute path without '..', such as /srv/docker."
    if not isinstance(wanted["daemon_settings"], Mapping):
        yield "docker_daemon_settings must be a mapping, such as {bip: 10.77.0.1/24}."
