"""`truncate --as-broker` next to replacements that wait, and where a clean shutdown hides the end of a log."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.ops.truncating import MARK, STARTS, batch, batches_of, codes, plan, write_log, write_tops
from tests.ops.truncating import cut as apply_all

if TYPE_CHECKING:
    from pathlib import Path

SEGMENTS = {0: [(0, 4), (5, 9)], 20: [(20, 24), (25, 29), (30, 34), (35, 39)], 40: [(40, 44), (45, 49)]}


@pytest.fixture(params=[True, False], ids=["clean", "unclean"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    disk = write_tops(tmp_path / "disk", recovery=[("t", 0, 50)], watermarks=[("t", 0, 45)], is_clean=request.param)
    write_log(disk / "t-0", SEGMENTS)
    (disk / "meta.properties").write_bytes(b"version=1\nnode.id=1\n")
    return disk


def swap(root: Path, base: int, *batches: tuple[int, int] | bytes, index: bytes | None = b"") -> None:
    stem = root / "t-0" / f"{base:020d}"
    data = b"".join(each if isinstance(each, bytes) else batch(*each) for each in batches)
    stem.with_suffix(".log.swap").write_bytes(data)
    if index is not None:
        stem.with_suffix(".index.swap").write_bytes(index)
        stem.with_suffix(".timeindex.swap").write_bytes(b"")


def left(root: Path) -> list[str]:
    return [name for name in os.listdir(root / "t-0") if name.endswith((".swap", ".cleaned"))]


def lost(root: Path) -> list[tuple[int | None, int | None, int | None]]:
    found = plan(root, as_broker=True).plan.outcome.losses
    return [(each.first_offset, each.next_offset, each.records) for each in found]


def test_a_shorter_one_takes_records_with_it(root: Path) -> None:
    swap(root, 20, (20, 24))
    assert lost(root) == [(25, 40, 15)]
    draft = apply_all(root, as_broker=True)
    assert codes(draft) == ["truncate.completes"]
    assert draft.plan.is_alarming
    assert batches_of(root / "t-0") == [(0, 4), (5, 9), (20, 24), (40, 44), (45, 49)]
    assert left(root) == []


def test_one_that_has_everything_loses_nothing(root: Path) -> None:
    swap(root, 0, (0, 4), (5, 9), (20, 24), (35, 39))
    assert lost(root) == []
    draft = apply_all(root, as_broker=True)
    assert not draft.plan.is_alarming
    assert batches_of(root / "t-0") == [(0, 4), (5, 9), (20, 24), (35, 39), (40, 44), (45, 49)]


def test_what_is_between_two_goes_with_them(root: Path) -> None:
    swap(root, 0, (0, 4), (5, 9))
    swap(root, 40, (40, 44), (45, 49))
    assert lost(root) == [(20, 40, 20)]
    apply_all(root, as_broker=True)
    assert batches_of(root / "t-0") == [(0, 4), (5, 9), (40, 44), (45, 49)]


def test_what_is_behind_damage_in_one_is_lost_too(root: Path) -> None:
    data = bytearray(batch(25, 29))
    data[-1] ^= 1
    swap(root, 20, (20, 24), bytes(data), (30, 34), (35, 39))
    assert lost(root) == [(25, 40, 15)]


def test_without_its_original_and_without_an_index(root: Path) -> None:
    for path in (root / "t-0").glob(f"{20:020d}.*"):
        path.unlink()
    swap(root, 20, (20, 24), (35, 39), index=None)
    assert lost(root) == []
    apply_all(root, as_broker=True)
    assert batches_of(root / "t-0") == [(0, 4), (5, 9), (20, 24), (35, 39), (40, 44), (45, 49)]
    assert (root / "t-0" / f"{20:020d}.index").read_bytes() == b""


def test_one_alone_is_a_log(root: Path) -> None:
    for path in (root / "t-0").glob("*.*"):
        path.unlink()
    swap(root, 0, (0, 4))
    apply_all(root, as_broker=True)
    assert batches_of(root / "t-0") == [(0, 4)]


def test_an_empty_one_empties_its_segment(root: Path) -> None:
    swap(root, 20)
    assert lost(root) == [(20, 40, 20)]
    apply_all(root, as_broker=True)
    assert (root / "t-0" / f"{20:020d}.log").read_bytes() == b""


def test_one_of_an_interrupted_split_is_given_up(root: Path) -> None:
    (root / "t-0" / f"{20:020d}.log.cleaned").touch()
    swap(root, 20, (20, 24))
    draft = plan(root, as_broker=True)
    assert (draft.plan.changes, codes(draft)) == ((), [])


def test_a_cut_follows_in_a_second_plan(root: Path) -> None:
    (root / MARK).unlink(missing_ok=True)
    (root / "t-0" / f"{40:020d}.log").write_bytes(batch(40, 44) + bytes(100))
    swap(root, 20, (20, 24), (35, 39))
    draft = plan(root, as_broker=True)
    assert codes(draft) == ["truncate.completes", "truncate.cuts-more"]


def test_releases_that_recover_them_are_not_foreseen(root: Path) -> None:
    swap(root, 20, (20, 24))
    assert codes(plan(root, as_broker=True, kafka="2.8")) == ["truncate.not-foreseen"]
    assert codes(plan(root, as_broker=True, kafka="3.0")) == ["truncate.completes"]


# --- the end of a log after a clean shutdown --------------------------------------------------------------------------
@pytest.fixture
def long(tmp_path: Path) -> Path:
    """A segment whose index has an entry at its seventh batch."""
    disk = write_tops(tmp_path / "disk", recovery=[("t", 0, 140)], is_clean=True)
    write_log(disk / "t-0", {100: [(first, first + 4) for first in range(100, 140, 5)]})
    (disk / STARTS).write_bytes(b"0\n0\n")
    return disk


def test_a_torn_batch_at_the_last_index_entry_hides_the_segment(long: Path) -> None:
    log, index = (long / "t-0" / f"{100:020d}.{suffix}" for suffix in ("log", "index"))
    position = int.from_bytes(index.read_bytes()[-4:], "big")
    log.write_bytes(log.read_bytes()[: position + 30])
    draft = plan(long, as_broker=True)
    assert codes(draft) == ["truncate.end-lost"]
    (refusal,) = draft.plan.outcome.refusals
    assert "takes offset 100" in refusal.message
    assert "up to offset 129" in refusal.message
    apply_all(long, at_damage=True)
    draft = plan(long, as_broker=True)
    assert (draft.plan.changes, codes(draft)) == ((), [])


def test_an_entry_that_leads_behind_the_log_hides_it_too(long: Path) -> None:
    index = long / "t-0" / f"{100:020d}.index"
    index.write_bytes(index.read_bytes() + (100).to_bytes(4, "big") + (10**6).to_bytes(4, "big"))
    assert codes(plan(long, as_broker=True)) == ["truncate.end-misled"]
