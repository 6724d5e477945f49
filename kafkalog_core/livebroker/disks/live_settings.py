"""The settings of a live broker, by their names in server.properties."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from kafkalog_core.errors import SettingError
from kafkalog_core.format.layout import MAX_INT32, MAX_INT64
from kafkalog_core.kafka.rules.releases import LATEST
from kafkalog_core.kafka.rules.setting_requests import parse_assignment
from kafkalog_core.kafka.rules.setting_table import SETTINGS
from kafkalog_core.kafka.sim.settings import Settings
from kafkalog_core.serve.topics.broker_configs import BrokerConfig
from kafkalog_core.structs import Struct, field

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["STANDARD_AUTHORIZER_SETTING", "AuthorizerSettings", "LiveSettings"]

_NUMBERS: Final = {
    "num.partitions": (1, 1),
    "offsets.topic.num.partitions": (50, 1),
    "transaction.state.log.num.partitions": (50, 1),
    "group.initial.rebalance.delay.ms": (3000, 0),
    "group.max.size": (MAX_INT32, 1),
    "group.consumer.max.size": (MAX_INT32, 1),
    "quota.window.num": (11, 1),
    "quota.window.size.seconds": (1, 1),
    "controller.quota.window.num": (11, 1),
    "controller.quota.window.size.seconds": (1, 1),
    "group.consumer.session.timeout.ms": (45_000, 1),
    "group.consumer.heartbeat.interval.ms": (5_000, 1),
    "transaction.max.timeout.ms": (900_000, 1),
    "transaction.remove.expired.transaction.cleanup.interval.ms": (3_600_000, 1),
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
_LONGS: Final = frozenset({"offsets.retention.check.interval.ms"})
"""Those of them that are ConfigDef.Type.LONG; the others are INT."""
_OF_ONE_BROKER: Final = (
    BrokerConfig("process.roles", "broker,controller", "list", ""),
    BrokerConfig("default.replication.factor", "1", "int", "1"),
    BrokerConfig("offsets.topic.replication.factor", "1", "int", "3"),
    BrokerConfig("transaction.state.log.replication.factor", "1", "int", "3"),
    BrokerConfig("transaction.state.log.min.isr", "1", "int", "2"),
    BrokerConfig("share.coordinator.state.topic.replication.factor", "1", "int", "3"),
    BrokerConfig("share.coordinator.state.topic.min.isr", "1", "int", "2"),
    BrokerConfig("delete.topic.enable", "true", "boolean", "true"),
)
_AUTO_CREATE: Final = "auto.create.topics.enable"
_AUTHORIZER: Final = "authorizer.class.name"
_SUPER_USERS: Final = "super.users"
_ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"
_OF_AUTHORIZER: Final = (_AUTHORIZER, _SUPER_USERS, _ALLOW_EVERYONE)
_STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
STANDARD_AUTHORIZER_SETTING: Final = f"{_AUTHORIZER}={_STANDARD_AUTHORIZER}"
"""The setting with which ACLs are enforced."""
_BOOLEANS: Final = {"true": True, "false": False}


class AuthorizerSettings(Struct, frozen=True):
    """How ACLs are enforced: who may do everything, and whether everybody may use what no ACL is about."""

    super_users: frozenset[str] = frozenset()
    allows_unlisted: bool = False

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Self | None:
        """Return the settings of an authorizer by their names; None: there is none. Raises SettingError."""
        name = given.get(_AUTHORIZER, "")
        if not name:
            unused = [each for each in (_SUPER_USERS, _ALLOW_EVERYONE) if each in given]
            if unused:
                raise SettingError(
                    f"--set {unused[0]} is for an authorizer, and none is set: ACLs are not enforced. Add --set "
                    f"{STANDARD_AUTHORIZER_SETTING}"
                )
            return None
        if name != _STANDARD_AUTHORIZER:
            raise SettingError(f"{_AUTHORIZER}={name}: the only authorizer of a live broker is {_STANDARD_AUTHORIZER}")
        users = [each.strip() for each in given.get(_SUPER_USERS, "").split(";") if each.strip()]
        for each in users:
            kind, colon, user = each.partition(":")  # SecurityUtils.parseKafkaPrincipal
            if not (kind and colon and user):
                raise SettingError(f"{_SUPER_USERS}: {each} is not a principal, such as User:admin")
        return cls(frozenset(users), _boolean(_ALLOW_EVERYONE, given.get(_ALLOW_EVERYONE, "false")))


class LiveSettings(Struct, frozen=True):
    """What was set. `log`: the settings that matter for logs, as texts; `authorizer`: None: ACLs are not enforced."""

    log: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    creates_topics: bool = True
    authorizer: AuthorizerSettings | None = None

    @classmethod
    def of(cls, assignments: Iterable[str]) -> Self:
        """Return the settings of some `key=value`. Raises SettingError for a key or a value that no broker has."""
        keys = {key.name for each in SETTINGS for key in each.keys}
        log: dict[str, str] = {}
        numbers: dict[str, int] = {}
        authorizer: dict[str, str] = {}
        creates_topics = True
        for text in assignments:
            key, value = parse_assignment(text) if text.partition("=")[0] in keys else _split(text)
            if key in keys:
                log[key] = value
            elif key in _NUMBERS:
                numbers[key] = _number(key, value)
            elif key in _OF_AUTHORIZER:
                authorizer[key] = value
            elif key == _AUTO_CREATE:
                creates_topics = _boolean(key, value)
            else:
                known = ", ".join(sorted([*_NUMBERS, _AUTO_CREATE, *_OF_AUTHORIZER]))
                raise SettingError(f"--set {key}: not a setting of a live broker; besides those of logs: {known}")
        settings = Settings(release=LATEST, assigned=log)
        for each in SETTINGS:
            if each.keys:
                settings.broker(each.name)  # a value that no broker takes is refused here
        return cls(log, numbers, creates_topics, AuthorizerSettings.of(authorizer))

    def described(self) -> Iterator[BrokerConfig]:
        """Yield the settings that do not matter for logs, and what is fixed since there is one broker."""
        for name, (default, _) in _NUMBERS.items():
            yield BrokerConfig(name, str(self.number(name)), "long" if name in _LONGS else "int", str(default))
        yield BrokerConfig(_AUTO_CREATE, str(self.creates_topics).lower(), "boolean", "true")
        yield BrokerConfig(_AUTHORIZER, "" if self.authorizer is None else _STANDARD_AUTHORIZER, "text", "")
        yield from _OF_ONE_BROKER

    def number(self, name: str) -> int:
        """Return a number."""
        return self.numbers.get(name, _NUMBERS[name][0])


def _split(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign:
        raise SettingError(f"--set {text}: expected KEY=VALUE")
    return key.strip(), value.strip()


def _boolean(key: str, value: str) -> bool:
    found = _BOOLEANS.get(value.lower())
    if found is None:
        raise SettingError(f"{key}={value}: true or false is expected")
    return found


def _number(key: str, value: str) -> int:
    least, most = _NUMBERS[key][1], MAX_INT64 if key in _LONGS else MAX_INT32
    if not value.isdecimal() or not least <= int(value) <= most:
        raise SettingError(f"{key}={value}: a number of at least {least} and at most {most} is expected")
    return int(value)
