"""The pointer to a journal elsewhere: who may read it, when it is written and when it is left, and what it takes."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final

import pytest

from kafkalog_core.storage.changing import journal as pointer_module
from kafkalog_core.storage.changing.changes import Fingerprint
from kafkalog_core.storage.changing.journal import (
    Journal,
    JournalEntry,
    JournalLayout,
    ensure_pointer,
    ensure_pointer_if_space,
    freed_by_pointer,
    remove_pointer,
)
from kafkalog_core.storage.changing.trusted import TrustedDirectories
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.structs import replace
from tests.support.repairs import OWNER, CountingDisk

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("no_waiting")

RUN: Final = "kafkalog-undo-20260102T030405Z-1"
KIB: Final = 1024


class Noting(Disk):
    """Notes its steps, with the names below a directory."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.steps: list[str] = []

    def step(self, what: str, path: str) -> None:
        self.steps.append(f"{what} {os.path.relpath(path, self._root)}")


def journal_of(tmp_path: Path, *, of_partition: bool) -> Journal:
    root, home = tmp_path / "log", tmp_path / "undo"
    for directory in (root, home / RUN):
        directory.mkdir(parents=True)
    os.chown(root, *OWNER)
    return Journal(
        layout=JournalLayout(run=RUN, root=str(root), place="elsewhere", home=str(home)),
        command="truncate",
        created_ms=0,
        state="prepared",
        entries=(),
        pointer_is_directory=of_partition,
        trusted=TrustedDirectories([str(root), str(home)]),
        keeps_old=True,
    )


def entry(number: int, kind: str, before: int | None, after: int | None) -> JournalEntry:
    of = [None if size is None else Fingerprint(size, 0, "0" * 64) for size in (before, after)]
    return JournalEntry(number=number, kind=kind, path=f"{number}", why="", before=of[0], after=of[1])  # type: ignore[arg-type]


# --- what is written --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("of_root", "of_directory", "of_file"),
    [(0o777, 0o755, 0o644), (0o700, 0o700, 0o600), (0o750, 0o750, 0o640), (0o711, 0o711, 0o600), (0o705, 0o705, 0o604)],
)
@pytest.mark.parametrize("of_partition", [False, True])
def test_it_is_of_the_owner_of_the_directory_and_for_those_who_may_read_that(
    tmp_path: Path, of_root: int, of_directory: int, of_file: int, of_partition: bool
) -> None:
    journal = journal_of(tmp_path, of_partition=of_partition)
    (tmp_path / "log").chmod(of_root)
    disk = Disk()
    with disk.within(journal.trusted):
        ensure_pointer(disk, journal)
    expected = {RUN: of_directory, f"{RUN}/intent.json": of_file} if of_partition else {RUN: of_file}
    found = {str(path.relative_to(tmp_path / "log")): path.stat() for path in (tmp_path / "log").rglob("*")}
    assert {name: stat.S_IMODE(status.st_mode) for name, status in found.items()} == expected
    assert {(status.st_uid, status.st_gid) for status in found.values()} == {OWNER}


def test_an_extended_attribute_of_the_directory_is_not_given_to_it(tmp_path: Path) -> None:
    journal = journal_of(tmp_path, of_partition=True)
    try:
        os.setxattr(tmp_path / "log", "user.note", b"of the broker")
    except OSError:
        pytest.skip("the file system takes no extended attributes")
    ensure_pointer(Disk(), journal)
    for path in (tmp_path / "log").rglob("*"):
        assert "user.note" not in os.listxattr(path)


@pytest.mark.parametrize("of_partition", [False, True])
def test_it_is_fsynced_with_every_name_that_leads_to_it(tmp_path: Path, of_partition: bool) -> None:
    journal, disk = journal_of(tmp_path, of_partition=of_partition), Noting(tmp_path / "log")
    ensure_pointer(disk, journal)
    name = f"{RUN}/intent.json" if of_partition else RUN
    steps = [step for step in disk.steps if step.partition(" ")[0] in {"mkdir", "create", "fsync", "rename"}]
    begun, ended = ([f"mkdir {RUN}"], [f"fsync {RUN}", "fsync ."]) if of_partition else ([], ["fsync ."])
    assert steps == [*begun, f"create {name}.tmp", f"fsync {name}.tmp", f"rename {name}", *ended]


