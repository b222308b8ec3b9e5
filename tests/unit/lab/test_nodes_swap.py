"""swapon and swapoff of a node, with test files instead of /proc/swaps and /etc/fstab."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
from pathlib import Path
from types import ModuleType

import pytest

from lab.nodes import image

HEADER = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"


@pytest.fixture
def swap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    path = Path(image.__file__).parent / "image" / "swap"
    loader = importlib.machinery.SourceFileLoader("node_swap", str(path))
    spec = importlib.util.spec_from_loader("node_swap", loader)
    assert spec
    program = importlib.util.module_from_spec(spec)
    loader.exec_module(program)
    (tmp_path / "swap.img").touch()
    (tmp_path / "swaps").write_text(HEADER)
    (tmp_path / "fstab").write_text(
        f"# a comment\n{tmp_path}/swap.img none swap sw 0 0\n/dev/gone none swap noauto 0 0\n/dev/x / ext4 rw 0 1\n"
    )
    monkeypatch.setattr(program, "SWAPS", str(tmp_path / "swaps"))
    monkeypatch.setattr(program, "FSTAB", str(tmp_path / "fstab"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return program


def names(tmp_path: Path) -> list[str]:
    text = (tmp_path / "swaps").read_text()
    assert text.startswith(HEADER)
    return [line.split()[0] for line in text.splitlines()[1:]]


def test_all_swap_of_fstab_can_be_turned_on_off_and_on_again(swap: ModuleType, tmp_path: Path) -> None:
    assert swap.main("swapon", ["-a"]) == 0
    assert names(tmp_path) == [f"{tmp_path}/swap.img"]
    assert swap.main("swapon", ["-a"]) == 0
    assert names(tmp_path) == [f"{tmp_path}/swap.img"]
    assert swap.main("swapoff", ["-a", "-v"]) == 0
    assert names(tmp_path) == []
    assert swap.main("swapoff", ["--all"]) == 0


def test_the_output_has_the_kernels_format(swap: ModuleType, tmp_path: Path) -> None:
    swap.main("swapon", ["-a"])
    swap.write(["/swap.img", "/dev/sda2"])
    assert (tmp_path / "swaps").read_text() == HEADER + (
        "/swap.img                               file\t\t2097148\t\t0\t\t-2\n"
        "/dev/sda2                               partition\t2097148\t\t0\t\t-3\n"
    )


def test_one_of_several_swaps_can_be_turned_off(swap: ModuleType, tmp_path: Path) -> None:
    swap.write(["/a", "/dev/b", "/c"])
    assert swap.main("swapoff", ["/dev/b"]) == 0
    assert names(tmp_path) == ["/a", "/c"]


def test_missing_swap_fails_with_the_real_exit_status(
    swap: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert swap.main("swapoff", ["/nix"]) == 4
    assert swap.main("swapon", ["-p", "5", "/nix"]) == 4
    swap.main("swapon", [f"{tmp_path}/swap.img"])
    assert swap.main("swapon", [f"{tmp_path}/swap.img"]) == 4
    said = capsys.readouterr().err
    assert "swapoff: /nix: swapoff failed: Invalid argument" in said
    assert "swapon: cannot open /nix: No such file or directory" in said
    assert "Device or resource busy" in said
    assert names(tmp_path) == [f"{tmp_path}/swap.img"]


def test_only_root_may_change_swap(swap: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    swap.main("swapon", ["-a"])
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert swap.main("swapoff", ["-a"]) != 0
    assert names(tmp_path) == [f"{tmp_path}/swap.img"]


@pytest.mark.parametrize("arguments", [[], ["-s"], ["--show=NAME"], ["--version"]])
def test_queries_are_passed_to_the_real_program(
    swap: ModuleType, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    def execv(path: str, argv: list[str]) -> None:
        raise SystemExit(" ".join([path, *argv]))

    monkeypatch.setattr(os, "execv", execv)
    with pytest.raises(SystemExit) as ended:
        swap.main("swapon", arguments)
    assert ended.value.code == " ".join(["/sbin/swapon.distrib", "swapon", *arguments])
