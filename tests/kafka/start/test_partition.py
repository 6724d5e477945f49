"""The start of a broker on one partition, played through: rules that differ between releases, one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.format.snapshot import decode_snapshot
from kafkalog_core.kafka.rules.releases import Release, parse_release
from kafkalog_core.kafka.rules.rule_table import recovery_rules, rules_of
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.kafka.sim.logdir.top_files import PartitionContext
from kafkalog_core.kafka.sim.settings import read_settings
from kafkalog_core.kafka.sim.start.candidates import first_recovered
from kafkalog_core.kafka.sim.start.partition import PartitionLoad
from kafkalog_core.kafka.sim.start.results import LoadOptions
from kafkalog_core.kafka.sim.start.snapshots import SnapshotOptions
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.structs import replace
from tests.support import build
from tests.support.truncating import EPOCHS, INTERVAL, batch, write_log

if TYPE_CHECKING:
    from pathlib import Path

DAY_MS = 86_400_000
NOW_MS = 10 * DAY_MS
SEGMENTS = {0: [(0, 4), (5, 9), (10, 14), (15, 19)], 20: [(20, 24), (25, 29), (30, 34), (35, 39)], 40: [(40, 44)]}


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    return write_log(tmp_path / "t-0", SEGMENTS)


def load(path: Path, kafka: str = "4.3", *, is_tiered: bool = False, **context: Any) -> PartitionLoad:
    release = parse_release(kafka)
    request = SettingsRequest(
        assignments=(f"log.index.interval.bytes={INTERVAL}",),
        topic_assignments=("t:remote.storage.enable=true",) if is_tiered else (),
    )
    settings = read_settings(request, release)
    known = {"is_clean": False, "recovery_point": 0} | context
    return PartitionLoad(
        read_partition(str(path)),
        PartitionContext(**known),
        LoadOptions(
            release=release,
            settings=settings.for_topic("t"),
            snapshots=SnapshotOptions.of_release(release, now_ms=NOW_MS, expiration_ms=DAY_MS),
        ),
    )


def played(path: Path, kafka: str = "4.3", **context: Any) -> tuple[PartitionLoad, list[int]]:
    """A load at its end, and the base offsets of the segments that it recovered."""
    course = load(path, kafka, **context)
    return course, [each.base_offset for each in course.run()]


def log(partition: Path, base_offset: int, suffix: str = "log") -> Path:
    return partition / f"{base_offset:020d}.{suffix}"


def spoil(partition: Path, base_offset: int) -> None:
    """The second batch of a segment goes bad."""
    path = log(partition, base_offset)
    data = bytearray(path.read_bytes())
    data[len(data) // 2 - 5] ^= 0xFF
    path.write_bytes(data)


def ends(course: PartitionLoad) -> dict[int, int]:
    """Base offset and size of each segment in the end."""
    return {each.base_offset: each.size_bytes for each in course.result.segments}


@pytest.mark.parametrize(("kafka", "dies"), [("0.11.0.3", True), ("1.1.1", True), ("2.0.1", False), ("4.3.1", False)])
@pytest.mark.parametrize("is_clean", [False, True])
def test_an_emptied_control_batch_kills_releases_before_2_0(
    tmp_path: Path, kafka: str, dies: bool, is_clean: bool
) -> None:
    """1.1.1 asks it for its first record (ProducerAppendInfo.append), 2.0.1 looks first; seen of 0.11.0.3."""
    empty = build.batch_v2(
        base_offset=5, producer_id=9, producer_epoch=3, is_transactional=True, is_control=True, records_count=0
    )
    path = write_log(tmp_path / "t-0", {0: [batch(0, 4), empty, batch(6, 9)]})
    (path / f"{2:020d}.snapshot").write_bytes(build.snapshot([]))
    course, _ = played(path, kafka, is_clean=is_clean)
    assert (course.result.problem is not None) is dies
    if not dies:
        content = course.snapshots.read(10)
        assert content is not None
        assert [(each.producer_id, each.producer_epoch) for each in decode_snapshot(content)] == [(9, -1)]


@pytest.mark.parametrize(
    ("kafka", "style", "lists_empty", "drops_old"),
    [
        ("0.11.0.3", "marker-is-batch", True, True),
        ("1.0.2", "data-time", True, True),
        ("2.3.1", "data-time", True, True),
        ("2.4.1", "marker-time", True, False),
        ("2.7.2", "marker-time", True, False),
        ("2.8.2", "marker-time", False, False),
    ],
)
def test_neighbouring_releases_prove_the_rules_of_producers(
    kafka: str, style: str, lists_empty: bool, drops_old: bool
) -> None:
    """The matrix of releases shows each of them: tests/integration/release_matrix.txt."""
    release = parse_release(kafka)
    rules = recovery_rules(release)
    assert (rules.snapshot_style, rules.lists_empty_transactions) == (style, lists_empty)
    assert rules_of(release).drops_old_producers is drops_old


@pytest.mark.parametrize(
    ("kafka", "checks", "may_end_at_base"),
    [("1.1.1", "recover", False), ("2.0.1", "recover", True), ("2.2.2", "recover", True), ("2.3.1", "no", True)],
)
def test_neighbouring_sources_show_how_indexes_are_checked(kafka: str, checks: str, *, may_end_at_base: bool) -> None:
    """OffsetIndex.sanityCheck of 1.1.1 compares with <=, of 2.0.1 with <; 2.3.1 does not call it at a start."""
    rules = rules_of(parse_release(kafka))
    assert (rules.checks_indexes, rules.may_end_at_base) == (checks, may_end_at_base)


# --- which segments ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("recovery_point", "first"), [(None, 0), (0, 0), (19, 0), (20, 1), (39, 1), (40, 2), (41, 2), (10**9, 2)]
)
def test_the_segment_that_holds_the_recovery_point_is_the_first(recovery_point: int | None, first: int) -> None:
    unclean = PartitionContext(is_clean=False, recovery_point=recovery_point)
    assert first_recovered([0, 20, 40], unclean, None, None) == first
    assert first_recovered([0, 20, 40], unclean, None, Release(0, 8, 0)) == 2
    for is_clean in (True, None):
        other = replace(unclean, is_clean=is_clean)
        assert first_recovered([0, 20, 40], other, None, None) is None
    assert first_recovered([0, 20, 40], replace(unclean, is_clean=True), "__cluster_metadata", None) == 0
    assert first_recovered([], unclean, None, None) is None


def test_0_8_0_recovers_the_last_segment_alone(partition: Path) -> None:
    assert played(partition, "0.8.0")[1] == [40]
    assert played(partition, "0.8.2")[1] == [0, 20, 40]


def test_behind_a_cut_all_goes(partition: Path) -> None:
    spoil(partition, 20)
    course, recovered = played(partition)
    result = course.result
    assert recovered == [0, 20]
    assert [each.segment.base_offset for each in result.removed] == [40]
    assert result.end_offset == 25
    assert result.recovery_point == 0
    assert result.lost_bytes == log(partition, 40).stat().st_size + result.segments[1].lost_bytes


def test_indexes_of_logs_that_stay_are_not_kept(partition: Path) -> None:
    """All those of a large log would be as large as the memory."""
    spoil(partition, 20)
    log(partition, 0, "index").unlink()
    course = load(partition)
    assert all(each.recovery is not None for each in course.run())
    segments = course.result.segments
    assert [(each.recovery is not None, each.occasion) for each in segments] == [
        (False, "unclean-stop"),
        (True, "unclean-stop"),
    ]
    lone, _ = played(partition, recovery_point=40)
    assert [(each.recovery, each.occasion) for each in lone.result.segments] == [
        (None, "no-index"),
        (None, None),
        (None, "unclean-stop"),
    ]


def test_a_log_may_end_at_offset_0(tmp_path: Path) -> None:
    """One whose last batch stands below the name of its segment."""
    path = write_log(tmp_path / "t-0", {5: [batch(-3, -1)]})
    result = played(path, "0.10.2")[0].result
    assert (result.problem, result.end_offset) == (None, 0)


def test_a_clean_stop_recovers_nothing(partition: Path) -> None:
    spoil(partition, 20)
    course, recovered = played(partition, is_clean=True)
    assert (recovered, course.result.lost_bytes) == ([], 0)
    assert (course.result.end_offset, course.result.recovery_point) == (45, 45)


@pytest.mark.parametrize(
    ("kafka", "recovered", "problem"),
    [
        ("0.8.0", [], "fatal"),
        ("0.8.2", [20], None),
        ("0.9", [], None),
        ("0.10.0", [], None),
        ("0.10.1", [20], None),
        ("4.3", [20], None),
    ],
)
def test_a_missing_index(partition: Path, kafka: str, recovered: list[int], problem: str | None) -> None:
    """0.9 and 0.10.0 put an empty one in its place, and trust it."""
    log(partition, 20, "index").unlink()
    course, found = played(partition, kafka, is_clean=True)
    assert found == recovered
    assert (course.result.problem and course.result.problem.kind) == problem


@pytest.mark.parametrize(
    ("kafka", "recovered"), [("0.8.2", []), ("0.9", [20]), ("0.11", [20]), ("2.8", []), ("4.3", [])]
)
def test_a_zero_tail_in_an_index(partition: Path, kafka: str, recovered: list[int]) -> None:
    with log(partition, 20, "index").open("ab") as file:
        file.write(bytes(16))
    assert played(partition, kafka, is_clean=True)[1] == recovered


@pytest.mark.parametrize(("entry", "recovered", "kind"), [((1, 2, 5, 6), [20], None), ((1, 21, 25, 26), [], None)])
def test_a_transaction_index_of_another_segment(
    partition: Path, entry: tuple[int, int, int, int], recovered: list[int], kind: str | None
) -> None:
    log(partition, 20, "txnindex").write_bytes(build.txn_index([entry]))
    course, found = played(partition, is_clean=True)
    assert (found, course.result.problem) == (recovered, kind)


def test_a_transaction_index_of_an_unknown_version(partition: Path) -> None:
    log(partition, 20, "txnindex").write_bytes(build.txn_index([(1, 21, 25, 26)], version=256))
    course, _ = played(partition)
    assert course.result.problem is not None
    assert course.result.problem.kind == "fatal"


def test_cut_for_want_of_an_index_the_segments_behind_stay(partition: Path) -> None:
    """After an unclean stop too: when it is recovered once more, nothing is left to cut."""
    spoil(partition, 20)
    log(partition, 20, "index").unlink()
    for is_clean in (True, False):
        course, recovered = played(partition, is_clean=is_clean)
        assert course.result.removed == ()
        assert recovered == ([20] if is_clean else [0, 20, 40])
        assert ends(course)[20] < log(partition, 20).stat().st_size


def test_offsets_that_go_back(partition: Path) -> None:
    write_log(partition, {20: [(36, 39), (33, 35), (30, 32), (27, 29), (24, 26), (20, 23)]})
    course, _ = played(partition)
    assert course.result.segments[-1].is_emptied
    assert (ends(course)[20], course.result.end_offset) == (0, 20)
    log(partition, 20, "index").unlink()
    course, _ = played(partition, is_clean=True)
    assert course.result.problem is not None, "not caught where a segment is recovered by itself"


def test_an_offset_that_no_index_holds(partition: Path) -> None:
    write_log(partition, {40: [(40, 44), (2**31 + 40, 2**31 + 44)]})
    course, _ = played(partition)
    assert course.result.problem is not None
    assert course.result.problem.kind == "split"


# --- the end and the start of the log ---------------------------------------------------------------------------------
def test_a_log_that_ends_below_its_start(partition: Path) -> None:
    course, _ = played(partition, log_start_offset=50)
    assert ends(course) == {50: 0}
    assert len(course.result.removed) == 3
    assert (course.result.end_offset, course.result.log_start_offset, course.result.epochs) == (50, 50, ())
    assert ends(played(partition, "0.11", log_start_offset=50)[0]).keys() == {0, 20, 40}, "0.11 does not look"


def test_no_segments(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    assert ends(played(tmp_path / "t-0", log_start_offset=7)[0]) == {7: 0}
    assert ends(played(tmp_path / "t-0", "0.11", log_start_offset=7)[0]) == {0: 0}


def test_an_index_that_leads_behind_the_log_hides_the_segment(partition: Path) -> None:
    log(partition, 40, "index").write_bytes(build.offset_index([(4, 10_000)]))
    assert played(partition, is_clean=True)[0].result.end_offset == 40


@pytest.mark.parametrize(
    ("tail", "end_offset"), [(bytes(17), 45), (bytes(18), None), (b"\x7f" * 30, 45), (batch(45, 49)[:-1], 45)]
)
def test_what_stands_at_the_end_after_a_clean_stop(partition: Path, tail: bytes, end_offset: int | None) -> None:
    with log(partition, 40).open("ab") as file:
        file.write(tail)
    result = played(partition, is_clean=True)[0].result
    assert (None if result.problem is not None else result.end_offset) == end_offset


def test_epochs_are_told_by_recovery_and_cut_at_both_ends(partition: Path) -> None:
    write_log(partition, {20: [batch(20, 24, leader_epoch=3), batch(25, 29, leader_epoch=4)]})
    (partition / EPOCHS).write_bytes(build.epoch_checkpoint([(0, 0), (9, 80)]))
    assert played(partition)[0].result.epochs == ((0, 0),), "one of the future keeps the others out, and goes itself"
    (partition / EPOCHS).write_bytes(build.epoch_checkpoint([(0, 0)]))
    assert played(partition)[0].result.epochs == ((0, 0), (3, 20), (4, 25))
    assert played(partition, log_start_offset=22)[0].result.epochs == ((3, 22), (4, 25))
    assert played(partition, "0.10.2")[0].result.epochs is None


@pytest.mark.parametrize(("kafka", "epochs"), [("2.8", ((0, 0),)), ("4.3", ((0, 0), (3, 20)))])
def test_recovery_for_want_of_an_index_tells_epochs_since_3(
    partition: Path, kafka: str, epochs: tuple[tuple[int, int], ...]
) -> None:
    write_log(partition, {20: [batch(20, 39, leader_epoch=3)]})
    (partition / EPOCHS).write_bytes(build.epoch_checkpoint([(0, 0)]))
    log(partition, 20, "index").unlink()
    assert played(partition, kafka, is_clean=True)[0].result.epochs == epochs


def test_an_epoch_file_that_a_broker_refuses(partition: Path) -> None:
    (partition / EPOCHS).write_bytes(b"0\n5\n0 0\n")
    course, _ = played(partition)
    assert course.result.problem is not None
    assert "refuses" in course.result.problem.sentence


# --- producers --------------------------------------------------------------------------------------------------------
def producer(first: int, last: int, *, sequence: int, producer_id: int = 7, time_ms: int = NOW_MS) -> bytes:
    return batch(
        first,
        last,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        base_timestamp_ms=time_ms,
        max_timestamp_ms=time_ms,
    )


def last_offsets(course: PartitionLoad) -> dict[int, list[int]]:
    """Last offset of each producer, by the offset of the snapshot."""
    return {
        offset: [entry.last_offset for entry in decode_snapshot(course.snapshots.read(offset) or b"")]
        for offset in course.snapshots
    }


def test_a_snapshot_behind_each_recovered_segment(partition: Path) -> None:
    write_log(partition, {0: [producer(0, 19, sequence=0)], 20: [producer(20, 39, sequence=20)]})
    log(partition, 33, "snapshot").write_bytes(build.snapshot([]))
    course, _ = played(partition)
    assert last_offsets(course) == {20: [19], 40: [39], 45: [39]}
    assert set(course.snapshots.deleted) == {33}
    assert played(partition, "0.10.2")[0].snapshots.written == {}


@pytest.mark.parametrize(("kafka", "bases"), [("2.1", [0, 20, 40]), ("2.2", [100]), ("2.7", [100]), ("2.8", [100])])
@pytest.mark.parametrize("is_clean", [False, True])
def test_from_2_2_on_a_log_that_ends_below_its_start_is_deleted(
    partition: Path, kafka: str, bases: list[int], is_clean: bool
) -> None:
    course, _ = played(partition, kafka, is_clean=is_clean, log_start_offset=100)
    assert list(ends(course)) == bases


@pytest.mark.parametrize(("kafka", "point"), [("2.7", 45), ("2.8", 10)])
def test_up_to_2_7_a_recovered_log_counts_as_flushed(partition: Path, kafka: str, point: int) -> None:
    course, _ = played(partition, kafka, is_clean=False, recovery_point=10)
    assert course.result.recovery_point == point


@pytest.mark.parametrize(("kafka", "first_offset"), [("2.7", 25), ("2.8", 5)])
def test_up_to_2_7_a_producer_is_unknown_where_batches_are_read_to_recover_a_segment(
    tmp_path: Path, kafka: str, first_offset: int
) -> None:
    """Log.loadProducersFromLog asks the log's own producers, which are not loaded yet: its transaction begins again."""
    fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    path = write_log(tmp_path / "t-0", {0: [batch(0, 4), batch(5, 9, **fields)], 20: [batch(25, 29, **fields)], 40: []})
    producer = build.Producer(producer_id=7, last_offset=9, timestamp_ms=NOW_MS, current_txn_first_offset=5)
    log(path, 20, "snapshot").write_bytes(build.snapshot([producer]))
    course, _ = played(path, kafka, is_clean=False, recovery_point=45)
    content = course.snapshots.read(40)
    assert content is not None
    assert [each.current_txn_first_offset for each in decode_snapshot(content)] == [first_offset]


