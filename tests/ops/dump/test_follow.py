"""`--follow`: what is there, then what comes, over rolls and deletions, with a tail held back until it is whole."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import FileTarget, resolve
from kafkalog_core.errors import AccessError, SelectionError
from kafkalog_core.filters.expression import Filters
from kafkalog_core.format.names import FileKind
from kafkalog_core.ops.dump import follow as follow_module
from kafkalog_core.ops.dump.follow import follow
from kafkalog_core.ops.dump.runs import DumpRequest
from kafkalog_core.storage.listing import FileInfo
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import replace
from tests.support.build import COMMIT, GZIP, batch_v2, message_v07, txn_marker
from tests.support.logs import Row, offsets_of, records, write_segments

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

A, B, C = (batch_v2(records(first, 3)) for first in (0, 3, 6))


class StopFollowingError(Exception):
    """There is nothing more to do between two looks."""


def followed(path: Path, *steps: Callable[[], object], report: Report | None = None, **request: Any) -> list[list[Row]]:
    """The rows of each look; between two of them one step is taken, and behind the last the following ends."""
    looks: list[list[Row]] = [[]]
    left = list(steps)

    def wait() -> None:
        if not left:
            raise StopFollowingError
        left.pop(0)()
        looks.append([])

    chunks = follow(
        DumpRequest(targets=tuple(resolve([str(path)])), **{"level": "records", **request}), report or Report(), wait
    )
    try:
        for chunk in chunks:
            looks[-1] += chunk.rows()
    except StopFollowingError:
        assert left == []
    return looks


def appending(path: Path, data: bytes) -> Callable[[], object]:
    def append() -> None:
        with path.open("ab") as file:
            file.write(data)

    return append


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    return write_segments(tmp_path / "topic-0", {0: A})


@pytest.fixture
def log(partition: Path) -> Path:
    return partition / f"{0:020d}.log"


def nothing() -> None:
    """A step in which nothing happens."""


# --- growing --------------------------------------------------------------------------------------------------------
def test_a_growing_file(partition: Path, log: Path) -> None:
    report = Report()
    looks = followed(partition, appending(log, B), nothing, appending(log, C), report=report)
    assert [offsets_of(look) for look in looks] == [[0, 1, 2], [3, 4, 5], [], [6, 7, 8]]
    assert (report.files, report.batches, report.records, report.rows) == (1, 3, 9, 9)
    assert report.bytes == len(A + B + C)
    assert report.exit_status == 0


def test_batches(log: Path) -> None:
    looks = followed(log, appending(log, B + C), level="batches")
    assert [offsets_of(look, "batch") for look in looks] == [[0], [3, 6]]


def test_an_empty_file_that_fills(tmp_path: Path) -> None:
    partition = write_segments(tmp_path / "topic-0", {0: b""})
    looks = followed(partition, appending(partition / f"{0:020d}.log", A))
    assert [offsets_of(look) for look in looks] == [[], [0, 1, 2]]


def test_filters(partition: Path, log: Path) -> None:
    marker = txn_marker(COMMIT, offset=6, producer_id=1)
    looks = followed(partition, appending(log, B + marker), filters=Filters(offsets=(2, 4)))
    assert [offsets_of(look) for look in looks] == [[2], [3, 4]]
    looks = followed(partition, filters=Filters(control=True))
    assert [offsets_of(look) for look in looks] == [[6]]


def test_kafka_07(tmp_path: Path) -> None:
    messages = [message_v07(b"%d" % n) for n in range(3)]
    partition = write_segments(tmp_path / "topic-0", {1000: messages[0]}, suffix="kafka")
    looks = followed(partition, appending(partition / f"{1000:020d}.kafka", messages[1] + messages[2]))
    size = len(messages[0])
    assert [offsets_of(look) for look in looks] == [[1000], [1000 + size, 1000 + 2 * size]]


def test_a_whole_log_directory(tmp_path: Path) -> None:
    home = tmp_path / "data"
    logs = [write_segments(home / f"topic-{n}", {0: A}) / f"{0:020d}.log" for n in range(3)]
    (home / "meta.properties").write_text("version=0\nbroker.id=1\n")
    looks = followed(home, appending(logs[1], B), appending(logs[0], B))
    assert [[(row["partition"], row["offset"]) for row in look] for look in looks[1:]] == [
        [(1, 3), (1, 4), (1, 5)],
        [(0, 3), (0, 4), (0, 5)],
    ]


# --- rolls and retention ----------------------------------------------------------------------------------------------
def roll(partition: Path, base_offset: int, data: bytes) -> Callable[[], object]:
    return lambda: write_segments(partition, {base_offset: data})


def test_a_roll(partition: Path, log: Path) -> None:
    looks = followed(partition, roll(partition, 3, B), appending(partition / f"{3:020d}.log", C))
    assert [offsets_of(look) for look in looks] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert {row["segment"] for row in looks[2]} == {f"{3:020d}.log"}


def test_the_last_batches_before_a_roll(partition: Path, log: Path) -> None:
    def both() -> None:
        appending(log, B)()
        roll(partition, 6, C)()

    assert [offsets_of(look) for look in followed(partition, both)] == [[0, 1, 2], [3, 4, 5, 6, 7, 8]]


def test_retention_deletes_what_was_read(partition: Path, log: Path) -> None:
    def delete() -> None:
        roll(partition, 3, B)()
        log.rename(log.with_name(log.name + ".deleted"))

    looks = followed(partition, delete, appending(partition / f"{3:020d}.log", C))
    assert [offsets_of(look) for look in looks] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


def test_retention_passes_a_slow_reader(partition: Path, log: Path) -> None:
    """Files came and went between two looks: reading goes on at what is left."""

    def overtake() -> None:
        log.unlink()
        write_segments(partition, {6: C})

    assert [offsets_of(look) for look in followed(partition, overtake)] == [[0, 1, 2], [6, 7, 8]]


def test_everything_is_deleted_and_comes_again(partition: Path, log: Path) -> None:
    looks = followed(partition, log.unlink, roll(partition, 3, B))
    assert [offsets_of(look) for look in looks] == [[0, 1, 2], [], [3, 4, 5]]


def test_a_file_by_itself_that_vanishes(log: Path) -> None:
    looks = followed(log, log.unlink, nothing)
    assert [offsets_of(look) for look in looks] == [[0, 1, 2], [], []]


# --- tails ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("size", [1, 16, 17, 60, len(B) - 1])
def test_a_torn_tail_is_held_back(partition: Path, log: Path, size: int) -> None:
    report = Report()
    looks = followed(partition, appending(log, B[:size]), nothing, appending(log, B[size:] + C), report=report)
    assert [offsets_of(look) for look in looks] == [[0, 1, 2], [], [], [3, 4, 5, 6, 7, 8]]
    assert report.exit_status == 0


def test_preallocated_zeros_are_held_back(partition: Path, log: Path) -> None:
    def fill() -> None:
        with log.open("r+b") as file:
            file.seek(len(A))
            file.write(B)

    looks = followed(partition, appending(log, bytes(1000)), fill)
    assert [[row["type"] for row in look] for look in looks] == [["record"] * 3, [], ["record"] * 3]


def test_a_torn_tail_before_a_roll_is_damage(partition: Path, log: Path) -> None:
    report = Report()
    looks = followed(partition, appending(log, B[:30]), roll(partition, 6, C), report=report)
    assert looks[1] == []
    assert [row["type"] for row in looks[2]] == ["damage"] + ["record"] * 3
    assert (looks[2][0]["reason"], looks[2][0]["position"], looks[2][0]["size_bytes"]) == ("torn-tail", len(A), 30)
    assert (report.exit_status, report.bytes) == (4, len(A) + 30 + len(C))


def test_damage_is_told_once(partition: Path, log: Path) -> None:
    broken = B[:-1] + bytes([B[-1] ^ 0xFF])
    looks = followed(partition, appending(log, broken + C), nothing)
    assert [[row["type"] for row in look] for look in looks] == [["record"] * 3, ["damage"] + ["record"] * 3, []]


def test_a_truncation_is_told(partition: Path, log: Path) -> None:
    """A follower truncates to the leader's log: what comes then starts at the new end."""
    report = Report()
    looks = followed(
        partition, appending(log, B), lambda: os.truncate(log, len(A)), appending(log, B + C), report=report
    )
    assert [row["code"] for row in looks[2]] == ["file.shrank"]
    assert offsets_of(looks[3]) == [3, 4, 5, 6, 7, 8]
    assert report.exit_status == 0


