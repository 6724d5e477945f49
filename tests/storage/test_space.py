"""How much room changes need: on one file system, with the journal on another one, and without a journal."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from kafkalog_core.errors import NotFoundError, RefusedError
from kafkalog_core.storage.changing import space as space_module
from kafkalog_core.storage.changing.changes import Change, Fingerprint, grouped, may_delete_first
from kafkalog_core.storage.changing.space import (
    Move,
    Space,
    direct_count,
    existing_directory,
    free_bytes,
    freed_bytes,
    spaces_for,
    spaces_of,
)
from kafkalog_core.storage.changing.staging import ContentStage, make_directly
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.structs import replace

KIB = 1024
INTENT = 4 * KIB  # of two changes
DIRECTORY = 4 * KIB


def change(path: str, kind: str, before: int | None, after: int | None) -> Change:
    if before is not None:
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_bytes(b"\1" * before)
    print_before = None if before is None else Fingerprint(before, 0, "")
    return Change(kind=kind, path=path, before=print_before, size_bytes=after, sha256=None, why="")  # type: ignore[arg-type]


@pytest.fixture
def two_disks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    patient, other = tmp_path / "patient", tmp_path / "other"
    patient.mkdir()
    other.mkdir()
    monkeypatch.setattr(space_module, "_device", lambda path: 1 if path.startswith(str(patient)) else 2)
    return str(patient), str(other)


def test_a_file_that_changed_is_not_touched_ahead_of_the_intent(tmp_path: Path) -> None:
    """Without a journal changes are made one by one, each on the file that was planned for alone."""
    one = change(f"{tmp_path}/t-0/one", "remove", 3, None)
    with pytest.raises(RefusedError, match="has changed since it was planned; run the same command again"):
        list(make_directly(Disk(), "run", [one], ContentStage()))
    assert Path(one.path).read_bytes() == b"\1" * 3


def needed(changes: list[Change], undo_to: str | None = None, *, keeps_old: bool = True) -> dict[str, int]:
    return {each.path: each.needed_bytes for each in spaces_for(changes, undo_to, keeps_old=keeps_old)}


def test_next_to_the_files_only_new_content_and_tails_count(two_disks: tuple[str, str]) -> None:
    patient, _ = two_disks
    changes = [change(f"{patient}/a", "replace", 100 * KIB, 9 * KIB), change(f"{patient}/b", "cut", 50 * KIB, 30 * KIB)]
    assert needed(changes) == {patient: 12 * KIB + 20 * KIB + INTENT + DIRECTORY}
    assert needed([change(f"{patient}/a", "remove", 100 * KIB, None)]) == {patient: INTENT + DIRECTORY}
    assert spaces_for([], None, keeps_old=True) == ()


def test_each_directory_with_changes_takes_a_directory_of_the_journal(two_disks: tuple[str, str]) -> None:
    patient, _ = two_disks
    changes = [change(f"{patient}/{name}", "remove", KIB, None) for name in ("t-0/a", "t-1/a", "t-1/b")]
    assert list(needed(changes).values()) == [2 * DIRECTORY + 2 * INTENT]


@pytest.mark.parametrize("size_bytes", [4 * KIB, 4 * KIB + 1])
def test_of_a_file_that_is_cut_to_nothing_all_is_kept(two_disks: tuple[str, str], size_bytes: int) -> None:
    patient, _ = two_disks
    tail = 4 * KIB if size_bytes == 4 * KIB else 8 * KIB
    assert needed([change(f"{patient}/a", "cut", size_bytes, 0)]) == {patient: tail + INTENT + DIRECTORY}


def test_old_content_at_the_top_of_a_log_directory_is_in_the_intent(two_disks: tuple[str, str]) -> None:
    """In base64, and the intent is written a second time when the run is complete."""
    patient, other = two_disks
    Path(patient, "meta.properties").write_bytes(b"")
    replaced = change(f"{patient}/a", "replace", 300 * KIB, 4 * KIB)
    assert needed([replaced]) == {patient: 4 * KIB + DIRECTORY + 2 * 400 * KIB + INTENT}
    assert needed([change(f"{patient}/new", "create", None, 4 * KIB)]) == {patient: 4 * KIB + DIRECTORY + INTENT}
    inside = change(f"{patient}/t-0/a", "replace", 300 * KIB, 4 * KIB)
    assert list(needed([inside]).values()) == [4 * KIB + DIRECTORY + INTENT]
    assert needed([replaced], other)[other] == 4 * KIB + 300 * KIB + INTENT


def test_elsewhere_takes_copies_and_the_patient_one_file_at_a_time(two_disks: tuple[str, str]) -> None:
    patient, other = two_disks
    changes = [
        change(f"{patient}/gone", "remove", 64 * KIB, None),
        change(f"{patient}/new", "create", None, 8 * KIB),
    ]
    assert needed(changes, other) == {patient: 0, other: 64 * KIB + 8 * KIB + INTENT}
    backwards = {patient: 8 * KIB, other: 64 * KIB + 8 * KIB + INTENT}
    assert needed(changes[::-1], other) == backwards
    assert needed(changes[::-1], f"{other}/not/there/yet") == backwards


def test_what_is_not_freed_is_not_counted(two_disks: tuple[str, str]) -> None:
    patient, other = two_disks
    gone, new = change(f"{patient}/gone", "remove", 64 * KIB, None), change(f"{patient}/new", "create", None, 8 * KIB)
    os.link(gone.path, f"{patient}/second-name")
    assert freed_bytes(gone) == 0
    assert needed([gone, new], other)[patient] == 8 * KIB
    sparse = change(f"{patient}/sparse", "cut", 0, 4 * KIB)
    os.truncate(sparse.path, 10 * KIB * KIB)
    assert freed_bytes(replace(sparse, before=Fingerprint(10 * KIB * KIB, 0, ""))) == 0
    assert freed_bytes(change(f"{patient}/cut", "cut", 64 * KIB, 5 * KIB)) == 56 * KIB
    assert freed_bytes(change(f"{patient}/cut", "cut", 64 * KIB, 0)) == 64 * KIB
    assert freed_bytes(change(f"{patient}/not-there", "create", None, 1)) == 0


def test_of_a_replacement_all_that_is_new_comes_before_anything_goes(two_disks: tuple[str, str]) -> None:
    patient, other = two_disks
    parts = [
        change(f"{patient}/0", "replace", 64 * KIB, 8 * KIB),
        change(f"{patient}/0.index", "replace", 4 * KIB, 4 * KIB),
        change(f"{patient}/9", "remove", 64 * KIB, None),
    ]
    assert needed(parts, other)[patient] == 8 * KIB
    together = [replace(part, swap=0) for part in parts]
    assert needed(together, other)[patient] == 8 * KIB + 4 * KIB
    behind = [*together, change(f"{patient}/20", "create", None, 100 * KIB)]
    assert needed(behind, other)[patient] == 12 * KIB
    elsewhere = [change(f"{patient}/t/{part.path[-1]}", part.kind, KIB, part.size_bytes) for part in parts]
    others = [*together, *(replace(part, swap=0) for part in elsewhere)]
    assert needed(others, other)[patient] == 12 * KIB


def test_elsewhere_on_the_same_disk_is_no_copy(two_disks: tuple[str, str]) -> None:
    patient, _ = two_disks
    changes = [change(f"{patient}/a", "replace", 100 * KIB, 8 * KIB), change(f"{patient}/b", "remove", KIB, None)]
    assert list(needed(changes, patient).values()) == [8 * KIB + INTENT + DIRECTORY]


def test_on_a_file_system_that_is_not_chosen_yet_the_journal_takes_nothing_of_those_that_are_known(
    two_disks: tuple[str, str],
) -> None:
    """What is free there is not known, so only the file systems of the files count."""
    patient, other = two_disks
    Path(other, "u").mkdir()
    changes = [change(f"{patient}/a", "replace", 100 * KIB, 8 * KIB), change(f"{other}/u/b", "create", None, 4 * KIB)]
    for undo_to in (None, patient, other):
        spaces = spaces_for(changes, undo_to, keeps_old=True, is_other_device=True)
        assert {space.path: space.needed_bytes for space in spaces} == {patient: 8 * KIB, f"{other}/u": 4 * KIB}


def test_files_on_the_file_system_of_the_journal_are_not_copied_but_those_of_others_are(
    two_disks: tuple[str, str],
) -> None:
    patient, other = two_disks
    changes = [
        change(f"{other}/near", "replace", 100 * KIB, 12 * KIB),
        change(f"{patient}/far", "replace", 64 * KIB, 8 * KIB),
        change(f"{patient}/cut", "cut", 64 * KIB, 60 * KIB),
    ]
    copies = 64 * KIB + 8 * KIB + 4 * KIB
    assert needed(changes, other) == {patient: 8 * KIB, other: 12 * KIB + DIRECTORY + copies + 2 * INTENT}


def test_a_directory_that_has_gone_is_an_error_that_names_it(tmp_path: Path) -> None:
    gone = Change(kind="create", path=f"{tmp_path}/gone/a", before=None, size_bytes=1, sha256=None, why="")
    with pytest.raises(NotFoundError) as caught:
        spaces_for([gone], None, keeps_old=True)
    assert caught.value.path == f"{tmp_path}/gone"


def test_without_undo_what_is_deleted_first_makes_room_for_the_intent(two_disks: tuple[str, str]) -> None:
    patient, _ = two_disks
    changes = [
        change(f"{patient}/0", "remove", 4 * KIB, None),
        change(f"{patient}/1", "remove", 64 * KIB, None),
        change(f"{patient}/new", "create", None, 8 * KIB),
        change(f"{patient}/2", "remove", 64 * KIB, None),
    ]
    rest = 8 * KIB + DIRECTORY
    assert needed(changes, keeps_old=False) == {patient: 0}
    assert [direct_count(changes, free) for free in (rest + INTENT, rest + INTENT - 1, 0)] == [0, 1, 2]
    alone = changes[2:]
    assert needed(alone, keeps_old=False) == {patient: 8 * KIB}
    assert [direct_count(alone, free) for free in (rest + INTENT, rest, 8 * KIB, 8 * KIB - 1)] == [0, 2, 2, 0]
    parts = [replace(each, swap=0) for each in changes[:2]]
    assert direct_count(parts, 0) == 0
    assert needed(alone[:1], keeps_old=False) == {patient: 8 * KIB}
    (space,) = spaces_for(alone[:1], None, keeps_old=False, allows_direct=False)
    assert space.needed_bytes == rest + INTENT


def test_without_undo_the_intent_is_written_once_with_a_directory_for_each_of_the_files(
    two_disks: tuple[str, str],
) -> None:
    patient, _ = two_disks
    changes = [change(f"{patient}/t-{number % 3}/{number}", "remove", KIB, None) for number in range(12)]
    (space,) = spaces_for(changes, None, keeps_old=False, allows_direct=False)
    assert space.needed_bytes == 12 * 2 * KIB // 2 + 3 * DIRECTORY


def test_what_is_made_ahead_needs_room_for_the_largest_of_its_steps(two_disks: tuple[str, str]) -> None:
    """Here the file that replaces a larger one: it is whole before it frees that one."""
    patient, _ = two_disks
    changes = [change(f"{patient}/0", "create", None, 8 * KIB), change(f"{patient}/1", "replace", 100 * KIB, 20 * KIB)]
    assert needed(changes, keeps_old=False) == {patient: 28 * KIB}
    assert [direct_count(changes, free) for free in (28 * KIB, 28 * KIB - 1)] == [2, 0]


def test_a_cut_takes_no_room_where_its_tail_is_not_kept(two_disks: tuple[str, str]) -> None:
    patient, other = two_disks
    cut = change(f"{patient}/a", "cut", 64 * KIB, 4 * KIB)
    assert needed([cut], other)[patient] == 0
    assert needed([cut], keeps_old=False) == {patient: 0}
    after = change(f"{patient}/b", "create", None, 64 * KIB)
    assert needed([cut, after], other)[patient] == 4 * KIB
    assert needed([after, cut], other)[patient] == 64 * KIB


def test_on_two_file_systems_nothing_is_made_ahead_of_the_intent(two_disks: tuple[str, str]) -> None:
    patient, other = two_disks
    changes = [change(f"{patient}/0", "remove", 64 * KIB, None), change(f"{other}/1", "create", None, 8 * KIB)]
    assert needed(changes[:1], keeps_old=False) == {patient: 0}
    assert min(needed(changes, keeps_old=False).values()) > 0


def test_replaced_indexes_of_a_segment_make_way_for_each_other(two_disks: tuple[str, str]) -> None:
    patient, other = two_disks
    times = change(f"{patient}/0.timeindex", "replace", 4 * KIB, 4 * KIB)
    offsets = change(f"{patient}/0.index", "replace", 8 * KIB, 4 * KIB)
    assert needed([times], other)[patient] == 4 * KIB
    assert needed([offsets, times], other)[patient] == 0
    assert needed([offsets, times], keeps_old=False) == {patient: 0}
    assert needed([offsets, replace(times, path=f"{patient}/9.timeindex")], other)[patient] == 0
    larger = replace(offsets, size_bytes=20 * KIB)
    assert needed([larger, times], other)[patient] == 12 * KIB
    assert needed([replace(offsets, swap=0), replace(times, swap=0)], other)[patient] == 8 * KIB


def test_only_indexes_of_one_segment_are_a_group() -> None:
    paths = ("/a/0.index", "/a/0.timeindex", "/a/5.index", "/b/5.index", "/b/5.log", "/b/5.timeindex")
    changes = [change(path, "replace", None, 8) for path in paths]
    assert [[each.path for each in group] for group in grouped(changes)] == [
        ["/a/0.index", "/a/0.timeindex"],
        *([path] for path in paths[2:]),
    ]
    removed = [change(path, "remove", None, None) for path in paths[:2]]
    assert [len(group) for group in grouped(removed)] == [1, 1]


# --- files one after another ------------------------------------------------------------------------------------------
def needed_by(*moves: Move) -> dict[str, int]:
    return {space.path: space.needed_bytes for space in spaces_of(moves)}


def test_what_one_file_frees_is_there_for_the_next_one(two_disks: tuple[str, str]) -> None:
    patient, other = two_disks
    first, second = Move(patient, 8 * KIB, 12 * KIB, "a"), Move(patient, 9 * KIB, 0, "b")
    assert needed_by(first, second) == {patient: 8 * KIB}
    assert needed_by(second, first) == {patient: 12 * KIB + 8 * KIB}
    assert needed_by(first, replace(second, written_bytes=16 * KIB)) == {patient: 12 * KIB}
    assert needed_by(first, replace(second, directory=other)) == {patient: 8 * KIB, other: 12 * KIB}
    assert needed_by(Move(patient, 0, 0, "a")) == {patient: 0}
    Path(patient, "t-0").mkdir()
    assert needed_by(Move(f"{patient}/t-0", 1, 0, "a"), Move(patient, 1, 0, "b")) == {f"{patient}/t-0": 8 * KIB}
    assert needed_by() == {}


@pytest.mark.parametrize("frees_first", [False, True])
def test_a_group_frees_nothing_before_all_of_it_is_there_unless_it_makes_way(
    two_disks: tuple[str, str], frees_first: bool
) -> None:
    patient, other = two_disks
    group = [
        Move(patient, 8 * KIB, 4 * KIB, "a"),
        Move(other, 4 * KIB, 0, "a", frees_first),
        Move(patient, 8 * KIB, 8 * KIB, "a"),
    ]
    peak = 4 * KIB if frees_first else 16 * KIB
    assert needed_by(*group) == {patient: peak, other: 4 * KIB}
    assert needed_by(*group, Move(patient, 16 * KIB, 0, "b")) == {patient: 4 * KIB + 16 * KIB, other: 4 * KIB}
    assert needed_by(Move(patient, 4 * KIB, 8 * KIB, "a", frees_first)) == {patient: 0 if frees_first else 4 * KIB}


# --- what is free -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("user", "blocks"), [(0, 100), (4711, 60)])
def test_only_root_may_write_to_the_blocks_that_are_reserved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int, blocks: int
) -> None:
    status = SimpleNamespace(f_bfree=100, f_bavail=60, f_frsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda path: status if path == str(tmp_path) else None)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert free_bytes(str(tmp_path)) == blocks * 4096


def test_what_is_needed_may_be_all_that_is_free() -> None:
    assert [Space("x", size_bytes, 2).is_enough for size_bytes in (1, 2, 3)] == [True, True, False]


def test_a_file_makes_way_only_where_a_start_builds_its_successor_again() -> None:
    """An undo deletes a new index, and an old one that was missing has no successor to be built."""
    for kind, name, swap, expected in (
        ("replace", "0.index", None, (True, True)),
        ("create", "0.index", None, (True, False)),
        ("remove", "0.index", None, (False, False)),
        ("replace", "0.timeindex", None, (False, False)),
        ("replace", "0.index", 0, (False, False)),
        ("replace", "0.log", None, (False, False)),
    ):
        index = Change(kind=kind, path=f"/t-0/{name}", before=None, size_bytes=8, sha256=None, why="", swap=swap)  # type: ignore[arg-type]
        other = replace(index, path="/t-0/0.timeindex")
        assert (may_delete_first([other, index]), may_delete_first([other, index], is_back=True)) == expected, (
            kind,
            name,
            swap,
        )


def test_what_there_is(tmp_path: Path) -> None:
    (space,) = spaces_for([change(f"{tmp_path}/a", "create", None, 1)], None, keeps_old=True)
    status = os.statvfs(tmp_path)
    assert 0 < space.free_bytes <= status.f_blocks * status.f_frsize
    assert space.is_enough
    assert not Space("x", 2, 1).is_enough
    assert existing_directory(f"{tmp_path}/a/b") == str(tmp_path)


@pytest.mark.parametrize(("user", "blocks"), [(0, 7), (1000, 2)])
def test_reserved_blocks_are_free_for_root_alone(monkeypatch: pytest.MonkeyPatch, user: int, blocks: int) -> None:
    status = SimpleNamespace(f_frsize=4096, f_bfree=7, f_bavail=2)
    monkeypatch.setattr(os, "statvfs", lambda path: status)
    assert free_bytes("/", user) == blocks * 4096
