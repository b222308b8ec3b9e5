# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse ``dkms status`` and the log of a failed DKMS build. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

# DKMS 3: "nvidia/580.178.04, 6.12.0-1-amd64, x86_64: installed"; DKMS 2: "nvidia, 580.178.04, 6.12...: installed".
_STATUS = re.compile(
    r"^(?P<module>[\w.+-]+)(?:/|, )(?P<version>[^,:\s]+)(?:, (?P<kernel>[^,:\s]+), (?P<arch>[^,:\s]+))?"
    r": (?P<state>[a-z]+)(?P<notes>.*)$"
)
_TELLING = re.compile(
    r"\berror\b|Error!|\*\*\*|\bfailed\b|undefined reference|No such file|cannot find|Unable to|not found"
    r"|Killed|No space left|does not appear to be able to|does not match the compiler"
    r"|\b(?:ошибка|помилка|erreur|fehler|errore|erro|błąd|hata|chyba)\b|错误|錯誤|エラー|오류",
    re.IGNORECASE,
)
# At each level, make repeats that something below it failed and that it waits for other jobs; collect2 repeats that ld
# failed. The lines are recognized by their form, in any language.
_ECHO = re.compile(
    r"^g?make(?:\[\d+\])?: (?:\*\*\* |(?:Entering|Leaving) )|warning:"
    r"|^(?:\S{0,80}[/-])?collect2(?:-[\d.]{1,9})?: .{0,200}\bld\b",
    re.IGNORECASE,
)
# An error of make itself has a second sentence: "No rule to make target 'a'.  Stop."
_GIVES_UP = re.compile(r"^g?make(?:\[\d+\])?: \*\*\* (?!\[).{1,1000}(?:\.\s{1,2}|[。\uff0e]\s?)\S[^.。]{0,40}[.。!]$")
_FAILED_TARGET = re.compile(r"^g?make(?:\[\d+\])?: \*\*\* \[")
# The linker names missing symbols without the word "error". A line that ends with a colon only gives the location.
_LINKER = re.compile(
    r"^(?:(?:\S{0,80}[/-])?ld(?:\.\w{1,8})?(?:-[\d.]{1,9})?: |[^\s:]{1,200}:\(\.[\w.]{1,80}\+0x[0-9a-f]{1,16}\): )"
)
# "nv.c:606:23: error: ..." from a compiler or "cc: error: ..." from another program, in any language. Chinese and
# Japanese text has full-width colons.
_DIAGNOSTIC = re.compile(
    r"^(?:[^\s:]{1,200}:\d{1,6}(?::\d{1,6})?"
    r"|(?:\S{0,80}[/-])?(?:cc1?|gcc|g\+\+|clang|ld|ld\.bfd|as|collect2)(?:-[\d.]{1,9})?)"
    r":\s(?P<word>[^\s:\uff1a][^:\uff1a]{0,40}?)\s?[:\uff1a]"
)
# The words for "warning" and "note" in GCC's languages; any other diagnostic is an error.
_HARMLESS_WORDS = """
    warning warnung attention avertissement aviso advertencia attenzione avviso предупреждение попередження 警告 경고
    ostrzeżenie uyar\u0131 varning waarschuwing let_op advarsel varoitus varování upozornění figyelmeztetés
    προειδοποίηση
    cảnh_báo peringatan upozorenje упозорење avertisment
    note anmerkung hinweis remarque nota замечание примечание примітка зауваження 附注 附註 备注 備考 注記 注釈 참고
    주의 uwaga not bilgi anm anmärkning opmerking noot bemærk bemærkning huomaa huomautus poznámka megjegyzés σημείωση
    ghi_chú chú_thích catatan napomena напомена notă
    """
_HARMLESS = frozenset(_HARMLESS_WORDS.split())
# With NV_VERBOSE=1 (in packages of distributions) and KBUILD_VERBOSE=1 the log contains commands, which are not output.
# Output of a program begins with its name and a colon.
_COMMAND = re.compile(
    r"^(?:[@+(]{1,2}\s?)?(?:(?:\S{0,200}[/-])?(?:cc|gcc|g\+\+|clang|ld|ld\.bfd|ld\.lld|ar|nm|objcopy|objtool|make|sh|bash"
    r"|perl|python3?|awk|sed|grep|cat|cmp|cp|mv|rm|ln|mkdir|touch|find|xargs|printf|true|false)(?:-[\d.]{1,9})?"
    r"|echo|test|if|then|else|fi|for|do|done|case|set|export|cd|exit|\[|:)(?:[\s;)]|$)"
)
# A source line that a compiler quotes: "  237 |     r = pci_resize_resource(pci_dev, \\".
_EXCERPT = re.compile(r"\d{0,6}\s{0,9}\|")
# "installed (Differences between built and installed modules)", in DKMS 2 "WARNING! Diff between ...": the file in
# /lib/modules is not the one that was built.
_OTHER = re.compile(r"Diff(?:erences)? between built and installed", re.IGNORECASE)
_LINES = 8
_WIDTH = 300


@dataclass(frozen=True)
class Build:
    """A version of a module; ``state`` is added, built or installed. ``kernel`` is empty if it was only added."""

    module: str
    version: str
    kernel: str
    architecture: str
    state: str
    notes: str = ""

    @property
    def installed(self) -> bool:
        """Return whether the installed module is the one that was built."""
        return self.state == "installed" and not self.differs

    @property
    def differs(self) -> bool:
        return self.state == "installed" and bool(_OTHER.search(self.notes))


def parse_status(text: str) -> Iterator[Build]:
    """Yield the builds that ``dkms status`` lists; other lines are skipped."""
    for line in text.splitlines():
        match = _STATUS.match(line.strip())
        if match:
            yield Build(
                match["module"],
                match["version"],
                match["kernel"] or "",
                match["arch"] or "",
                match["state"],
                match["notes"].strip(" ()"),
            )


def error_lines(log: str) -> list[str]:
    """Return the first lines of a make.log that show why the build failed; later errors follow from them."""
    lines = list(_output(log))
    telling = [line for line in lines if _tells(line)]
    found = (
        [line for line in telling if not _ECHO.search(line)]
        or [line for line in telling if _GIVES_UP.search(line)]
        or [line for line in telling if _FAILED_TARGET.search(line)]
        or telling
        or [line for line in lines if line][-3:]
    )
    return list(dict.fromkeys(line[:_WIDTH] for line in found))[:_LINES]


def _output(log: str) -> Iterator[str]:
    """Yield the lines that are not commands. A command continues on the next line after a backslash."""
    goes_on = False
    for line in map(str.strip, log.splitlines()):
        is_command = goes_on or bool(_COMMAND.match(line))
        goes_on = line.endswith("\\") and not _EXCERPT.match(line)
        if not is_command and not goes_on:
            yield line


def _tells(line: str) -> bool:
    match = _LINKER.match(line)
    if match:
        return not line.endswith(":") and not any(map(_is_harmless, re.split(r"[:\uff1a]", line[match.end() :])[:-1]))
    match = _DIAGNOSTIC.match(line)
    if match:
        return not _is_harmless(match["word"])
    return bool(_TELLING.search(line))


def _is_harmless(word: str) -> bool:
    return "_".join(word.lower().split()) in _HARMLESS