# --- logs that are cut and written again ------------------------------------------------------------------------------
def anew(log: Path, size: int, data: bytes) -> Callable[[], object]:
    """Cut a log and append, as a follower does between two looks."""

    def write() -> None:
        os.truncate(log, size)
        appending(log, data)()

    return write


def other(first: int, count: int = 3) -> bytes:
    """What another leader has at these offsets."""
    return batch_v2(records(first, count, size=9), leader_epoch=5)


def shown(look: list[Row]) -> list[tuple[int, int] | str]:
    """Offsets with the sizes of their values, and the codes of findings."""
    return [
        (row["offset"], len(row["value"])) if row["type"] == "record" else row.get("code", "damage") for row in look
    ]


@pytest.mark.parametrize("more", [1, 3, 40])
def test_a_log_that_is_longer_than_before(partition: Path, log: Path, more: int) -> None:
    """B was cut, and others came: all of them are shown, and none of what is still the same."""
    report = Report()
    news = b"".join(other(3 + 3 * number) for number in range(more))
    looks = followed(partition, appending(log, B), anew(log, len(A), news), appending(log, C), report=report)
    assert shown(looks[2]) == ["file.shrank", *((offset, 9) for offset in range(3, 3 + 3 * more))]
    assert (report.damage_count, report.exit_status) == (0, 0)
    assert offsets_of(looks[3]) == [6, 7, 8]


