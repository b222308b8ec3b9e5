# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia.dkms import error_lines, parse_status

VERSION, KERNEL = "580.178.04", "6.12.48+deb13-amd64"
LOG = f"""DKMS make.log for nvidia/{VERSION} for kernel {KERNEL} (x86_64)
Sun Nov 22 05:00:00 UTC 2026
make[1]: Entering directory '/usr/src/linux-headers-{KERNEL}'
  CC [M]  /var/lib/dkms/nvidia/{VERSION}/build/nvidia/nv-mmap.o
/var/lib/dkms/nvidia/{VERSION}/build/common/inc/nv-mm.h:88:25: error: too few arguments to function 'get_user_pages'
/var/lib/dkms/nvidia/{VERSION}/build/common/inc/nv-mm.h:90:1: warning: this error is not one
make[3]: *** [/usr/src/scripts/Makefile.build:229: nvidia/nv-mmap.o] Error 1
make[1]: Leaving directory '/usr/src/linux-headers-{KERNEL}'
make: *** [Makefile:80: modules] Error 2
"""


# The last lines of two logs of nvidia-open-kernel-dkms 550.163.01 on Debian 13 with kernel 6.12.117: one unmodified,
# and one without the compiler.
TREE = "/var/lib/dkms/nvidia-current-open/550.163.01/build"
TRIXIE = f"""  CC [M]  {TREE}/nvidia/nv-pci.o
{TREE}/nvidia/nv-pci.c: In function 'nv_resize_pcie_bars':
{TREE}/nvidia/nv-pci.c:237:9: error: too few arguments to function 'pci_resize_resource'
  237 |     r = pci_resize_resource(pci_dev, NV_GPU_BAR1, requested_size);
      |         ^~~~~~~~~~~~~~~~~~~
make[4]: *** [/usr/src/linux-headers-6.12.117+deb13-common/scripts/Makefile.build:210: {TREE}/nvidia/nv-pci.o] Error 1
make[4]: *** Waiting for unfinished jobs....
make[3]: *** [/usr/src/linux-headers-6.12.117+deb13-common/Makefile:2039: {TREE}] Error 2
make[3]: Leaving directory '/usr/src/linux-headers-6.12.117+deb13-cloud-amd64'
"""
NO_COMPILER = """make: Entering directory '/usr/src'
*** Failed CC sanity check. Bailing out! ***
The C compiler 'x86_64-linux-gnu-gcc-14' does not appear to be able to create object files, even though
make[4]: *** [Makefile:80: modules] Error 1
make[4]: *** Waiting for unfinished jobs....
"""
OTHER_COMPILER = """The compiler 'gcc-11' does not match the compiler used to build the kernel
make: *** [Makefile:107: modules] Error 1
"""

# With NV_VERBOSE=1, and a kernel that prints its own configuration check, which passed.
VERBOSE = r"""make[1]: Entering directory '/usr/src/linux-headers-5.15.0-100-generic'
test -e include/generated/autoconf.h -a -e include/config/auto.conf || ( \
echo >&2; \
echo >&2 "  ERROR: Kernel configuration is invalid."; \
/bin/false)
gcc -c nv.c \
  -DMESSAGE="Unable to go on: error, failed"
set -e;  echo '  CC [M]  error.o'; gcc-12 -Wp,-MMD,.nv.o.d -Wno-error -o nv.o nv.c
  x86_64-linux-gnu-gcc-12 -Werror=undef -Wno-error -c -o nv.o nv.c
if [ ! -e nv-kernel.o ]; then echo "*** failed"; fi
{}
make[2]: *** [scripts/Makefile.build:297: nv.o] Error 1
make: *** [Makefile:82: modules] Error 2
"""
# Messages of GCC and make: error, warning, note, and waiting for unfinished jobs.
LANGUAGES = {
    "Chinese": ("错误\uff1a", "警告\uff1a", "附注\uff1a", "正在等待未完成的任务...."),
    "French": ("erreur: ", "attention : ", "note: ", "Attente des tâches non terminées…"),
    "German": ("Fehler: ", "Warnung: ", "Anmerkung: ", "Es wird auf noch nicht beendete Prozesse gewartet...."),
    "Italian": ("errore: ", "attenzione: ", "nota: ", "Attesa per i processi non terminati...."),
    "Japanese": ("エラー: ", "警告: ", "備考: ", "未完了のジョブを待っています...."),
    "Portuguese": ("erro: ", "aviso: ", "nota: ", "Esperando que outros processos terminem..."),
    "Russian": ("ошибка: ", "предупреждение: ", "замечание: ", "Ожидание завершения заданий…"),
    "Spanish": ("error: ", "aviso: ", "nota: ", "Se espera a que terminen otras tareas...."),
    "Swedish": ("fel: ", "varning: ", "anm: ", "Väntar på oavslutade jobb...."),
    "Dutch": ("fout: ", "let op: ", "opmerking: ", "Wachten op onvoltooide taken..."),
}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"nvidia/{VERSION}, {KERNEL}, x86_64: installed", ("nvidia", VERSION, KERNEL, "installed", "")),
        (f"nvidia, {VERSION}, {KERNEL}, x86_64: installed", ("nvidia", VERSION, KERNEL, "installed", "")),
        (f"nvidia/{VERSION}: added", ("nvidia", VERSION, "", "added", "")),
        (f"nvidia-current/535.1, {KERNEL}, x86_64: built", ("nvidia-current", "535.1", KERNEL, "built", "")),
        (
            f"nvidia/{VERSION}, {KERNEL}, x86_64: installed (WARNING! Diff between built and installed module!)",
            ("nvidia", VERSION, KERNEL, "installed", "WARNING! Diff between built and installed module!"),
        ),
    ],
)
def test_the_status_is_parsed(line: str, expected: tuple[str, ...]) -> None:
    (build,) = parse_status(f"Deprecated feature: REMAKE_INITRD\n{line}\n\n")
    assert (build.module, build.version, build.kernel, build.state, build.notes) == expected


