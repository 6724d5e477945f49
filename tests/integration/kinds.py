"""What can be compared with Kafka's own classes, one kind a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tests.integration.bringing_back import compare_recoveries
from tests.integration.checkpoint_texts import compare_checkpoints
from tests.integration.differential import compare_appends, compare_cleaning, compare_retention, compare_rolling
from tests.integration.starting import compare_faults, compare_starts
from tests.integration.workloads import (
    draw_appends,
    draw_faulty,
    draw_limited_workload,
    draw_old_retention,
    draw_old_workload,
    draw_retention,
    draw_workload,
)
from tests.support.jars import BEFORE_TOPIC_IDS, KAFKA_VERSION, NEWEST, ZOOKEEPER_ERA

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.integration.differential import Verdict
    from tests.integration.log_harness import LogHarness
    from tests.integration.workloads import Workload


class Kind(NamedTuple):
    """What can be compared: with which release, how a seed's workload is drawn, and how it is compared.

    `every`: of the seeds that a run of the tests has, it takes one in so many.
    """

    version: str
    draw: Callable[[int], Workload]
    compare: Callable[[LogHarness, Workload, Path], Verdict]
    every: int = 1


KINDS: Final = {
    "clean": Kind(KAFKA_VERSION, draw_workload, compare_cleaning),
    "retain": Kind(KAFKA_VERSION, draw_retention, compare_retention),
    "append": Kind(KAFKA_VERSION, draw_appends, compare_appends),
    "roll": Kind(KAFKA_VERSION, draw_appends, compare_rolling),
    "start": Kind(KAFKA_VERSION, draw_appends, compare_starts),
    "checkpoint": Kind(KAFKA_VERSION, draw_appends, compare_checkpoints, every=3),
    "fault": Kind(KAFKA_VERSION, draw_faulty, compare_faults),
    "recover": Kind(KAFKA_VERSION, draw_faulty, compare_recoveries, every=3),
    "clean-4.4": Kind(NEWEST, draw_limited_workload, compare_cleaning),
    "retain-4.4": Kind(NEWEST, draw_retention, compare_retention),
    "append-4.4": Kind(NEWEST, draw_appends, compare_appends),
    "roll-4.4": Kind(NEWEST, draw_appends, compare_rolling),
    "start-4.4": Kind(NEWEST, draw_appends, compare_starts),
    "fault-4.4": Kind(NEWEST, draw_faulty, compare_faults, every=3),
    "recover-4.4": Kind(NEWEST, draw_faulty, compare_recoveries, every=10),
    "clean-2.8": Kind(ZOOKEEPER_ERA, draw_old_workload, compare_cleaning),
    "retain-2.8": Kind(ZOOKEEPER_ERA, draw_old_retention, compare_retention),
    "start-2.8": Kind(ZOOKEEPER_ERA, draw_appends, compare_starts),
    "checkpoint-2.8": Kind(ZOOKEEPER_ERA, draw_appends, compare_checkpoints, every=3),
    "fault-2.8": Kind(ZOOKEEPER_ERA, draw_faulty, compare_faults, every=3),
    "recover-2.8": Kind(ZOOKEEPER_ERA, draw_faulty, compare_recoveries, every=10),
    "start-2.7": Kind(BEFORE_TOPIC_IDS, draw_appends, compare_starts),
}