def test_a_log_that_is_shorter_than_before(partition: Path, log: Path) -> None:
    looks = followed(partition, appending(log, B + C), anew(log, len(A), other(3)))
    assert shown(looks[2]) == ["file.shrank", (3, 9), (4, 9), (5, 9)]


def test_a_log_of_the_same_size_as_before(partition: Path, log: Path) -> None:
    same = batch_v2(records(3, 3), leader_epoch=5)
    assert len(same) == len(B)
    looks = followed(partition, appending(log, B), anew(log, len(A), same))
    assert shown(looks[2]) == ["file.shrank", (3, 5), (4, 5), (5, 5)]


def test_a_log_that_was_emptied(partition: Path, log: Path) -> None:
    looks = followed(partition, anew(log, 0, other(0, 1)), anew(log, 0, b""), appending(log, A))
    assert [shown(look) for look in looks[1:]] == [
        ["file.shrank", (0, 9)],
        ["file.shrank"],
        [(0, 5), (1, 5), (2, 5)],
    ]


def test_what_was_cut_and_comes_again_is_no_news(partition: Path, log: Path) -> None:
    """The follower has fetched the very batch that it had."""
    looks = followed(partition, appending(log, B), anew(log, len(A), B), anew(log, len(A), B + C))
    assert [shown(look) for look in looks[2:]] == [[], [(6, 5), (7, 5), (8, 5)]]


def test_a_cut_far_back(partition: Path, log: Path) -> None:
    """Of old batches some are remembered: some rows may be shown again, and all that are new are."""
    batches = [batch_v2(records(3 + number, 1)) for number in range(1000)]
    before = len(A + b"".join(batches[:300]))
    news = b"".join(other(303 + number, 1) for number in range(900))
    looks = followed(partition, appending(log, b"".join(batches)), anew(log, before, news))
    code, *rows = shown(looks[2])
    assert code == "file.shrank"
    again = [row for row in rows if row[1] == 5]
    assert rows == [*again, *((303 + number, 9) for number in range(900))]
    assert len(again) < 64
    assert again == [(303 - len(again) + number, 5) for number in range(len(again))]


