"""`--follow`: what is there, then what comes, over rolls and deletions, with a tail held back until it is whole."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.errors import SelectionError
from kafkalog_core.ops.dump import DumpRequest
from kafkalog_core.ops.follow import follow
from kafkalog_core.ops.report import Report
from kafkalog_core.ops.select import Filters
from kafkalog_core.ops.targets import resolve
from tests.build import COMMIT, GZIP, batch_v2, message_v07, txn_marker
from tests.ops.logs import Row, offsets_of, records, write_segments

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
