"""Changes that are made one by one ahead of the intent: each is whole on the disk before the next one begins."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import RefusedError
from kafkalog_core.storage.changing import staging
from kafkalog_core.storage.changing.changes import Change, fingerprint
from kafkalog_core.storage.changing.staging import ContentStage, make_directly
from kafkalog_core.storage.changing.writer import Disk, WriteError
from kafkalog_core.structs import replace
from tests.support.repairs import LATER, LOG, OWNER, Killed, UnlinkingDisk, make_dir, names_of_ours, snapshot

if TYPE_CHECKING:
    from pathlib import Path

RUN = "kafkalog-undo-20260102T030405Z-1"
INDEX, TIMES = "00000000000000000000.index", "00000000000000000000.timeindex"
EPOCHS, SNAPSHOT = "leader-epoch-checkpoint", "00000000000000000060.snapshot"
BLOCK_BYTES = 4096
SHOWN = ("create", "truncate", "rename", "unlink", "fsync")


class AheadDisk(UnlinkingDisk):
    """Notes the steps that change names or sizes, and every fsync; fails at one of them."""

    def __init__(self, fails_at: tuple[str, str] = ("", ""), error: BaseException | None = None) -> None:
        self.seen: list[tuple[str, str]] = []
        self.fails_at = fails_at
        self.error = error

    def step(self, what: str, path: str) -> None:
        name = os.path.basename(path)
        if what in SHOWN:
            self.seen.append((what, name))
        if self.error is not None and self.fails_at == (what, name):
            raise self.error


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    return make_dir(tmp_path / "log") / "t-0"


def change(path: Path, kind: str, size_bytes: int | None = None) -> Change:
    """A change of a file as it is now."""
    before = fingerprint(str(path))
    return Change(kind=kind, path=str(path), before=before, size_bytes=size_bytes, sha256=None, why="")  # type: ignore[arg-type]


def make(disk: AheadDisk, changes: list[Change], contents: ContentStage | None = None) -> list[tuple[str, str]]:
    """The steps, and before those of a change `next` with its file."""
    for each in make_directly(disk, RUN, changes, contents or ContentStage()):
        disk.seen.append(("next", os.path.basename(each.path)))
    return disk.seen


def written(name: str, number: int) -> list[tuple[str, str]]:
    """The steps of a whole file."""
    temporary = f"{RUN}.{number:04d}.tmp"
    return [("next", name), ("create", temporary), ("fsync", temporary), ("rename", name), ("fsync", "t-0")]


def test_each_change_is_on_the_disk_before_the_next_one_and_files_keep_what_they_had(partition: Path) -> None:
    old, contents = snapshot(partition), ContentStage()
    contents.write(str(partition / EPOCHS), iter([b"0\n", b"0\n"]), why="", like=str(partition / LOG))
    contents.write(str(partition / SNAPSHOT), [b"new"], why="", like=str(partition / LOG), mtime_ns=1_500_000_000_123)
    changes = [
        change(partition / LATER, "remove"),
        change(partition / LOG, "cut", 4100),
        change(partition / TIMES, "cut", 0),
        change(partition / EPOCHS, "replace", 4),
        change(partition / SNAPSHOT, "create", 3),
    ]
    contents.cut(str(partition / LOG), 4100, why="")
    contents.remove(str(partition / LATER), why="")
    assert make(AheadDisk(), changes, contents) == [
        *(("next", LATER), ("unlink", LATER), ("fsync", "t-0")),
        *(("next", LOG), ("truncate", LOG), ("fsync", LOG)),
        *(("next", TIMES), ("truncate", TIMES), ("fsync", TIMES)),
        *written(EPOCHS, 4),
        *written(SNAPSHOT, 5),
    ]
    new = snapshot(partition)
    assert new.pop(SNAPSHOT) == (b"new", *old[LOG][1:-1], 1_500_000_000_123)
    assert new.pop(EPOCHS)[:-1] == (b"0\n0\n", *old[EPOCHS][1:-1])
    assert new.pop(LOG) == (old[LOG][0][:4100], *old[LOG][1:])  # type: ignore[index]
    assert new.pop(TIMES) == (b"", *old[TIMES][1:])
    assert new == {name: row for name, row in old.items() if name not in {LATER, LOG, TIMES, EPOCHS}}


@pytest.mark.parametrize("is_new", [False, True])
def test_indexes_make_way_for_each_other_where_there_is_one_byte_less_than_both_need(
    partition: Path, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    """The offset index is deleted first and written last: as long as it is missing a start builds all of them."""
    if is_new:
        (partition / TIMES).unlink()
    old, contents = snapshot(partition), ContentStage()
    changes = []
    for name, size_bytes in ((INDEX, 8), (TIMES, BLOCK_BYTES + 12)):
        contents.write(str(partition / name), [b"\1" * size_bytes], why="", like=str(partition / LOG), mtime_ns=7)
        kind = "create" if is_new and name == TIMES else "replace"
        changes.append(change(partition / name, kind, size_bytes))
    asked = [3 * BLOCK_BYTES, 3 * BLOCK_BYTES - 1]
    places: list[str] = []

    def free_bytes(path: str) -> int:
        places.append(path)
        return asked.pop(0)

    monkeypatch.setattr(staging, "free_bytes", free_bytes)
    seen = make(AheadDisk(), changes, contents)
    assert seen == [*written(INDEX, 1), *written(TIMES, 2)]
    changes = [replace(each, kind="replace", before=fingerprint(each.path)) for each in changes]
    if is_new:
        (partition / TIMES).unlink()
        changes[1] = change(partition / TIMES, "create", BLOCK_BYTES + 12)
    seen = make(AheadDisk(), changes, contents)
    assert seen == [
        *(("next", INDEX), ("unlink", INDEX), ("fsync", "t-0")),
        *([] if is_new else [("next", TIMES), ("unlink", TIMES), ("fsync", "t-0")]),
        *written(TIMES, 1),
        *written(INDEX, 2),
    ]
    assert places == [str(partition)] * 2
    new = snapshot(partition)
    assert new[INDEX] == (b"\1" * 8, *old[INDEX][1:-1], 7), "the attributes are those of the file that made way"
    assert new[TIMES] == (b"\1" * (BLOCK_BYTES + 12), *old[LOG if is_new else TIMES][1:-1], 7)


def test_other_files_do_not_make_way_on_a_full_disk(partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "free_bytes", lambda path: 0)
    contents = ContentStage()
    contents.write(str(partition / EPOCHS), [b"0\n0\n"], why="", like=str(partition / LOG))
    assert make(AheadDisk(), [change(partition / EPOCHS, "replace", 4)], contents) == written(EPOCHS, 1)


@pytest.mark.parametrize("size_bytes", [0, 3])
def test_of_a_file_with_a_second_name_a_shorter_copy_takes_the_place(partition: Path, size_bytes: int) -> None:
    """A backup of hard links keeps its bytes."""
    old = snapshot(partition)
    backup = partition.parent / "backup"
    os.link(partition / LOG, backup)
    assert make(AheadDisk(), [change(partition / LOG, "replace", size_bytes)]) == written(LOG, 1)
    new = snapshot(partition)
    assert new[LOG] == (old[LOG][0][:size_bytes], *old[LOG][1:])  # type: ignore[index]
    assert (backup.read_bytes(), backup.stat().st_mtime_ns, backup.stat().st_nlink) == (old[LOG][0], old[LOG][-1], 1)


def test_a_new_file_at_the_top_is_of_the_owner_of_the_directory(partition: Path) -> None:
    top, contents = partition.parent, ContentStage()
    top.chmod(0o750)
    path = top / "cleaner-offset-checkpoint"
    contents.write(str(path), [b"0\n0\n"], why="", like=str(top))
    make(AheadDisk(), [change(path, "create", 4)], contents)
    status = path.stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o7777) == (*OWNER, 0o640)


@pytest.mark.parametrize("step", ["fsync", "rename"])
@pytest.mark.parametrize(
    "error", [OSError(errno.EIO, "bad"), KeyboardInterrupt(), Killed()], ids=["error", "interrupt", "kill"]
)
def test_a_file_that_cannot_be_finished_leaves_nothing_but_after_a_kill(
    partition: Path, step: str, error: BaseException
) -> None:
    """What a killed process leaves has the name of a run, which the next run deletes."""
    old, contents = snapshot(partition), ContentStage()
    contents.write(str(partition / EPOCHS), [b"0\n0\n"], why="", like=str(partition / LOG))
    temporary = f"{RUN}.0001.tmp"
    disk = AheadDisk((step, EPOCHS if step == "rename" else temporary), error)
    with pytest.raises(WriteError if isinstance(error, OSError) else type(error)):
        make(disk, [change(partition / EPOCHS, "replace", 4)], contents)
    assert snapshot(partition) == old
    assert names_of_ours(partition) == ([str(partition / temporary)] if isinstance(error, Killed) else [])


def test_a_disk_that_refuses_to_delete_what_could_not_be_finished_the_first_error_is_reported(partition: Path) -> None:
    class Failing(Disk):
        def step(self, what: str, path: str) -> None:
            if what in {"rename", "unlink"}:
                raise OSError(errno.EIO, f"no {what}")

    contents = ContentStage()
    contents.write(str(partition / EPOCHS), [b"0\n0\n"], why="", like=str(partition / LOG))
    with pytest.raises(WriteError, match="no rename"):
        list(make_directly(Failing(), RUN, [change(partition / EPOCHS, "replace", 4)], contents))


@pytest.mark.parametrize("is_full", [False, True])
def test_an_index_that_changed_is_neither_deleted_nor_replaced(
    partition: Path, monkeypatch: pytest.MonkeyPatch, is_full: bool
) -> None:
    monkeypatch.setattr(staging, "free_bytes", lambda path: 0 if is_full else BLOCK_BYTES)
    contents, planned = ContentStage(), change(partition / INDEX, "replace", 8)
    contents.write(planned.path, [b"\1" * 8], why="", like=str(partition / LOG))
    (partition / INDEX).write_bytes(b"other")
    disk = AheadDisk()
    with pytest.raises(RefusedError, match="has changed since it was planned") as caught:
        make(disk, [planned], contents)
    assert caught.value.path == planned.path
    assert disk.seen == [("next", INDEX)]
    assert (partition / INDEX).read_bytes() == b"other"


def test_a_file_that_came_in_place_of_one_that_made_way_is_not_overwritten(
    partition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "free_bytes", lambda path: 0)
    contents, planned = ContentStage(), change(partition / INDEX, "replace", 8)
    contents.write(planned.path, [b"\1" * 8], why="", like=str(partition / LOG))
    made = make_directly(Disk(), RUN, [planned], contents)
    assert next(made) == next(made) == planned
    assert not (partition / INDEX).exists()
    (partition / INDEX).write_bytes(b"of a broker")
    with pytest.raises(RefusedError, match="has changed since it was planned"):
        next(made)
    assert (partition / INDEX).read_bytes() == b"of a broker"
