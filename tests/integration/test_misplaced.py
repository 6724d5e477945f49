"""What consumers get of a real broker and of `serve` where a log contradicts itself, and what `dump --committed` shows.

Each log is read from both by the Java consumer, librdkafka and kafka-python, with their default settings.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from tests.integration import client_table, clients
from tests.integration.broker import Broker
from tests.support import serving
from tests.support.build import Record, batch_v2, offset_checkpoint
from tests.support.logs import dump_rows
from tests.support.truncating import write_log

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from tests.integration.client_table import Got

pytestmark = [pytest.mark.java, pytest.mark.slow]


def batch(first: int, last: int, source: str = "v", **fields: Any) -> bytes:
    """A batch with values that name their offsets, and where they come from."""
    values = ((at, f"{source}{at}".encode()) for at in range(first, last + 1))
    return batch_v2([Record(offset=at, timestamp_ms=1000 + at, value=value) for at, value in values], **fields)


def below_zero(data: bytes) -> bytes:
    """The batch with a base offset of -9."""
    return (-9).to_bytes(8, "big", signed=True) + data[8:]


class Log(NamedTuple):
    """Segments by base offset, and the log end offset that a broker finds."""

    segments: dict[int, list[bytes]]
    end: int


START: Final = [batch(0, 1), batch(2, 3)]
SAME: Final = {
    "raised": Log({0: [batch(0, 1), batch(20, 21), batch(4, 5), batch(6, 7)]}, 8),
    "raised-first": Log({0: [batch(20, 21), batch(2, 3), batch(4, 5)]}, 6),
    "raised-into-the-next": Log({0: [batch(0, 1), batch(4, 5), batch(2, 3)], 4: [batch(4, 5), batch(6, 7)]}, 8),
    "raised-last": Log({0: [*START, batch(40, 41)]}, 42),
    "lowered": Log({0: START, 4: [batch(4, 5), batch(0, 1), batch(8, 9)]}, 10),
    "below-zero": Log({0: [batch(0, 1), below_zero(batch(2, 3)), batch(4, 5)]}, 6),
    "twice-at-the-end": Log({0: [*START, batch(2, 3)]}, 4),
    "leader-epoch": Log({0: [batch(0, 1), batch(2, 3, leader_epoch=7), batch(4, 5)]}, 6),
    "copied": Log(
        {0: [batch(0, 1)], 2: [batch(2, 3), batch(4, 5)], 3: [batch(2, 3, "w"), batch(4, 5, "w")], 6: [batch(6, 7)]}, 8
    ),
    "contained": Log({0: [*START, batch(4, 5)], 2: [batch(2, 3, "w")], 6: [batch(6, 7)]}, 8),
    "across": Log({0: START, 2: [batch(2, 6, "w")], 7: [batch(7, 9)]}, 10),
}
"""Logs of which consumers get the same from a broker and from serve."""
ASTRAY: Final = {
    "raised-at-a-segment-end": Log({0: [batch(0, 1), batch(40, 41)], 4: [batch(4, 5), batch(6, 7)]}, 8),
    "lowered-at-a-segment-end": Log({0: [*START, batch(0, 1)], 4: [batch(4, 5)]}, 6),
    "lowered-at-the-log-end": Log({0: [*START, batch(4, 5), batch(2, 3)]}, 4),
}
"""Logs with a batch after which a consumer of a broker goes on elsewhere."""
LOGS: Final = SAME | ASTRAY
OTHERS: Final = ("librdkafka", "kafka-python")
_AT_A_TIME: Final = 2


class Reading(NamedTuple):
    """What each client gets of each log from a broker and from serve, by topic; and what `dump --committed` shows.

    `small`: what the Java consumer gets from the broker with the smallest fetches.
    """

    real: dict[str, dict[str, Got]]
    served: dict[str, dict[str, Got]]
    small: dict[str, Got]
    dumped: dict[str, tuple[str, ...]]


def _read(libs: Path, bootstrap: str) -> dict[str, dict[str, Got]]:
    java = client_table.read_with_java(libs, bootstrap, list(LOGS))
    found = {name: {"java": got} for name, got in zip(LOGS, java, strict=True)}
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        places = [(name, client) for name in LOGS for client in OTHERS]
        got = pool.map(lambda place: client_table.read_apart(place[1], bootstrap, place[0]), places)
        for (name, client), each in zip(places, got, strict=True):
            found[name][client] = each
    return found


def _dumped(directory: Path) -> tuple[str, ...]:
    rows = dump_rows(directory, level="records", committed="log-end")
    return tuple(row["value"].decode() for row in rows if row["type"] == "record")


def _lay(broker: Broker) -> None:
    """Put the logs in place of those of a broker that was stopped."""
    for name, log in LOGS.items():
        place = broker.partition_dir(name)
        for path in place.glob("0*"):
            path.unlink()
        write_log(place, log.segments)
        for path in place.glob("*index"):
            path.write_bytes(b"")
    ends = [(name, 0, log.end) for name, log in LOGS.items()]
    (broker.log_dir / "replication-offset-checkpoint").write_bytes(offset_checkpoint(ends))


async def _create(broker: Broker, names: Iterable[str]) -> None:
    for name in names:
        await clients.create_topic(broker, name, {})


@pytest.fixture(scope="module")
def reading(libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Reading:
    """Everything is read once: first from serve, which changes nothing."""
    broker = Broker(libs, tmp_path_factory.mktemp("broker"))
    try:
        broker.start()
        asyncio.run(_create(broker, LOGS))
        broker.stop()
        _lay(broker)
        places = {name: broker.partition_dir(name) for name in LOGS}
        dumped = {name: _dumped(place) for name, place in places.items()}
        with serving.serving(*places.values()) as ours:
            served = _read(libs, serving.address(ours))
        broker.start()
        real = _read(libs, broker.bootstrap)
        small = client_table.read_with_java(libs, broker.bootstrap, list(LOGS), "-Dfetch=1")
        return Reading(real, served, dict(zip(LOGS, small, strict=True)), dumped)
    finally:
        broker.close()


def _is_part_of(some: Sequence[str], every: Sequence[str]) -> bool:
    rest = iter(every)
    return all(each in rest for each in some)


@pytest.mark.parametrize("name", SAME)
def test_serve_sends_what_a_broker_sends(reading: Reading, name: str) -> None:
    """The Java consumer gets more from serve, which sends less after a raised batch at a time."""
    real, served = reading.real[name], reading.served[name]
    assert served["librdkafka"].values == real["librdkafka"].values == reading.dumped[name]
    assert served["kafka-python"].values == real["kafka-python"].values
    assert _is_part_of(real["java"].values, served["java"].values)
    assert _is_part_of(served["java"].values, reading.dumped[name])
    assert {each.position for each in (*real.values(), *served.values())} == {SAME[name].end}


def test_java_drops_what_a_raised_batch_has_passed(reading: Reading) -> None:
    """Of a broker it drops the rest of the answer, of serve one batch."""
    assert reading.real["raised"]["java"].values == ("v0", "v1", "v20", "v21")
    assert reading.served["raised"]["java"].values == ("v0", "v1", "v20", "v21", "v6", "v7")


def test_small_fetches_of_overlapping_segments_are_answered_from_the_later_one(reading: Reading) -> None:
    assert reading.real["copied"]["java"].values == ("v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7")
    assert reading.small["copied"].values == ("v0", "v1", "v2", "v3", "w4", "w5", "v6", "v7")


def test_a_consumer_goes_on_at_the_offsets_of_an_astray_batch(reading: Reading) -> None:
    """So it is a hole in serve: all others are read."""
    raised, lowered, last = (reading.real[name] for name in ASTRAY)
    assert all(got.values[:4] == ("v0", "v1", "v40", "v41") for got in raised.values())
    assert not any({"v4", "v6"} & set(got.values) for got in raised.values())
    again = [client for client, got in lowered.items() if got.values.count("v2") > 2]
    assert again == ["java", "kafka-python"]
    assert all(got.position == ASTRAY["lowered-at-the-log-end"].end for got in last.values())
    assert reading.small["lowered-at-the-log-end"].values == ("v0", "v1", "v2", "v3")
    for name, values in zip(ASTRAY, ("v0 v1 v4 v5 v6 v7", "v0 v1 v2 v3 v4 v5", "v0 v1 v2 v3 v4 v5"), strict=True):
        assert {got.values for got in reading.served[name].values()} == {tuple(values.split())}, name
        assert reading.dumped[name] == tuple(values.split())
