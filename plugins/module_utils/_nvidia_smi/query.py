# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse ``nvidia-smi -q -x`` (nvsmi_device_v10 to v13, also without DOCTYPE) and the same log as indented text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from xml.etree.ElementTree import Element, ParseError, SubElement, XMLPullParser

from .faults import faults, health, license_problems, whole_gpu_problems
from .states import complaint
from .values import (
    MOST_GPUS,
    Reading,
    bus_id,
    either,
    empty_gpu,
    empty_mig,
    is_failure,
    mib,
    mode,
    number,
    version,
    whole,
    word,
    yes,
)

XML_START = "<nvidia_smi_log"
XML_END = "</nvidia_smi_log>"
TEXT_START = "NVSMI LOG"

# Number of characters parsed at a time, and an upper limit for the depth of elements.
_PIECE, _DEEPEST = 1 << 16, 50

_TEXT_GPU = re.compile(r"GPU ([0-9A-Fa-f:.]+)$")
_PROLOG = re.compile(r"\s*<[?!]")
_TEMPERATURE = ("temperature/gpu_temp", "temperature/gpu_current_temp")
_UTILIZATION = ("utilization/gpu_util", "utilization/gpu")
_READINGS = ("gpu_power_readings", "power_readings")
# The current draw is preferred to the average; drivers print one or both.
_DRAWS = ("power_draw", "instant_power_draw", "instantaneous_power_draw", "average_power_draw")
# Since 610 the limit is one level deeper.
_LIMITS = ("gpu_ceiling_power_limit/current_power_limit", "current_power_limit", "power_limit", "enforced_power_limit")
_DRAW = tuple(f"{readings}/{draw}" for readings in _READINGS for draw in _DRAWS)
_LIMIT = tuple(f"{readings}/{limit}" for readings in _READINGS for limit in _LIMITS)
# The product that a vGPU is licensed for; it was called GRID before branch 440.
_LICENSED = ("vgpu_software_licensed_product", "grid_licensed_product")
_FAULTY = {
    "name": ("product_name",),
    "uuid": ("uuid", "gpu_uuid"),
    "fan speed": ("fan_speed",),
    "memory": ("fb_memory_usage/total",),
    "temperature": _TEMPERATURE,
    "power": _DRAW,
    "utilization": _UTILIZATION,
}
_NUMBERS = ("memory", "temperature", "power", "utilization")


def read_xml(text: str) -> Reading:
    """Return all GPUs that are complete in the text; ``complete`` is False if it is truncated.

    Nothing else is loaded.
    """
    reading = Reading("xml")
    start = text.find(XML_START)
    end = text.find(XML_END, start)
    stop = end + len(XML_END) if end >= 0 else len(text)
    around = f"{text[:start]}\n{text[stop:]}"
    reading.messages = [line.strip() for line in around.splitlines() if line.strip() and not _PROLOG.match(line)]
    depth = 0
    headed = True
    for event, element in _events(text[start:stop]):
        depth += 1 if event == "start" else -1
        if depth > _DEEPEST or len(reading.gpus) > MOST_GPUS:
            break
        if event == "end" and depth == 0:
            reading.complete = element.tag == "nvidia_smi_log" and headed
        elif event == "end" and depth == 1 and element.tag == "gpu":
            reading.gpus.append(_gpu(element, element.get("id")))
            element.clear()
        elif event == "end" and depth == 1:
            headed = _heading(reading, str(element.tag), element.text) and headed
    _number(reading)
    return reading


def _events(body: str) -> Iterator[tuple[str, Element]]:
    # The prolog with its DOCTYPE was removed, so no entity can be declared.
    parser: Any = XMLPullParser(["start", "end"])
    try:
        for start in range(0, len(body), _PIECE):
            parser.feed(body[start : start + _PIECE])
            yield from parser.read_events()
    except (ParseError, ValueError):
        return


