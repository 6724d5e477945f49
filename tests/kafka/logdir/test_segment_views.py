"""Segments as retention and the cleaner see them: their times and where these come from, and what checkpoints add."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import RefusedError
from kafkalog_core.kafka.rules.releases import LATEST, Release
from kafkalog_core.kafka.sim.logdir.top_files import read_broker_dir
from kafkalog_core.kafka.sim.settings import Settings
from kafkalog_core.kafka.sim.start.segment_views import NO_TIMESTAMP, PartitionView, check_now, read_partition_view
from kafkalog_core.storage.logdir import read_log_dir
from kafkalog_core.storage.partition import read_partition
from tests.support import build
from tests.support.truncating import MARK, RECOVERY, STARTS, WATERMARKS, batch, write_log

if TYPE_CHECKING:
    from pathlib import Path

END = 25


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Segments at 0, 10 and 20 with the times 1000 to 1024, after an unclean shutdown; the last one is recovered."""
    made = write_log(tmp_path / "data" / "t-0", {0: [(0, 4), (5, 9)], 10: [(10, 19)], 20: [(20, 24)]})
    for base, last in ((0, 1009), (10, 1019), (20, 1024)):
        (made / f"{base:020}.timeindex").write_bytes(build.time_index([(last, 4 if base == 20 else 9)]))
    (made.parent / RECOVERY).write_bytes(build.offset_checkpoint([("t", 0, 20)]))
    for base in (0, 10, 20):
        os.utime(made / f"{base:020}.log", ns=(0, (base + 1) * 1_999_999))
    return made


def _view(directory: Path, *, release: Release = LATEST, alone: bool = False, **assigned: str) -> PartitionView:
    broker_dir = None if alone else read_broker_dir(read_log_dir(str(directory.parent)))
    settings = Settings(release=release, assigned={name.replace("_", "."): text for name, text in assigned.items()})
    view = read_partition_view(read_partition(str(directory)), broker_dir, settings.for_topic("t"), release)
    assert view is not None
    return view


def _times(view: PartitionView) -> list[tuple[int, int]]:
    return [(segment.max_timestamp_ms, segment.largest_timestamp_ms) for segment in view.segments]


def _origins(view: PartitionView) -> list[str]:
    return [segment.max_timestamp_origin for segment in view.segments]


def test_offsets_and_sizes(directory: Path) -> None:
    view = _view(directory)
    assert [(each.base_offset, each.next_offset, each.is_active) for each in view.segments] == [
        (0, 10, False),
        (10, 20, False),
        (20, END, True),
    ]
    assert (view.end_offset, view.log_start_offset, view.topic, view.number) == (END, 0, "t", 0)
    assert view.size_bytes == sum(path.stat().st_size for path in directory.glob("*.log"))
    assert [segment.mtime_ms for segment in view.segments] == [1, 21, 41]


def test_the_last_entry_tells_the_time_of_a_closed_segment(directory: Path) -> None:
    assert _times(_view(directory)) == [(1009, 1009), (1019, 1019), (1024, 1024)]
    assert _origins(_view(directory)) == ["last entry of the time index"] * 2 + ["read from the log"]


@pytest.mark.parametrize("base", [0, 20])
@pytest.mark.parametrize("zeros", [1, 100, 5000])
def test_zeros_are_the_time_0_in_an_index_that_is_trusted(directory: Path, base: int, zeros: int) -> None:
    """Brokers of 4.3.1 deleted such segments within 30 s of their start, the active one too."""
    index, number = directory / f"{base:020}.timeindex", base // 10
    index.write_bytes(index.read_bytes() + bytes(12 * zeros))
    (directory.parent / MARK).write_bytes(b"")
    assert _times(_view(directory))[number] == (0, 0)
    assert _origins(_view(directory))[number] == "last entry of the time index, which is zeros"
    whole = [(1009, 1009), (1019, 1019), (1024, 1024)][number]
    for release in (Release(1, 1), Release(2, 2)):  # TimeIndex.sanityCheck: last timestamp below the first
        assert _times(_view(directory, release=release))[number] == whole
    index.write_bytes(bytes(12 * zeros))
    assert _times(_view(directory))[number] == (0, 0)


@pytest.mark.parametrize("zeros", [1, 5000])
def test_the_zero_tail_of_a_crash_is_passed_over_where_the_segment_is_recovered(directory: Path, zeros: int) -> None:
    for base, number, time in ((0, 0, 1009), (20, 2, 1024)):
        index = directory / f"{base:020}.timeindex"
        index.write_bytes(index.read_bytes() + bytes(12 * zeros))
        assert _times(_view(directory))[number][0] == (time if base else 0), "0 is below the recovery point"
        (directory.parent / RECOVERY).write_bytes(build.offset_checkpoint([("t", 0, base)]))
        assert _times(_view(directory))[number] == (time, time)
        index.write_bytes(bytes(12 * zeros))
        assert _times(_view(directory))[number] == (time, time)
        (directory.parent / RECOVERY).write_bytes(build.offset_checkpoint([("t", 0, 20)]))
    alone = _times(_view(directory, alone=True))
    assert [each[0] for each in alone] == [0, 1019, 1024], "whether the last shutdown was clean is unknown"


