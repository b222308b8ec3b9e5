"""Private key checks of AWX 24.6.1 for new credentials (awx/main/validators.py, awx/main/fields.py)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping

_KEY = re.compile(r"-{4,} *BEGIN (?P<type>[A-Z ]*?) *-{4,}\s*(?P<data>.+?)\s*-{4,} *END (?P=type) *-{4,}\s*", re.DOTALL)
_OPEN = b"openssh-key-v1\0\0\0\0\x04none"


def problems(inputs: Mapping[str, str]) -> dict[str, list[str]]:
    """Return AWX's errors about the inputs of a machine credential, by input."""
    key = inputs.get("ssh_key_data", "")
    found = _KEY.fullmatch(key.lstrip())
    if not key:
        return {}
    if not found or not found["type"].endswith("PRIVATE KEY"):
        return {"ssh_key_data": [f"Invalid certificate or key: {key[:100]}..."]}
    if found["type"] != "OPENSSH PRIVATE KEY":
        encrypted = "ENCRYPTED" in found[0]
    else:
        try:
            encrypted = not base64.b64decode(found["data"]).startswith(_OPEN)
        except binascii.Error:
            return {"ssh_key_data": ["Invalid base64-encoded data"]}
    if encrypted and not inputs.get("ssh_key_unlock"):
        return {"ssh_key_unlock": ["must be set when SSH key is encrypted."]}
    if inputs.get("ssh_key_unlock") and not encrypted:
        return {"ssh_key_unlock": ["should not be set when SSH key is not encrypted."]}
    return {}
