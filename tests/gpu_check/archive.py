"""Write the report and the archive of raw outputs without anything that identifies a machine or its owner."""

from __future__ import annotations

import contextlib
import io
import json
import os
import tarfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpu_check.result import CheckError
from gpu_check.scrub import Scrubber

REPORT, ARCHIVE = "gpu-check.json", "gpu-check-raw.tar.gz"


def require_writable(directory: Path) -> None:
    """Raise CheckError before any work if the files can't be written into the directory."""
    for name in (REPORT, ARCHIVE):
        if (directory / name).is_dir():
            raise CheckError(f"{directory / name} is a directory. Use another directory (--out).")
    probe = directory / f".{REPORT}.{os.getpid()}"
    _replace(probe, b"\n")
    probe.unlink(missing_ok=True)


def write(directory: Path, report: Mapping[str, Any], raw: Path, names: Mapping[str, str]) -> None:
    """Write both files into ``directory``. ``names`` maps further identifying texts to their replacements."""
    texts = {file.name: file.read_text(errors="replace") for file in sorted(raw.iterdir())}
    values = {name: json.loads(text) for name, text in texts.items() if name.endswith(".json")}
    values[REPORT] = json.loads(json.dumps(report, default=_plain))
    scrubber = Scrubber([*texts.values(), json.dumps(values)], names)
    texts |= {name: json.dumps(scrubber.value(value), indent=1) + "\n" for name, value in values.items()}
    clean = {name: text if name in values else scrubber.text(text) for name, text in texts.items()}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in clean.items():
            content = text.encode(errors="replace")
            entry = tarfile.TarInfo(f"gpu-check/{name}")
            entry.size, entry.mtime = len(content), int(time.time())
            archive.addfile(entry, io.BytesIO(content))
    _replace(directory / REPORT, clean[REPORT].encode(errors="replace"))
    _replace(directory / ARCHIVE, packed.getvalue())


def _plain(value: Any) -> Any:
    return sorted(value, key=repr) if isinstance(value, (set, frozenset)) else str(value)


def _replace(path: Path, content: bytes) -> None:
    """Write a file atomically. Raises CheckError."""
    work = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        work.write_bytes(content)
        work.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            work.unlink(missing_ok=True)
        words = f"{path} can't be written: {error.strerror}. Use another directory (--out)."
        raise CheckError(words) from None
