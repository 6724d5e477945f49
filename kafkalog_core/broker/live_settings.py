"""The settings of a live broker, by their names in server.properties."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from kafkalog_core.errors import SettingError
from kafkalog_core.kafka.releases import LATEST
from kafkalog_core.kafka.setting_table import SETTINGS
from kafkalog_core.kafka.settings import Settings, parse_assignment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["LiveSettings"]

_NUMBERS: Final = {
    "num.partitions": (1, 1),
    "offsets.topic.num.partitions": (50, 1),
    "transaction.state.log.num.partitions": (50, 1),
    "group.initial.rebalance.delay.ms": (3000, 0),
    "transaction.max.timeout.ms": (900_000, 1),
    "offsets.retention.minutes": (10_080, 1),
    "offsets.retention.check.interval.ms": (600_000, 1),
    "share.coordinator.state.topic.num.partitions": (50, 1),
    "group.share.session.timeout.ms": (45_000, 1),
    "group.share.heartbeat.interval.ms": (5_000, 1),
    "group.share.record.lock.duration.ms": (30_000, 1_000),
    "group.share.min.record.lock.duration.ms": (15_000, 1_000),
    "group.share.max.record.lock.duration.ms": (60_000, 30_000),
    "group.share.delivery.count.limit": (5, 2),
    "group.share.partition.max.record.locks": (2_000, 100),
}
"""Default and minimum of the numbers that do not matter for the log."""
_AUTO_CREATE: Final = "auto.create.topics.enable"
_BOOLEANS: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class LiveSettings:
    """What was set. `log`: the settings that matter for logs, as texts."""

    log: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    creates_topics: bool = True

    @classmethod
    def of(cls, assignments: Iterable[str]) -> Self:
        """Return the settings of some `key=value`. Raises SettingError for a key or a value that no broker has."""
        keys = {key.name for each in SETTINGS for key in each.keys}
        log: dict[str, str] = {}
        numbers: dict[str, int] = {}
        creates_topics = True
        for text in assignments:
            key, value = parse_assignment(text) if text.partition("=")[0] in keys else _split(text)
            if key in keys:
                log[key] = value
            elif key in _NUMBERS:
                numbers[key] = _number(key, value)
            elif key == _AUTO_CREATE and value.lower() in _BOOLEANS:
                creates_topics = _BOOLEANS[value.lower()]
            elif key == _AUTO_CREATE:
                raise SettingError(f"{key}={value}: true or false is expected")
            else:
                known = ", ".join(sorted([*_NUMBERS, _AUTO_CREATE]))
                raise SettingError(f"--set {key}: not a setting of a live broker; besides those of logs: {known}")
        settings = Settings(release=LATEST, assigned=log)
        for each in SETTINGS:
            if each.keys:
                settings.broker(each.name)  # a value that no broker takes is refused here
        return cls(log, numbers, creates_topics)

    def number(self, name: str) -> int:
        """Return a number."""
        return self.numbers.get(name, _NUMBERS[name][0])


def _split(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign:
        raise SettingError(f"--set {text}: expected KEY=VALUE")
    return key.strip(), value.strip()


def _number(key: str, value: str) -> int:
    least = _NUMBERS[key][1]
    if not value.isdecimal() or int(value) < least:
        raise SettingError(f"{key}={value}: a number of at least {least} is expected")
    return int(value)
