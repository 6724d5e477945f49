"""Logs in other segments before the last judge: a real broker starts on them, and its own rolls are foretold."""

from __future__ import annotations

import asyncio
import random
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.integration import clients
from tests.integration.records import dump
from tests.integration.repairing import CLEAN, CUTS, RECOVERS, UNCLEAN, lines_with, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.integration.broker import Broker
    from tests.integration.records import Record
    from tests.integration.repairing import Done

pytestmark = [pytest.mark.java, pytest.mark.slow]

TOPIC = "rolled"
COUNT = 60
OF_SEGMENTS = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


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


def _roll(broker: Broker, *arguments: str | Path, segment_bytes: str | None = None) -> Done:
    size = segment_bytes or broker.roll_bytes
    setting = f"{TOPIC}:{broker.segment_bytes}={size}"
    options = ("--config", broker.config, "--kafka", broker.release, "--topic-config", setting)
    done = run("roll", *arguments, *options)
    assert done.status == 0, (done.rows, done.errors)
    return done


def _rolling(done: Done) -> dict[str, object]:
    """The row of the topic."""
    return next(row for row in done.rows if row["type"] == "rolling" and row["topic"] == TOPIC)


def _files(directory: Path, suffixes: tuple[str, ...] = OF_SEGMENTS) -> dict[str, bytes]:
    """Of the partition; an index that a broker has not used yet is not there, or empty."""
    files = [path for path in sorted((directory / f"{TOPIC}-0").iterdir()) if path.suffix in suffixes]
    return {path.name: path.read_bytes() for path in files}


def _filled(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: content for name, content in files.items() if content}


def _serves(broker: Broker, read: Callable[[], tuple[list[Record], list[Record]]]) -> None:
    """Start the broker: it finds nothing to be done, and consumers of both kinds get what is read from the disk."""
    expected = read()
    broker.start()
    assert lines_with(broker, [CLEAN])
    assert lines_with(broker, [UNCLEAN, *RECOVERS, *CUTS, "ERROR"]) == []
    consumed = (
        asyncio.run(clients.read_all(broker, TOPIC)),
        asyncio.run(clients.read_all(broker, TOPIC, committed=True)),
    )
    assert consumed == expected


def _promised(directory: Path) -> tuple[list[Record], list[Record]]:
    return dump("--records", directory).records(), dump("--records", "--committed", directory).records()


def test_the_rolls_of_a_broker_are_foretold_and_made_byte_for_byte(stopped: Broker, tmp_path: Path) -> None:
    real = _files(stopped.log_dir)
    row = _rolling(_roll(stopped, stopped.log_dir))
    assert row["segments_after"] == row["segments_before"] == row["same_bases"]
    assert isinstance(row["segments_after"], int)
    assert row["segments_after"] > 5
    _roll(stopped, stopped.log_dir, "--apply", "--to", tmp_path / "again")
    made = _files(tmp_path / "again")
    assert {name for name in made if name.endswith(".snapshot")} == {name for name in real if ".snapshot" in name}
    for name, content in _filled(real).items():
        assert made[name] == content, name
    assert _filled(made).keys() == _filled(real).keys()


def test_a_broker_starts_on_other_segments_and_serves_the_same_records(stopped: Broker, tmp_path: Path) -> None:
    before = _promised(stopped.partition_dir(TOPIC))
    target = tmp_path / "other"
    row = _rolling(_roll(stopped, stopped.log_dir, "--apply", "--to", target, segment_bytes="2500"))
    assert isinstance(row["segments_after"], int)
    assert isinstance(row["segments_before"], int)
    assert row["segments_after"] > row["segments_before"]
    assert run("verify", target).status == 0
    shutil.rmtree(stopped.log_dir)
    shutil.move(target, stopped.log_dir)
    made = _files(stopped.log_dir)
    _serves(stopped, lambda: before)
    stopped.stop()
    after = _files(stopped.log_dir)
    assert after == made
    assert _promised(stopped.partition_dir(TOPIC)) == before
    assert run("verify", stopped.log_dir).status == 0


def test_a_log_in_other_segments_takes_new_records(stopped: Broker, tmp_path: Path) -> None:
    before = _promised(stopped.partition_dir(TOPIC))[0]
    target = tmp_path / "other"
    _roll(stopped, stopped.log_dir, "--apply", "--to", target, segment_bytes="20000")
    shutil.rmtree(stopped.log_dir)
    shutil.move(target, stopped.log_dir)
    stopped.start()
    asyncio.run(clients.send_everything(stopped, random.Random("more"), TOPIC, COUNT))
    now = asyncio.run(clients.read_all(stopped, TOPIC))
    assert now[: len(before)] == before
    stopped.stop()
    assert run("verify", stopped.log_dir).status == 0
    assert _promised(stopped.partition_dir(TOPIC))[0] == now


def test_what_a_running_broker_writes_to_is_not_copied(broker_of_release: Broker, tmp_path: Path) -> None:
    asyncio.run(clients.create_topic(broker_of_release, TOPIC, {}))
    done = run("roll", broker_of_release.log_dir, "--apply", "--to", tmp_path / "copy", "--kafka", "4.3")
    assert done.status == 3
    assert "Stop" in done.errors
    assert not (tmp_path / "copy").exists()
