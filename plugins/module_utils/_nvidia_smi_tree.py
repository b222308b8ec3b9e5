# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads C(nvidia-smi -q -x) (nvsmi_device_v10 to v13, also without DOCTYPE) and the same log as indented text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from xml.etree.ElementTree import Element, ParseError, SubElement, XMLPullParser

from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia_smi_values import (
    Reading,
    bus_id,
    either,
    empty_gpu,
    empty_mig,
    faults,
    health,
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

_TEXT_GPU = re.compile(r"GPU ([0-9A-Fa-f:.]+)$")
_PROLOG = re.compile(r"\s*<[?!]")
_FAULTY = {
    "name": ("product_name",),
    "uuid": ("uuid", "gpu_uuid"),
    "fan speed": ("fan_speed",),
    "memory": ("fb_memory_usage/total",),
    "temperature": ("temperature/gpu_temp", "temperature/gpu_current_temp"),
}


def read_xml(text: str) -> Reading:
    """As many GPUs as the text holds in full; ``complete`` when it was not cut off. Nothing else is ever loaded."""
    reading = Reading("xml")
    start = text.find(XML_START)
    end = text.find(XML_END, start)
    stop = end + len(XML_END) if end >= 0 else len(text)
    around = f"{text[:start]}\n{text[stop:]}"
    reading.messages = [line.strip() for line in around.splitlines() if line.strip() and not _PROLOG.match(line)]
    depth = 0
    for event, element in _events(text[start:stop]):
        depth += 1 if event == "start" else -1
        if event == "end" and depth == 0:
            reading.complete = element.tag == "nvidia_smi_log"
        elif event == "end" and depth == 1 and element.tag == "gpu":
            reading.gpus.append(_gpu(element, element.get("id")))
        elif event == "end" and depth == 1:
            _heading(reading, str(element.tag), element.text)
    _number(reading)
    return reading


def _events(body: str) -> Iterator[tuple[str, Element]]:
    # The prolog with its DOCTYPE was left out, so no entity can be declared.
    parser: Any = XMLPullParser(["start", "end"])
    try:
        parser.feed(body)
        yield from parser.read_events()
    except (ParseError, ValueError):
        return


def read_text(text: str) -> Reading:
    """The log as C(nvidia-smi -q) prints it."""
    reading = Reading("query_text")
    lines = text[text.find(TEXT_START) :].splitlines()[1:]
    root = Element("log")
    stack: list[tuple[int, Element]] = [(-1, root)]
    gpus: list[tuple[str, Element]] = []
    for line in lines:
        key, colon, value = line.strip().partition(" : ")
        if not key:
            continue
        heading = _TEXT_GPU.match(key)
        tag = "gpu" if heading else re.sub(r"[^a-z0-9]+", "_", key.lower()).strip("_")
        indent = len(line) - len(line.lstrip(" "))
        while stack[-1][0] >= indent:
            stack.pop()
        element = SubElement(stack[-1][1], tag)
        element.text = value if colon else None
        stack.append((indent, element))
        if heading:
            gpus.append((heading[1], element))
        elif len(stack) == 2:
            _heading(reading, tag, element.text)
    reading.gpus = [_gpu(element, address) for address, element in gpus]
    reading.complete = bool(gpus) and len(gpus) == reading.attached and gpus[-1][1].find("processes") is not None
    _number(reading)
    return reading


def _heading(reading: Reading, tag: str, text: str | None) -> None:
    if tag in ("driver_version", "kmd_version"):
        reading.driver_version = reading.driver_version or version(text)
    elif tag in ("cuda_version", "cuda_umd_version"):
        reading.cuda_version = reading.cuda_version or version(text)
    elif tag == "attached_gpus":
        reading.attached = whole(text)


def _number(reading: Reading) -> None:
    # The log has no index; its GPUs stand in the order of their indices, if none is left out.
    if reading.attached == len(reading.gpus):
        for index, gpu in enumerate(reading.gpus):
            gpu["index"] = index


def _gpu(element: Element, address: str | None) -> dict[str, Any]:
    def get(*paths: str) -> str | None:
        """The first of these that is known, else the first that is there."""
        raws = [element.findtext(path) for path in paths]
        known = [raw for raw in raws if word(raw) is not None]
        return known[0] if known else next((raw for raw in raws if raw is not None), None)

    current = mode(get("mig_mode/current_mig", "mig_mode/current"))
    power = ("gpu_power_readings", "power_readings")
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
        temperature_c=whole(get("temperature/gpu_temp", "temperature/gpu_current_temp")),
        power_draw_w=number(
            get(*(f"{p}/{k}" for p in power for k in ("power_draw", "instant_power_draw", "average_power_draw")))
        ),
        power_limit_w=number(
            get(*(f"{p}/{k}" for p in power for k in ("current_power_limit", "power_limit", "enforced_power_limit")))
        ),
        utilization_gpu_pct=whole(get("utilization/gpu_util", "utilization/gpu")),
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
    gpu["processes"] += [_text_process(process) for process in element.findall("processes/process_id")]
    parts = [*element.findall("fabric/*"), *element.findall("fabric/health/*")]
    fabric = {str(part.tag): part.text for part in parts}
    gpu["problems"] = faults((label, get(*paths)) for label, paths in _FAULTY.items())
    reset = yes(get("gpu_reset_status/reset_required"))
    gpu["problems"] += health(get("gpu_recovery_action"), reset, fabric, failure)
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
        memory_total_mib=mib(element.findtext("fb_memory_usage/total")),
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


def _text_process(element: Element) -> dict[str, Any]:
    return {
        "pid": whole(element.text),
        "type": word(element.findtext("type")),
        "name": word(element.findtext("name")),
        "used_memory_mib": mib(element.findtext("used_gpu_memory")),
        "gi": None,
        "ci": None,
    }