def test_a_cut_into_an_earlier_segment(partition: Path, log: Path) -> None:
    """The later segment goes, the earlier one is cut and goes on."""
    last = partition / f"{6:020d}.log"

    def cut() -> None:
        last.unlink()
        anew(log, len(A), other(3))()

    looks = followed(partition, appending(log, B), roll(partition, 6, C), cut, appending(log, C))
    assert shown(looks[3]) == ["file.shrank", (3, 9), (4, 9), (5, 9)]
    assert offsets_of(looks[4]) == [6, 7, 8]


def test_a_cut_into_an_earlier_segment_and_another_roll(partition: Path, log: Path) -> None:
    last = partition / f"{6:020d}.log"

    def cut() -> None:
        last.unlink()
        os.truncate(log, len(A))
        roll(partition, 3, other(3))()

    looks = followed(partition, appending(log, B), roll(partition, 6, C), cut)
    assert shown(looks[3]) == ["file.shrank", (3, 9), (4, 9), (5, 9)]


def test_a_log_that_starts_anew_before_what_was_read(partition: Path, log: Path) -> None:
    def anew_at_an_earlier_offset() -> None:
        for path in partition.glob("*.log"):
            path.unlink()
        roll(partition, 4, other(4))()

    looks = followed(partition, roll(partition, 6, C), anew_at_an_earlier_offset)
    assert shown(looks[2]) == ["file.shrank", (4, 9), (5, 9), (6, 9)]


def test_kafka_07_that_is_cut(tmp_path: Path) -> None:
    one, two, three = (message_v07(b"%d" % n) for n in range(3))
    partition = write_segments(tmp_path / "topic-0", {1000: one + two}, suffix="kafka")
    file = partition / f"{1000:020d}.kafka"
    looks = followed(partition, anew(file, len(one), three + three))
    assert [row.get("code", row.get("value")) for row in looks[1]] == ["file.shrank", b"2", b"2"]


# --- ends -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("limit", "expected"), [(2, [0, 1]), (3, [0, 1, 2]), (4, [0, 1, 2, 3]), (1500, range(1500))])
def test_a_limit_ends_it(partition: Path, log: Path, limit: int, expected: list[int]) -> None:
    many = batch_v2(records(3, 2000), codec=GZIP)

    def wait() -> None:
        assert log.stat().st_size == len(A), "it should have ended"
        appending(log, many)()

    request = DumpRequest(targets=tuple(resolve([str(partition)])), level="records", limit=limit)
    rows = [row for chunk in follow(request, Report(), wait) for row in chunk.rows()]
    assert offsets_of(rows) == list(expected)


@pytest.mark.parametrize("request_", [{"committed": "log-end"}, {"level": "segments"}])
def test_what_cannot_be_followed(partition: Path, request_: dict[str, Any]) -> None:
    with pytest.raises(SelectionError, match="can be followed"):
        followed(partition, **request_)


def test_nothing_to_follow(partition: Path) -> None:
    with pytest.raises(SelectionError, match="no log among the targets"):
        followed(partition / f"{0:020d}.index")


def test_a_pattern_that_is_none_is_refused_at_once(partition: Path) -> None:
    with pytest.raises(SelectionError):
        followed(partition, filters=Filters(key_regex="("))


# --- the end, and what is held back until then ------------------------------------------------------------------------
def followed_to_the_end(
    path: Path, *steps: Callable[[], object], report: Report | None = None, **request: Any
) -> list[Row]:
    """All rows, with those of the end: the steps are taken between looks, and then the following is over."""
    left = list(steps)

    def wait() -> bool:
        if not left:
            return True
        left.pop(0)()
        return False

    asked = DumpRequest(targets=tuple(resolve([str(path)])), **{"level": "records", **request})
    chunks = follow(asked, report or Report(), wait, targets=lambda: resolve([str(path)]))
    return [row for chunk in chunks for row in chunk.rows()]


