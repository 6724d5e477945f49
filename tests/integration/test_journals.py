"""What a real broker makes of our lock and of the journals that we leave among its files."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import LockedError
from kafkalog_core.ops import planners
from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.apply import apply_plan
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanReport, PlanRequest
from kafkalog_core.ops.repair.undo import apply_prune, apply_undo, plan_prune, plan_undo, scope_of
from kafkalog_core.storage.changing.lock import LogDirLocks
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.storage.locks import locked_dirs
from tests.integration import clients
from tests.support.repairs import NOW_MS, names_of_ours

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.storage.changing.changes import Stage
    from tests.integration.broker import Broker
    from tests.integration.records import Record

pytestmark = [pytest.mark.java, pytest.mark.slow]

COUNT = 40
TOPICS = ("kept", "deleted")
GONE_SECONDS = 30


def plan(request: PlanRequest, stage: Stage, progress: object) -> PlanReport:
    """Changes of every kind that a broker does not notice: indexes end in zeros, unknown files come and go."""
    del progress
    root = request.target.root
    for topic in TOPICS:
        log = f"{root}/{topic}-0/00000000000000000000.log"
        with open(log[:-4] + ".index", "rb") as file:
            index = file.read()
        stage.write(log[:-4] + ".index", [index, bytes(8)], why="w", like=log)
        stage.cut(f"{root}/{topic}-0/long.txt", 3, why="c")
        stage.remove(f"{root}/{topic}-0/gone.txt", why="r")
    stage.write(f"{root}/note.txt", [b"x"], why="w", like=f"{root}/meta.properties")
    return PlanReport()


async def _write(broker: Broker) -> dict[str, list[Record]]:
    written = {}
    for topic in TOPICS:
        await clients.create_topic(broker, topic, {broker.segment_bytes: broker.roll_bytes})
        count = await clients.send_everything(broker, random.Random(topic), topic, COUNT)
        written[topic] = await clients.read(broker, topic, count)
    return written


def _read(broker: Broker, topic: str, count: int) -> list[Record]:
    return asyncio.run(clients.read(broker, topic, count))


def _lock(log_dir: Path) -> LogDirLocks:
    return LogDirLocks(locked_dirs([str(log_dir / "kept-0")]), Disk())


def _repair(log_dir: Path) -> None:
    for topic in TOPICS:
        (log_dir / f"{topic}-0" / "long.txt").write_text("longer")
        (log_dir / f"{topic}-0" / "gone.txt").write_text("gone")
    request = PlanRequest(target=target_dir([str(log_dir)]), options={}, now_ms=NOW_MS)
    with _lock(log_dir):
        apply_plan(make_plan("reindex", request), Disk(), now_ms=NOW_MS)


def test_a_real_broker_and_our_journals(broker_of_release: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(planners.PLANNERS, "reindex", "tests.integration.test_journals:plan")
    broker, log_dir = broker_of_release, broker_of_release.log_dir
    written = asyncio.run(_write(broker))
    with pytest.raises(LockedError, match=r"process \d+ \(java\), most likely a running broker"):
        _lock(log_dir).__enter__()
    broker.stop()
    before = set(log_dir.iterdir())
    _repair(log_dir)
    with _lock(log_dir):
        apply_undo(plan_undo(scope_of(str(log_dir))), Disk())
        apply_prune(plan_prune(scope_of(str(log_dir))), Disk())
    _repair(log_dir)
    ours = names_of_ours(log_dir)
    assert len([name for name in ours if name.endswith("-1")]) == 1 + len(TOPICS)
    assert {path for path in set(log_dir.iterdir()) - before if path.is_dir()} == set()

    with _lock(log_dir), pytest.raises(AssertionError, match="the broker did not start"):
        broker.start()
    broker.start()
    assert _read(broker, "kept", len(written["kept"])) == written["kept"]
    assert names_of_ours(log_dir) == ours
    asyncio.run(clients.delete_topic(broker, "deleted"))
    deadline = time.monotonic() + GONE_SECONDS
    while any(path.name.startswith("deleted-0") for path in log_dir.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert _read(broker, "kept", len(written["kept"])) == written["kept"]
    assert [line for line in broker.output.splitlines() if "ERROR" in line] == []
    broker.stop()
    obstacles = plan_undo(scope_of(str(log_dir))).obstacles
    assert obstacles  # the broker has written to the indexes and deleted a partition since
