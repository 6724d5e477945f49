"""`truncate --as-broker` next to replacements that wait, and where a clean shutdown hides the end of a log."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.support.truncating import MARK, STARTS, batch, batches_of, codes, plan, write_log, write_tops
from tests.support.truncating import cut as apply_all

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
    found = plan(root, as_broker=True).plan.report.losses
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


# --- releases that recover them ---------------------------------------------------------------------------------------
OLD = "2.8"
NOT_SIMULATED = ("0.8.1", "0.8.2", "0.9.0", "0.10.0", "0.10.1", "0.10.2", "0.11.0", "1.0", "1.1", "2.0", "2.1", "2.2")


@pytest.mark.parametrize("kafka", [*NOT_SIMULATED, "2.3", "2.4"])
def test_what_older_releases_make_of_them_is_not_foreseen(root: Path, kafka: str) -> None:
    swap(root, 20, (20, 24))
    assert codes(plan(root, as_broker=True, kafka=kafka)) == ["truncate.not-foreseen"]


@pytest.mark.parametrize("kafka", ["2.5", "2.6", "2.7", OLD, "3.0"])
def test_the_log_of_a_replacement_takes_the_place_of_what_it_overlaps(root: Path, kafka: str) -> None:
    swap(root, 20, (20, 24))
    draft = apply_all(root, as_broker=True, kafka=kafka)
    assert codes(draft) == ["truncate.completes"]
    assert [(each.first_offset, each.next_offset, each.records) for each in draft.plan.report.losses] == [(25, 40, 15)]
    assert batches_of(root / "t-0") == [(0, 4), (5, 9), (20, 24), (40, 44), (45, 49)]
    assert left(root) == []
    assert plan(root, as_broker=True, kafka=kafka).plan.changes == ()


def test_up_to_2_8_it_is_cut_at_damage_and_gets_new_indexes(root: Path) -> None:
    """Segments that start at or after its end are kept, whatever it was to replace."""
    data = bytearray(batch(35, 39))
    data[-1] ^= 1
    swap(root, 0, (0, 4), (5, 9), (20, 24), (30, 34), bytes(data), (40, 44), index=b"no index of anything")
    apply_all(root, as_broker=True, kafka=OLD)
    assert batches_of(root / "t-0") == [(0, 4), (5, 9), (20, 24), (30, 34), (40, 44), (45, 49)]
    index = (root / "t-0" / f"{0:020d}.index").read_bytes()
    assert (len(index) % 8, index[:4] > bytes(4)) == (0, bool(index))
    assert left(root) == []


def test_up_to_2_8_a_segment_that_reaches_into_it_goes_too(root: Path) -> None:
    swap(root, 7, (7, 9), (20, 24))
    assert lost_of(root, OLD)[-1] == (25, 40, 15)
    apply_all(root, as_broker=True, kafka=OLD)
    assert batches_of(root / "t-0") == [(7, 9), (20, 24), (40, 44), (45, 49)]


def lost_of(root: Path, kafka: str) -> list[tuple[int | None, int | None, int | None]]:
    found = plan(root, as_broker=True, kafka=kafka).plan.report.losses
    return [(each.first_offset, each.next_offset, each.records) for each in found]


def test_up_to_2_8_an_empty_one_takes_the_place_of_its_segment_alone(root: Path) -> None:
    swap(root, 20)
    assert lost_of(root, OLD) == [(20, 40, 20)]
    apply_all(root, as_broker=True, kafka=OLD)
    assert batches_of(root / "t-0") == [(0, 4), (5, 9), (40, 44), (45, 49)]


def test_up_to_2_8_offsets_below_its_base_stop_the_broker(root: Path) -> None:
    swap(root, 26, (20, 24))
    assert codes(plan(root, as_broker=True, kafka=OLD)) == ["truncate.broker-stops"]


def test_the_order_of_two_is_not_known_up_to_2_8(root: Path) -> None:
    swap(root, 0, (0, 4))
    swap(root, 20, (20, 24))
    assert codes(plan(root, as_broker=True, kafka=OLD)) == ["truncate.not-foreseen"]


@pytest.mark.parametrize("has_log", [True, False])
def test_up_to_2_8_the_original_of_an_incomplete_one_is_recovered(root: Path, has_log: bool) -> None:
    """The indexes that it has go with the first look at the directory, after a clean stop too."""
    path = root / "t-0" / f"{20:020d}.log"
    path.write_bytes(path.read_bytes()[:-5])
    swap(root, 20, (20, 24))
    if has_log:
        path.with_suffix(".log.cleaned").touch()
    else:
        path.with_suffix(".log.swap").unlink()
    apply_all(root, as_broker=True, kafka=OLD)
    assert batches_of(root / "t-0")[:5] == [(0, 4), (5, 9), (20, 24), (25, 29), (30, 34)]


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
    (refusal,) = draft.plan.report.refusals
    assert "takes offset 100" in refusal.message
    assert "up to offset 129" in refusal.message
    apply_all(long, at_damage=True)
    draft = plan(long, as_broker=True)
    assert (draft.plan.changes, codes(draft)) == ((), [])


def test_an_entry_that_leads_behind_the_log_hides_it_too(long: Path) -> None:
    index = long / "t-0" / f"{100:020d}.index"
    index.write_bytes(index.read_bytes() + (100).to_bytes(4, "big") + (10**6).to_bytes(4, "big"))
    assert codes(plan(long, as_broker=True)) == ["truncate.end-misled"]
