"""A damaged replica of a real cluster whose other replicas are in sync is cut, and fetches the rest: none is lost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.integration.excising import (
    TOPIC,
    all_batches,
    cluster_of_three,
    fill_replicated,
    read_by_aiokafka,
    spoil,
    wait_until_same,
)
from tests.integration.repairing import run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.java, pytest.mark.slow]


def test_it_fetches_from_the_leader_what_it_has_lost(libs: Path, tmp_path: Path) -> None:
    """The metadata log on its own disk shows that two others are in sync: nothing is asked, and nothing is excised."""
    with cluster_of_three(libs, tmp_path) as nodes:
        for node in nodes:
            node.start()
        asyncio.run(fill_replicated(nodes[0]))
        wait_until_same(nodes)
        everything = read_by_aiokafka(nodes[0], 0)
        damaged = nodes[2]
        damaged.kill()
        batches = [batch for batch in all_batches(damaged) if not batch.is_control]
        spoil(batches[len(batches) // 2])
        done = run("recover", damaged.log_dir, "--config", damaged.config, "--kafka", damaged.release, "--apply")
        assert done.status == 0, (done.rows, done.errors)
        codes = {row["code"] for row in done.rows if row["type"] == "finding" and row.get("topic") == TOPIC}
        assert "recover.refetched" in codes
        damaged.start()
        wait_until_same(nodes)
        nodes[0].stop()
        assert read_by_aiokafka(damaged, 0) == everything
