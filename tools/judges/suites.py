"""The suites, with their versions, and the settings of the broker that each asks for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from tools.judges import go, java, kcat, librdkafka, rust
from tools.judges.librdkafka import Variant
from tools.judges.packages import KAFKA_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable

    from tools.judges.running import Job, Judged

__all__ = ["SUITES", "Suite"]

_USUAL: Final = ("num.partitions=4", "group.initial.rebalance.delay.ms=0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A suite of tests.

    title: for people. tests: builds the suite and returns its tests; it raises UnavailableError. settings: of the
    broker. jobs: how many tests run at a time. limit_seconds: how long one may take. is_ordered: whether tests need
    those before them.
    """

    name: str
    title: str
    version: Callable[[], str] | str
    tests: Callable[[Judged], list[Job]]
    settings: tuple[str, ...] = _USUAL
    jobs: int = 1
    limit_seconds: float = 120
    is_ordered: bool = False


_RDK: Final = Variant("librdkafka", "2.12.1")
_RDK_NO_AUTO: Final = Variant("librdkafka-noautocreate", "2.12.1", scenario="noautocreate")
_RDK_848: Final = Variant("librdkafka-848", "2.12.1", protocol="consumer")
_RDK_NEWER: Final = Variant("librdkafka-2.15.1", "2.15.1", is_quick=True)
_ALL: Final = (
    Suite(
        name="kcat",
        title="kcat",
        version=kcat.version,
        tests=kcat.tests_of,
        is_ordered=True,
    ),
    Suite(
        name="franz-go",
        title="franz-go, package kgo",
        version=go.FRANZ_GO,
        tests=go.franz_go,
        jobs=3,
        limit_seconds=400,
    ),
    Suite(
        name="java",
        title="Kafka's own test programs: kafka-tools and trogdor",
        version=KAFKA_VERSION,
        tests=java.tests_of,
        is_ordered=True,
        limit_seconds=180,
    ),
    Suite(
        name="rdkafka",
        title="rdkafka (Rust)",
        version=rust.RDKAFKA,
        tests=rust.rdkafka,
        settings=("num.partitions=3", "group.initial.rebalance.delay.ms=0"),
        jobs=2,
    ),
    Suite(
        name="rskafka",
        title="rskafka (Rust), with Kafka's Java client",
        version=rust.RSKAFKA,
        tests=rust.rskafka,
        settings=(*_USUAL, "auto.create.topics.enable=false"),
        jobs=2,
    ),
    Suite(
        name="kafka-go",
        title="kafka-go",
        version=go.KAFKA_GO,
        tests=go.kafka_go,
        settings=("num.partitions=1", "group.initial.rebalance.delay.ms=3000"),
    ),
    Suite(
        name="librdkafka",
        title="librdkafka, classic protocol",
        version=_RDK.version,
        tests=partial(librdkafka.tests_of, _RDK),
        jobs=2,
        limit_seconds=300,
    ),
    Suite(
        name="librdkafka-noautocreate",
        title="librdkafka, scenario noautocreate",
        version=_RDK_NO_AUTO.version,
        tests=partial(librdkafka.tests_of, _RDK_NO_AUTO),
        settings=(*_USUAL, "auto.create.topics.enable=false"),
        jobs=2,
        limit_seconds=300,
    ),
    Suite(
        name="librdkafka-848",
        title="librdkafka, group.protocol=consumer",
        version=_RDK_848.version,
        tests=partial(librdkafka.tests_of, _RDK_848),
        jobs=2,
        limit_seconds=300,
    ),
    Suite(
        name="librdkafka-2.15.1",
        title="librdkafka, quick mode",
        version=_RDK_NEWER.version,
        tests=partial(librdkafka.tests_of, _RDK_NEWER),
        jobs=2,
        limit_seconds=600,
    ),
)
SUITES: Final = {each.name: each for each in _ALL}
"""By their names in the baseline; those that take the least time first."""
