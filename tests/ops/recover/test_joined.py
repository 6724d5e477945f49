"""The changes of several steps as one list: each step reads what the one before leaves."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import AccessError
from kafkalog_core.ops.recover.joined import JoinedStage
from kafkalog_core.storage.changing.changes import DryRunStage
from kafkalog_core.storage.listing import list_directory
from kafkalog_core.storage.planned import Pieces
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.storage.changing.changes import Change


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "t-0").mkdir()
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "t-0/0.log", "t-0/0.index"):
        (tmp_path / name).write_bytes(name.encode() * 3)
    return tmp_path


def made(stage: JoinedStage, root: Path, *, starts_first: bool = False) -> dict[str, Change]:
    """The changes that a plan gets, in their order."""
    plan = DryRunStage(str(root))
    stage.pass_on(plan, starts_first=starts_first)
    return {change.path.removeprefix(f"{root}/"): change for change in plan.changes}


def read(path: Path) -> bytes:
    with Source.open(str(path)) as source:
        return source.read(0, 1000)


def test_a_file_that_is_written_and_then_cut(root: Path) -> None:
    log = root / "t-0" / "0.log"
    stage = JoinedStage(str(root), 0)
    with stage.reading():
        stage.write(str(log), [b"abc", b"def"], why="first", like=str(log))
        stage.cut(str(log), 4, why="second")
        assert read(log) == b"abcd"
    (change,) = made(stage, root).values()
    assert (change.kind, change.size_bytes, change.why) == ("replace", 4, "first; second")


def test_a_file_that_is_only_cut_is_cut_in_place(root: Path) -> None:
    log = root / "t-0" / "0.log"
    stage = JoinedStage(str(root), 0)
    with stage.reading():
        stage.cut(str(log), 9, why="first")
        stage.cut(str(log), 4, why="second")
        stage.cut(str(log), 7, why="nothing to do")
        assert read(log) == b"t-0/"
    (change,) = made(stage, root).values()
    assert (change.kind, change.size_bytes) == ("cut", 4)


def test_what_is_created_and_deleted_again_is_no_change(root: Path) -> None:
    new = root / "t-0" / "5.log"
    stage = JoinedStage(str(root), 0)
    with stage.reading():
        stage.write(str(new), [b"x"], why="new", like=str(root / "t-0" / "0.log"))
        assert "5.log" in {file.name.raw for file in list_directory(str(root / "t-0")).files}
        stage.remove(str(new), why="not new")
        stage.remove(str(root / "t-0" / "0.index"), why="old")
        stage.write(str(root / "t-0" / "0.index"), [b"y"], why="new", like=str(root / "t-0" / "0.log"))
        assert {file.name.raw for file in list_directory(str(root / "t-0")).files} == {"0.index", "0.log"}
    assert {name: change.kind for name, change in made(stage, root).items()} == {"t-0/0.index": "replace"}


def test_checkpoints_are_changed_where_the_last_step_changes_them(root: Path) -> None:
    stage = JoinedStage(str(root), 0)
    points, starts = (str(root / f"{name}-checkpoint") for name in ("recovery-point-offset", "log-start-offset"))
    for path in (points, starts):
        stage.write(path, [b"lowered"], why="first", like=path)
    stage.cut(str(root / "t-0" / "0.log"), 1, why="then")
    stage.write(points, [b"at the end"], why="last", like=points)
    stage.write(starts, [b"right"], why="last", like=starts)
    names = ["t-0/0.log", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"]
    assert [*made(stage, root)] == names
    assert [*made(stage, root, starts_first=True)] == [names[2], *names[:2]]


def test_a_part_of_a_replacement_is_one_whatever_comes_later(root: Path) -> None:
    log, index = (str(root / "t-0" / name) for name in ("0.log", "0.index"))
    stage = JoinedStage(str(root), 0)
    stage.write(log, [b"new log"], why="replaced", like=log, swap=0)
    stage.write(index, [b"new index"], why="replaced", like=log, swap=0)
    stage.cut(log, 3, why="cut")
    stage.write(index, [b"newer"], why="rebuilt", like=log)
    changes = made(stage, root)
    assert [(change.swap, change.size_bytes) for change in changes.values()] == [(0, 3), (0, 5)]


def test_a_link_is_not_changed(root: Path) -> None:
    link = root / "t-0" / "5.log"
    link.symlink_to(root / "t-0" / "0.log")
    with pytest.raises(AccessError):
        JoinedStage(str(root), 0).cut(str(link), 1, why="cut")


# --- new content ------------------------------------------------------------------------------------------------------
LARGE = b"0123456789abcdef" * 4096


def test_large_content_is_in_a_temporary_file(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Memory does not grow with the indexes that a plan writes."""
    spool = tmp_path_factory.mktemp("spool")
    log, index = root / "t-0" / "0.log", root / "t-0" / "0.index"
    stage = JoinedStage(str(root), 0, str(spool))
    with stage.reading():
        stage.write(str(index), [LARGE], why="first", like=str(log))
        stage.write(str(root / "t-0" / "0.timeindex"), [b"few"], why="first", like=str(log))
        stage.write(str(index), [LARGE[::-1]], why="second", like=str(log))
        with Source.open(str(index)) as source:
            assert source.read(0, len(LARGE)) == LARGE[::-1]
    held = [part for change in stage.changes for part in (change.pieces or Pieces(())).parts if isinstance(part, bytes)]
    assert held == [b"few"]
    assert sum(file.stat().st_size for file in spool.iterdir()) == 2 * len(LARGE)
    assert made(stage, root)["t-0/0.index"].sha256 == hashlib.sha256(LARGE[::-1]).hexdigest()


def test_without_room_for_a_temporary_file_memory_holds_it(root: Path, tmp_path: Path) -> None:
    index = root / "t-0" / "0.index"
    stage = JoinedStage(str(root), 0, str(tmp_path / "is-not-there"))
    stage.write(str(index), [LARGE], why="first", like=str(index))
    assert made(stage, root)["t-0/0.index"].size_bytes == len(LARGE)
