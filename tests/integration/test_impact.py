"""What `impact` says before a repair, next to what real consumers read after it.

Groups of a real broker commit offsets, the broker is killed and its log damaged; then a plan, its impact, the repair, a
start, new records, and consumers with each group.
"""

from __future__ import annotations

import asyncio
import subprocess
from typing import TYPE_CHECKING, Any, Final

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.structs import OffsetAndMetadata

from tests.integration import clients
from tests.integration.repairing import KAFKALOG, run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.integration.broker import Broker

pytestmark = [pytest.mark.java, pytest.mark.slow]

TOPIC: Final = "orders"
COUNT: Final = 300
NEW: Final = 10
SECONDS: Final = 90
Row = dict[str, Any]


async def _produce(broker: Broker, count: int, prefix: str) -> None:
    async with clients.producer_of(broker, max_batch_size=400) as producer:
        for number in range(count):
            await producer.send_and_wait(TOPIC, f"{prefix}{number}".encode(), partition=0)


async def _commit(broker: Broker, group: str, offset: int) -> None:
    """Commit an offset without a leader epoch, as aiokafka does."""
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=group, enable_auto_commit=False)
    await consumer.start()
    place = TopicPartition(TOPIC, 0)
    consumer.assign([place])
    await consumer.commit({place: OffsetAndMetadata(offset, "")})
    await consumer.stop()


def _java_reads(broker: Broker, group: str, *options: str) -> list[str]:
    """The values that Kafka's own console consumer reads with a group, until nothing comes."""
    command = [*broker.java_command, "org.apache.kafka.tools.consumer.ConsoleConsumer"]
    command += ["--bootstrap-server", broker.bootstrap, "--topic", TOPIC, "--group", group, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    return done.stdout.split()


def _impacts(arguments: Sequence[str]) -> dict[str, Row]:
    """The rows of each group."""
    rows = run("impact", *arguments).rows
    return {row["group"]: row for row in rows if row["type"] == "impact"}


def _damage(log: Path, value: bytes) -> None:
    """Flip a bit in a record."""
    data = bytearray(log.read_bytes())
    data[data.index(value)] ^= 4
    log.write_bytes(data)


def test_consumers_read_after_a_repair_what_was_predicted(own_broker: Broker, tmp_path: Path) -> None:
    broker = own_broker
    asyncio.run(clients.create_topic(broker, TOPIC, {}))
    asyncio.run(_produce(broker, COUNT, "v"))
    quiet = ("--from-beginning", "--timeout-ms", "10000")
    assert len(_java_reads(broker, "at-end", "--from-beginning", "--max-messages", str(COUNT))) == COUNT
    assert len(_java_reads(broker, "half", "--from-beginning", "--max-messages", "100")) == 100
    for group in ("plain-earliest", "plain-latest"):
        asyncio.run(_commit(broker, group, 280))
    broker.kill()
    _damage(broker.partition_dir(TOPIC) / f"{0:020}.log", b"v250")

    plan = tmp_path / "plan.json"
    run("truncate", "--at-damage", "--plan-out", plan, broker.partition_dir(TOPIC))
    found = _impacts([str(plan)])
    end = found["half"]["log_end_offset"]
    assert 200 < end <= 250
    effects = {group: row["effect"] for group, row in found.items()}
    assert effects == {"at-end": "reset", "half": "skips", "plain-earliest": "reset", "plain-latest": "reset"}
    command = [*KAFKALOG, "impact", "--export", "csv", str(plan)]
    export = subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS)
    assert run("apply", plan).status == 0

    broker.start()
    asyncio.run(_produce(broker, NEW, "n"))
    new = [f"n{number}" for number in range(NEW)]
    half = _java_reads(broker, "half", *quiet)
    assert half == [*(f"v{number}" for number in range(100, end)), *new]
    assert found["half"]["remaining_records"] == end - 100
    assert (found["half"]["resume_offset"], found["half"]["truncated_to"]) == (100, None)
    # a commit with a leader epoch: the client finds the truncation, and its policy does not matter
    assert found["at-end"]["truncated_to"] == end
    assert _java_reads(broker, "at-end", *quiet) == new
    # without one the policy decides
    earliest = _java_reads(broker, "plain-earliest", *quiet)
    assert earliest == [*(f"v{number}" for number in range(end)), *new]
    assert (found["plain-earliest"]["earliest_offset"], found["plain-earliest"]["earliest_repeated"]) == (0, end)
    assert found["plain-earliest"]["truncated_to"] is None
    assert found["plain-latest"]["latest_offset"] == end
    assert _java_reads(broker, "plain-latest", "--timeout-ms", "10000") == []

    _reset(broker, export.stdout, tmp_path)


def test_a_start_that_loses_commits_repeats_what_was_predicted(own_broker: Broker) -> None:
    broker = own_broker
    asyncio.run(clients.create_topic(broker, TOPIC, {}))
    asyncio.run(_produce(broker, COUNT, "v"))
    for _ in range(2):
        assert len(_java_reads(broker, "half", "--from-beginning", "--max-messages", "100")) == 100
    broker.kill()
    log = broker.partition_dir("__consumer_offsets") / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    # what the group wrote when its second consumer joined, before that one committed: the start truncates there
    last_commit = data.rindex(b"half\0\x06orders")
    data[data.rindex(b"\0\2\0\4half", 0, last_commit) + 4] ^= 4
    log.write_bytes(data)

    row = _impacts([str(broker.log_dir)])["half"]
    assert (row["effect"], row["resume_offset"], row["repeated_records"]) == ("repeats", 100, 100)
    broker.start()
    assert _java_reads(broker, "half", "--timeout-ms", "10000") == [f"v{number}" for number in range(100, COUNT)]
    assert row["remaining_records"] == COUNT - 100


def test_a_group_that_starts_late_skips_the_offsets_that_are_assigned_again(own_broker: Broker) -> None:
    broker = own_broker
    asyncio.run(clients.create_topic(broker, TOPIC, {}))
    asyncio.run(_produce(broker, 60, "v"))
    asyncio.run(_commit(broker, "plain", 50))
    broker.kill()
    _damage(broker.partition_dir(TOPIC) / f"{0:020}.log", b"v40")
    row = _impacts([str(broker.log_dir)])["plain"]
    end = row["log_end_offset"]
    assert row["reused_offsets"] == 50 - end
    broker.start()
    asyncio.run(_produce(broker, 30, "n"))
    # it is in range again, and the records that have the offsets from the end to 49 now are not read
    late = _java_reads(broker, "plain", "--from-beginning", "--timeout-ms", "10000")
    assert late == [f"n{number}" for number in range(50 - end, 30)]


def _reset(broker: Broker, lines: str, tmp_path: Path) -> None:
    """Kafka's own tool takes the CSV, and puts each group where it should be."""
    file = tmp_path / "reset.csv"
    file.write_text(lines)
    groups = sorted({line.split(",")[0] for line in lines.splitlines()})
    assert groups == ["at-end", "half", "plain-earliest", "plain-latest"]
    named = [word for group in groups for word in ("--group", group)]
    command = [*broker.java_command, "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"]
    command += [
        "--bootstrap-server",
        broker.bootstrap,
        *named,
        "--reset-offsets",
        "--from-file",
        str(file),
        "--execute",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    printed = {tuple(line.split()[:4]) for line in done.stdout.splitlines()}
    expected = {tuple(line.split(",")) for line in lines.splitlines()}
    assert expected <= printed, done
