# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the keys in a database of etcd, such as that of a snapshot, without a server. Nothing is changed.

The file is one of bbolt (https://github.com/etcd-io/bbolt, page.go, meta.go and bucket.go). Its bucket ``key`` has one
entry for each revision of each key (server/storage/mvcc in the source of etcd), of which the last one counts.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .._errors import DomainError
from .protobuf import ProtobufError, fields

_PAGE, _META = struct.Struct("<QHHI"), struct.Struct("<IIIIQQQQQ")
_LEAF_ELEMENT, _BRANCH_ELEMENT, _BUCKET = struct.Struct("<IIII"), struct.Struct("<IIQ"), struct.Struct("<QQ")
_BRANCH_PAGE, _LEAF_PAGE = 0x01, 0x02
_IS_BUCKET = 0x01
_MAGIC, _VERSION = 0xED0CDAED, 2
_PAGE_SIZES = tuple(2**power for power in range(9, 17))
_KEYS = b"key"
_DEEPEST = 64
_REVISION = struct.Struct(">Qc")
_DELETED = 18
# Fields of mvccpb.KeyValue.
_KEY, _CHANGED, _VALUE = 1, 3, 5
# Key, value, and whether it is a bucket.
_Entry = tuple[bytes, bytes, bool]


@dataclass(frozen=True)
class Key:
    """The revision in which a key was last changed. ``value`` is empty unless it was asked for."""

    changed: int
    value: bytes = b""


@dataclass(frozen=True)
class Database:
    """``revision`` is the last one. The keys are those that exist, as texts."""

    revision: int
    keys: dict[str, Key]


def read_database(path: Path, values_of: tuple[str, ...] = ()) -> Database:
    """Return the keys of a database, with the values of those that begin with ``values_of``.

    Raise DomainError for a file that is not a database of etcd, or a damaged one.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _read(data, values_of)
    except (struct.error, IndexError, OverflowError, ValueError, ProtobufError) as error:
        raise DomainError(f"Error while reading {path}: it is not a database of etcd, or it is damaged") from error


def _read(data: mmap.mmap, values_of: tuple[str, ...]) -> Database:
    size, root = _root(data)
    for name, value, is_bucket in _entries(data, size, root):
        if name == _KEYS and is_bucket:
            return _keys(_bucket(data, size, value), values_of)
    raise ValueError("no bucket with keys")


def _root(data: mmap.mmap) -> tuple[int, int]:
    """Return the size of a page, and the root page of the newest valid meta page."""
    found = []
    for offset in (0, *_PAGE_SIZES):
        if offset + _PAGE.size + _META.size > len(data):
            break
        meta = data[offset + _PAGE.size : offset + _PAGE.size + _META.size]
        magic, version, size, _flags, root, _sequence, _free, _end, change = _META.unpack(meta)
        if (magic, version) != (_MAGIC, _VERSION) or size not in _PAGE_SIZES or offset not in (0, size):
            continue
        (checksum,) = struct.unpack_from("<Q", data, offset + _PAGE.size + _META.size)
        if checksum == _fnv(meta):
            found.append((change, size, root))
    _change, size, root = max(found)
    return size, root


def _fnv(data: bytes) -> int:
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def _bucket(data: mmap.mmap, size: int, value: bytes) -> Iterator[_Entry]:
    root, _sequence = _BUCKET.unpack_from(value)
    if root:
        return _entries(data, size, root)
    # A small bucket is a page in its value.
    return _leaf(value, _BUCKET.size)


def _entries(data: mmap.mmap, size: int, page: int, above: frozenset[int] = frozenset()) -> Iterator[_Entry]:
    start = page * size
    number, flags, count, _overflow = _PAGE.unpack_from(data, start)
    # A page below itself would never end.
    if number != page or page in above or len(above) > _DEEPEST:
        raise ValueError("a page is not where it should be")
    if flags & _LEAF_PAGE:
        yield from _leaf(data, start)
    elif flags & _BRANCH_PAGE:
        for place in range(count):
            element = start + _PAGE.size + place * _BRANCH_ELEMENT.size
            _position, _length, child = _BRANCH_ELEMENT.unpack_from(data, element)
            yield from _entries(data, size, child, above | {page})
    else:
        raise ValueError("a page has another type")


def _leaf(data: mmap.mmap | bytes, start: int) -> Iterator[_Entry]:
    _number, _flags, count, _overflow = _PAGE.unpack_from(data, start)
    for place in range(count):
        element = start + _PAGE.size + place * _LEAF_ELEMENT.size
        flags, position, key, value = _LEAF_ELEMENT.unpack_from(data, element)
        begin = element + position
        if begin + key + value > len(data):
            raise ValueError("an entry is cut off")
        yield data[begin : begin + key], data[begin + key : begin + key + value], bool(flags & _IS_BUCKET)


def _keys(entries: Iterator[_Entry], values_of: tuple[str, ...]) -> Database:
    found: dict[str, Key] = {}
    last = 0
    for revision, record, _is_bucket in entries:
        last = max(last, _REVISION.unpack_from(revision)[0])
        if not record:
            # A restore that has increased the revision.
            continue
        parts = dict(fields(record))
        name, changed = parts.get(_KEY), parts.get(_CHANGED, 0)
        if not isinstance(name, bytes) or not isinstance(changed, int):
            raise ValueError("a record is not a key")
        key = name.decode("utf-8", "replace")
        if len(revision) >= _DELETED:
            found.pop(key, None)
            continue
        value = parts.get(_VALUE, b"") if values_of and key.startswith(values_of) else b""
        found[key] = Key(changed, value if isinstance(value, bytes) else b"")
    return Database(last, found)