def read_text(text: str) -> Reading:
    """Parse the text format of ``nvidia-smi -q``."""
    reading = Reading("query_text")
    before, _start, log = text.partition(TEXT_START)
    reading.messages = [line.strip() for line in before.split("\n") if line.strip("= ")]
    stack: list[tuple[int, Element]] = [(-1, Element("log"))]
    gpus: list[tuple[str, Element]] = []
    headed = True
    for line in log.split("\n")[1:]:
        key, colon, value = line.strip().partition(" : ")
        heading = _TEXT_GPU.match(key)
        indent = len(line) - len(line.lstrip(" "))
        if not key or (indent == 0 and not colon and not heading):
            reading.messages += [key] if key else []
            continue
        tag = "gpu" if heading else re.sub(r"[^a-z0-9]+", "_", key.lower()).strip("_")
        while stack[-1][0] >= indent:
            stack.pop()
        element = SubElement(stack[-1][1], tag)
        element.text = value if colon else None
        stack.append((indent, element))
        if heading and len(gpus) > MOST_GPUS:
            break
        if heading:
            gpus.append((heading[1], element))
        elif len(stack) == 2:
            headed = _heading(reading, tag, element.text) and headed
    reading.gpus = [_gpu(element, address) for address, element in gpus]
    reading.complete = all(_whole(element) for _address, element in gpus) and len(gpus) == reading.attached
    reading.complete = reading.complete and headed and reading.driver_version is not None
    _number(reading)
    return reading


def _whole(element: Element) -> bool:
    """Return whether a GPU's text is complete. Nothing marks the end, but the processes come last."""
    end = element.find("processes")
    middle = [element.findtext(path) for path in ("product_name", "gpu_uuid", "fb_memory_usage/total")]
    return end is not None and bool(end.text or len(end)) and all(middle)


def _heading(reading: Reading, tag: str, text: str | None) -> bool:
    """Read a line of the log's header; return False for a damaged number. 610 prints words for deprecated names."""
    found: Any
    if tag in ("driver_version", "kmd_version"):
        found = reading.driver_version = reading.driver_version or version(text)
    elif tag in ("cuda_version", "cuda_umd_version"):
        found = reading.cuda_version = reading.cuda_version or version(text)
        reading.cuda_failed |= is_failure(text)
    elif tag == "attached_gpus":
        found = reading.attached = whole(text)
    else:
        return True
    return found is not None or not (text or "").strip()[:1].isdigit()


def _number(reading: Reading) -> None:
    # The log has no indexes; GPUs are in the order of their indexes if none is missing.
    if reading.attached == len(reading.gpus) and not any(complaint(line[:1000]) for line in reading.messages):
        for index, gpu in enumerate(reading.gpus):
            gpu["index"] = index


