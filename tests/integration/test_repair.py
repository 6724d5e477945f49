"""Repaired directories before the last judge: a real broker starts on them and must find nothing left to do."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.integration import clients
from tests.integration.records import KAFKALOG, Record, dump

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.broker import Broker

pytestmark = [pytest.mark.java, pytest.mark.slow]

TOPICS = ("orders", "payments", "untouched")
COUNT = 60
INTERVAL = "500"  # bytes between two entries of an index, so that small segments have some
SET = ("--set", f"log.index.interval.bytes={INTERVAL}")
RECOVERS = (
    "Recovering unflushed",
    "recovering segment",
    "rebuilding",
    "Corruption found",
    "Deleting segment",
    "truncating",
)
METADATA = "__cluster_metadata"


@dataclass(frozen=True, slots=True)
class Done:
    """One run of a command."""

    status: int
    rows: list[dict[str, object]]
    errors: str


def run(*arguments: str | Path) -> Done:
    """Run `kafkalog` in a process of its own."""
    command = [*KAFKALOG, *map(str, arguments), "--output", "ndjson"]
    done = subprocess.run(command, capture_output=True, check=False, timeout=120, text=True)
    assert "Traceback" not in done.stderr
    return Done(done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr)


def repair(*arguments: str | Path) -> Done:
    """A command that must come to its end."""
    done = run(*arguments)
    assert done.status == 0, (done.rows, done.errors)
    return done


async def _write(broker: Broker) -> None:
    settings = {broker.segment_bytes: broker.roll_bytes, "index.interval.bytes": INTERVAL}
    for topic in TOPICS:
        await clients.create_topic(broker, topic, settings)
        await clients.send_everything(broker, random.Random(topic), topic, COUNT)


def _segments(broker: Broker, topic: str, suffix: str = ".log") -> list[Path]:
    return sorted(broker.partition_dir(topic).glob(f"*{suffix}"))


def _damage(broker: Broker) -> None:
    """A torn batch behind the end of one log, indexes that lie or are gone, a checkpoint with a bad line."""
    last = _segments(broker, "orders")[-1]
    before_last = _segments(broker, "orders")[-2].read_bytes()
    last.write_bytes(last.read_bytes() + before_last[: len(before_last) // 3] + b"\x07garbage")
    _segments(broker, "orders", ".index")[1].unlink()
    lying = _segments(broker, "payments", ".timeindex")[1]
    lying.write_bytes(bytes(reversed(lying.read_bytes())))
    _segments(broker, "payments", ".index")[2].write_bytes(b"\xff" * 32)
    for snapshot in _segments(broker, "payments", ".snapshot"):
        snapshot.write_bytes(b"no snapshot")
    checkpoint = broker.log_dir / "recovery-point-offset-checkpoint"
    checkpoint.write_bytes(checkpoint.read_bytes() + b"orders zero 1\n")


def _repair(broker: Broker) -> None:
    repair("checkpoint", broker.log_dir, "--apply")
    repair("truncate", "--as-broker", broker.log_dir, *SET, "--apply")
    repair("reindex", broker.log_dir, *SET, "--apply")


def _records(broker: Broker) -> dict[str, list[Record]]:
    return {topic: dump("--records", broker.partition_dir(topic)).records() for topic in TOPICS}


def _logs(broker: Broker) -> dict[str, tuple[int, str]]:
    """Size and hash of each log of the topics."""
    paths = [path for topic in TOPICS for path in _segments(broker, topic)]
    return {str(path): (path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest()) for path in paths}


def _recoveries(broker: Broker) -> list[str]:
    lines = [line for line in broker.output.splitlines() if METADATA not in line]
    return [line for line in lines if any(word in line for word in RECOVERS)]


async def _read(broker: Broker, expected: dict[str, list[Record]]) -> dict[str, list[Record]]:
    return {topic: await clients.read(broker, topic, len(records)) for topic, records in expected.items()}


def test_a_repaired_directory_marked_clean_is_not_recovered(broker_of_release: Broker) -> None:
    broker = broker_of_release
    asyncio.run(_write(broker))
    broker.kill()
    _damage(broker)
    _repair(broker)
    repair("checkpoint", "--mark-clean", broker.log_dir, *SET, "--apply")
    assert run("verify", broker.log_dir).status == 0
    promised, logs = _records(broker), _logs(broker)
    broker.start()
    assert _recoveries(broker) == []
    assert asyncio.run(_read(broker, promised)) == promised
    assert _logs(broker) == logs
    asyncio.run(clients.send_everything(broker, random.Random(1), "orders", COUNT))
    broker.stop()
    assert run("verify", broker.log_dir).status == 0


def test_recovery_of_a_repaired_directory_cuts_nothing(broker_of_release: Broker) -> None:
    broker = broker_of_release
    asyncio.run(_write(broker))
    broker.kill()
    _damage(broker)
    _repair(broker)
    promised, logs = _records(broker), _logs(broker)
    (broker.log_dir / "recovery-point-offset-checkpoint").write_text("0\n0\n")  # so that it recovers everything
    broker.start()
    assert _recoveries(broker), "nothing was recovered, so nothing is proved"
    assert not [line for line in _recoveries(broker) if "Corruption" in line or "truncating" in line]
    assert asyncio.run(_read(broker, promised)) == promised
    assert _logs(broker) == logs


def test_a_running_broker_is_refused(own_broker: Broker) -> None:
    asyncio.run(_write(own_broker))
    _segments(own_broker, "orders", ".index")[1].unlink()
    before = sorted(own_broker.log_dir.rglob("*"))
    for command in (("reindex",), ("truncate", "--to-offset", "3")):
        done = run(*command, own_broker.partition_dir("orders"), *SET, "--apply")
        assert done.status == 3
        assert "lock" in done.errors
    assert [path for path in sorted(own_broker.log_dir.rglob("*")) if "kafkalog" in path.name] == []
    assert sorted(own_broker.log_dir.rglob("*")) == before


def test_brokers_ignore_the_journals(broker_of_release: Broker) -> None:
    broker = broker_of_release
    asyncio.run(_write(broker))
    broker.kill()
    _damage(broker)
    old = broker.log_dir.with_name("old")
    shutil.copytree(broker.log_dir, old)
    _repair(broker)
    ours = list(broker.log_dir.rglob("kafkalog-*"))
    assert ours, "no journal"
    broker.start()
    broker.stop()
    assert [path for path in ours if not path.exists()] == []
