"""A real broker starts on a stray partition, a waiting replacement and wrong ids: verify and truncate foresee it."""

from __future__ import annotations

import asyncio
import random
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from aiokafka.admin import NewTopic

from tests.integration import clients
from tests.integration.records import dump
from tests.integration.repairing import run
from tests.integration.same_files import split_batches

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.broker import Broker, TwoLogDirs
    from tests.integration.repairing import Done

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

    planned = run("truncate", broker.partition_dir(STRAY), "--as-broker")
    assert planned.status == 4
    assert "partition-metadata.not-assigned" in {row.get("code") for row in planned.rows}

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


async def _spread(broker: TwoLogDirs) -> None:
    """Topics until the second directory has one of them."""
    for number in range(4):
        async with clients.admin_of(broker) as admin:
            await admin.create_topics([NewTopic(f"t{number}", 1, 1)])
        await clients.send_everything(broker, random.Random(number), f"t{number}", COUNT)


async def _is_served(broker: Broker, topic: str) -> bool:
    try:
        return (await asyncio.wait_for(clients.end_offsets(broker, topic), 8))[0] > 0
    except TimeoutError:
        return False


def _set(log_dir: Path, key: str, value: str) -> str:
    """Change a line of meta.properties; return the one that was there."""
    path = log_dir / "meta.properties"
    text = path.read_text()
    (before,) = re.findall(f"^{key}=.*$", text, re.MULTILINE)
    path.write_text(text.replace(before, f"{key}={value}"))
    return before.partition("=")[2]


def _verified(broker: TwoLogDirs) -> Done:
    """Both directories together."""
    return run("verify", broker.log_dir, broker.second)


def _told(found: Done, path: Path) -> str:
    """The one finding of severity error: its code. Its next command is run."""
    (row,) = (row for row in found.rows if row.get("type") == "finding" and row["severity"] == "error")
    assert row["file"] == str(path / "meta.properties")
    subprocess.run(["sh", "-c", row["next_command"]], check=True)
    return str(row["code"])


def test_ids_of_log_directories(two_log_dirs: TwoLogDirs, monkeypatch: pytest.MonkeyPatch) -> None:
    """What verify says of a wrong directory.id and a wrong node.id is what the broker does, and its cure cures it."""
    broker = two_log_dirs
    asyncio.run(_spread(broker))
    broker.stop()
    assert _verified(broker).status == 0
    moved = next(path.name[:-2] for path in broker.second.glob("t?-0"))
    kept = next(path.name[:-2] for path in broker.log_dir.glob("t?-0"))

    _set(broker.second, "node.id", "2")
    with pytest.raises(AssertionError, match="Stored node id 2 doesn't match previous node id 1"):
        broker.start()
    assert _told(_verified(broker), broker.second) == "meta.other-node-id"

    monkeypatch.setattr("tests.integration.broker._START_SECONDS", 15)
    _set(broker.log_dir, "directory.id", OTHER_ID)
    with pytest.raises(AssertionError, match="did not start"):  # it waits for a leader of the metadata log
        broker.start()
    foreseen = run("preflight", broker.log_dir, broker.second)
    assert foreseen.status == 4
    assert "serves none of" in foreseen.rows[0]["verdict"]
    assert _told(_verified(broker), broker.log_dir) == "meta.only-voter"
    monkeypatch.undo()

    before = _set(broker.second, "directory.id", OTHER_ID)
    copy = (broker.second / "meta.properties").read_text()
    foreseen = run("preflight", broker.log_dir, broker.second)
    assert foreseen.status == 4
    assert "may lead no partition of 1 log directory" in foreseen.rows[0]["verdict"]
    assert _told(_verified(broker), broker.second) == "meta.other-directory-id"
    assert _set(broker.second, "directory.id", OTHER_ID) == before
    (broker.second / "meta.properties").write_text(copy)
    broker.start()
    assert asyncio.run(_is_served(broker, kept))
    # whether `moved` has a leader now depends on what the controller does first: it unfences the broker, which then has
    # none, or it takes the broker's word for the new directory
    broker.stop()
    broker.start()
    assert asyncio.run(_is_served(broker, moved)), "the second start serves it"
    broker.stop()
    assert _verified(broker).status == 0
