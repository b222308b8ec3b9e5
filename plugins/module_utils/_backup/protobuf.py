# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the fields of a message of Protocol Buffers (https://protobuf.dev/programming-guides/encoding)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

Value = Union[int, bytes]
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_LONGEST = 10


class ProtobufError(Exception):
    """The data are not a message."""


def fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """Yield the number and the value of each field. Raise ProtobufError."""
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, place = _varint(data, place)
            yield number, value
            continue
        if kind == _BYTES:
            size, place = _varint(data, place)
        elif kind in (_EIGHT, _FOUR):
            size = 8 if kind == _EIGHT else 4
        else:
            raise ProtobufError("a field has an unknown type")
        if place + size > len(data):
            raise ProtobufError("a field is cut off")
        yield number, data[place : place + size]
        place += size


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = 0
    for count in range(_LONGEST):
        if place >= len(data):
            break
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << 7 * count
        if not byte & 0x80:
            return value, place
    raise ProtobufError("a number is cut off")
