"""Replaces what identifies a machine or its owner in recorded texts; model, driver, VBIOS and date stay. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

_UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE)
# The UUIDs that take the place of real ones, and no others.
REPLACED = re.compile(r"00000000-0000-0000-0000-\d{12}\Z")
_XML = re.compile(
    r"(<(serial|board_id|board_part_number|gpu_part_number|chassis_serial_number|img_version|oem_object|ecc_object"
    r"|pwr_object|process_name|pdi|gpu_fabric_guid)>)(?!N/A|None)[^<]+(</\2>)"
)
_TEXT = re.compile(
    r"^(\s*(?:Serial Number|Board ID|Board Part Number|GPU Part Number|Chassis Serial Number|Image Version|OEM Object"
    r"|ECC Object|Power Management Object|GPU PDI|Name|GPU Fabric GUID)\s+:\s)(?!N/A|None).+$",
    re.MULTILINE,
)
_REPLACEMENT = "0"


def identities(texts: Mapping[str, str]) -> dict[str, str]:
    """Return a replacement for every UUID in the texts, numbered in the order in which they appear."""
    found: dict[str, str] = {}
    for name in sorted(texts):
        for uuid in _UUID.findall(texts[name]):
            if not REPLACED.match(uuid):
                found.setdefault(uuid.lower(), f"00000000-0000-0000-0000-{len(found):012d}")
    return found


def scrub(text: str, uuids: Mapping[str, str], names: Mapping[str, str]) -> str:
    """Return the text without serial and board numbers, InfoROM ids, UUIDs, and the ``names`` of hosts and processes.

    ``names`` maps a word to its replacement.
    """
    text = _UUID.sub(lambda match: uuids.get(match[0].lower(), match[0]), text)
    text = _XML.sub(rf"\g<1>{_REPLACEMENT}\g<3>", text)
    text = _TEXT.sub(rf"\g<1>{_REPLACEMENT}", text)
    for name, replacement in names.items():
        if len(name) > 1:
            text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", replacement, text)
    return text