@pytest.mark.parametrize("kafka", ["2.8", "4.3"])
def test_a_transaction_that_has_ended_since_the_snapshot_is_looked_for_in_the_log(tmp_path: Path, kafka: str) -> None:
    """Until the high watermark is known it counts as open: where it began, a batch that cannot be read is fatal."""
    fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    whole = [batch(0, 4), batch(5, 9, **fields)]
    producer = build.Producer(producer_id=7, last_offset=9, timestamp_ms=NOW_MS, current_txn_first_offset=5)
    marker = build.txn_marker(1, offset=10, producer_id=7)
    path = write_log(tmp_path / "t-0", {0: whole, 10: [marker, batch(11, 14)]})
    log(path, 10, "snapshot").write_bytes(build.snapshot([producer]))
    assert played(path, kafka, is_clean=True)[0].result.problem is None
    log(path, 0).write_bytes(batch(0, 4) + bytes(100) + batch(5, 9, **fields))
    problem = played(path, kafka, is_clean=True)[0].result.problem
    assert problem is not None
    assert (problem.kind, problem.position) == ("fatal", len(batch(0, 4)))


def test_silent_producers_are_forgotten_when_a_snapshot_is_loaded(partition: Path) -> None:
    """That of the first segment is in its own snapshot yet: it was not loaded from one."""
    old = producer(0, 19, sequence=0, producer_id=8, time_ms=NOW_MS - DAY_MS)
    write_log(partition, {0: [old], 20: [producer(20, 39, sequence=0)]})
    assert last_offsets(played(partition)[0]) == {20: [19], 40: [39], 45: [39]}