@pytest.mark.parametrize("level", ["batches", "records"])
def test_a_torn_tail_is_told_at_the_end(partition: Path, log: Path, level: str) -> None:
    report = Report()
    *_, last = followed_to_the_end(partition, appending(log, B[:30]), nothing, report=report, level=level)
    assert (last["type"], last["reason"], last["severity"]) == ("damage", "torn-tail", "error")
    assert (last["position"], last["size_bytes"], last["next_offset"]) == (len(A), 30, 3)
    assert (report.exit_status, report.bytes, report.damage_count) == (4, len(A) + 30, 1)


def test_nothing_is_told_at_the_end_of_a_tail_that_was_completed(partition: Path, log: Path) -> None:
    report = Report()
    rows = followed_to_the_end(partition, appending(log, B[:30]), appending(log, B[30:]), report=report)
    assert offsets_of(rows) == [0, 1, 2, 3, 4, 5]
    assert report.damage_count == 0


def test_a_tail_that_was_completed_since_the_last_look(partition: Path, log: Path) -> None:
    torn = iter([appending(log, B[:30]), nothing])

    def wait() -> bool:
        step = next(torn, None)
        if step is None:
            appending(log, B[30:])()
            return True
        step()
        return False

    request = DumpRequest(targets=tuple(resolve([str(partition)])), level="records")
    rows = [row for chunk in follow(request, Report(), wait) for row in chunk.rows()]
    assert [row["type"] for row in rows] == ["record"] * 3


def test_preallocated_zeros_are_told_at_the_end(tmp_path: Path) -> None:
    home = tmp_path / "data"
    write_segments(home / "topic-0", {0: A + bytes(1000)})
    (home / "meta.properties").write_text("version=0\nbroker.id=1\n")
    *_, last = followed_to_the_end(home)
    assert (last["reason"], last["size_bytes"], last["severity"]) == ("zero-filled", 1000, "info")


def test_it_ends_behind_the_chunk_in_hand(partition: Path, log: Path) -> None:
    appending(log, B[:30])()
    write_segments(partition.with_name("topic-1"), {0: C})
    request = DumpRequest(
        targets=tuple(resolve([str(partition), str(partition.with_name("topic-1"))])), level="records"
    )
    rows = [row for chunk in follow(request, Report(), nothing, is_over=lambda: True) for row in chunk.rows()]
    assert [(row["type"], row["partition"]) for row in rows] == [("record", 0)] * 3


# --- partitions that come and go --------------------------------------------------------------------------------------
@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_segments(tmp_path / "data" / "topic-0", {0: A})
    (tmp_path / "data" / "meta.properties").write_text("version=0\nbroker.id=1\n")
    return tmp_path / "data"


def test_a_partition_that_is_made_later(home: Path) -> None:
    report = Report()
    made = home / "made-later-3"
    rows = followed_to_the_end(
        home,
        lambda: write_segments(made, {0: A}),
        appending(made / f"{0:020d}.log", B),
        report=report,
    )
    assert [(row["topic"], row["offset"]) for row in rows] == [("topic", n) for n in range(3)] + [
        ("made-later", n) for n in range(6)
    ]
    assert report.partitions == 2


def test_a_partition_that_is_about_to_be_deleted_is_not_read_again(home: Path) -> None:
    gone = home / f"topic-0.{'0' * 32}-delete"
    assert offsets_of(followed_to_the_end(home, lambda: (home / "topic-0").rename(gone), nothing)) == [0, 1, 2]


def test_a_log_directory_that_cannot_be_listed_for_a_while(home: Path) -> None:
    away = home.with_name("away")

    def back() -> None:
        away.rename(home)
        appending(home / "topic-0" / f"{0:020d}.log", B)()

    rows = followed_to_the_end(home, lambda: home.rename(away), nothing, back, nothing)
    assert offsets_of(rows) == [0, 1, 2, 3, 4, 5]


def test_the_summary_counts_partitions(home: Path, log: Path) -> None:
    report = Report()
    followed_to_the_end(home, report=report)
    summary = report.summary_row()
    assert (summary["partitions"], summary["partitions_total"], summary["files"], summary["files_total"]) == (
        1,
        1,
        1,
        1,
    )
    report = Report()
    followed_to_the_end(log, report=report)
    assert report.summary_row()["partitions"] == 0