def _gpu(element: Element, address: str | None) -> dict[str, Any]:
    def get(*paths: str) -> str | None:
        """Return the first known value, otherwise the first value that exists."""
        raws = [element.findtext(path) for path in paths]
        known = [raw for raw in raws if word(raw) is not None]
        return known[0] if known else next((raw for raw in raws if raw is not None), None)

    current = mode(get("mig_mode/current_mig", "mig_mode/current"))
    failure = yes(get("remapped_rows/remapped_row_failure", "remapped_rows/remapping_failure_occurred"))
    gpu = empty_gpu(
        minor_number=whole(get("minor_number")),
        uuid=word(get("uuid", "gpu_uuid")),
        name=word(get("product_name")),
        brand=word(get("product_brand")),
        architecture=word(get("product_architecture")),
        pci_bus_id=bus_id(get("pci/pci_bus_id", "pci/bus_id")) or bus_id(address),
        memory_total_mib=mib(get("fb_memory_usage/total")),
        memory_used_mib=mib(get("fb_memory_usage/used")),
        compute_mode=word(get("compute_mode")),
        persistence_mode=mode(get("persistence_mode")),
        temperature_c=whole(get(*_TEMPERATURE)),
        power_draw_w=number(get(*_DRAW)),
        power_limit_w=number(get(*_LIMIT)),
        utilization_gpu_pct=whole(get(*_UTILIZATION)),
        mig={
            "capable": current is not None if get("mig_mode/current_mig", "mig_mode/current") is not None else None,
            "current": current,
            "pending": mode(get("mig_mode/pending_mig", "mig_mode/pending")),
            "devices": [
                _mig_device(device)
                for path in ("mig_devices/mig_device", "mig_device")
                for device in element.findall(path)
            ],
        },
        ecc={
            "current": mode(get("ecc_mode/current_ecc", "ecc_mode/current")),
            "pending": mode(get("ecc_mode/pending_ecc", "ecc_mode/pending")),
            "uncorrected_aggregate": _uncorrected(element.find("ecc_errors/aggregate")),
        },
        retired_or_remapped={
            "pending": either(
                yes(get("retired_pages/pending_retirement", "retired_pages/pending_page_blacklist")),
                yes(get("retired_pages/pending_blacklist")),
                yes(get("remapped_rows/remapped_row_pending", "remapped_rows/pending")),
            ),
            "failure": failure,
        },
        fabric={"state": word(get("fabric/state")), "status": word(get("fabric/status"))},
        processes=[_process(process) for process in element.findall("processes/process_info")],
    )
    gpu["processes"] += _text_processes(element.find("processes"))
    parts = [*element.findall("fabric/*"), *element.findall("fabric/health/*")]
    fabric = {str(part.tag): part.text for part in parts}
    ill = [
        *whole_gpu_problems(element.itertext()),
        *faults(((label, get(*paths)) for label, paths in _FAULTY.items()), _NUMBERS),
    ]
    gpu["problems"] = list(dict.fromkeys(ill))
    reset = yes(get("gpu_reset_status/reset_required"))
    gpu["problems"] += health(get("gpu_recovery_action"), reset, fabric, gpu["retired_or_remapped"])
    gpu["problems"] += license_problems(
        get("gpu_virtualization_mode/virtualization_mode", "virtualization_mode"),
        get(*(f"{product}/license_status" for product in _LICENSED)),
    )
    return gpu


def _uncorrected(aggregate: Element | None) -> int | None:
    if aggregate is None:
        return None
    total = whole(aggregate.findtext("double_bit/total"))
    counted = [
        value
        for part in aggregate
        if "uncorrectable" in str(part.tag)
        for value in [whole(part.text)]
        if value is not None
    ]
    return total if total is not None else (sum(counted) if counted else None)


def _mig_device(element: Element) -> dict[str, Any]:
    return empty_mig(
        index=whole(element.findtext("index")),
        gi=whole(element.findtext("gpu_instance_id")),
        ci=whole(element.findtext("compute_instance_id")),
        uuid=word(element.findtext("uuid")),
        memory_total_mib=mib(
            element.findtext("fb_memory_usage/total") or element.findtext("shared_fb_memory_usage/total")
        ),
    )


def _process(element: Element) -> dict[str, Any]:
    return {
        "pid": whole(element.findtext("pid")),
        "type": word(element.findtext("type")),
        "name": word(element.findtext("process_name")),
        "used_memory_mib": mib(element.findtext("used_memory")),
        "gi": whole(element.findtext("gpu_instance_id")),
        "ci": whole(element.findtext("compute_instance_id")),
    }


def _text_processes(element: Element | None) -> list[dict[str, Any]]:
    """Return the processes in the text format: a process's instances come before it, its details below it."""
    found = []
    instances: dict[str, str | None] = {}
    for part in element if element is not None else ():
        if part.tag != "process_id":
            instances[str(part.tag)] = part.text
            continue
        found.append(
            {
                "pid": whole(part.text),
                "type": word(part.findtext("type")),
                "name": word(part.findtext("name")),
                "used_memory_mib": mib(part.findtext("used_gpu_memory")),
                "gi": whole(instances.get("gpu_instance_id")),
                "ci": whole(instances.get("compute_instance_id")),
            }
        )
        instances = {}
    return found
