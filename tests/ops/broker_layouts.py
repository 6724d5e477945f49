"""Lines as brokers write them: the layouts of Kafka's default configurations, Strimzi, JSON and journald."""

from __future__ import annotations

import json
from string import Formatter
from typing import TYPE_CHECKING, Final

from kafkalog_core.findings.broker_lines import NUMBERS

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LAYOUTS", "SAMPLES", "fields_of", "written"]

SAMPLES: Final = (
    {
        "dir": "/opt/kafka/data-0/logs",
        "dirs": "/opt/kafka/data-0/logs, /opt/kafka/data-1/logs",
        "entry": "/opt/kafka/data-0/logs/lost+found",
        "partition_dir": "/opt/kafka/data-0/logs/orders-0",
        "path": "/opt/kafka/data-0/logs/orders-0/00000000000000000005.index",
        "partition": "orders-0",
        "other": "/opt/kafka/data-1/logs/orders-0",
        "reason": "Some(1)",
        "file": "00000000000000000005.log",
    },
    {
        "dir": "/mnt/my disk (1)/kafka.d",
        "dirs": "/mnt/my disk (1)/kafka.d, /mnt/kafka-2",
        "entry": "/mnt/my disk (1)/kafka.d/foo.bar",
        "partition_dir": "/mnt/my disk (1)/kafka.d/a.b-c-12",
        "path": "/mnt/my disk (1)/kafka.d/a.b-c-12/leader-epoch-checkpoint",
        "partition": "a.b-c-12",
        "other": "/mnt/my disk (1)/kafka.d/a.b-c-12-future",
        "reason": "no (known) cause",
        "file": "00000000002147483647.log",
    },
    {
        "dir": "/srv/v1./kafka (old)",
        "dirs": "/srv/v1./kafka (old), /srv/kafka.2.",
        "entry": "/srv/v1./kafka (old)/backup.",
        "partition_dir": "/srv/v1./kafka (old)/orders-0",
        "path": "/srv/v1./kafka (old)/orders-0/00000000000000000005.log",
        "partition": "orders-0",
        "other": "/srv/v1./orders-0",
        "reason": "Some(1)",
        "file": "00000000000000000005.log",
    },
    {
        "dir": "/srv/kafka.2.",
        "dirs": "/srv/kafka.2., /srv/kafka.3.",
        "entry": "/srv/kafka.2./(copy.of)",
        "partition_dir": "/srv/kafka.2./orders-0",
        "path": "/srv/kafka.2./orders-0/00000000000000000005.log",
        "partition": "orders-0",
        "other": "/srv/kafka.2./orders-0",
        "reason": "Some(1)",
        "file": "00000000000000000005.log",
    },
)
"""Values of placeholders; the names of directories are hard ones that users have."""

LAYOUTS: Final[dict[str, Callable[[str], str]]] = {
    "log4j": "[2024-01-01 10:00:00,000] ERROR {} (kafka.log.LogManager)".format,
    "log4j2": "[2024-01-01 10:00:00,000] WARN {} (org.apache.kafka.storage.internals.log.LogCleanerManager)".format,
    "log4j2-root": "[2024-01-01 10:00:00,000] WARN {} (LogFutureTimestampLogger)".format,
    "strimzi": "2024-01-01 10:00:00 ERROR LogManager:76 - [log-recovery-/var/lib/kafka-0] {}".format,
    "strimzi-thread-first": "2024-01-01 10:00:00 ERROR [main] LogManager:76 - {}".format,
    "strimzi-before-4": "2020-10-13 04:30:52,317 ERROR {} (kafka.server.LogDirFailureChannel) [main]".format,
    "slf4j": "2026-11-21T02:36:39.818Z [main] WARN kafka.log.LogManager - {}".format,
    "json": lambda text: json.dumps(
        {"timestamp": "2024-01-01T10:00:00.000Z", "level": "ERROR", "logger": "kafka.log.LogManager", "message": text}
    ),
    "json-exception": lambda text: json.dumps(
        {
            "instant": {"epochSecond": 1704103200, "nanoOfSecond": 0},
            "level": "ERROR",
            "loggerName": "kafka.log.LogManager",
            "message": "Something happened",
            "thrown": {"name": "E", "extendedStackTrace": f"E: {text}\n\tat kafka.log.Log.roll(Log.scala:1)\n"},
        }
    ),
    "docker-json": lambda text: json.dumps(
        {"log": f"[2024-01-01 10:00:00,000] ERROR {text} (kafka.log.LogManager)\n", "stream": "stdout"}
    ),
    "journald": (
        "Jan 01 10:00:00 host kafka-server-start.sh[123]: [2024-01-01 10:00:00,000] ERROR {} (kafka.log.LogManager)"
    ).format,
    "no-time": "ERROR {} (kafka.log.LogManager)".format,
    "exception": "Caused by: java.io.IOException: {}".format,
}


def fields_of(wording: str) -> set[str]:
    """Return the names of the placeholders in a wording."""
    return {name for _, name, _, _ in Formatter().parse(wording) if name}


def written(wording: str, samples: dict[str, str]) -> tuple[str, dict[str, str]]:
    """Return the text of a wording with values in it, and these values."""
    values = {name: str(7 + len(name)) if name in NUMBERS else samples[name] for name in fields_of(wording)}
    return wording.format_map(values), values
