"""What retention has taken away, before the last judge: a real broker starts on the rest, and serves it and no more."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING

import pytest

from tests.integration import clients
from tests.integration.records import dump
from tests.integration.repairing import CLEAN, CUTS, RECOVERS, UNCLEAN, lines_with, put, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.integration.broker import Broker
    from tests.integration.records import Record
    from tests.integration.repairing import Done

pytestmark = [pytest.mark.java, pytest.mark.slow]

TOPIC = "retained"
COUNT = 60
TEN_YEARS_MS = 10 * 365 * 24 * 3_600_000


@pytest.fixture
def stopped(broker_of_release: Broker) -> Broker:
    """A broker that stopped cleanly, with a topic of many segments."""
    asyncio.run(_write(broker_of_release))
    broker_of_release.stop()
    return broker_of_release


async def _write(broker: Broker) -> None:
    await clients.create_topic(broker, TOPIC, {broker.segment_bytes: broker.roll_bytes})
    await clients.send_everything(broker, random.Random(TOPIC), TOPIC, COUNT)
    await clients.settle_transactions(broker, TOPIC)


def _retain(broker: Broker, *arguments: str | int) -> Done:
    # The topic's settings are not on the disk of a broker with ZooKeeper
    zookeeper = (broker.work_dir / "zookeeper",) if broker.release == "2.8" else ()
    options = ("--config", broker.config, "--kafka", broker.release, "--topic", TOPIC)
    done = run("retain", broker.partition_dir(TOPIC), *zookeeper, *options, *map(str, arguments))
    assert done.status == 0, (done.rows, done.errors)
    return done


def _forecast(broker: Broker, *arguments: str | int) -> dict[str, object]:
    return next(row for row in _retain(broker, *arguments).rows if row["type"] == "retention")


def _records(broker: Broker, *, committed: bool = False) -> list[Record]:
    options = ("--records", *(("--committed",) if committed else ()))
    return dump(*options, broker.partition_dir(TOPIC)).records()


async def _consumed(broker: Broker) -> tuple[list[Record], list[Record]]:
    return await clients.read_all(broker, TOPIC), await clients.read_all(broker, TOPIC, committed=True)


def _serves(broker: Broker, expected: tuple[list[Record], list[Record]]) -> None:
    """Start the broker: it finds nothing to be done, and consumers of both kinds get these records."""
    broker.start()
    assert lines_with(broker, [CLEAN])
    assert lines_with(broker, [UNCLEAN, *RECOVERS, *CUTS, "ERROR"]) == []
    assert asyncio.run(_consumed(broker)) == expected


def _from(records: list[Record], offset: int) -> list[Record]:
    return [record for record in records if record.offset >= offset]


def _bases(directory: Path) -> list[int]:
    return sorted(int(path.stem) for path in directory.glob("*.log"))


def test_a_broker_starts_on_what_is_left_and_serves_what_was_foretold(stopped: Broker) -> None:
    directory = stopped.partition_dir(TOPIC)
    half = sum(path.stat().st_size for path in directory.glob("*.log")) // 2
    row = _forecast(stopped, "--retention-bytes", half)
    start = row["new_log_start_offset"]
    assert isinstance(start, int)
    assert 0 < start < int(str(row["log_end_offset"]))
    expected = (_from(_records(stopped), start), _from(_records(stopped, committed=True), start))
    _retain(stopped, "--retention-bytes", half, "--apply")
    assert _bases(directory)[0] == start
    assert run("verify", stopped.log_dir).status == 0
    _serves(stopped, expected)
    stopped.stop()
    assert run("verify", stopped.log_dir).status == 0
    assert _records(stopped) == expected[0]


@pytest.mark.parametrize("share", [2, 0])
def test_what_a_broker_deletes_is_foretold_and_made(stopped: Broker, tmp_path: Path, share: int) -> None:
    """The same settings for kafkalog and for the broker, which checks every 200 ms; half of the log or all of it."""
    directory = stopped.partition_dir(TOPIC)
    size_bytes = sum(path.stat().st_size for path in directory.glob("*.log"))
    with stopped.config.open("a") as config:
        config.write(f"log.retention.bytes={size_bytes // share if share else 0}\n")
    foretold = [row["base_offset"] for row in _retain(stopped).rows if row.get("verdict") == "delete"]
    there = _bases(directory)
    assert foretold
    put(stopped.log_dir, tmp_path / "before")
    stopped.start()
    _wait_until(lambda: not set(foretold) & set(_bases(directory)))
    stopped.stop()
    waiting = {f"{base:020}.snapshot" for base in foretold}  # 2.8 deletes them with the files, after the delay
    real = {name: content for name, content in _left(directory).items() if name not in waiting}
    assert [base for base in there if base not in foretold] == [base for base in _bases(directory) if base in there]
    put(tmp_path / "before", stopped.log_dir)
    _retain(stopped, "--apply")
    assert _left(directory) == real


def _left(directory: Path) -> dict[str, bytes]:
    """Logs and snapshots; indexes of a segment that nobody has written to are not made by all releases."""
    names = [*directory.glob("*.log"), *directory.glob("*.snapshot")]
    return {path.name: path.read_bytes() for path in sorted(names)}


def _wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize("is_all", [False, True])
def test_zeros_at_the_end_of_a_time_index_are_the_time_0(stopped: Broker, is_all: bool) -> None:
    """The broker trusts the index after a clean shutdown, that of the active segment too: 2.3 and later."""
    directory = stopped.partition_dir(TOPIC)
    with stopped.config.open("a") as config:
        config.write(f"log.retention.ms={TEN_YEARS_MS}\n")
    there = _bases(directory)
    assert all(row.get("verdict") != "delete" for row in _retain(stopped).rows)
    for base in there if is_all else there[:1]:
        index = directory / f"{base:020}.timeindex"
        index.write_bytes(index.read_bytes() + bytes(12))
    rows = [row for row in run("verify", stopped.log_dir).rows if row.get("code") == "timeindex.zero-entries"]
    assert len(rows) == (len(there) if is_all else 1)
    foretold = [row["base_offset"] for row in _retain(stopped).rows if row.get("verdict") == "delete"]
    assert foretold == (there if is_all else there[:1])
    stopped.start()
    _wait_until(lambda: not set(foretold) & set(_bases(directory)))
    stopped.stop()
    assert [base for base in _bases(directory) if base in there] == [base for base in there if base not in foretold]


def test_where_all_went_the_log_goes_on_at_its_end(stopped: Broker) -> None:
    directory = stopped.partition_dir(TOPIC)
    end = int(str(_forecast(stopped, "--retention-bytes", 0)["log_end_offset"]))
    _retain(stopped, "--retention-bytes", 0, "--apply")
    assert _bases(directory) == [end]
    _serves(stopped, ([], []))
    asyncio.run(clients.send_everything(stopped, random.Random("new"), TOPIC, COUNT))
    asyncio.run(clients.settle_transactions(stopped, TOPIC))
    now = asyncio.run(_consumed(stopped))
    assert now[0]
    assert now[0][0].offset == end
    stopped.stop()
    assert (_records(stopped), _records(stopped, committed=True)) == now
    assert run("verify", stopped.log_dir).status == 0


def test_a_log_start_inside_of_a_batch_counts(stopped: Broker) -> None:
    wanted = _bases(stopped.partition_dir(TOPIC))[2] + 1
    expected = (_from(_records(stopped), wanted), _from(_records(stopped, committed=True), wanted))
    _retain(stopped, "--log-start-offset", wanted, "--apply")
    assert len([base for base in _bases(stopped.partition_dir(TOPIC)) if base < wanted]) == 1
    _serves(stopped, expected)


def test_what_was_deleted_comes_back(stopped: Broker, tmp_path: Path) -> None:
    expected = (_records(stopped), _records(stopped, committed=True))
    put(stopped.log_dir, tmp_path / "before")
    _retain(stopped, "--retention-bytes", 0, "--apply")
    assert run("undo", stopped.log_dir, "--apply").status == 0
    assert _bases(stopped.partition_dir(TOPIC)) == _bases(tmp_path / "before" / f"{TOPIC}-0")
    _serves(stopped, expected)
