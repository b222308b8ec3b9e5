"""A built piece exists completely or not at all, even if its build is interrupted."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from lab.depot import cache, tools


def build(directory: Path, key: str, text: str) -> None:
    with cache.fresh(directory, key) as work:
        (work / "file").write_text(text)


def test_a_finished_piece_has_its_key(tmp_path: Path) -> None:
    build(tmp_path / "piece", "one", "a")

    assert cache.key_of(tmp_path / "piece") == "one"
    assert (tmp_path / "piece" / "file").read_text() == "a"


def test_an_interrupted_build_keeps_the_former_piece(tmp_path: Path) -> None:
    build(tmp_path / "piece", "one", "a")

    with pytest.raises(KeyboardInterrupt), cache.fresh(tmp_path / "piece", "two") as work:
        (work / "file").write_text("b")
        raise KeyboardInterrupt

    assert cache.key_of(tmp_path / "piece") == "one"
    assert [path.name for path in tmp_path.iterdir()] == ["piece"]


def test_leftovers_of_a_killed_build_are_removed(tmp_path: Path) -> None:
    left = tmp_path / ".piece.abc"
    (left / "deep").mkdir(parents=True)
    (left / "deep").chmod(0o555)

    build(tmp_path / "piece", "one", "a")

    assert [path.name for path in tmp_path.iterdir()] == ["piece"]


def test_a_new_piece_replaces_the_former_one(tmp_path: Path) -> None:
    build(tmp_path / "piece", "one", "a")
    build(tmp_path / "piece", "two", "b")

    assert (tmp_path / "piece" / "file").read_text() == "b"
    assert [path.name for path in tmp_path.iterdir()] == ["piece"]


def test_the_key_of_sources_depends_on_their_content(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "__pycache__").mkdir(parents=True)
    (source / "a.c").write_text("1")
    before = cache.tree_digest(source)
    (source / "__pycache__" / "a.pyc").write_text("compiled")
    unchanged = cache.tree_digest(source)
    (source / "b.c").write_text("2")

    assert before == unchanged
    assert cache.tree_digest(source) != before


def _hold(seconds: float, held: threading.Event) -> None:
    with cache.lock("test"):
        held.set()
        time.sleep(seconds)


def test_a_simultaneous_build_waits_and_prints_that(lab_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held = threading.Event()
    other = threading.Thread(target=_hold, args=(0.5, held))
    other.start()
    held.wait(5)
    started = time.monotonic()
    with cache.lock("test"):
        waited = time.monotonic() - started
    other.join()

    assert waited > 0.3
    assert "Waiting for another lab" in capsys.readouterr().out


def test_the_error_of_a_failing_tool_names_its_command_and_its_log(lab_cache: Path) -> None:
    with pytest.raises(cache.DepotError) as caught:
        tools.run(["sh", "-c", "echo out; echo broken >&2; exit 3"], doing="building the moon")

    text = str(caught.value)
    assert text.startswith("Error while building the moon: sh ended with 3:")
    assert "broken" in text
    assert str(lab_cache / "logs" / "depot.log") in text


def test_a_missing_tool_is_named(lab_cache: Path) -> None:
    with pytest.raises(cache.DepotError, match="no-such-tool is not there"):
        tools.run(["no-such-tool"], doing="trying")