def test_a_corrupt_snapshot_gives_way_to_an_older_one(partition: Path) -> None:
    write_log(partition, {20: [producer(20, 39, sequence=20)]})
    log(partition, 20, "snapshot").write_bytes(
        build.snapshot([build.Producer(producer_id=5, last_offset=3, timestamp_ms=NOW_MS)])
    )
    log(partition, 40, "snapshot").write_bytes(b"\0\1garbage")
    course, _ = played(partition, recovery_point=40)
    assert {entry for entries in last_offsets(course).values() for entry in entries} == {3, 39}
    assert 40 in course.snapshots.written


def test_a_clean_start_without_any_snapshot_forgets_all_producers(partition: Path) -> None:
    write_log(partition, {0: [producer(0, 19, sequence=0)]})
    assert last_offsets(played(partition, is_clean=True)[0]) == {20: [], 40: [], 45: []}


def test_stray_snapshots_go_but_the_newest_behind_the_log(partition: Path) -> None:
    for offset in (7, 20, 40, 45):
        log(partition, offset, "snapshot").write_bytes(build.snapshot([]))
    course, _ = played(partition, is_clean=True)
    assert list(course.snapshots) == [20, 40, 45]


@pytest.mark.parametrize(("is_tiered", "start", "kept"), [(False, 20, [30, 45]), (True, 7, [20, 30, 45])])
def test_a_tiered_log_starts_where_its_checkpoint_says(
    tmp_path: Path, is_tiered: bool, start: int, kept: list[int]
) -> None:
    """Its first segments are in the remote storage: what lies at the first local offset is not behind its start."""
    path = write_log(tmp_path / "t-0", {20: [(20, 29)], 30: [(30, 44)]})
    log(path, 20, "snapshot").write_bytes(build.snapshot([]))
    course, _ = played(path, is_tiered=is_tiered, recovery_point=30, log_start_offset=7)
    assert course.result.log_start_offset == start
    assert list(course.snapshots) == kept


