# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Log options of Docker's log drivers; dockerd does not start with others, but --validate accepts them.

Source: moby, daemon/logger: factory.go (ValidateLogOpts) and each driver's own validator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_DEFAULT = "json-file"
# Options that limit a container's log file, which only two drivers write.
_LIMITS = frozenset({"max-size", "max-file", "compress"})
_LIMITED = frozenset({_DEFAULT, "local"})

_ATTRIBUTES = frozenset({"env", "env-regex", "labels", "labels-regex"})
# Options of factory.go and of loggerutils/cache.
_ALWAYS = {"mode", "max-buffer-size", "cache-disabled"} | {
    f"cache-{option}" for option in _ATTRIBUTES | _LIMITS | {"tag"}
}
_MODES = ("", "blocking", "non-blocking")
_OPTIONS: dict[str, frozenset[str]] = {
    _DEFAULT: _ATTRIBUTES | _LIMITS | {"tag"},
    "local": _ATTRIBUTES | _LIMITS | {"tag"},
    "journald": _ATTRIBUTES | {"tag"},
    "syslog": _ATTRIBUTES
    | {"tag", "syslog-address", "syslog-facility", "syslog-format"}
    | {"syslog-tls-ca-cert", "syslog-tls-cert", "syslog-tls-key", "syslog-tls-skip-verify"},
    "gelf": _ATTRIBUTES
    | {"tag", "gelf-address", "gelf-compression-level", "gelf-compression-type"}
    | {"gelf-tcp-max-reconnect", "gelf-tcp-reconnect-delay"},
    "fluentd": _ATTRIBUTES
    | {"tag", "fluentd-address", "fluentd-async", "fluentd-async-reconnect-interval", "fluentd-buffer-limit"}
    | {"fluentd-max-retries", "fluentd-read-timeout", "fluentd-request-ack", "fluentd-retry-wait"}
    | {"fluentd-sub-second-precision", "fluentd-write-timeout"},
    "awslogs": frozenset({"tag", "awslogs-create-group", "awslogs-create-stream", "awslogs-credentials-endpoint"})
    | {"awslogs-datetime-format", "awslogs-endpoint", "awslogs-force-flush-interval-seconds", "awslogs-format"}
    | {"awslogs-group", "awslogs-max-buffered-events", "awslogs-multiline-pattern", "awslogs-region"}
    | {"awslogs-stream"},
    "gcplogs": _ATTRIBUTES | {"gcp-project", "gcp-log-cmd", "gcp-meta-zone", "gcp-meta-name", "gcp-meta-id"},
    "splunk": _ATTRIBUTES
    | {"tag", "splunk-caname", "splunk-capath", "splunk-format", "splunk-gzip", "splunk-gzip-level", "splunk-index"}
    | {"splunk-index-acknowledgment", "splunk-insecureskipverify", "splunk-source", "splunk-sourcetype"}
    | {"splunk-token", "splunk-url", "splunk-verify-connection"},
}
_NEEDED = {"awslogs": "awslogs-group", "gelf": "gelf-address"}


def driver(values: Mapping[str, Any]) -> str:
    """Return the log driver in daemon.json, or Docker's default."""
    return str(values.get("log-driver") or _DEFAULT)


def supported_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options without the limits that this driver does not support."""
    return {option: value for option, value in options.items() if name in _LIMITED or option not in _LIMITS}


def problems(name: str, options: Mapping[str, Any]) -> Iterator[str]:
    """Yield why Docker would not start with these options of a log driver, as sentences without a period.

    The driver ``none`` accepts any option. The options of plugins are unknown.
    """
    if name == "none" or not options:
        return
    known = _OPTIONS.get(name)
    if known is not None:
        wrong = sorted(set(options) - known - _ALWAYS)
        if wrong:
            yield f"the log driver {name} does not have the options {', '.join(wrong)} of log-opts"
        needed = _NEEDED.get(name)
        if needed and not options.get(needed):
            yield f"the log driver {name} needs the option {needed} in log-opts"
    mode = options.get("mode", "")
    if mode not in _MODES:
        yield f"mode in log-opts is {mode!r:.40}, not blocking or non-blocking"
    elif "max-buffer-size" in options and mode != "non-blocking":
        yield "max-buffer-size in log-opts needs mode: non-blocking"
