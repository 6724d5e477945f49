"""A real broker starts on a stray partition and on a waiting replacement: verify and truncate say what it does."""

from __future__ import annotations

import asyncio
import random
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.integration import clients
from tests.integration.records import dump
from tests.integration.repairing import run
from tests.integration.same_files import split_batches

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.broker import Broker

pytestmark = [pytest.mark.java, pytest.mark.slow]

COUNT = 60
STRAY, SWAPPED = "stray", "swapped"
OTHER_ID = "AAAAAAAAAAcAAAAAAAAABw"


async def _write(broker: Broker) -> None:
    for topic in (STRAY, SWAPPED):
        await clients.create_topic(broker, topic, {"internal.segment.bytes": "6000"})
        await clients.send_everything(broker, random.Random(topic), topic, COUNT)


async def _end_of(broker: Broker, topic: str) -> int:
    return (await clients.end_offsets(broker, topic))[0]


def _swap(partition: Path) -> None:
    """Half of a segment waits to take the place of the whole one."""
    log = min(partition.glob("*.log"))
    batches = split_batches(log.read_bytes())
    log.with_suffix(".log.swap").write_bytes(b"".join(batches[: len(batches) // 2]))
    log.with_suffix(".index.swap").write_bytes(b"")
    log.with_suffix(".timeindex.swap").write_bytes(b"")


def test_a_wrong_topic_id_and_a_shorter_replacement(own_broker: Broker, tmp_path: Path) -> None:
    broker = own_broker
    asyncio.run(_write(broker))
    end = asyncio.run(_end_of(broker, SWAPPED))
    broker.stop()
    metadata = broker.partition_dir(STRAY) / "partition.metadata"
    metadata.write_text(f"version: 0\ntopic_id: {OTHER_ID}")
    _swap(broker.partition_dir(SWAPPED))
    assert "partition-metadata.not-assigned" in {row.get("code") for row in run("verify", broker.log_dir).rows}

    foreseen = tmp_path / "foreseen"
    shutil.copytree(broker.log_dir, foreseen)
    assert run("truncate", foreseen, "--topic", SWAPPED, "--as-broker", "--apply").status in {0, 4}
    broker.start()
    assert asyncio.run(_end_of(broker, SWAPPED)) == end
    assert asyncio.run(_end_of(broker, STRAY)) == 0
    broker.stop()
    assert [path.name for path in broker.log_dir.glob(f"{STRAY}-0.*-stray")]
    real = dump("--records", broker.partition_dir(SWAPPED)).records()
    assert len(real) > 0
    assert dump("--records", foreseen / f"{SWAPPED}-0").records() == real
