"""A metadata log with a million topics: the memory of the summary, and of one topic."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

from kafkalog_core.topics.metadata_records import encode_record
from tests.support import build
from tests.support.clusters import write_meta

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow]

TOPICS: Final = 1_000_000
_A_BATCH: Final = 1000
_MOST_BYTES: Final = 2_500_000_000
_COMMAND: Final = (sys.executable, "-m", "kafkalog_cli", "cluster")


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory whose metadata log has a TopicRecord and a PartitionRecord for each topic."""
    log_dir = write_meta(tmp_path_factory.mktemp("large") / "kafka", node=1)
    partition = log_dir / "__cluster_metadata-0"
    partition.mkdir()
    nodes = {"replicas": [1, 2, 3], "isr": [1, 2, 3], "removing_replicas": [], "adding_replicas": []}
    leader = {"leader": 1, "leader_recovery_state": 0, "leader_epoch": 0, "partition_epoch": 0}
    fields = {"partition_id": 0, **nodes, **leader}
    with (partition / f"{0:020}.log").open("wb") as file:
        for first in range(0, TOPICS, _A_BATCH):
            values: list[bytes] = []
            for number in range(first, first + _A_BATCH):
                topic_id = (number + 1).to_bytes(16, "big")
                values.append(encode_record("TopicRecord", 0, {"name": f"topic-{number:07}", "topic_id": topic_id}))
                values.append(encode_record("PartitionRecord", 0, {**fields, "topic_id": topic_id}))
            records = [
                build.Record(offset=2 * first + at, timestamp_ms=1, key=None, value=value)
                for at, value in enumerate(values)
            ]
            file.write(build.batch_v2(records))
    return log_dir


def run(*words: str | Path) -> str:
    """What the command writes."""
    return subprocess.run([*_COMMAND, *map(str, words)], capture_output=True, text=True, check=True).stdout


def test_the_summary_and_one_topic(disk: Path) -> None:
    text = run(disk)
    assert f"{TOPICS} topics, {TOPICS} partitions" in " ".join(text.split())
    assert len(text.splitlines()) < 100
    one = run("--topic", "topic-0777777", "--output", "ndjson", disk)
    rows = [json.loads(line) for line in one.splitlines()]
    assert [row["topic"] for row in rows if row["type"] == "cluster_topic"] == ["topic-0777777"]
    assert [row["replicas"] for row in rows if row["type"] == "cluster_partition"] == [[1, 2, 3]]
    # The largest of all processes that this one has waited for, in KiB on Linux
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 < _MOST_BYTES
