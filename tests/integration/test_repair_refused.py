"""What is refused while a real broker runs, and after it has run: nothing is changed, and it says why."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.format.names import JOURNAL_PREFIX
from tests.integration.repairing import INDEXES, contents, journals, run, segments

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.repairing import Patient

pytestmark = [pytest.mark.java, pytest.mark.slow]

REFUSED = 3


def test_a_running_broker_keeps_everybody_out(fresh: Patient, tmp_path: Path) -> None:
    broker, plan = fresh.restore(fresh.repaired), tmp_path / "plan.json"
    broker.start()
    segments(broker, "untouched", ".index")[1].unlink()  # so that there is something to do
    planned = run("reindex", broker.log_dir, *fresh.options(), "--plan-out", plan)
    assert "(java), most likely a running broker, holds the lock of this directory" in planned.errors
    assert json.loads(plan.read_text())
    before, ours = contents(broker, (".log", *INDEXES, ".snapshot")), journals(broker)
    place = broker.partition_dir("untouched")
    for command in (
        ("reindex", place, *fresh.options(), "--apply"),
        ("reindex", broker.log_dir, *fresh.options(), "--apply"),
        ("truncate", "--to-offset", "3", place, *fresh.options(), "--apply"),
        ("checkpoint", broker.log_dir, *fresh.options(), "--apply"),
        ("checkpoint", "--mark-clean", broker.log_dir, *fresh.options(), "--apply"),
        ("undo", broker.log_dir, "--apply"),
        ("undo", broker.log_dir, "--prune", "--apply"),
        ("apply", plan),
        ("apply", "--resume", plan),
        ("apply", "--resume", broker.log_dir),
    ):
        done = run(*command)
        assert done.status == REFUSED, command
        assert "(java), most likely a running broker" in done.errors, command
    assert contents(broker, (".log", *INDEXES, ".snapshot")) == before
    assert journals(broker) == ours
    assert not (broker.log_dir / ".kafka_cleanshutdown").exists()
    broker.stop()


def test_a_broker_ignores_the_journals_and_ends_the_undo(fresh: Patient) -> None:
    broker = fresh.restore(fresh.repaired)
    ours = journals(broker)
    assert {name.count("/") for name in ours} == {0, 2}, "not both kinds of a journal: top, partition"
    broker.start()
    assert [line for line in broker.output.splitlines() if JOURNAL_PREFIX in line] == []
    broker.stop()
    assert journals(broker) == ours
    before = contents(broker, (".log", *INDEXES, ".snapshot"))
    done = run("undo", broker.log_dir, "--apply")
    assert done.status == REFUSED
    assert "has changed since" in done.errors
    assert contents(broker, (".log", *INDEXES, ".snapshot")) == before
    assert journals(broker) == ours