@pytest.mark.parametrize(
    ("log", "lines"),
    [
        (LOG, [f"/var/lib/dkms/nvidia/{VERSION}/build/common/inc/nv-mm.h:88:25: error: too few arguments to function "
               "'get_user_pages'"]),
        (TRIXIE, [f"{TREE}/nvidia/nv-pci.c:237:9: error: too few arguments to function 'pci_resize_resource'"]),
        (NO_COMPILER, [
            "*** Failed CC sanity check. Bailing out! ***",
            "The C compiler 'x86_64-linux-gnu-gcc-14' does not appear to be able to create object files, even though",
        ]),
        (OTHER_COMPILER, ["The compiler 'gcc-11' does not match the compiler used to build the kernel"]),
        ("Killed\nmake: *** [x] Error 137\n", ["Killed"]),
        ("make: *** [x] Error 2\n", ["make: *** [x] Error 2"]),
        ("one\ntwo\n\nthree\nfour\n", ["two", "three", "four"]),
        ("", []),
        ("make: *** /lib/modules/6.1.0/build: No such file or directory.  Stop.\n",
         ["make: *** /lib/modules/6.1.0/build: No such file or directory.  Stop."]),
        ("cc: предупреждение: x\nmake[1]: *** Нет правила для сборки цели «a».  Останов.\nmake: *** [b] Ошибка 2\n",
         ["make[1]: *** Нет правила для сборки цели «a».  Останов."]),
        ("cc: Fehler: x\nmake: *** Keine Regel, um \u201ea\u201c zu erstellen.  Schluss.\n", ["cc: Fehler: x"]),
        ("make[2]: cc: Command not found\nmake[2]: *** [x] Error 127\n", ["make[2]: cc: Command not found"]),
        ("  9 | #define A \\\n    |  ^\nnv.c:9:1: error: b\n", ["nv.c:9:1: error: b"]),
    ],
)  # fmt: skip
def test_the_lines_with_the_error_are_found(log: str, lines: list[str]) -> None:
    assert error_lines(log) == lines


@pytest.mark.parametrize(
    "cause",
    [
        "cc: error: unrecognized command-line option '-mharden-sls=all'",
        "/bin/sh: 1: gcc-12: not found",
        "  ERROR: Kernel configuration is invalid.",
        "ld: cannot find -lgcc",
        "nvidia.o: error: objtool: nv+0x1: unannotated intra-function call",
    ],
)
def test_commands_in_the_log_are_ignored(cause: str) -> None:
    assert error_lines(VERBOSE.format(cause)) == [cause.strip()]


@pytest.mark.parametrize("language", LANGUAGES)
def test_logs_in_another_language_are_understood(language: str) -> None:
    error, warning, note, waiting = LANGUAGES[language]
    lines = [
        f"cc: {warning}x",
        f"nvidia/nv.c:3:1: {warning}x",
        f"nvidia/nv-mmap.c:606:23: {error}assignment of read-only member 'vm_flags'",
        f"nvidia/nv-mmap.c:606:20: {note}x",
        f"make[4]: *** [nvidia/nv-mmap.o] {error[:-1]} 1",
        f"make[4]: *** {waiting}",
    ]
    assert error_lines("\n".join(lines)) == [lines[2]]
    assert error_lines("\n".join([f"cc: {error}x", *lines[3:]])) == [f"cc: {error}x"]
    # In some languages the message ends with a single full stop.
    lines[-1] = f"make[4]: *** {waiting.rstrip('.…')}."
    assert error_lines("\n".join(lines)) == [lines[2]]
    assert error_lines("\n".join(lines[4:])) == [lines[4]]
    assert error_lines(f"ld: {warning}x\nld: nv.o: {warning}x\n{lines[4]}") == [lines[4]]


