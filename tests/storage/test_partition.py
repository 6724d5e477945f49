"""What a partition directory is made of, and what is missing or odd in it.

What a broker does about each was seen with Kafka 4.3.1 (0.7.2 for `.kafka` files) and is not repeated here.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.errors import NotFoundError
from kafkalog_core.format.names import FileKind
from kafkalog_core.output.tables import FINDING
from kafkalog_core.storage import partition as module
from kafkalog_core.storage.listing import SegmentState
from kafkalog_core.storage.partition import Partition, partition_name, read_partition

if TYPE_CHECKING:
    from collections.abc import Callable

LOG, INDEX, TIMEINDEX, TXNINDEX, SNAPSHOT = ".log", ".index", ".timeindex", ".txnindex", ".snapshot"


def named(offset: int, suffix: str) -> str:
    return f"{offset:020d}{suffix}"


def make(directory: Path, *names: str, size: int = 10) -> Partition:
    directory.mkdir(exist_ok=True)
    for name in names:
        (directory / name).write_bytes(bytes(size))
    return read_partition(str(directory))


def whole(*offsets: int) -> list[str]:
    return [named(offset, suffix) for offset in offsets for suffix in (LOG, INDEX, TIMEINDEX)]


def codes(partition: Partition) -> list[tuple[str, str]]:
    return [(Path(finding.path).name, finding.code) for finding in partition.findings]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "orders-3"


def test_a_healthy_partition_has_no_finding(home: Path) -> None:
    files = [*whole(0, 76), named(76, TXNINDEX), named(76, SNAPSHOT), named(140, SNAPSHOT)]
    found = make(home, *files, "leader-epoch-checkpoint", "partition.metadata")
    assert (found.topic, found.partition, found.format) == ("orders", 3, "log")
    assert [(segment.base_offset, segment.state) for segment in found.segments] == [
        (0, SegmentState.CLOSED),
        (76, SegmentState.ACTIVE),
    ]
    last = found.segments[-1]
    assert [file.name.raw for file in last.files] == [
        named(76, suffix) for suffix in (LOG, INDEX, TIMEINDEX, TXNINDEX, SNAPSHOT)
    ]
    assert [file.name.base_offset for file in found.snapshots] == [76, 140]
    assert [file.name.kind for file in found.metadata_files] == [FileKind.LEADER_EPOCH, FileKind.PARTITION_METADATA]
    assert not found.other_segments
    assert not found.other_files
    assert not found.findings


def test_a_partition_of_an_old_release_has_no_time_index(home: Path) -> None:
    assert not make(home, named(0, LOG), named(0, INDEX), named(9, LOG), named(9, INDEX)).findings


def test_an_empty_segment_needs_no_index(home: Path) -> None:
    make(home, *whole(0))
    (home / named(9, LOG)).touch()
    assert not read_partition(str(home)).findings


def test_missing_indexes(home: Path) -> None:
    found = make(home, *whole(0), named(5, LOG), named(5, TIMEINDEX), named(9, LOG), named(9, INDEX))
    assert codes(found) == [(named(5, LOG), "segment.index-missing"), (named(9, LOG), "segment.timeindex-missing")]
    assert {finding.severity for finding in found.findings} == {"warning"}
    assert [finding.offset for finding in found.findings] == [5, 9]


def test_an_index_that_appears_after_the_listing_is_not_missing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(home, *whole(0), named(5, LOG))
    listed = module.list_directory(str(home))
    make(home, *whole(5))
    monkeypatch.setattr(module, "list_directory", lambda _: listed)
    assert not read_partition(str(home)).findings


class Pauses:
    """Pauses in which something happens; `counted` is their number."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, happens: Callable[[int], object] = lambda _: None) -> None:
        self.counted = 0
        self._happens = happens
        monkeypatch.setattr(module, "_PAUSE", self)
        monkeypatch.setattr(module, "_patience", module._Patience())

    def wait(self, seconds: float) -> None:
        assert 0 < seconds < 0.1
        self.counted += 1
        self._happens(self.counted)


