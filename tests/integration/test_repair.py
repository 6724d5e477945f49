"""Repaired directories before the last judge: a real broker starts on them and finds nothing left to be done."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest

from tests.integration import clients
from tests.integration.repairing import (
    CLEAN,
    COUNT,
    CUTS,
    INDEXES,
    MARKED_CLEAN,
    RECOVERS,
    UNCLEAN,
    consumed,
    contents,
    journals,
    lines_with,
    promised,
    recover_all,
    run,
)

if TYPE_CHECKING:
    from tests.integration.repairing import Patient

pytestmark = [pytest.mark.java, pytest.mark.slow]


def test_marked_clean_nothing_is_recovered_rebuilt_or_cut(fresh: Patient) -> None:
    broker = fresh.restore(fresh.repaired)
    fresh.repair(*MARKED_CLEAN)
    assert run("verify", broker.log_dir).status == 0
    expected, before = promised(broker), contents(broker, (".log", *INDEXES))
    kept = journals(broker)
    broker.start()
    assert lines_with(broker, [CLEAN])
    assert lines_with(broker, [UNCLEAN, *RECOVERS, *CUTS, "ERROR"]) == []
    assert asyncio.run(consumed(broker)) == expected
    visible = asyncio.run(consumed(broker, committed=True))
    broker.stop()
    assert contents(broker, (".log", *INDEXES)) == before
    assert journals(broker) == kept
    assert promised(broker, committed=True) == visible


def test_a_repaired_directory_takes_new_records(fresh: Patient) -> None:
    broker = fresh.restore(fresh.repaired)
    fresh.repair(*MARKED_CLEAN)
    expected = promised(broker)
    broker.start()
    for topic in expected:
        asyncio.run(clients.send_everything(broker, random.Random(topic + "2"), topic, COUNT))
    now = asyncio.run(consumed(broker))
    assert {topic: records[: len(expected[topic])] for topic, records in now.items()} == expected
    visible = asyncio.run(consumed(broker, committed=True))
    broker.stop()
    assert run("verify", broker.log_dir).status == 0
    assert promised(broker) == now
    assert promised(broker, committed=True) == visible


def test_a_recovery_cuts_nothing_and_builds_the_same_indexes(fresh: Patient) -> None:
    broker = fresh.restore(fresh.repaired)
    fresh.repair("reindex", "--all")  # else indexes that are right stay as the broker wrote them while it ran
    recover_all(broker)
    expected, before = promised(broker), contents(broker, (".log", *INDEXES))
    broker.start()
    assert lines_with(broker, RECOVERS), "nothing was recovered, so nothing is proved"
    assert lines_with(broker, [*CUTS, "ERROR"]) == []
    assert asyncio.run(consumed(broker)) == expected
    broker.stop()
    assert contents(broker, (".log", *INDEXES)) == before
