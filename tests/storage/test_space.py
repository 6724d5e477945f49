"""How much room changes need: on one file system, and with the journal on another one."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.storage.changing import space as space_module
from kafkalog_core.storage.changing.changes import Change, Fingerprint
from kafkalog_core.storage.changing.space import Space, spaces_for

if TYPE_CHECKING:
    from pathlib import Path

KIB = 1024
INTENT = 4 * KIB  # of two changes


def change(path: str, kind: str, before: int | None, after: int | None) -> Change:
    print_before = None if before is None else Fingerprint(before, 0, "")
    return Change(kind=kind, path=path, before=print_before, size_bytes=after, sha256=None, why="")  # type: ignore[arg-type]


@pytest.fixture
def two_disks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    patient, other = tmp_path / "patient", tmp_path / "other"
    patient.mkdir()
    other.mkdir()
    monkeypatch.setattr(space_module, "_device", lambda path: 1 if path.startswith(str(patient)) else 2)
    return str(patient), str(other)


def needed(changes: list[Change], undo_to: str | None = None) -> dict[str, int]:
    return {each.path: each.needed_bytes for each in spaces_for(changes, undo_to)}


def test_beside_the_files_only_new_content_and_tails_count(two_disks: tuple[str, str]) -> None:
    patient, _ = two_disks
    changes = [change(f"{patient}/a", "replace", 100 * KIB, 9 * KIB), change(f"{patient}/b", "cut", 50 * KIB, 30 * KIB)]
    assert needed(changes) == {patient: 12 * KIB + 20 * KIB + INTENT}
    assert needed([change(f"{patient}/a", "remove", 100 * KIB, None)]) == {patient: INTENT}
    assert spaces_for([], None) == ()


def test_elsewhere_takes_copies_and_the_patient_one_file_at_a_time(two_disks: tuple[str, str]) -> None:
    patient, other = two_disks
    changes = [
        change(f"{patient}/gone", "remove", 64 * KIB, None),
        change(f"{patient}/new", "create", None, 8 * KIB),
    ]
    assert needed(changes, other) == {patient: 0, other: 64 * KIB + 8 * KIB + INTENT}
    assert needed(changes[::-1], other) == {patient: 8 * KIB, other: 64 * KIB + 8 * KIB + INTENT}


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
    others = [*together, *(replace(part, path=f"{patient}/t/{part.path[-1]}", swap=0) for part in parts)]
    assert needed(others, other)[patient] == 12 * KIB


def test_elsewhere_on_the_same_disk_is_no_copy(two_disks: tuple[str, str]) -> None:
    patient, _ = two_disks
    changes = [change(f"{patient}/a", "replace", 100 * KIB, 8 * KIB), change(f"{patient}/b", "remove", KIB, None)]
    assert list(needed(changes, patient).values()) == [8 * KIB + INTENT]


def test_what_there_is(tmp_path: Path) -> None:
    (space,) = spaces_for([change(f"{tmp_path}/a", "create", None, 1)], None)
    status = os.statvfs(tmp_path)
    assert 0 < space.free_bytes <= status.f_blocks * status.f_frsize
    assert space.is_enough
    assert not Space("x", 2, 1).is_enough
