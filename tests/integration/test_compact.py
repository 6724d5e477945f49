"""Logs that we have cleaned before the last judge: a real broker starts on them, serves them, and cleans on."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.apply import apply_plan
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanRequest
from kafkalog_core.storage.changing.writer import Disk
from tests.integration import compacting
from tests.integration.compacting import TOPIC
from tests.integration.repairing import CLEAN, CUTS, INDEXES, RECOVERS, UNCLEAN, lines_with, put, run, segments
from tests.support.repairs import Killed

if TYPE_CHECKING:
    from tests.integration.broker import Broker

pytestmark = [pytest.mark.java, pytest.mark.slow]


def files(broker: Broker) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for suffix in (".log", *INDEXES) for path in segments(broker, TOPIC, suffix)}


def troubles(broker: Broker, *words: str) -> list[str]:
    """Errors and lines with these words."""
    return lines_with(broker, ["ERROR", *words])


def started_as_promised(broker: Broker) -> None:
    """It starts without recovery, and consumers of both kinds get what the directory showed before."""
    assert run("verify", broker.log_dir).status == 0
    everything, visible = compacting.promised(broker), compacting.promised(broker, committed=True)
    before = files(broker)
    broker.start()
    assert lines_with(broker, [CLEAN])
    assert troubles(broker, UNCLEAN, *RECOVERS, *CUTS) == []
    assert compacting.consumed(broker) == everything
    assert compacting.consumed(broker, committed=True) == visible
    broker.stop()
    assert files(broker) == before


def test_a_cleaned_log_is_served_and_cleaned_on(broker_of_release: Broker) -> None:
    broker = broker_of_release
    compacting.fill(broker)
    wanted = compacting.last_values(compacting.consumed(broker, committed=True))
    count = len(compacting.consumed(broker))
    broker.stop()
    logs = len(segments(broker, TOPIC))
    compacting.compact(broker)
    assert len(segments(broker, TOPIC)) < logs
    assert len(compacting.promised(broker)) < count
    assert compacting.last_values(compacting.promised(broker, committed=True)) == wanted
    started_as_promised(broker)
    cleaned = compacting.checkpoint(broker)
    assert cleaned is not None
    broker.start()
    compacting.more(broker)
    wanted = compacting.last_values(compacting.consumed(broker, committed=True))
    compacting.set_ratio(broker, "0.01")
    compacting.wait_for_cleaner(broker, cleaned)
    assert compacting.last_values(compacting.consumed(broker, committed=True)) == wanted
    assert troubles(broker) == []
    broker.stop()
    assert run("verify", broker.log_dir).status == 0


def test_a_cleaned_copy_takes_the_place_of_its_source(broker_of_release: Broker) -> None:
    broker = broker_of_release
    compacting.fill(broker)
    wanted = compacting.last_values(compacting.consumed(broker, committed=True))
    broker.stop()
    copy = broker.work_dir / "cleaned"
    compacting.compact(broker, "--to", copy)
    put(copy, broker.log_dir)
    assert compacting.last_values(compacting.promised(broker, committed=True)) == wanted
    started_as_promised(broker)


def test_an_undo_is_served_too(broker_of_release: Broker) -> None:
    broker = broker_of_release
    compacting.fill(broker)
    everything = compacting.consumed(broker)
    broker.stop()
    before = files(broker)
    compacting.compact(broker)
    assert run("undo", broker.log_dir, "--apply").status == 0
    assert files(broker) == before
    assert compacting.promised(broker) == everything
    started_as_promised(broker)


# --- a start in between -----------------------------------------------------------------------------------------------
class StoppingDisk(Disk):
    """Ends before the step that a test names: its kind, and how the path ends; the last one of all comes first."""

    def __init__(self, what: str, ending: str, number: int) -> None:
        self._what, self._ending, self._left = what, ending, number

    def step(self, what: str, path: str) -> None:
        if what == self._what and path.endswith(self._ending):
            self._left -= 1
            if self._left < 0:
                raise Killed


POINTS = {
    "one replacement lies there, and its guard": ("unlink", ".log.cleaned"),
    "the guard has gone": ("unlink", ".timeindex"),
    "old files are going": ("unlink", ".snapshot"),
    "nothing old is left": ("rename", ".log"),
    "the log is there, its index is not": ("rename", ".index"),
}


@pytest.mark.parametrize(("what", "ending"), [pytest.param(*point, id=name) for name, point in POINTS.items()])
def test_a_start_in_between_loses_nothing(broker_of_release: Broker, what: str, ending: str) -> None:
    broker = broker_of_release
    compacting.fill(broker)
    wanted = compacting.last_values(compacting.consumed(broker, committed=True))
    broker.stop()
    interrupt(broker, StoppingDisk(what, ending, 0))
    assert [*broker.partition_dir(TOPIC).glob("*.swap")]
    broker.start()
    rebuilt = "rebuilding index files"  # 2.8 says it of a replacement that it completes
    assert [line for line in troubles(broker, *CUTS) if rebuilt not in line] == []
    records = compacting.consumed(broker)
    offsets = [record.offset for record in records]
    assert offsets == sorted(set(offsets))
    assert compacting.last_values(compacting.consumed(broker, committed=True)) == wanted
    broker.stop()
    left = [*broker.partition_dir(TOPIC).glob("*.swap"), *broker.partition_dir(TOPIC).glob("*.cleaned")]
    if (
        broker.release == "2.8"
    ):  # builds the indexes of a log that is in place again, and leaves their swaps where they are
        assert all("index" in path.name for path in left)
        for path in left:
            path.unlink()
    assert broker.release == "2.8" or not left
    errors = {row["code"] for row in run("verify", broker.log_dir).rows if row.get("severity") == "error"}
    assert errors == {"dir.interrupted"}


def interrupt(broker: Broker, disk: Disk) -> None:
    """Be killed on the way."""
    told = {"assignments": [], "topic_assignments": compacting.told(broker), "assume_defaults": True}
    kafka = {"kafka": broker.release, "config": str(broker.config), **told}
    site = target_dir([str(broker.partition_dir(TOPIC))])
    now_ms = time.time_ns() // 1_000_000
    draft = make_plan("compact", PlanRequest(target=site, options={"kafka": kafka, "force": True}, now_ms=now_ms))
    with suppress(Killed):
        apply_plan(draft, disk, now_ms=now_ms)
