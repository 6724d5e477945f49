"""The table of Kafka's settings: names, defaults and limits by release, and how their values are written.

A default or a limit that a release changed is a further entry of `defaults` or `minimums` in `SETTINGS`.
"""

from __future__ import annotations

import math
import re
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from kafkalog_core.errors import SettingError
from kafkalog_core.format.layout import MAX_INT32, MAX_INT64
from kafkalog_core.format.names import METADATA_TOPIC
from kafkalog_core.format.textfile import parse_int32, parse_int64
from kafkalog_core.kafka.rules.releases import Fix, Release, Since
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = [
    "BY_NAME",
    "INTERNAL_TOPICS",
    "OTHER_TOPIC_SETTINGS",
    "SETTINGS",
    "BrokerKey",
    "Definition",
    "GapKind",
    "Setting",
    "SettingGap",
    "TopicSettings",
    "Value",
    "check_topic_values",
    "has_topic_setting",
    "known_names",
    "parse_value",
    "producer_expiration_name",
    "text_of",
]


GapKind = Literal["zookeeper", "no-log", "damaged", "unlisted", "no-config", "other-node"]


class SettingGap(NamedTuple):
    """Why a stronger source of a value is unknown: its kind, and a clause for people."""

    kind: GapKind
    why: str


class Setting(Struct, frozen=True):
    """A setting, its value in its own unit, and where the value comes from.

    Args:
        name: its name.
        value: the value in effect.
        origin: where the value comes from.
        gap: why the value is only assumed; None: it is known.
        overrides: the value that an option of the command line overrides, with its origin; None: none is stated.
        held: options that would act against the value, and do not, because the topic is not named.
    """

    name: str
    value: Value
    origin: str
    gap: SettingGap | None = None
    overrides: str | None = None
    held: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The value as Kafka's tools write it."""
        return text_of(self.value)

    @property
    def source(self) -> str:
        """Where the value comes from, what it overrides, what does not override it, and why it is only assumed."""
        return self.source_of(self.origin if self.overrides is None else f"{self.origin}, overrides {self.overrides}")

    def source_of(self, origin: str) -> str:
        """Return the text of the source with a longer text of the origin."""
        held = "".join(f", kept against {option}: the topic is not named" for option in self.held)
        return f"{origin}{held}" if self.gap is None else f"{origin}{held}, assumed: {self.gap.why}"


class TopicSettings(Struct, frozen=True, kw_only=True):
    """The settings in effect for one topic; each field is the setting of its name with `.` for `_`.

    `settings` has all of them, those too that no rule asks for.
    """

    topic: str | None
    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    segment_index_bytes: int
    index_interval_bytes: int
    retention_ms: int
    retention_bytes: int
    local_retention_ms: int
    local_retention_bytes: int
    cleanup_policy: tuple[str, ...]
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    preallocate: bool
    max_message_bytes: int
    max_decompressed_message_bytes: int
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    delete_retention_ms: int
    remote_storage_enable: bool
    remote_log_copy_disable: bool
    settings: tuple[Setting, ...]

    def setting(self, name: str) -> Setting:
        """Return a setting by its Kafka name."""
        return next(setting for setting in self.settings if setting.name == name)

    def origin(self, name: str) -> str:
        """Return where the value of a setting, by its Kafka name, comes from."""
        return self.setting(name).origin


def text_of(value: Value) -> str:
    """Return a value as Kafka's tools write it."""
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def parse_value(definition: Definition, release: Release, text: str, factor: int, where: str, *, name: str) -> Value:
    """Return a value in the setting's own unit. Raises SettingError for one that the release does not accept.

    Args:
        definition: of the setting.
        release: whose limits count.
        text: as it is written.
        factor: converts it to the setting's unit.
        where: what the error names: where it is written, and under which key.
        name: by which it is given: the topic's, the broker's, or the one that overrides it.
    """
    shown = f"{where}={text if len(text) <= _SHOWN else f'{text[:_SHOWN]}...'}"
    value = _READERS[definition.kind](text.strip())
    if value is None:
        raise SettingError(f"{shown}: expected {_WANTED[definition.kind]}")
    if definition.allowed:
        _check_allowed(definition, release, value, text, shown)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if name == definition.name and definition.of_topics:
        minimum = definition.topic_minimum(release)
    else:
        minimum = None if name == definition.override else definition.minimum(release)
        if definition.negative_is_minus_one and value < 0:
            return -1
    if minimum is not None and value * factor < minimum:
        raise SettingError(f"{shown}: Kafka {release} requires at least {minimum}")
    if definition.maximum is not None and value > definition.maximum:
        raise SettingError(f"{shown}: Kafka {release} allows at most {definition.maximum}")
    return -1 if definition.negative_is_minus_one and value < 0 else value * factor


