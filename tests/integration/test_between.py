"""A repair that is killed between its files: a real broker that starts on it loses no more than on what was there."""

from __future__ import annotations

import asyncio
import random
import shutil
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.ops.apply import apply_draft
from kafkalog_core.ops.plan import Draft, PlanRequest, make_plan
from kafkalog_core.ops.settings import SettingsRequest
from kafkalog_core.ops.sites import site_of
from tests.integration import clients
from tests.integration.records import dump
from tests.storage.repairs import NOW_MS, CountingDisk, DyingDisk, Killed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.broker import Broker
    from tests.integration.records import Record

pytestmark = [pytest.mark.java, pytest.mark.slow]

TOPICS = ("orders", "payments")
COUNT = 60
POINTS = 20
STAGING_POINTS = 4
INTERVAL = "500"  # bytes between two entries of an index, so that small segments have some
PLANS = (("truncate", {"to_offset": None, "at_damage": True, "as_broker": False}),)
REQUEST = asdict(SettingsRequest(kafka="4.3.1", assignments=(f"log.index.interval.bytes={INTERVAL}",)))


async def _write(broker: Broker) -> None:
    settings = {broker.segment_bytes: broker.roll_bytes, "index.interval.bytes": INTERVAL}
    for topic in TOPICS:
        await clients.create_topic(broker, topic, settings)
        await clients.send_everything(broker, random.Random(topic), topic, COUNT)


def _damage(broker: Broker) -> None:
    """A byte of a batch in the last but one segment of each log, as a disk does it."""
    for topic in TOPICS:
        log = sorted(broker.partition_dir(topic).glob("*.log"))[-2]
        content = bytearray(log.read_bytes())
        content[len(content) * 2 // 3] ^= 0xFF
        log.write_bytes(content)


def _draft(root: Path) -> Draft:
    command, options = PLANS[0]
    request = PlanRequest(site=site_of([str(root)]), options={"kafka": REQUEST, **options}, now_ms=NOW_MS)
    return make_plan(command, request)


def _put_back(kept: Path, root: Path) -> None:
    shutil.rmtree(root)
    shutil.copytree(kept, root)


def _points(steps: list[str]) -> list[int]:
    """A few while all is laid down, most of them from the first file on that is put in place."""
    chance = random.Random(5)
    first = steps.index("rename")  # of the intent
    commit = range(first, len(steps) + 1)
    return sorted(chance.sample(range(first), STAGING_POINTS) + chance.sample(commit, POINTS - STAGING_POINTS))


def _what_a_broker_leaves(broker: Broker) -> dict[str, list[Record]]:
    """The records that are left once a broker has started on the directory, read as its consumers do."""
    broker.start()
    ends = {topic: asyncio.run(clients.end_offsets(broker, topic))[0] for topic in TOPICS}
    broker.kill()
    left = {topic: dump("--records", broker.partition_dir(topic)).records() for topic in TOPICS}
    for topic, records in left.items():
        assert records[-1].offset < ends[topic]
    return left


def test_a_broker_on_the_state_in_between(own_broker: Broker, tmp_path: Path) -> None:
    broker, kept = own_broker, tmp_path / "kept"
    asyncio.run(_write(broker))
    broker.kill()
    _damage(broker)
    shutil.copytree(broker.log_dir, kept)
    least = _what_a_broker_leaves(broker)

    _put_back(kept, broker.log_dir)
    counting = CountingDisk()
    assert _draft(broker.log_dir).plan.changes
    apply_draft(_draft(broker.log_dir), counting, now_ms=NOW_MS)
    for point in _points(counting.steps):
        _put_back(kept, broker.log_dir)
        with suppress(Killed):
            apply_draft(_draft(broker.log_dir), DyingDisk(point), now_ms=NOW_MS)
        left = _what_a_broker_leaves(broker)
        for topic in TOPICS:
            lost = set(map(repr, least[topic])) - set(map(repr, left[topic]))
            assert not lost, f"killed before step {point} of {len(counting.steps)}"