# --- a file by itself -------------------------------------------------------------------------------------------------
def test_the_roll_of_a_file_by_itself(log: Path, partition: Path) -> None:
    def both() -> None:
        appending(log, B)()
        roll(partition, 6, C)()

    rows = followed_to_the_end(log, both, nothing)
    assert offsets_of(rows) == [0, 1, 2, 3, 4, 5]
    (told,) = [row for row in rows if row["type"] == "finding"]
    assert (told["code"], told["severity"], told["offset"], told["topic"]) == ("file.rolled", "info", 6, "topic")
    assert "at offset 6 in 00000000000000000006.log" in told["message"]


def test_a_torn_tail_of_a_file_by_itself_before_a_roll(log: Path, partition: Path) -> None:
    rows = followed_to_the_end(log, appending(log, B[:30]), roll(partition, 6, C), nothing)
    assert [row["type"] for row in rows] == ["record"] * 3 + ["damage", "finding"]


def test_files_by_name_that_are_followed_one_behind_the_other(log: Path, partition: Path) -> None:
    rows = followed_to_the_end(partition / "*.log", roll(partition, 3, B), appending(partition / f"{3:020d}.log", C))
    assert offsets_of(rows) == list(range(9))
    assert {row["type"] for row in rows} == {"record"}


# --- what cannot be read ----------------------------------------------------------------------------------------------
@pytest.fixture
def unreadable(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Paths that the system refuses to open; the tests may run as root."""
    refused: set[str] = set()
    opened = Source.open

    def open_(path: str) -> Source:
        if str(path) in refused:
            raise AccessError("no permission to read it", path=str(path))
        return opened(path)

    monkeypatch.setattr(Source, "open", open_)
    return refused


def test_a_segment_that_cannot_be_read(home: Path, unreadable: set[str]) -> None:
    report = Report()
    write_segments(home / "topic-1", {0: A, 3: B, 6: C})
    unreadable.add(str(home / "topic-1" / f"{3:020d}.log"))
    rows = followed_to_the_end(home, nothing, report=report)
    assert [(row["partition"], row.get("offset"), row.get("code")) for row in rows] == [
        *[(0, n, None) for n in range(3)],
        *[(1, n, None) for n in range(3)],
        (1, None, "file.not-readable"),
        *[(1, n, None) for n in range(6, 9)],
    ]
    assert report.exit_status == 4


def test_a_segment_that_can_be_read_again(partition: Path, log: Path, unreadable: set[str]) -> None:
    def close() -> None:
        appending(log, B)()
        unreadable.add(str(log))

    rows = followed_to_the_end(partition, close, nothing, unreadable.clear, nothing)
    assert [row["type"] for row in rows] == ["record"] * 3 + ["finding"] + ["record"] * 3


def test_a_file_by_itself_that_cannot_be_read(log: Path, unreadable: set[str]) -> None:
    rows = followed_to_the_end(log, lambda: unreadable.add(str(log)), nothing)
    assert [row["type"] for row in rows] == ["record"] * 3 + ["finding"]
    request = DumpRequest(targets=tuple(resolve([str(log.parent)])), level="records")
    (target,) = [FileTarget(file=FileInfo.of(str(log), log.stat()), kind=FileKind.LOG, topic="topic", partition=0)]
    unreadable.add(str(log))
    with pytest.raises(AccessError):
        list(follow(replace(request, targets=(target,)), Report(), lambda: True))


def test_a_directory_that_cannot_be_listed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_segments(home / "topic-1", {0: A})
    listed = follow_module.read_partition

    def read(path: str) -> object:
        if path.endswith("topic-0"):
            raise AccessError("no permission to read it", path=path)
        return listed(path)

    monkeypatch.setattr(follow_module, "read_partition", read)
    rows = followed_to_the_end(home, nothing)
    assert [(row["type"], row.get("code")) for row in rows] == [("finding", "dir.unreadable")] + [("record", None)] * 3