def test_a_directory_that_is_deleted_loses_all_snapshots(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0.0123456789abcdef0123456789abcdef-delete", SEGMENTS)
    log(path, 20, "snapshot").write_bytes(build.snapshot([]))
    course, recovered = played(path)
    assert (recovered, list(course.snapshots), course.result.end_offset) == ([], [], 0)
    assert course.result.epochs == ()


def test_producers_that_cannot_be_read_stop_it(partition: Path) -> None:
    """A snapshot is loaded, and the log from there on has a size that cannot be."""
    log(partition, 0).write_bytes(batch(0, 4) + bytes(60))
    course, _ = played(partition, recovery_point=20)
    assert course.result.problem is not None
    assert course.result.problem.position == len(batch(0, 4))


# --- names ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "kind"), [("backup.log", "fatal"), ("x.snapshot", "fatal"), ("5.log", "misnamed"), ("x.swap", "fatal")]
)
def test_names_that_are_no_offsets(partition: Path, name: str, kind: str) -> None:
    (partition / name).touch()
    course, _ = played(partition)
    assert course.result.problem is not None
    assert course.result.problem.kind == kind


def test_replacements_before_2_5_are_not_foreseen(partition: Path) -> None:
    log(partition, 20, "log.swap").write_bytes(batch(20, 39))
    course, _ = played(partition, "2.4")
    assert course.result.problem is not None
    assert course.result.problem.kind == "unknown"
    course, _ = played(partition, "2.8")
    assert course.result.rebuilt is not None
    assert course.result.rebuilt.end_offset == 40
    course, _ = played(partition, is_clean=True)
    assert [file.name.raw for file in course.result.moved] == [f"{20:020d}.log"]
    assert len(course.result.swept) == 3


def test_indexes_without_a_log_are_orphans(partition: Path) -> None:
    log(partition, 60, "timeindex").touch()
    course, _ = played(partition)
    assert [file.name.raw for file in course.result.orphans] == [f"{60:020d}.timeindex"]


def test_the_end_is_asked_for_at_the_end(partition: Path) -> None:
    course = load(partition)
    with pytest.raises(RuntimeError):
        _ = course.result
