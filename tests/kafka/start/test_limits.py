"""The limits of a machine that a start meets, from counts; and the counts of a disk."""

from __future__ import annotations

from pathlib import Path

from kafkalog_core.kafka.sim.start.limits import (
    DiskCounts,
    MachineLimits,
    count_disk,
    limit_problems,
    needs_of,
    read_machine,
)
from kafkalog_core.structs import replace

COUNTS = DiskCounts(partitions=1000, segments=40_000, txn_indexes=500, log_dirs=(("/a", 750), ("/b", 250)))
MIB = 1024 * 1024


def test_two_maps_a_segment_and_at_the_start_those_of_active_segments() -> None:
    """Seen of 3.9.2 and 4.4.0: 16 maps of indexes for 8 partitions with 53 segments, and 53 open logs."""
    counts = DiskCounts(partitions=8, segments=53)
    needs = needs_of(counts, has_time_index=True, maps_all=False, index_bytes=10 * MIB)
    none = needs_of(DiskCounts(), has_time_index=True, maps_all=False, index_bytes=10 * MIB)
    assert (needs.maps_at_start - none.maps, needs.maps - none.maps, needs.files - none.files) == (16, 106, 53)
    old = needs_of(counts, has_time_index=False, maps_all=True, index_bytes=10 * MIB)
    assert (old.maps_at_start - none.maps, old.maps - none.maps) == (53, 53)


def test_the_default_of_maps_is_reached_after_the_start() -> None:
    needs = needs_of(COUNTS, has_time_index=True, maps_all=False, index_bytes=10 * MIB)
    (problem,) = limit_problems(needs, MachineLimits(max_map_count=65_530), COUNTS)
    assert (problem.limit, problem.needed, problem.is_at_start) == ("vm.max_map_count", 80_400, False)
    assert problem.way_out == "sysctl -w vm.max_map_count=262144"
    at_once = needs_of(COUNTS, has_time_index=True, maps_all=True, index_bytes=10 * MIB)
    assert limit_problems(at_once, MachineLimits(max_map_count=65_530), COUNTS)[0].is_at_start
    unindexed = replace(COUNTS, unindexed=39_000)
    needs = needs_of(unindexed, has_time_index=True, maps_all=False, index_bytes=10 * MIB)
    assert needs.maps_at_start == needs.maps


def test_an_open_file_for_each_log_and_transaction_index() -> None:
    needs = needs_of(COUNTS, has_time_index=True, maps_all=False, index_bytes=10 * MIB)
    (problem,) = limit_problems(needs, MachineLimits(open_files=4096), COUNTS)
    assert (problem.limit, problem.needed, problem.allowed, problem.is_at_start) == ("LimitNOFILE", 40_630, 4096, True)
    assert limit_problems(needs, MachineLimits(open_files=40_630), COUNTS) == []


def test_space_of_each_log_directory() -> None:
    needs = needs_of(COUNTS, has_time_index=True, maps_all=False, index_bytes=1000 * 10 * MIB)
    assert needs.preallocated_bytes == needs.written_bytes + 20 * 1000 * MIB
    machine = MachineLimits(free_bytes=(("/a", 1000), ("/b", 2 * MIB)))
    first, later = limit_problems(needs, machine, COUNTS)
    assert (first.limit, first.needed, first.allowed) == ("free bytes", 750 * 4096, 1000)
    assert (first.is_at_start, later.is_at_start) == (True, False)
    assert "/a" in first.consequence
    assert "sparse" in later.consequence
    assert later.needed == needs.preallocated_bytes // 4
    assert limit_problems(needs, MachineLimits(free_bytes=(("/a", 10**12), ("/b", 10**12))), COUNTS) == []


def test_unknown_limits_are_no_problem() -> None:
    needs = needs_of(COUNTS, has_time_index=True, maps_all=True, index_bytes=MIB)
    assert limit_problems(needs, MachineLimits(), COUNTS) == []


def test_the_counts_of_a_disk(tmp_path: Path) -> None:
    one, two = tmp_path / "t-0", tmp_path / "t-1"
    for place, names in (
        (one, ("0.log", "0.index", "0.timeindex", "7.log", "7.txnindex", "7.snapshot", "3.log.deleted")),
        (two, ("0.log",)),
    ):
        place.mkdir()
        for name in names:
            number, _, suffix = name.partition(".")
            (place / f"{int(number):020}.{suffix}").write_bytes(b"x" * (100 if suffix == "snapshot" else 0))
    counts = count_disk([(str(tmp_path), [str(one), str(two), str(tmp_path / "gone")])])
    assert counts == DiskCounts(
        partitions=2, segments=3, txn_indexes=1, unindexed=2, snapshot_bytes=100, log_dirs=((str(tmp_path), 2),)
    )


def test_what_is_given_is_not_read(tmp_path: Path) -> None:
    found = read_machine([str(tmp_path), str(tmp_path / "gone")], max_map_count=5, open_files=6)
    assert (found.max_map_count, found.open_files) == (5, 6)
    assert [path for path, _ in found.free_bytes] == [str(tmp_path)]
    assert found.free_bytes[0][1] > 0


def test_the_limits_of_this_machine() -> None:
    """None where the machine has no such file."""
    kept = Path("/proc/sys/vm/max_map_count")
    assert read_machine([]).max_map_count == (int(kept.read_text()) if kept.exists() else None)
