"""The settings of groups: which there are, what a client may set them to, and what is in effect (KIP-848, KIP-932).

The rules follow `GroupConfig` and `ShareGroupConfig` of Kafka 4.3. Settings of the assignment's interval and of
streams groups are not served.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kafkalog_core.errors import SettingError
from kafkalog_core.livebroker.disks.topic_configs import ConfigEntry
from kafkalog_core.serve.groups.modern_groups import ModernLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["GroupConfigs", "milliseconds_of"]


class _Number(NamedTuple):
    """The setting of the broker that is its default, and the bounds; a name: that of a setting of the broker."""

    of_broker: str
    least: int | str
    most: int | str


_NUMBERS: Final = {
    "consumer.session.timeout.ms": _Number("group.consumer.session.timeout.ms", 45_000, 60_000),
    "consumer.heartbeat.interval.ms": _Number("group.consumer.heartbeat.interval.ms", 5_000, 15_000),
    "share.session.timeout.ms": _Number("group.share.session.timeout.ms", 45_000, 60_000),
    "share.heartbeat.interval.ms": _Number("group.share.heartbeat.interval.ms", 5_000, 15_000),
    "share.record.lock.duration.ms": _Number(
        "group.share.record.lock.duration.ms",
        "group.share.min.record.lock.duration.ms",
        "group.share.max.record.lock.duration.ms",
    ),
    "share.delivery.count.limit": _Number("group.share.delivery.count.limit", 2, 10),
    "share.partition.max.record.locks": _Number("group.share.partition.max.record.locks", 100, 4_000),
}
_TEXTS: Final = {
    "share.auto.offset.reset": "latest",
    "share.isolation.level": "read_uncommitted",
    "share.renew.acknowledge.enable": "true",
}
_ALLOWED: Final = {
    "share.isolation.level": ("read_committed", "read_uncommitted"),
    "share.renew.acknowledge.enable": ("true", "false"),
}
_INT, _STRING, _BOOLEAN = 3, 2, 1  # ConfigResponse.ConfigType
_DURATION: Final = re.compile(
    r"P(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,9}))?S)?)?", re.ASCII | re.IGNORECASE
)
_BY_DURATION: Final = "by_duration:"
_MAX_SHARE_MEMBERS: Final = 200  # group.share.max.size


class BrokerNumbers(Protocol):
    """The settings of the broker."""

    def number(self, name: str, /) -> int:
        """Return a number."""


class GroupConfigs:
    """Settings by group."""

    def __init__(self, broker: BrokerNumbers, of_group: Callable[[str], Mapping[str, str]]) -> None:
        """Take the settings of the broker. of_group: returns those that were set for a group.

        Raises SettingError if the broker's settings contradict each other.
        """
        self._broker = broker
        self._of_group = of_group
        lock = _NUMBERS["share.record.lock.duration.ms"]
        least, most = self._bound(lock.least), self._bound(lock.most)
        # Kafka's own check at the start: the default must be within the bounds.
        if not least <= broker.number(lock.of_broker) <= most:
            raise SettingError(
                f"{lock.of_broker}={broker.number(lock.of_broker)} is not between {lock.least}={least} and "
                f"{lock.most}={most}"
            )

    def _bound(self, bound: int | str) -> int:
        return bound if isinstance(bound, int) else self._broker.number(bound)

    def number(self, group: str, name: str) -> int:
        """Return a number in effect."""
        given = self._of_group(group).get(name)
        return self._broker.number(_NUMBERS[name].of_broker) if given is None else int(given)

    def consumer_limits(self, group: str) -> ModernLimits:
        """Return the bounds of a group of KIP-848."""
        return self._limits(group, "consumer", self._broker.number("group.consumer.max.size"))

    def share_limits(self, group: str) -> ModernLimits:
        """Return the bounds of a share group."""
        return self._limits(group, "share", _MAX_SHARE_MEMBERS)

    def _limits(self, group: str, kind: str, max_members: int) -> ModernLimits:
        return ModernLimits(
            session_s=self.number(group, f"{kind}.session.timeout.ms") / 1000,
            heartbeat_ms=self.number(group, f"{kind}.heartbeat.interval.ms"),
            max_members=max_members,
        )

    def text(self, group: str, name: str) -> str:
        """Return a text in effect."""
        return self._of_group(group).get(name, _TEXTS[name])

    def check(self, configs: Mapping[str, str]) -> None:
        """Raise SettingError for a setting that no group has, or a value that it cannot have."""
        for name, value in configs.items():
            if name in _NUMBERS:
                # A bound may be a setting of the broker itself.
                least, most = self._bound(_NUMBERS[name].least), self._bound(_NUMBERS[name].most)
                if not re.fullmatch(r"[0-9]{1,10}", value) or not least <= int(value) <= most:
                    raise SettingError(f"{name}: {value!r} is not a number from {least} to {most}")
            elif name in _ALLOWED:
                if value not in _ALLOWED[name]:
                    raise SettingError(f"{name}: {value!r} is not one of {', '.join(_ALLOWED[name])}")
            elif name in _TEXTS:
                if value not in {"earliest", "latest"} and milliseconds_of(value) is None:
                    raise SettingError(
                        f"Invalid value `{value}` for configuration {name}. The value must be either 'earliest', "
                        "'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
                    )
            else:
                raise SettingError(f"Unknown group config name: {name}")

    def entries(self, group: str) -> Iterator[ConfigEntry]:
        """Yield every setting of a group with its value in effect, by name."""
        given = self._of_group(group)
        for name in sorted([*_NUMBERS, *_TEXTS]):
            is_number = name in _NUMBERS
            default = str(self._broker.number(_NUMBERS[name].of_broker)) if is_number else _TEXTS[name]
            is_boolean = _ALLOWED.get(name) == ("true", "false")
            kind = _INT if is_number else _BOOLEAN if is_boolean else _STRING
            yield ConfigEntry(name, given.get(name, default), name not in given, kind, default)


def milliseconds_of(reset: str) -> int | None:
    """Return the duration of `by_duration:P1DT2H3M4.5S`, in milliseconds; None: it is none (`Duration.parse`)."""
    text = reset.removeprefix(_BY_DURATION)
    found = _DURATION.fullmatch(text) if reset.startswith(_BY_DURATION) else None
    # `P` alone is not a duration.
    if found is None or not any(found.groups()):
        return None
    days, hours, minutes, seconds = (int(each or 0) for each in found.groups()[:4])
    fraction = (found.group(5) or "").ljust(9, "0")
    return ((days * 24 + hours) * 60 + minutes) * 60_000 + seconds * 1000 + int(fraction) // 1_000_000