def test_the_active_segment_is_as_old_as_its_index_says_after_a_clean_shutdown(directory: Path) -> None:
    """`LogSegment.readMaxTimestampAndOffsetSoFar` reads no record."""
    (directory.parent / MARK).write_bytes(b"")
    index = directory / f"{20:020}.timeindex"
    assert (_times(_view(directory))[2], _origins(_view(directory))[2]) == ((1024, 1024), _origins(_view(directory))[0])
    index.write_bytes(build.time_index([(1021, 1)]) + b"\0\0\0")
    assert _times(_view(directory))[2] == (1021, 1021)
    index.write_bytes(b"")
    assert _times(_view(directory))[2] == (NO_TIMESTAMP, 41)


@pytest.mark.parametrize("is_missing", [True, False])
def test_without_a_time_index_the_file_tells(directory: Path, is_missing: bool) -> None:
    """As a broker does that starts on it, whatever is in the log."""
    index = directory / f"{0:020}.timeindex"
    index.unlink() if is_missing else index.write_bytes(b"")
    view = _view(directory)
    assert _times(view)[0] == (NO_TIMESTAMP, 1)
    assert "the file's modification time counts" in _origins(view)[0]
    assert not view.segments[0].has_timestamp


def test_without_an_offset_index_the_log_is_read(directory: Path) -> None:
    for suffix in ("index", "timeindex"):
        (directory / f"{0:020}.{suffix}").unlink()
    assert _times(_view(directory))[0] == (1009, 1009)
    assert _origins(_view(directory))[0] == "read from the log, as the offset index is missing"


def test_before_0_10_1_the_file_tells(directory: Path) -> None:
    view = _view(directory, release=Release(0, 10, 0))
    assert _times(view) == [(NO_TIMESTAMP, 1), (NO_TIMESTAMP, 21), (NO_TIMESTAMP, 41)]


def test_the_active_segment_is_read_behind_its_last_entry(directory: Path) -> None:
    log = directory / f"{20:020}.log"
    late = build.batch_v2([build.Record(offset=25, timestamp_ms=900, value=b"")])
    log.write_bytes(batch(20, 22) + batch(23, 24) + late)
    (directory / f"{20:020}.index").write_bytes(build.offset_index([(4, len(batch(20, 22)))]))
    (directory / f"{20:020}.timeindex").write_bytes(build.time_index([(5000, 4)]))
    view = _view(directory)
    assert (view.end_offset, _times(view)[-1]) == (26, (5000, 5000))


def test_checkpoints_count_in_a_log_directory(directory: Path) -> None:
    (directory.parent / MARK).write_bytes(b"")
    (directory.parent / WATERMARKS).write_bytes(build.offset_checkpoint([("t", 0, 15)]))
    (directory.parent / STARTS).write_bytes(build.offset_checkpoint([("t", 0, 12)]))
    view = _view(directory)
    assert (view.high_watermark, view.bounds.high_watermark.is_known, view.log_start_offset) == (15, True, 12)
    assert (view.bounds.high_watermark.origin, view.bounds.log_start.origin) == (
        "replication-offset-checkpoint",
        "log-start-offset-checkpoint",
    )
    alone = _view(directory, alone=True)
    assert (alone.high_watermark, alone.bounds.high_watermark.is_known, alone.log_start_offset) == (END, False, 0)
    assert alone.bounds.high_watermark.origin == "the end of the log, as no checkpoint has it"


@pytest.mark.parametrize(("told", "counts", "words"), [(99, END, "after it"), (3, 12, "before it")])
def test_a_high_watermark_outside_of_the_log(directory: Path, told: int, counts: int, words: str) -> None:
    (directory.parent / WATERMARKS).write_bytes(build.offset_checkpoint([("t", 0, told)]))
    (directory.parent / STARTS).write_bytes(build.offset_checkpoint([("t", 0, 12)]))
    view = _view(directory)
    assert view.high_watermark == counts
    assert f"has {told}, which is {words}" in view.bounds.high_watermark.origin


def test_the_start_of_a_tiered_log_is_the_checkpoints(directory: Path) -> None:
    (directory.parent / STARTS).write_bytes(build.offset_checkpoint([("t", 0, 3)]))
    (directory / f"{0:020}.log").unlink()
    view = _view(directory, remote_storage_enable="true")
    assert (view.log_start_offset, view.is_tiered) == (3, True)
    assert _view(directory).log_start_offset == 10


def test_no_view(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    settings = Settings(release=LATEST).for_topic("t")
    assert read_partition_view(read_partition(str(tmp_path / "t-0")), None, settings, LATEST) is None
    (tmp_path / "t-0" / f"{0:020}.kafka").write_bytes(build.message_v07(b"x"))
    assert read_partition_view(read_partition(str(tmp_path / "t-0")), None, settings, LATEST) is None


def test_now_before_all_data_is_refused(directory: Path) -> None:
    views = [_view(directory)]
    check_now(views, 1)  # of 1970, as the file of the first segment is
    with pytest.raises(RefusedError, match=r"1970-01-01T00:00:00\.000Z, is before all of the data"):
        check_now(views, 0)
    check_now([], 0)
