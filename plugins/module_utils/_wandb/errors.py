# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Explain errors of W&B's SDK and what to do.

The messages were observed with wandb 0.31.0: AuthenticationError of wandb/sdk/wandb_login.py, and GraphQL errors that
wandb-core passes on.
"""

from __future__ import annotations

_OLD = ("Cannot query field", "UnsupportedError", "not supported by this version", "Unknown argument")
_REFUSED = ("invalid API key", "Failed to verify credentials", "AuthenticationError", "401", "unauthorized")
_UNREACHED = (
    "connection refused",
    "no such host",
    "timeout",
    "timed out",
    "deadline exceeded",
    "failed to connect",
    "did not respond",
)


def explained(error: str, url: str, entity: str) -> str:
    """Return the cause of an error of W&B's SDK and what to do, as the end of a sentence."""
    said = " ".join(error.replace("input: ", "").split()).rstrip(".")
    low = said.lower()
    if "API key must" in said or "API key may only" in said or "API key is empty" in said:
        return f"this is not a W&B API key: {said}. Check wandb_launch_api_key or its file"
    if any(word in low for word in _UNREACHED):
        return f"{url} does not respond ({said}). Check wandb_launch_base_url and the controller's proxy settings"
    if any(word.lower() in low for word in _REFUSED):
        return (
            f"{url} rejects the key: it has expired, was deleted, or belongs to another server. Create a new key "
            "there (User settings, API keys), and put it into wandb_launch_api_key or its file"
        )
    if any(word.lower() in low for word in _OLD):
        return (
            f"the server at {url} is too old for it ({said}). Upgrade W&B Server, or create the queue on its web pages"
        )
    if "entity" in low or "permission denied" in low or "have access" in low:
        return (
            f"{url} reports: {said}. Check wandb_launch_entity ({entity}), and whether the owner of the key may "
            "change that team"
        )
    return said