def test_an_index_that_a_broker_is_about_to_create(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen next to 4.3.1: the active segment has its `.index`, and a moment later its `.timeindex`."""
    late = home / named(9, TIMEINDEX)
    for _ in range(3):
        late.unlink(missing_ok=True)
        pauses = Pauses(monkeypatch, lambda number: late.touch() if number == 3 else None)
        assert codes(make(home, *whole(5), named(9, LOG), named(9, INDEX))) == []
        assert pauses.counted == 3


def test_only_a_few_pauses_are_in_vain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs that were copied without their indexes; and only the active segment's may still come."""
    pauses = Pauses(monkeypatch)
    for number in range(40):
        found = codes(make(tmp_path / f"orders-{number}", named(5, LOG), named(9, LOG)))
        assert found == [(named(5, LOG), "segment.index-missing"), (named(9, LOG), "segment.index-missing")]
    assert pauses.counted == 5


def test_a_segment_that_is_deleted_after_the_listing_misses_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(home, *whole(5), named(0, LOG))
    listed = module.list_directory(str(home))
    (home / named(0, LOG)).rename(home / named(0, LOG + ".deleted"))
    monkeypatch.setattr(module, "list_directory", lambda _: listed)
    assert not read_partition(str(home)).findings


def test_an_index_without_its_log(home: Path) -> None:
    found = make(home, *whole(9), named(0, INDEX), named(0, TXNINDEX))
    assert codes(found) == [(named(0, INDEX), "segment.index-orphan"), (named(0, TXNINDEX), "segment.index-orphan")]
    (orphan,) = found.other_segments
    assert (orphan.state, orphan.log, orphan.size_bytes) == (SegmentState.ORPHAN, None, 0)


def test_an_index_of_a_deletion_that_was_cut_short(home: Path) -> None:
    found = make(home, *whole(9), named(0, LOG + ".deleted"), named(0, INDEX))
    assert codes(found) == [(named(0, INDEX), "segment.deleted"), (named(0, LOG + ".deleted"), "segment.deleted")]


def test_a_snapshot_alone_is_no_segment(home: Path) -> None:
    found = make(home, *whole(0), named(140, SNAPSHOT), named(70, SNAPSHOT + ".deleted"))
    assert [segment.state for segment in found.other_segments] == [SegmentState.DELETED]
    assert codes(found) == [(named(70, SNAPSHOT + ".deleted"), "segment.deleted")]


def test_files_on_their_way_in_or_out(home: Path) -> None:
    found = make(
        home,
        *whole(0, 9),
        *(name + ".deleted" for name in whole(3)),
        *(name + ".swap" for name in whole(0)),
        *(name + ".cleaned" for name in whole(9)),
        named(9, LOG + ".swap"),
    )
    assert [(segment.base_offset, segment.state, len(segment.files)) for segment in found.other_segments] == [
        (0, SegmentState.SWAP, 3),
        (3, SegmentState.DELETED, 3),
        (9, SegmentState.CLEANED, 3),
        (9, SegmentState.SWAP, 1),
    ]
    assert codes(found) == [
        (named(0, LOG + ".swap"), "segment.swap"),
        (named(3, LOG + ".deleted"), "segment.deleted"),
        (named(9, LOG + ".cleaned"), "segment.cleaned"),
        (named(9, LOG + ".swap"), "segment.swap"),
        (named(9, LOG + ".swap"), "segment.swap-index-missing"),
    ]


def test_a_replacement_without_anything_to_replace(home: Path) -> None:
    found = make(home, *whole(0, 9), *(name + ".swap" for name in whole(5)), *(name + ".swap" for name in whole(9)))
    assert codes(found) == [(named(5, LOG + ".swap"), "segment.swap-alone"), (named(9, LOG + ".swap"), "segment.swap")]
    assert [finding.severity for finding in found.findings] == ["warning", "info"]
    (home / named(5, LOG + ".swap")).write_bytes(b"")
    assert {finding.code for finding in read_partition(str(home)).findings} == {"segment.swap"}


@pytest.mark.parametrize(
    ("name", "code", "severity"),
    [
        (named(5, LOG + ".swap"), "segment.swap-alone", "warning"),
        (named(5, LOG + ".deleted"), "segment.deleted", "info"),
        (named(5, LOG + ".cleaned"), "segment.cleaned", "info"),
        ("5.log", "segment.misnamed", "error"),
        ("0.log", "segment.duplicate", "warning"),
        ("x.log", "segment.bad-name", "error"),
        ("x.log.swap", "segment.bad-name", "error"),
        ("x.log.deleted", "segment.deleted", "info"),
        (named(5, ".kafka"), "partition.mixed-formats", "warning"),
    ],
)
def test_a_log_that_is_not_read_says_how_to_see_its_records(home: Path, name: str, code: str, severity: str) -> None:
    found = make(home, *whole(0), name)
    (finding,) = (finding for finding in found.findings if finding.code == code)
    assert (finding.severity, finding.hides_records) == (severity, True)
    assert finding.message.endswith(". Its records are not shown unless the file itself is named.")
    (home / name).write_bytes(b"")
    assert not any(finding.hides_records for finding in read_partition(str(home)).findings)


def test_an_index_hides_no_records(home: Path) -> None:
    found = make(home, *whole(0), named(5, INDEX + ".deleted"), named(5, INDEX + ".cleaned"), named(5, SNAPSHOT))
    assert found.findings
    assert not any(finding.hides_records or "not shown" in finding.message for finding in found.findings)


@pytest.mark.parametrize("name", ["abc.log", ".log", "x.index", "x.snapshot", "x.swap", "x.cleaned", "0-1-v1.log"])
def test_names_that_stop_a_broker(home: Path, name: str) -> None:
    found = make(home, *whole(0), name)
    assert codes(found) == [(name, "segment.bad-name")]
    assert found.findings[0].severity == "error"


def test_a_misnamed_log(home: Path) -> None:
    found = make(home, *whole(0), "5.log", "5.index")
    assert codes(found) == [("5.log", "segment.misnamed")]
    assert (found.findings[0].severity, found.findings[0].offset) == ("error", 5)
    assert [(segment.base_offset, segment.state) for segment in found.other_segments] == [(5, SegmentState.UNREAD)]
    (home / "5.log").write_bytes(b"")
    (finding,) = read_partition(str(home)).findings
    assert (finding.code, finding.severity) == ("segment.misnamed-empty", "warning")


def test_a_second_log_of_one_base_offset(home: Path) -> None:
    found = make(home, *whole(5), "5.log", "005.log")
    assert codes(found) == [("005.log", "segment.duplicate"), ("5.log", "segment.duplicate")]
    assert [segment.log.name.raw for segment in found.segments if segment.log] == [named(5, LOG)]
    assert len(found.other_segments) == 2


def test_misnamed_companions(home: Path) -> None:
    found = make(home, *whole(5), "5.index", "5.snapshot")
    assert codes(found) == [("5.index", "segment.misnamed-companion"), ("5.snapshot", "segment.misnamed-companion")]


def test_a_log_of_more_bytes_than_positions(home: Path) -> None:
    make(home, *whole(0))
    with (home / named(0, LOG)).open("r+b") as file:
        file.truncate(2**31)
    (finding,) = read_partition(str(home)).findings
    assert (finding.code, finding.severity, finding.size_bytes) == ("segment.oversize", "error", 2**31)
    with (home / named(0, LOG)).open("r+b") as file:
        file.truncate(2**31 - 1)
    assert not read_partition(str(home)).findings


def test_strange_files_are_ignored_and_said(home: Path) -> None:
    make(home, *whole(0))
    (home / "inner-0").mkdir()
    names = (
        "notes.txt",
        named(0, ".log.bak"),
        named(0, ".log.tmp"),
        "leader-epoch-checkpoint.tmp",
        "x.part",
        "x.deleted",
    )
    found = make(home, *names)
    assert dict(codes(found)) == {
        "inner-0": "dir.nested",
        "notes.txt": "file.unknown",
        named(0, ".log.bak"): "file.unknown",
        named(0, ".log.tmp"): "file.leftover",
        "leader-epoch-checkpoint.tmp": "file.leftover",
        "x.part": "file.leftover",
        "x.deleted": "segment.deleted",
    }
    assert {finding.severity for finding in found.findings} == {"info"}


def test_what_has_a_logs_name_and_is_no_file(home: Path) -> None:
    """A 4.3.1 broker passes over each of these, and over the records that should be there."""
    make(home, *whole(0), *whole(10))
    (home / named(20, LOG)).symlink_to("missing")
    (home / named(30, LOG)).mkdir()
    os.mkfifo(home / named(40, LOG))
    found = read_partition(str(home))
    assert [(finding.code, finding.severity, finding.offset) for finding in found.findings] == [
        ("segment.log-unreadable", "error", offset) for offset in (20, 30, 40)
    ]
    assert "a symbolic link cannot be followed: no such file or directory." in found.findings[0].message
    assert "a directory inside a partition directory." in found.findings[1].message
    assert [segment.base_offset for segment in found.segments] == [0, 10]
    assert {finding.partition for finding in found.findings} == {3}


@pytest.mark.parametrize("kind", [INDEX, ".timeindex", ".txnindex"])
@pytest.mark.parametrize("make_other", [os.mkfifo, os.mkdir])
def test_what_has_an_indexs_name_and_is_no_file(home: Path, kind: str, make_other: Callable[[Path], None]) -> None:
    """In the last segment a 4.3.1 broker dies of each, with "Illegal seek" or "Is a directory"."""
    make(home, named(0, LOG))
    make_other(home / named(0, kind))
    (finding,) = (each for each in read_partition(str(home)).findings if each.path.endswith(kind))
    assert (finding.code, finding.severity, finding.offset) == ("index.not-a-file", "error", 0)
    assert finding.next_command == f"mv -n -- {home / named(0, kind)} {home.parent}/.."


@pytest.mark.parametrize("name", ["5.log", named(20, LOG) + ".deleted", named(20, INDEX), "notes", named(20, ".kafka")])
def test_links_that_hide_no_records_are_harmless_as_ever(home: Path, name: str) -> None:
    make(home, *whole(0))
    (home / name).symlink_to("missing")
    (finding,) = read_partition(str(home)).findings
    assert (finding.code, finding.severity) == ("file.broken-link", "warning")


def test_a_link_without_a_target_in_a_log_of_kafka_0_7(home: Path) -> None:
    make(home, named(0, ".kafka"))
    (home / named(10, ".kafka")).symlink_to("missing")
    (finding,) = read_partition(str(home)).findings
    assert (finding.code, finding.offset) == ("segment.log-unreadable", 10)


def test_an_empty_partition(home: Path) -> None:
    found = make(home, "partition.metadata")
    assert codes(found) == [("orders-3", "partition.empty")]
    assert (found.findings[0].topic, found.findings[0].partition) == ("orders", 3)


def test_snapshots_of_the_metadata_log(tmp_path: Path) -> None:
    good = f"{7:020d}-{1:010d}.checkpoint"
    names = (*whole(0), "quorum-state", good, "7-1.checkpoint", good + ".deleted", good[:-11] + "-33.checkpoint.part")
    found = make(tmp_path / "__cluster_metadata-0", *names)
    assert len(found.kraft_snapshots) == 4
    assert codes(found) == [
        (good[:-11] + "-33.checkpoint.part", "file.leftover"),
        (good + ".deleted", "segment.deleted"),
        ("7-1.checkpoint", "snapshot.bad-name"),
    ]
    elsewhere = make(tmp_path / "orders-0", *whole(0), "7-1.checkpoint", good + ".deleted")
    assert codes(elsewhere) == [(good + ".deleted", "segment.deleted"), ("7-1.checkpoint", "file.unknown")]


def test_a_partition_of_kafka_0_7(home: Path) -> None:
    found = make(home, named(0, ".kafka"), named(10, ".kafka"))
    assert found.format == "v07"
    assert [(segment.base_offset, segment.state) for segment in found.segments] == [
        (0, SegmentState.CLOSED),
        (10, SegmentState.ACTIVE),
    ]
    assert not found.findings


@pytest.mark.parametrize(("second", "code", "size"), [(11, "segment.gap-v07", 1), (7, "segment.overlap-v07", 3)])
def test_addresses_of_kafka_0_7_must_join(home: Path, second: int, code: str, size: int) -> None:
    found = make(home, named(0, ".kafka"), named(second, ".kafka"))
    (finding,) = found.findings
    assert (finding.code, finding.severity, finding.size_bytes, finding.offset) == (code, "error", size, second)
    assert finding.path.endswith(named(0, ".kafka"))


def test_a_segment_of_kafka_0_7_that_grew_and_rolled_after_the_listing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(home, named(0, ".kafka"), size=4)
    (home / named(10, ".kafka")).touch()
    listed = module.list_directory(str(home))
    make(home, named(0, ".kafka"), size=10)
    monkeypatch.setattr(module, "list_directory", lambda _: listed)
    assert not read_partition(str(home)).findings


def test_a_segment_of_kafka_0_7_that_goes_away(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(home, named(0, ".kafka"), named(11, ".kafka"))
    listed = module.list_directory(str(home))
    (home / named(0, ".kafka")).unlink()
    monkeypatch.setattr(module, "list_directory", lambda _: listed)
    assert [finding.code for finding in read_partition(str(home)).findings] == ["segment.gap-v07"]


def test_kafka_0_7_ignores_all_other_files(home: Path) -> None:
    names = ("notes.txt", "x.index", "5.index", named(3, SNAPSHOT), "partition.metadata", "x.kafka", "5.kafka.tmp")
    found = make(home, named(0, ".kafka"), *names)
    assert dict(codes(found)) == {
        "notes.txt": "file.unknown",
        "x.index": "file.unknown",
        "5.index": "file.unknown",
        named(3, SNAPSHOT): "file.unknown",
        "partition.metadata": "file.unknown",
        "x.kafka": "segment.bad-name",
        "5.kafka.tmp": "file.leftover",
    }


def test_a_misnamed_segment_of_kafka_0_7(home: Path) -> None:
    found = make(home, named(0, ".kafka"), "10.kafka")
    assert codes(found) == [("10.kafka", "segment.misnamed")]


def test_files_of_both_formats(home: Path) -> None:
    found = make(home, *whole(0), named(0, ".kafka"))
    assert found.format == "log"
    assert codes(found) == [(named(0, ".kafka"), "partition.mixed-formats")]
    assert [segment.state for segment in found.other_segments] == [SegmentState.UNREAD]


def test_a_directory_of_another_name_is_a_partition_too(tmp_path: Path) -> None:
    found = make(tmp_path / "saved", *whole(0))
    assert (found.topic, found.partition, len(found.segments)) == (None, None, 1)


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        read_partition(str(tmp_path / "orders-0"))


def test_the_name_of_a_directory_however_it_is_spelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t-0").mkdir()
    monkeypatch.chdir(tmp_path / "t-0")
    assert [partition_name(path).raw for path in (".", "../t-0/", f"{tmp_path}/t-0//")] == ["t-0"] * 3


def test_a_link_goes_by_its_own_name(tmp_path: Path) -> None:
    """As brokers do with what is in their log directory; a name that is of no partition gives way to the target's."""
    make(tmp_path / "t-0", *whole(0))
    for link in ("other-7", "current"):
        (tmp_path / link).symlink_to("t-0")
    named_by = {link: read_partition(f"{tmp_path}/{link}") for link in ("t-0", "other-7", "current")}
    assert {link: (found.topic, found.partition) for link, found in named_by.items()} == {
        "t-0": ("t", 0),
        "other-7": ("other", 7),
        "current": ("t", 0),
    }


def test_findings_are_rows_of_findings(home: Path) -> None:
    found = make(home, *whole(0), "5.log")
    row = found.findings[0].row()
    assert row.keys() <= set(FINDING.names)
    assert (row["file"], row["topic"], row["partition"]) == (str(home / "5.log"), "orders", 3)
    assert row["offset"] == 5
    assert str(row["broker_action"]).startswith("Reads offset 5 from the name")


NAMES = st.builds(
    lambda stem, kind, state: stem + kind + state,
    st.sampled_from(["", "x", "5", "00000000000000000005", "00000000000000000007", "1-1-v1"]),
    st.sampled_from([LOG, INDEX, TIMEINDEX, TXNINDEX, SNAPSHOT, ".kafka", ".checkpoint", ".foo", ""]),
    st.sampled_from(["", ".deleted", ".swap", ".cleaned", ".tmp", ".part"]),
).filter(bool)


@given(st.sets(NAMES, max_size=12))
def test_every_file_is_in_one_group(names: set[str]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        found = make(Path(directory) / "t-0", *names)
    segments = [file for segment in (*found.segments, *found.other_segments) for file in segment.files]
    others = [*found.kraft_snapshots, *found.metadata_files, *found.other_files]
    grouped = [file.name.raw for file in (*segments, *others)]
    assert len(grouped) == len(set(grouped))
    assert {*grouped, *(file.name.raw for file in found.snapshots)} == names
    assert {file.name.raw for file in found.files} == names
    bases = [segment.base_offset for segment in found.segments]
    assert bases == sorted(set(bases))
