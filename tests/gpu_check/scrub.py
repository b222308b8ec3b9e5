"""Replace what identifies a machine or its owner in recorded texts. Model, driver, VBIOS and date stay. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

_UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE)
# The only UUIDs that replace real ones.
_REPLACED = re.compile(r"00000000-0000-0000-0000-\d{12}\Z")
_XML = re.compile(
    r"(<(serial|board_id|board_part_number|gpu_part_number|gpu_fru_part_number|chassis_serial_number|img_version"
    r"|oem_object|ecc_object|pwr_object|inforom_bbx_object|process_name|pdi|gpu_fabric_guid|host_id)>)(?!(?:N/A|None)<)[^<]+(</\2>)"
)
_TEXT = re.compile(
    r"^(\s*(?:Serial Number|Board ID|Board Part Number|GPU Part Number|GPU FRU Part Number|Chassis Serial Number"
    r"|Image Version|OEM Object|ECC Object|Power Management Object|Inforom BBX Object|GPU PDI|Name|GPU Fabric GUID"
    r"|Host ID)\s+:\s)(?!(?:N/A|None)\s*$).+$",
    re.MULTILINE,
)
# A process in the table: GPU, instances, process id, type, name, memory.
_ROW = re.compile(r"^(\|\s+\d+\s+(?:(?:N/A|\d+)\s+){2}\d+\s+[CGM+]+\s+)(\S.*?)(\s+(?:\d+MiB|N/A)\s+\|)$", re.MULTILINE)
_HOME = re.compile(r"/home/[^/\s\"':]+")


def uuids(texts: Iterable[str]) -> dict[str, str]:
    """Return a replacement for every UUID in the texts, numbered in order of appearance."""
    found: dict[str, str] = {}
    for text in texts:
        for uuid in _UUID.findall(text):
            if not _REPLACED.match(uuid):
                found.setdefault(uuid.lower(), f"00000000-0000-0000-0000-{len(found):012d}")
    return found


class Scrubber:
    """Replaces serial and board numbers, InfoROM versions, UUIDs, home directories, and the keys of ``names``."""

    def __init__(self, texts: Iterable[str], names: Mapping[str, str]) -> None:
        self._uuids = uuids(texts)
        # Longest first: a short name may be part of a longer one.
        self._names = [
            (re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", re.IGNORECASE), names[name])
            for name in sorted(names, key=len, reverse=True)
            if len(name) > 1
        ]

    def text(self, text: str) -> str:
        text = _UUID.sub(lambda match: self._uuids.get(match[0].lower(), match[0]), text)
        text = _TEXT.sub(r"\g<1>0", _XML.sub(r"\g<1>0\g<3>", text))
        text = _ROW.sub(lambda match: f"{match[1]}{'process'.ljust(len(match[2]))[: len(match[2])]}{match[3]}", text)
        for pattern, replacement in self._names:
            text = pattern.sub(replacement, text)
        return _HOME.sub("/home/user", text)

    def value(self, value: Any) -> Any:
        """Return a JSON value with its texts replaced. Keys of objects stay."""
        if isinstance(value, dict):
            return {
                key: self._processes(each) if key == "processes" else self.value(each) for key, each in value.items()
            }
        if isinstance(value, list):
            return [self.value(each) for each in value]
        return self.text(value) if isinstance(value, str) else value

    def _processes(self, value: Any) -> Any:
        """Return processes without their names. Those of nvidia_smi_info are objects, those of NVML pairs."""
        if isinstance(value, dict) and "name" in value:
            return {**value, "name": "process"}
        if isinstance(value, dict):
            return {key: self._processes(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._processes(each) for each in value]
        return "process" if isinstance(value, str) and value else value