def _check_allowed(definition: Definition, release: Release, value: Value, text: str, shown: str) -> None:
    """Raise SettingError for a text that is none of those allowed, or a list with such a text (`ValidList`)."""
    values = value if isinstance(value, tuple) else (value,)
    unknown = [each for each in values if str(each) not in definition.allowed]
    if unknown:
        raise SettingError(f"{shown}: {str(unknown[0])[:_SHOWN]!r} is not one of {', '.join(definition.allowed)}")
    has_empty = isinstance(value, tuple) and bool(text.strip()) and len(text.split(",")) > len(value)
    if has_empty and release >= Since.LISTS_CHECKED:  # duplicates are removed with a warning
        raise SettingError(f"{shown}: the values of a list must not be empty")


def _read_boolean(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def _read_double(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _read_replicas(text: str) -> tuple[str, ...] | None:
    """Return replicas as `ThrottledReplicaListValidator` takes them; None: it does not."""
    values = tuple(part.strip() for part in text.split(","))
    is_known = "".join(values) == "*" or all(not each or _REPLICA.fullmatch(each) for each in values)
    return values if is_known else None


def _read_list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


_READERS: Final[Mapping[str, Callable[[str], Value | None]]] = {
    "int": parse_int32,
    "long": parse_int64,
    "double": _read_double,
    "boolean": _read_boolean,
    "list": _read_list,
    "replicas": _read_replicas,
    "text": str,
}
_WANTED: Final = {
    "int": "a whole number of 32 bits",
    "long": "a whole number of 64 bits",
    "double": "a number",
    "boolean": "true or false",
    "list": "a list",
    "replicas": "* or a list of PARTITION:BROKER",
    "text": "a text",
}


Value = int | float | bool | str | tuple[str, ...]
Kind = Literal["int", "long", "double", "boolean", "list", "replicas", "text"]

_SHOWN: Final = 100
"""Characters of a value that an error shows: a client may send one of 32,767."""
_REPLICA: Final = re.compile(r"[0-9]+:[0-9]+")
_SECOND_MS: Final = 1000
_MINUTE_MS: Final = 60 * _SECOND_MS
_HOUR_MS: Final = 60 * _MINUTE_MS
_DAY_MS: Final = 24 * _HOUR_MS
_MIB: Final = 1024 * 1024
_INTERNAL_SEGMENT_BYTES: Final = 100 * _MIB
RANGES: Final = {"int": (-MAX_INT32 - 1, MAX_INT32), "long": (-MAX_INT64 - 1, MAX_INT64)}


class BrokerKey(Struct, frozen=True):
    """A name in server.properties; `factor` converts its value to the setting's unit: hours to milliseconds."""

    name: str
    factor: int = 1


class Definition(Struct, frozen=True, kw_only=True):
    """A setting.

    Args:
        name: the topic's name of it, else the broker's.
        keys: the broker's names, the one that counts first.
        kind: how a value is read.
        defaults: the default of a release is that of the last entry that is not after it.
        minimums: likewise; empty: no minimum.
        of_topics: whether `name` is a topic's.
        override: a name that overrides `name` at the topic, and has no minimum.
        negative_is_minus_one: whether any negative value of the broker's means -1, unlimited.
        topic_minimums: of the topic's value, where they are others than those of the broker's.
        maximum: the largest value.
        allowed: the only texts; of a list, its only elements.
        first: the first release whose topics have it.
        patches: the first bug fixes of earlier lines whose topics have it too.
        end: the first release whose topics do not have it any more.
    """

    name: str
    keys: tuple[BrokerKey, ...]
    kind: Kind
    defaults: tuple[tuple[Release, Value], ...]
    minimums: tuple[tuple[Release, int], ...] = ()
    of_topics: bool = True
    override: str | None = None
    negative_is_minus_one: bool = False
    topic_minimums: tuple[tuple[Release, int], ...] = ()
    maximum: int | None = None
    allowed: tuple[str, ...] = ()
    first: Release = Since.START
    patches: tuple[Release, ...] = ()
    end: Release = Since.NEVER

    @property
    def least(self) -> int | None:
        """The smallest value that any release takes; None: any number."""
        return self.minimums[0][1] if self.minimums else None

    def exists_in(self, release: Release) -> bool:
        """Return whether topics of the release have it."""
        return Fix(self.first, self.patches).is_in(release) and release < self.end

    def default(self, release: Release) -> Value:
        """Return the value that is in effect where none is set."""
        return [value for first, value in self.defaults if first <= release][-1]

    def minimum(self, release: Release) -> int | None:
        """Return the smallest value that the release accepts; None: any."""
        return _newest(self.minimums, release)

    def topic_minimum(self, release: Release) -> int | None:
        """Return the smallest value of a topic that the release accepts; None: any."""
        return _newest(self.topic_minimums, release) if self.topic_minimums else self.minimum(release)


def _newest(values: tuple[tuple[Release, int], ...], release: Release) -> int | None:
    known = [value for first, value in values if first <= release]
    return known[-1] if known else None


def _key(*names: str) -> tuple[BrokerKey, ...]:
    return tuple(BrokerKey(name) for name in names)


def _at(value: int) -> tuple[tuple[Release, int], ...]:
    return ((Since.START, value),)


def _topic(
    name: str, keys: tuple[BrokerKey, ...], kind: Kind, default: Value, minimum: int | None = None, **more: Any
) -> Definition:
    minimums = () if minimum is None else _at(minimum)
    return Definition(name=name, keys=keys, kind=kind, defaults=((Since.START, default),), minimums=minimums, **more)


def _broker(name: str, kind: Kind, default: Value, minimum: int | None = None) -> Definition:
    minimums = () if minimum is None else _at(minimum)
    return Definition(
        name=name, keys=_key(name), kind=kind, defaults=((Since.START, default),), minimums=minimums, of_topics=False
    )


_TIMES: Final = ("CreateTime", "LogAppendTime")
SETTINGS: Final = (
    Definition(
        name="segment.bytes",
        keys=_key("log.segment.bytes"),
        kind="int",
        defaults=((Since.START, 1024 * _MIB),),
        minimums=((Since.START, 14), (Since.SEGMENT_OF_ONE_MIB, _MIB)),
        override="internal.segment.bytes",
    ),
    _topic("segment.ms", (BrokerKey("log.roll.ms"), BrokerKey("log.roll.hours", _HOUR_MS)), "long", 168 * _HOUR_MS, 1),
    _topic(
        "segment.jitter.ms",
        (BrokerKey("log.roll.jitter.ms"), BrokerKey("log.roll.jitter.hours", _HOUR_MS)),
        "long",
        0,
        0,
    ),
    _topic("segment.index.bytes", _key("log.index.size.max.bytes"), "int", 10 * _MIB, 4),
    _topic("index.interval.bytes", _key("log.index.interval.bytes"), "int", 4096, 0),
    Definition(
        name="retention.ms",
        keys=(
            BrokerKey("log.retention.ms"),
            BrokerKey("log.retention.minutes", _MINUTE_MS),
            BrokerKey("log.retention.hours", _HOUR_MS),
        ),
        kind="long",
        defaults=((Since.START, 168 * _HOUR_MS),),
        negative_is_minus_one=True,
        topic_minimums=((Since.RETENTION_CHECKED, -1),),
    ),
    _topic("retention.bytes", _key("log.retention.bytes"), "long", -1),
    _topic("local.retention.ms", _key("log.local.retention.ms"), "long", -2, -2),
    _topic("local.retention.bytes", _key("log.local.retention.bytes"), "long", -2, -2),
    _topic("cleanup.policy", _key("log.cleanup.policy"), "list", ("delete",), allowed=("compact", "delete")),
    _topic("file.delete.delay.ms", _key("log.segment.delete.delay.ms"), "long", _MINUTE_MS, 0),
    Definition(
        name="flush.messages",
        keys=_key("log.flush.interval.messages"),
        kind="long",
        defaults=((Since.START, MAX_INT64),),
        minimums=((Since.START, 0), (Since.DEFAULTS_OF_4_0, 1)),
    ),
    _topic(
        "flush.ms",
        _key("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
        "long",
        MAX_INT64,
        0,
    ),
    _topic("preallocate", _key("log.preallocate"), "boolean", False),
    _topic("max.message.bytes", _key("message.max.bytes"), "int", 1048588, 0),
    _topic(
        "max.decompressed.message.bytes",
        _key("max.decompressed.message.bytes"),
        "int",
        MAX_INT32 - 8,
        1,
        first=Since.RECORD_LIMIT.first,
        patches=Since.RECORD_LIMIT.patches,
    ),
    _topic("message.timestamp.type", _key("log.message.timestamp.type"), "text", "CreateTime", allowed=_TIMES),
    _topic(
        "message.timestamp.difference.max.ms",
        _key("log.message.timestamp.difference.max.ms"),
        "long",
        MAX_INT64,
        0,
        end=Since.DEFAULTS_OF_4_0,
    ),
    _topic("message.timestamp.before.max.ms", _key("log.message.timestamp.before.max.ms"), "long", MAX_INT64, 0),
    Definition(
        name="message.timestamp.after.max.ms",
        keys=_key("log.message.timestamp.after.max.ms"),
        kind="long",
        defaults=((Since.START, MAX_INT64), (Since.DEFAULTS_OF_4_0, _HOUR_MS)),
        minimums=_at(0),
    ),
    _topic("min.cleanable.dirty.ratio", _key("log.cleaner.min.cleanable.ratio"), "double", 0.5, 0, maximum=1),
    _topic("min.compaction.lag.ms", _key("log.cleaner.min.compaction.lag.ms"), "long", 0, 0),
    _topic("max.compaction.lag.ms", _key("log.cleaner.max.compaction.lag.ms"), "long", MAX_INT64, 1),
    _topic("delete.retention.ms", _key("log.cleaner.delete.retention.ms"), "long", _DAY_MS, 0),
    _topic("remote.storage.enable", (), "boolean", False),
    _topic("remote.log.copy.disable", (), "boolean", False),
    _broker("log.retention.check.interval.ms", "long", 5 * _MINUTE_MS, 1),
    _broker("log.flush.scheduler.interval.ms", "long", MAX_INT64),
    _broker("log.flush.offset.checkpoint.interval.ms", "int", _MINUTE_MS, 0),
    _broker("log.flush.start.offset.checkpoint.interval.ms", "int", _MINUTE_MS, 0),
    _broker("log.initial.task.delay.ms", "long", 30 * _SECOND_MS, 0),
    Definition(
        name="num.recovery.threads.per.data.dir",
        keys=_key("num.recovery.threads.per.data.dir"),
        kind="int",
        defaults=((Since.START, 1), (Since.DEFAULTS_OF_4_0, 2)),
        minimums=_at(1),
        of_topics=False,
    ),
    _broker("log.cleaner.backoff.ms", "long", 15 * _SECOND_MS, 0),
    _broker("log.cleaner.threads", "int", 1, 0),
    Definition(
        name="log.cleaner.dedupe.buffer.size",
        keys=_key("log.cleaner.dedupe.buffer.size"),
        kind="long",
        defaults=((Since.START, 500 * _MIB), (Since.CLEANER_ON_BY_DEFAULT, 128 * _MIB)),
        of_topics=False,
    ),
    _broker("log.cleaner.io.buffer.size", "int", _MIB // 2, 0),
    _broker("log.cleaner.io.buffer.load.factor", "double", 0.9),
    _broker("log.cleaner.io.max.bytes.per.second", "double", sys.float_info.max),
    _broker("producer.id.expiration.ms", "int", _DAY_MS, 1),
    _broker("transactional.id.expiration.ms", "int", 7 * _DAY_MS, 1),
    Definition(
        name="offsets.retention.minutes",
        keys=_key("offsets.retention.minutes"),
        kind="int",
        defaults=((Since.START, _DAY_MS // _MINUTE_MS), (Since.OFFSETS_KEPT_A_WEEK, 7 * _DAY_MS // _MINUTE_MS)),
        minimums=_at(1),
        of_topics=False,
    ),
    _broker("offsets.retention.check.interval.ms", "long", 10 * _MINUTE_MS, 1),
    _broker("metadata.log.segment.bytes", "int", 1024 * _MIB, 8 * _MIB),
    _broker("offsets.topic.segment.bytes", "int", _INTERNAL_SEGMENT_BYTES, 1),
    _broker("transaction.state.log.segment.bytes", "int", _INTERNAL_SEGMENT_BYTES, 1),
    _broker("share.coordinator.state.topic.segment.bytes", "int", _INTERNAL_SEGMENT_BYTES, 1),
    Definition(
        name="log.cleaner.enable",
        keys=_key("log.cleaner.enable"),
        kind="boolean",
        defaults=((Since.START, False), (Since.CLEANER_ON_BY_DEFAULT, True)),
        of_topics=False,
    ),
)
BY_NAME: Final = {definition.name: definition for definition in SETTINGS}

OTHER_TOPIC_SETTINGS: Final = (
    _topic(
        "compression.type",
        _key("compression.type"),
        "text",
        "producer",
        allowed=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    _topic("compression.gzip.level", (), "int", -1, allowed=("-1", *map(str, range(1, 10))), first=Since.LEVELS),
    _topic("compression.lz4.level", (), "int", 9, 1, maximum=17, first=Since.LEVELS),
    _topic("compression.zstd.level", (), "int", 3, -131072, maximum=22, first=Since.LEVELS),
    _topic("min.insync.replicas", _key("min.insync.replicas"), "int", 1, 1),
    _topic("unclean.leader.election.enable", _key("unclean.leader.election.enable"), "boolean", False),
    _topic(
        "message.downconversion.enable",
        _key("log.message.downconversion.enable"),
        "boolean",
        True,
        end=Since.DEFAULTS_OF_4_0,
    ),
    _topic("leader.replication.throttled.replicas", (), "replicas", ()),
    _topic("follower.replication.throttled.replicas", (), "replicas", ()),
    _topic("remote.log.delete.on.disable", (), "boolean", False, first=Since.REMOTE_SWITCHES),
    _topic("remote.copy.lag.bytes", (), "long", -1, first=Since.REMOTE_COPY_LAG),
    _topic("remote.copy.lag.ms", (), "long", 0, first=Since.REMOTE_COPY_LAG),
    _topic("errors.deadletterqueue.group.enable", (), "boolean", False, first=Since.REMOTE_COPY_LAG),
)
"""Settings of topics that do not matter for the files on the disk."""


def check_topic_values(configs: Mapping[str, str], release: Release, where: str = "") -> None:
    """Raise SettingError for a name that no topic has, or a value that it cannot have (`LogConfig.validate`).

    Values that contradict each other are a matter of `kafka.sim.retention.rules.check_settings`.
    """
    for name, text in configs.items():
        if not has_topic_setting(name, release):
            raise SettingError(f"Unknown topic config name: {name[:_SHOWN]}")
        parse_value(_of_topics()[name], release, text, 1, f"{where}{name}", name=name)


def has_topic_setting(name: str, release: Release) -> bool:
    """Return whether a topic of a release has a setting; a broker that starts ignores others (`ConfigDef.parse`)."""
    definition = _of_topics().get(name)
    return definition is not None and definition.exists_in(release)


@cache
def _of_topics() -> dict[str, Definition]:
    """Return the settings of topics by each of their names."""
    known = {each.name: each for each in (*SETTINGS, *OTHER_TOPIC_SETTINGS) if each.of_topics}
    return known | {each.override: each for each in SETTINGS if each.override is not None}


INTERNAL_TOPICS: Final[dict[str, dict[str, str]]] = {
    METADATA_TOPIC: {"max.message.bytes": str(8 * _MIB), "segment.bytes": "metadata.log.segment.bytes"},
    "__consumer_offsets": {"cleanup.policy": "compact", "segment.bytes": "offsets.topic.segment.bytes"},
    "__transaction_state": {"cleanup.policy": "compact", "segment.bytes": "transaction.state.log.segment.bytes"},
    "__share_group_state": {"cleanup.policy": "delete", "segment.bytes": "share.coordinator.state.topic.segment.bytes"},
}
"""The settings with which a broker creates its own topics; the name of another setting means its value."""


def producer_expiration_name(release: Release) -> str:
    """Return the name of the broker's setting after which it forgets a silent producer.

    KIP-854 introduced its own setting; up to 3.3.2 `LogManager` uses transactionalIdExpirationMs.
    """
    return "producer.id.expiration.ms" if release >= Since.PRODUCER_EXPIRATION else "transactional.id.expiration.ms"


def known_names() -> Iterator[str]:
    """Yield every name that a setting can be given by."""
    for definition in SETTINGS:
        yield from (key.name for key in definition.keys)
        if definition.of_topics:
            yield definition.name
        if definition.override is not None:
            yield definition.override