@pytest.mark.parametrize(
    "cause",
    [
        "/usr/bin/ld: cannot find -lgcc: No such file or directory",
        "/usr/bin/ld: -lgcc kann nicht gefunden werden",
        "/usr/bin/ld: n\u00e3o foi poss\u00edvel localizar -lgcc",
        "x86_64-linux-gnu-ld.bfd: nv.o: tipo de arquivo n\u00e3o reconhecido",
        "/usr/bin/ld: nv.c:(.text+0x1c): Nicht definierter Verweis auf \u00bbfoo\u00ab",
        "nv.c:(.text+0x1c): r\u00e9f\u00e9rence ind\u00e9finie vers \u00ab foo \u00bb",
    ],
)
@pytest.mark.parametrize(
    "end",
    ["error: ld returned 1 exit status", "erro: ld retornou o status de sa\u00edda 1", "Fehler: ld gab 1 zur\u00fcck"],
)
def test_the_linkers_message_is_the_reason_in_any_language(cause: str, end: str) -> None:
    where = "/usr/bin/ld: nv.o: na fun\u00e7\u00e3o \u00abfoo\u00bb:"
    make = "make[2]: *** [Makefile:80: nvidia.ko] Erro 1\nmake[2]: *** Esperando que outros processos terminem."
    assert error_lines(f"{where}\n{cause}\ncollect2: {end}\n{make}") == [cause]
    assert error_lines(f"collect2: {end}\n{make}") == ["make[2]: *** [Makefile:80: nvidia.ko] Erro 1"]


@pytest.fixture
def info(tmp_path: Path, run_module: Any) -> Any:
    def call(**options: Any) -> Any:
        return run_module("nvidia_dkms_info", {"root": str(tmp_path / "host"), "kernel": KERNEL, **options})

    return call


def write_log(root: Path, where: str) -> Path:
    path = root / "host/var/lib/dkms" / where
    path.parent.mkdir(parents=True)
    path.write_text(LOG)
    return path


@pytest.mark.parametrize(
    "note", ["Differences between built and installed modules", "WARNING! Diff between built and installed module!"]
)
def test_installed_module_that_differs_from_the_built_one_does_not_count(info: Any, programs: Any, note: str) -> None:
    programs.add("dkms", f"echo 'nvidia/{VERSION}, {KERNEL}, x86_64: installed ({note})'")
    result = info(version=VERSION)
    assert result["installed"] is False and result["differs"] is True
    programs.add("dkms", f"echo 'nvidia/{VERSION}, {KERNEL}, x86_64: installed (original module exists)'")
    result = info(version=VERSION)
    assert result["installed"] is True and result["differs"] is False


def test_without_dkms_the_result_is_empty(info: Any) -> None:
    result = info(version=VERSION)
    assert (result["builds"], result["installed"], result["reason"]) == ([], None, [])


def test_an_installed_module_needs_no_reason(info: Any, programs: Any, tmp_path: Path) -> None:
    programs.add("dkms", f"echo 'nvidia/{VERSION}, {KERNEL}, x86_64: installed'; echo 'zfs/2.3, x, x86_64: built'")
    write_log(tmp_path, f"nvidia/{VERSION}/{KERNEL}/x86_64/log/make.log")
    result = info(version=VERSION)
    assert result["installed"] is True and result["reason"] == [] and result["log"] == ""
    assert [build["module"] for build in result["builds"]] == ["nvidia"]
    assert info()["installed"] is None


@pytest.mark.parametrize(
    "where", [f"nvidia/{VERSION}/build/make.log", f"nvidia/{VERSION}/{KERNEL}/x86_64/log/make.log"]
)
def test_a_failed_build_is_explained(info: Any, programs: Any, tmp_path: Path, where: str) -> None:
    programs.add("dkms", f"echo 'nvidia/{VERSION}: added'")
    path = write_log(tmp_path, where)
    result = info(version=VERSION)
    assert result["installed"] is False and result["log"] == str(path)
    assert "too few arguments" in result["reason"][0]