@pytest.mark.parametrize("of_partition", [False, True])
def test_what_is_left_of_one_that_was_not_finished_is_written_again(tmp_path: Path, of_partition: bool) -> None:
    journal = journal_of(tmp_path, of_partition=of_partition)
    assert journal.pointer is not None
    os.makedirs(os.path.dirname(journal.pointer), exist_ok=True)
    with open(f"{journal.pointer}.tmp", "w", encoding="ascii") as file:
        file.write("half")
    ensure_pointer(Disk(), journal)
    assert os.listdir(os.path.dirname(journal.pointer)) == [os.path.basename(journal.pointer)]


# --- when it is not written -------------------------------------------------------------------------------------------
def test_one_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    journal, disk = journal_of(tmp_path, of_partition=False), CountingDisk()
    (tmp_path / "log" / RUN).write_text("there")
    ensure_pointer(disk, journal)
    assert (disk.steps, (tmp_path / "log" / RUN).read_text()) == ([], "there")


def test_none_is_written_where_nobody_named_the_directory(tmp_path: Path) -> None:
    """An undo that was given only the directory of the journals writes none that it could not delete."""
    journal, disk = journal_of(tmp_path, of_partition=False), CountingDisk()
    journal = replace(journal, trusted=TrustedDirectories([journal.layout.home]))
    ensure_pointer(disk, journal)
    remove_pointer(disk, journal)
    assert (disk.steps, os.listdir(tmp_path / "log"), freed_by_pointer(journal)) == ([], [], 0)


@pytest.mark.parametrize("place", ["partition", "top"])
def test_a_journal_next_to_its_files_needs_none(tmp_path: Path, place: str) -> None:
    journal, disk = journal_of(tmp_path, of_partition=False), CountingDisk()
    journal = replace(journal, layout=replace(journal.layout, place=place, home=journal.layout.root))  # type: ignore[arg-type]
    ensure_pointer(disk, journal)
    ensure_pointer_if_space(disk, journal, ())
    remove_pointer(disk, journal)
    assert (disk.steps, os.listdir(tmp_path / "log"), freed_by_pointer(journal)) == ([], [], 0)


@pytest.mark.parametrize(("free_bytes", "is_written"), [(24 * KIB - 1, False), (24 * KIB, True)])
def test_it_leaves_room_for_what_is_still_to_be_written(
    tmp_path: Path, free_bytes: int, is_written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two files of whole blocks, and the pointer with its directory: a file that is cut or deleted needs nothing."""
    journal = journal_of(tmp_path, of_partition=False)
    rest = [entry(1, "create", None, 4 * KIB + 1), entry(2, "replace", 1, 8 * KIB)]
    rest += [entry(3, "cut", 99 * KIB, 98 * KIB), entry(4, "remove", 99 * KIB, None)]
    monkeypatch.setattr(pointer_module, "free_bytes", lambda path: free_bytes if path == journal.layout.root else 0)
    ensure_pointer_if_space(Disk(), journal, rest)
    assert os.path.exists(str(journal.pointer)) == is_written


# --- what it takes, and how it goes -----------------------------------------------------------------------------------
@pytest.mark.parametrize("of_partition", [False, True])
def test_its_room_is_that_of_its_blocks_and_of_what_was_to_become_it(tmp_path: Path, of_partition: bool) -> None:
    journal, disk = journal_of(tmp_path, of_partition=of_partition), Noting(tmp_path / "log")
    assert freed_by_pointer(journal) == 0
    ensure_pointer(disk, journal)
    with open(f"{journal.pointer}.tmp", "wb") as file:
        file.write(b"x" * 70_000)
    blocks = [os.stat(path).st_blocks for path in (str(journal.pointer), f"{journal.pointer}.tmp")]
    assert freed_by_pointer(journal) == 512 * sum(blocks) >= 70_000
    disk.steps.clear()
    remove_pointer(disk, journal)
    assert os.listdir(tmp_path / "log") == []
    name = f"{RUN}/intent.json" if of_partition else RUN
    directory = [f"rmdir {RUN}"] if of_partition else []
    assert disk.steps == [f"unlink {name}", f"unlink {name}.tmp", *directory, "open .", "fsync ."]
    remove_pointer(disk, journal)
    assert disk.steps[-1] == "fsync ."
    assert len(disk.steps) == 4 + len(directory)


def test_a_directory_that_was_made_for_it_goes_without_it_too(tmp_path: Path) -> None:
    journal, disk = journal_of(tmp_path, of_partition=True), Noting(tmp_path / "log")
    (tmp_path / "log" / RUN).mkdir()
    remove_pointer(disk, journal)
    assert disk.steps == [f"rmdir {RUN}", "open .", "fsync ."]
