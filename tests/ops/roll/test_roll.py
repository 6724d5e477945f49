"""`roll`: what it foretells, and the log directories that it makes."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import AccessError, LockedError, RefusedError, SelectionError, SettingError
from kafkalog_core.format.checkpoint import read_offset_checkpoint
from kafkalog_core.format.snapshot import decode_snapshot
from kafkalog_core.kafka.rules.releases import parse_release
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.kafka.sim.logdir.top_files import read_broker_dir
from kafkalog_core.kafka.sim.settings import read_settings
from kafkalog_core.kafka.sim.start.partition import PartitionLoad
from kafkalog_core.kafka.sim.start.results import LoadOptions
from kafkalog_core.kafka.sim.start.snapshots import SnapshotOptions
from kafkalog_core.ops.roll import roll as roll_module
from kafkalog_core.ops.roll.forecast import seeded_jitter
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.storage.locks import Holder
from kafkalog_core.storage.logdir import read_log_dir
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.source import Source
from tests.support.build import (
    GZIP,
    Record,
    batch_v2,
    epoch_checkpoint,
    message_v0,
    offset_checkpoint,
    snapshot,
    txn_index,
    wrapper_v1,
)
from tests.support.repairs import CountingDisk, DyingDisk, Killed
from tests.support.roll_logs import NOW_MS, TOPIC_ID, history, make_dir, plain, rolled, silent_producer

if TYPE_CHECKING:
    from pathlib import Path

DAY_MS = 86_400_000
SMALL = {"internal_segment_bytes": 2000, "index_interval_bytes": 500}


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return make_dir(tmp_path / "logs")


def log_of(partition: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(partition.glob("*.log")))


def bases(partition: Path, suffix: str = "log") -> list[int]:
    return [int(path.stem) for path in sorted(partition.glob(f"*.{suffix}"))]


def codes(forecasts: list[Any]) -> list[str]:
    return [finding.code for forecast in forecasts for finding in forecast.findings]


# --- forecasts -----------------------------------------------------------------------------------------------------
def test_what_a_partition_would_be(log_dir: Path) -> None:
    (forecast,) = rolled(log_dir, **SMALL)
    row = forecast.partition
    assert {name: row[name] for name in ("topic", "partition", "state", "release", "segments_before")} == {
        "topic": "t",
        "partition": 0,
        "state": "predicted",
        "release": "4.3",
        "segments_before": 2,
    }
    segments = forecast.segments
    assert row["segments_after"] == len(segments) > 2
    assert row["segments_at_most"] is None
    assert row["rolls"] == {"bytes": len(segments) - 1}
    assert row["bytes"] == len(log_of(log_dir / "t-0")) == sum(each["bytes"] for each in segments)
    assert (row["batches"], row["records"], row["log_end_offset"]) == (40, 40, 40)
    assert row["settings"]["segment.bytes"] == {"value": "2000", "origin": "--set"}
    assert row["settings"]["segment.ms"] == {
        "value": "604800000",
        "origin": "default of 4.3, assumed: no metadata log of its cluster is among what was named",
    }
    assert segments[0]["is_there"]
    assert [each["next_offset"] for each in segments] == [*(each["base_offset"] for each in segments[1:]), 40]
    assert segments[0]["detail"].endswith("of the next batch > segment.bytes=2000")
    assert segments[-1]["roll_reason"] is None
    assert not codes([forecast])


def test_the_settings_that_made_the_segments_make_them_again(tmp_path: Path) -> None:
    partition = tmp_path / "t-0"
    partition.mkdir()
    for first in (0, 5, 10):
        data = b"".join(plain(offset) for offset in range(first, min(first + 5, 12)))
        (partition / f"{first:020d}.log").write_bytes(data)
    (forecast,) = rolled(partition, internal_segment_bytes=5 * len(plain(0)))
    assert forecast.partition["same_bases"] == forecast.partition["segments_after"] == 3
    assert forecast.partition["reason"].startswith("the same segments as on the disk")


def test_a_file_that_cannot_be_opened_is_a_finding_of_its_partition(
    log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(log_dir / "t-0", log_dir / "t-1")
    locked = str(log_dir / "t-1" / f"{15:020d}.log")
    opened = Source.open.__func__  # type: ignore[attr-defined]

    def refusing(kind: type[Source], path: str) -> Source:
        if path == locked:
            raise AccessError("no permission to read it", path=path)
        return opened(kind, path)

    monkeypatch.setattr(Source, "open", classmethod(refusing))
    good, bad = rolled(log_dir, **SMALL)
    assert good.is_whole
    assert (bad.partition["state"], bad.partition["batches"], bad.is_whole) == ("damaged", 15, False)
    (finding,) = bad.findings
    assert (finding.code, finding.severity, finding.path) == ("roll.unreadable", "error", locked)
    with pytest.raises(AccessError, match="no permission"):
        rolled(log_dir, to=tmp_path / "to", **SMALL)
    assert not (tmp_path / "to").exists()


def test_jitter_is_a_range_or_drawn_from_a_seed(tmp_path: Path) -> None:
    partition = tmp_path / "t-0"
    partition.mkdir()
    data = b"".join(plain(offset, time_ms=NOW_MS + offset * 100) for offset in range(100))
    (partition / f"{0:020d}.log").write_bytes(data)
    (forecast,) = rolled(partition, segment_ms=1000, segment_jitter_ms=600)
    assert (forecast.partition["segments_after"], forecast.partition["segments_at_most"]) == (10, 25)
    assert codes([forecast]) == ["roll.jitter"]
    request = roll_module.RollRequest(
        targets=tuple(resolve([str(partition)])),
        kafka=SettingsRequest(kafka="4.3", assignments=("segment.ms=1000", "segment.jitter.ms=600")),
        seed=7,
    )
    (first,), (again,) = ([*roll_module.roll(request, Report())] for _ in range(2))
    assert first == again
    jitters = {each["jitter_ms"] for each in first.segments}
    assert len(jitters) > 3
    assert all(0 <= each < 600 for each in jitters)
    assert 10 <= len(first.segments) <= 25
    assert first.partition["segments_at_most"] is None


def test_jitter_is_below_what_it_is_taken_from() -> None:
    settings = read_settings(
        SettingsRequest(assignments=("segment.ms=50", "segment.jitter.ms=1000")), parse_release("4.3")
    ).for_topic("t")
    drawn = [seeded_jitter(settings, "t-0", 1)(base) for base in range(500)]
    assert set(drawn) == set(range(50))
    none = read_settings(SettingsRequest(), parse_release("4.3")).for_topic("t")
    assert seeded_jitter(none, "t-0", 1)(0) == 0


def test_a_compacted_topic_rolls_by_its_lag(tmp_path: Path) -> None:
    partition = tmp_path / "t-0"
    partition.mkdir()
    (partition / f"{0:020d}.log").write_bytes(b"".join(plain(offset, time_ms=NOW_MS + offset) for offset in range(10)))
    (kept,) = rolled(partition, segment_ms=100, max_compaction_lag_ms=5)
    assert kept.partition["segments_after"] == 1
    (forecast,) = rolled(partition, segment_ms=100, max_compaction_lag_ms=5, cleanup_policy="compact")
    assert forecast.partition["segments_after"] == 4
    assert forecast.partition["settings"]["max.compaction.lag.ms"]["value"] == "5"


def test_batches_that_no_segment_has_room_for(tmp_path: Path) -> None:
    partition = tmp_path / "t-0"
    partition.mkdir()
    (partition / f"{0:020d}.log").write_bytes(plain(0) + plain(1, size=9000) + plain(2))
    (forecast,) = rolled(partition, internal_segment_bytes=1000)
    assert codes([forecast]) == ["roll.oversized"]
    assert [each["base_offset"] for each in forecast.segments] == [0, 1, 2]


@pytest.mark.parametrize("kafka", ["0.8.2", "4.3"])
def test_where_the_clock_decides_nothing_is_told_of_time(tmp_path: Path, kafka: str) -> None:
    partition = tmp_path / "t-0"
    partition.mkdir()
    (partition / f"{0:020d}.log").write_bytes(
        b"".join(message_v0(Record(offset=offset, value=b"v")) for offset in range(3))
    )
    (forecast,) = rolled(partition, kafka=kafka, segment_ms=1)
    assert codes([forecast]) == ["roll.wall-clock"]
    assert forecast.segments[0]["first_timestamp_ms"] is None
    assert forecast.segments[0]["time_entries"] == (None if kafka == "0.8.2" else 0)


def test_compressed_messages_do_not_say_how_many_they_are(tmp_path: Path) -> None:
    partition = tmp_path / "t-0"
    partition.mkdir()
    records = [Record(offset=offset, timestamp_ms=5) for offset in range(3)]
    (partition / f"{0:020d}.log").write_bytes(wrapper_v1(records) + batch_v2([Record(offset=3)]))
    (forecast,) = rolled(partition)
    assert (forecast.partition["records"], forecast.partition["uncounted_batches"]) == (1, 1)


def test_offsets_that_are_too_far_apart_for_one_index(tmp_path: Path) -> None:
    partition = tmp_path / "t-0"
    partition.mkdir()
    (partition / f"{0:020d}.log").write_bytes(plain(0) + plain(2**31, time_ms=NOW_MS - 2**31))
    (forecast,) = rolled(partition)
    assert [each["roll_reason"] for each in forecast.segments] == ["offset-range", None]
    assert forecast.segments[0]["detail"] == f"next batch ends at {2**31}, over 2^31-1 above the base"


def test_a_full_index_and_a_late_batch_are_told_in_figures(tmp_path: Path) -> None:
    partition = tmp_path / "t-0"
    partition.mkdir()
    (partition / f"{0:020d}.log").write_bytes(b"".join(plain(offset, time_ms=NOW_MS) for offset in range(5)))
    (full,) = rolled(partition, index_interval_bytes=0, segment_index_bytes=36)
    assert full.segments[0]["detail"] == "2 entries: it is full at segment.index.bytes=36"
    (late,) = rolled(partition, segment_ms=2)
    assert late.segments[0]["detail"] == "next batch 3 ms after the first > segment.ms=2"
    (old,) = rolled(partition, kafka="0.8.0", segment_bytes=500)
    assert old.segments[0]["detail"].endswith(" > segment.bytes=500")
    assert "next batch" not in str(old.segments[0]["detail"])


def test_damage_ends_it_and_a_torn_tail_does_not_count(log_dir: Path) -> None:
    last = log_dir / "t-0" / f"{15:020d}.log"
    content = last.read_bytes()
    last.write_bytes(content + plain(40)[:100])
    (forecast,) = rolled(log_dir)
    assert codes([forecast]) == ["roll.torn-tail"]
    assert forecast.partition["state"] == "predicted"
    at = len(history()[15])
    last.write_bytes(content[:at] + bytes(30) + content[at + 30 :])
    (forecast,) = rolled(log_dir)
    assert codes([forecast]) == ["roll.damaged"]
    assert forecast.partition["state"] == "damaged"
    first = log_dir / "t-0" / f"{0:020d}.log"
    first.write_bytes(first.read_bytes()[:-3])  # torn, but not at the log's end
    assert codes(rolled(log_dir)) == ["roll.damaged"]


def test_segments_that_overlap_are_no_log(log_dir: Path) -> None:
    (log_dir / f"t-0/{30:020d}.log").write_bytes(b"".join(history()[30:]))
    (forecast,) = rolled(log_dir)
    assert codes([forecast]) == ["roll.damaged"]
    assert "offsets go back" in forecast.findings[0].message
    assert forecast.partition["log_end_offset"] == 40


def test_a_compressed_message_whose_offset_is_needed_and_does_not_open(tmp_path: Path) -> None:
    partition = tmp_path / "t-0"
    partition.mkdir()
    broken = message_v0(Record(offset=1, value=b"no gzip"), attributes=GZIP)
    (partition / f"{0:020d}.log").write_bytes(message_v0(Record(offset=0)) + broken)
    (forecast,) = rolled(partition, kafka="0.9", index_interval_bytes=0)
    assert codes([forecast]) == ["roll.not-appendable"]
    assert (forecast.findings[0].position, forecast.partition["state"]) == (0, "damaged")
    assert forecast.partition["reason"] == "the forecast ends at the damage, or at the file that cannot be read"


def test_logs_without_anything_to_roll(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0/leader-epoch-checkpoint").touch()
    (empty,) = rolled(tmp_path / "t-0")
    assert (empty.partition["state"], empty.segments) == ("empty", ())
    (tmp_path / "u-0").mkdir()
    (tmp_path / f"u-0/{0:020d}.kafka").write_bytes(b"")
    (old,) = rolled(tmp_path / "u-0", kafka="0.7")
    assert (old.partition["state"], codes([old])) == ("empty", ["roll.old-format"])


def test_the_log_of_the_clusters_metadata_is_left_alone(log_dir: Path) -> None:
    make_dir(log_dir / "other", name="__cluster_metadata-0")
    shutil.move(log_dir / "other/__cluster_metadata-0", log_dir)
    shutil.rmtree(log_dir / "other")
    assert [forecast.partition["topic"] for forecast in rolled(log_dir)] == ["t"]


def test_several_processes_find_the_same(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1, 4):
        shutil.copytree(log_dir / "t-0", log_dir / f"t-{number}")
    alone = rolled(log_dir, **SMALL)
    monkeypatch.setattr("kafkalog_core.engine.pool.SHARED_BYTES", 0)
    request = roll_module.RollRequest(
        targets=tuple(resolve([str(log_dir)])),
        kafka=SettingsRequest(kafka="4.3", assignments=("internal.segment.bytes=2000", "index.interval.bytes=500")),
        jobs=2,
    )
    assert list(roll_module.roll(request, Report())) == alone


@pytest.mark.parametrize("name", ["segment_bytes", "segment_ms", "segment_index_bytes"])
def test_settings_that_no_broker_takes(log_dir: Path, name: str) -> None:
    with pytest.raises(SettingError):
        rolled(log_dir, **{name: -1})


# --- new directories -----------------------------------------------------------------------------------------------
def starts_clean(log_dir: Path, kafka: str = "4.3") -> PartitionLoad:
    """The start of a broker, played through: it recovers, removes and cuts nothing."""
    release = parse_release(kafka)
    broker_dir = read_broker_dir(read_log_dir(str(log_dir)))
    (place,) = broker_dir.log_dir.partitions
    context = broker_dir.context(place.name)
    assert context.is_clean
    options = LoadOptions(
        release=release,
        settings=read_settings(SettingsRequest(), release).for_topic("t"),
        snapshots=SnapshotOptions.of_release(release, now_ms=NOW_MS, expiration_ms=DAY_MS),
    )
    load = PartitionLoad(read_partition(place.path), context, options)
    assert [*load.run()] == []
    result = load.result
    assert result.problem is None
    assert [each.occasion for each in result.segments] == [None] * len(result.segments)
    assert (result.removed, result.swept, result.orphans, result.lost_bytes) == ((), (), (), 0)
    return load


def is_verified(log_dir: Path) -> bool:
    request = VerifyRequest(targets=tuple(resolve([str(log_dir)])), now_ms=NOW_MS)
    findings = [finding for verdict in verify(request) for finding in verdict.findings]
    return not [finding for finding in findings if finding.severity != "info"]


def offsets(log_dir: Path, name: str) -> list[tuple[str, int, int]]:
    entries = [*read_offset_checkpoint([(log_dir / f"{name}-offset-checkpoint").read_bytes()])][:-1]
    return [(entry.topic, entry.partition, entry.offset) for entry in entries]  # type: ignore[union-attr]


def test_a_log_directory_in_other_segments(log_dir: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in sorted(log_dir.rglob("*")) if path.is_file()}
    new = tmp_path / "new"
    (forecast,) = rolled(log_dir, to=new, **SMALL)
    assert {path: path.read_bytes() for path in sorted(log_dir.rglob("*")) if path.is_file()} == before
    assert (forecast.partition["state"], forecast.partition["to"]) == ("written", str(new))
    partition = new / "t-0"
    assert bases(partition) == [each["base_offset"] for each in forecast.segments]
    assert log_of(partition) == b"".join(history())
    assert bases(partition, "index") == bases(partition, "timeindex") == bases(partition)
    assert bases(partition, "snapshot") == [*bases(partition)[1:], 40]
    for name in ("leader-epoch-checkpoint", "partition.metadata"):
        assert (partition / name).read_bytes() == (log_dir / "t-0" / name).read_bytes()
    for name in ("meta.properties", ".kafka_cleanshutdown"):
        assert (new / name).read_bytes() == (log_dir / name).read_bytes()
    assert offsets(new, "recovery-point") == [("t", 0, 40)]
    assert offsets(new, "replication") == [("t", 0, 38)]
    assert offsets(new, "log-start") == [("t", 0, 3)]
    assert offsets(new, "cleaner") == [("t", 0, 0)]
    assert is_verified(new)
    load = starts_clean(new)
    assert load.result.end_offset == 40
    assert load.result.log_start_offset == 3


def test_aborted_transactions_stand_in_the_index_of_their_marker(log_dir: Path, tmp_path: Path) -> None:
    rolled(log_dir, to=tmp_path / "new", **SMALL)
    entries = b"".join(path.read_bytes() for path in sorted((tmp_path / "new/t-0").glob("*.txnindex")))
    expected = [(7, 8 * number + 1, 8 * number + 5, 8 * number + 2) for number in range(5)]
    assert entries == txn_index(expected)
    for path in (tmp_path / "new/t-0").glob("*.txnindex"):
        own = [*bases(path.parent), 40]
        end = own[own.index(int(path.stem)) + 1]
        markers = [last for _, _, last, _ in expected if int(path.stem) <= last < end]
        assert len(path.read_bytes()) == 34 * len(markers)


def test_snapshots_hold_what_producers_were_there(log_dir: Path, tmp_path: Path) -> None:
    rolled(log_dir, to=tmp_path / "new", **SMALL)
    for base in bases(tmp_path / "new/t-0", "snapshot"):
        entries = list(decode_snapshot((tmp_path / f"new/t-0/{base:020d}.snapshot").read_bytes()))
        known = {entry.producer_id: (entry.last_offset, entry.current_txn_first_offset) for entry in entries}
        for producer_id, kinds, end in ((7, {1, 3}, 5), (9, {2, 4}, 7)):
            written = [offset for offset in range(base) if offset % 8 in kinds]
            start = written[-1] // 8 * 8 + min(kinds) if written else -1
            is_open = bool(written) and base <= written[-1] // 8 * 8 + end
            assert known.get(producer_id, (-1, -1)) == (written[-1] if written else -1, start if is_open else -1)


def test_a_snapshot_that_is_there_is_kept_as_it_knows_silent_producers(log_dir: Path, tmp_path: Path) -> None:
    for offset in (15, 40):
        (log_dir / f"t-0/{offset:020d}.snapshot").write_bytes(silent_producer(offset))
    (log_dir / f"t-0/{3:020d}.snapshot").write_bytes(b"no snapshot")
    rolled(log_dir, to=tmp_path / "new")
    assert (tmp_path / f"new/t-0/{40:020d}.snapshot").read_bytes() == silent_producer(40)
    assert bases(tmp_path / "new/t-0", "snapshot") == [40]


def test_a_log_that_does_not_start_at_0_takes_its_producers_from_the_snapshot(tmp_path: Path) -> None:
    log_dir = make_dir(tmp_path / "logs")
    for path in (log_dir / "t-0").glob(f"{0:020d}.*"):
        path.unlink()
    (log_dir / f"t-0/{15:020d}.snapshot").write_bytes(silent_producer(15))
    rolled(log_dir, to=tmp_path / "new", **SMALL)
    at = bases(tmp_path / "new/t-0", "snapshot")
    assert at[0] > 15
    for base in at:
        entries = list(decode_snapshot((tmp_path / f"new/t-0/{base:020d}.snapshot").read_bytes()))
        assert 5 in {entry.producer_id for entry in entries}


def test_modification_times_are_those_of_what_was_read(tmp_path: Path) -> None:
    log_dir = make_dir(tmp_path / "logs")
    for base, seconds in ((0, 1_000_000), (15, 2_000_000)):
        os.utime(log_dir / f"t-0/{base:020d}.log", (seconds, seconds))
    rolled(log_dir, to=tmp_path / "new", **SMALL)
    times = [path.stat().st_mtime for path in sorted((tmp_path / "new/t-0").glob("*.log"))]
    assert times == sorted(times)
    assert {*times} == {1_000_000, 2_000_000}


def test_epochs_are_told_by_the_log_where_no_file_does(log_dir: Path, tmp_path: Path) -> None:
    (log_dir / "t-0/leader-epoch-checkpoint").unlink()
    rolled(log_dir, to=tmp_path / "new", **SMALL)
    assert (tmp_path / "new/t-0/leader-epoch-checkpoint").read_bytes() == epoch_checkpoint([(0, 0), (1, 20)])


def test_a_torn_tail_is_left_behind(log_dir: Path, tmp_path: Path) -> None:
    last = log_dir / "t-0" / f"{15:020d}.log"
    last.write_bytes(last.read_bytes() + b"\0" * 77)
    (log_dir / ".kafka_cleanshutdown").unlink()
    (forecast,) = rolled(log_dir, to=tmp_path / "new")
    assert codes([forecast]) == ["roll.torn-tail"]
    assert log_of(tmp_path / "new/t-0") == b"".join(history())
    assert (tmp_path / "new/.kafka_cleanshutdown").read_bytes() == b""


def test_a_partition_by_itself_and_one_that_is_empty(tmp_path: Path) -> None:
    partition = tmp_path / "t-0"
    partition.mkdir()
    (partition / f"{7:020d}.log").touch()
    rolled(partition, to=tmp_path / "new")
    names = sorted(path.name for path in (tmp_path / "new/t-0").iterdir())
    assert names == [f"{7:020d}.index", f"{7:020d}.log", f"{7:020d}.timeindex", "leader-epoch-checkpoint"]
    assert offsets(tmp_path / "new", "recovery-point") == [("t", 0, 7)]
    assert not (tmp_path / "new/meta.properties").exists()


def test_old_releases_have_fewer_files(tmp_path: Path) -> None:
    for kafka, suffixes in (("0.9", {".log", ".index"}), ("0.10.2", {".log", ".index", ".timeindex"})):
        partition = tmp_path / kafka / "t-0"
        partition.mkdir(parents=True)
        data = b"".join(message_v0(Record(offset=offset, value=b"v" * 90)) for offset in range(30))
        (partition / f"{0:020d}.log").write_bytes(data)
        rolled(partition, to=tmp_path / kafka / "new", kafka=kafka, segment_bytes=1000)
        made = tmp_path / kafka / "new/t-0"
        assert {path.suffix for path in made.iterdir()} == suffixes
        assert log_of(made) == data
        assert len(bases(made)) > 2


def test_the_metadata_log_is_copied_and_other_directories_are_not(log_dir: Path, tmp_path: Path) -> None:
    make_dir(tmp_path / "other", name="__cluster_metadata-0")
    metadata = log_dir / "__cluster_metadata-0"
    shutil.move(tmp_path / "other/__cluster_metadata-0", metadata)
    shutil.copytree(log_dir / "t-0", log_dir / f"t-1.{'a' * 32}-delete")
    shutil.copytree(log_dir / "t-0", log_dir / f"t-2.{'b' * 32}-stray")
    (log_dir / "bootstrap.checkpoint").write_bytes(b"records")
    forecasts = rolled(log_dir, to=tmp_path / "new", **SMALL)
    assert codes(forecasts) == ["roll.left-out", "roll.left-out"]
    assert sorted(path.name for path in (tmp_path / "new").iterdir() if path.is_dir()) == [metadata.name, "t-0"]
    copied = {path.name: path.read_bytes() for path in (tmp_path / "new" / metadata.name).iterdir()}
    assert copied == {path.name: path.read_bytes() for path in metadata.iterdir()}
    assert (tmp_path / "new/bootstrap.checkpoint").read_bytes() == b"records"
    assert offsets(tmp_path / "new", "recovery-point") == [("t", 0, 40)]


# --- refusals ------------------------------------------------------------------------------------------------------
def refused(log_dir: Path, words: str, kind: type[Exception] = RefusedError, **given: Any) -> None:
    target = log_dir.parent / "new"
    with pytest.raises(kind, match=words):
        rolled(log_dir, to=target, **given)
    assert not target.exists()
    assert not [*target.parent.glob("*unfinished*")]


def test_damage_is_not_written(log_dir: Path) -> None:
    first = log_dir / "t-0" / f"{0:020d}.log"
    content = bytearray(first.read_bytes())
    content[700] ^= 1
    first.write_bytes(content)
    refused(log_dir, r"crc-mismatch.*kafkalog recover")


def test_what_is_not_certain_is_not_written(log_dir: Path) -> None:
    for name in ("meta.properties", ".kafka_cleanshutdown", "t-0/partition.metadata"):
        (log_dir / name).unlink()
    refused(log_dir, "--kafka VERSION", kafka=None)


def test_what_waits_to_be_put_in_its_place(log_dir: Path) -> None:
    (log_dir / "t-0" / f"{0:020d}.log.swap").touch()
    refused(log_dir, "a finished replacement")


def test_remote_storage_knows_segments(log_dir: Path) -> None:
    refused(log_dir, "remote storage", remote_storage_enable="true")


def test_epochs_behind_the_end(log_dir: Path) -> None:
    (log_dir / "t-0/leader-epoch-checkpoint").write_bytes(epoch_checkpoint([(0, 0), (4, 41)]))
    refused(log_dir, "leader epoch 4 starts at offset 41, after the log end offset 40")


def test_a_log_of_0_7(tmp_path: Path) -> None:
    (tmp_path / "u-0").mkdir()
    (tmp_path / f"u-0/{0:020d}.kafka").write_bytes(b"")
    refused(tmp_path / "u-0", "no segment of Kafka 0.8 or later", kafka="0.7")


def test_what_cannot_be_written_is_refused_at_once(log_dir: Path) -> None:
    for name in ("u-0", "v-0"):
        shutil.copytree(log_dir / "t-0", log_dir / name)
        (log_dir / name / f"{0:020d}.log.swap").touch()
    seen = rf"truncate --as-broker {log_dir}/u-0 {log_dir}/v-0;"
    refused(log_dir, rf"2 partitions: u-0, v-0: a finished replacement.*{seen}.*topics out: --exclude u --exclude v$")


def test_several_log_directories_and_files(log_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(SelectionError, match="name the directory of the partition"):
        rolled(log_dir / "t-0" / f"{0:020d}.log")
    other = make_dir(tmp_path / "logs2")
    request = roll_module.RollRequest(
        targets=tuple(resolve([str(log_dir), str(other)])), to=str(tmp_path / "new"), kafka=SettingsRequest(kafka="4.3")
    )
    with pytest.raises(SelectionError, match="one log directory from one"):
        list(roll_module.roll(request, Report()))
    stray = tmp_path / "logs3" / f"t-2.{'b' * 32}-stray"
    shutil.copytree(log_dir / "t-0", stray)
    (tmp_path / "logs3/meta.properties").touch()
    refused(tmp_path / "logs3", "a broker serves none of these", SelectionError)


def test_a_broker_that_runs(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "kafkalog_core.ops.repair.copied_files.lock_holder", lambda _: Holder("process 4711 (java)", "broker")
    )
    refused(log_dir, "held by process 4711", LockedError)


def test_somebody_who_writes_meanwhile(log_dir: Path) -> None:
    class Meddling(Disk):
        def step(self, what: str, path: str) -> None:
            if what == "rename":
                return
            if path.endswith("recovery-point-offset-checkpoint"):
                last = log_dir / "t-0" / f"{15:020d}.log"
                last.write_bytes(last.read_bytes() + b"more")

    refused(log_dir, "another process wrote to it", disk=Meddling())


@pytest.mark.slow
def test_a_crash_at_any_step_leaves_all_or_nothing(log_dir: Path, tmp_path: Path) -> None:
    counting = CountingDisk()
    rolled(log_dir, to=tmp_path / "counted", disk=counting, **SMALL)
    whole = {path.name for path in (tmp_path / "counted").rglob("*")}
    for number in range(0, len(counting.steps), 7):
        target = tmp_path / f"new{number}"
        with pytest.raises(Killed):
            rolled(log_dir, to=target, disk=DyingDisk(number), **SMALL)
        assert not target.exists() or {path.name for path in target.rglob("*")} == whole


def test_a_snapshot_of_rubbish_is_made_anew(log_dir: Path, tmp_path: Path) -> None:
    (log_dir / f"t-0/{40:020d}.snapshot").write_bytes(snapshot([], crc=1))
    rolled(log_dir, to=tmp_path / "new")
    assert len(list(decode_snapshot((tmp_path / f"new/t-0/{40:020d}.snapshot").read_bytes()))) == 2
    assert TOPIC_ID.encode() in (tmp_path / "new/t-0/partition.metadata").read_bytes()


@pytest.mark.parametrize(("kafka", "expected"), [("0.9.0.1", 10), ("0.10.1.0", 15)])
def test_before_0_10_1_a_log_counts_as_cleaned_up_to_the_base_offset_of_a_segment(
    tmp_path: Path, kafka: str, expected: int
) -> None:
    root = make_dir(tmp_path / "logs")
    for path in (root / "t-0").iterdir():
        path.unlink()
    messages = [message_v0(Record(offset=offset, value=b"v" * 90)) for offset in range(30)]
    for first, last in ((0, 15), (15, 30)):
        (root / "t-0" / f"{first:020d}.log").write_bytes(b"".join(messages[first:last]))
        (root / "t-0" / f"{first:020d}.index").write_bytes(b"")
    (root / "cleaner-offset-checkpoint").write_bytes(offset_checkpoint([("t", 0, 15)]))
    new = tmp_path / "new"
    rolled(root, to=new, kafka=kafka, segment_bytes=10 * len(messages[0]))
    assert bases(new / "t-0") == [0, 10, 20]
    assert offsets(new, "cleaner") == [("t", 0, expected)]
