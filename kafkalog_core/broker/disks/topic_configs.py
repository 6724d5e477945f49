"""The settings of a live broker's topics: which there are, what a client may set them to, and what is in effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.broker.logs.appends import AppendPolicy, codec_of
from kafkalog_core.errors import SettingError
from kafkalog_core.format.names import METADATA_TOPIC
from kafkalog_core.kafka.cluster_metadata import ClusterConfigs
from kafkalog_core.kafka.releases import LATEST
from kafkalog_core.kafka.retention.rules import check_settings
from kafkalog_core.kafka.setting_table import INTERNAL_TOPICS, SETTINGS, Definition, Setting
from kafkalog_core.kafka.settings import Settings
from kafkalog_core.structs import NamedTuple, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalog_core.kafka.setting_table import TopicSettings

__all__ = [
    "BROKER_CONFIG",
    "DEFAULT_CONFIG",
    "STATIC_CONFIG",
    "TOPIC_CONFIG",
    "ConfigEntry",
    "ConfigSynonym",
    "TopicConfigs",
    "own_configs",
]

TOPIC_CONFIG: Final = 1  # DescribeConfigsResponse.ConfigSource
BROKER_CONFIG: Final = 2
STATIC_CONFIG: Final = 4
DEFAULT_CONFIG: Final = 5

_CODECS: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_TIMES: Final = ("CreateTime", "LogAppendTime")
_BOOLEANS: Final = ("true", "false")
_OTHERS: Final[dict[str, tuple[str, tuple[str, ...] | tuple[int, int]]]] = {
    "compression.type": ("producer", _CODECS),
    "compression.gzip.level": ("-1", (-1, 9)),
    "compression.lz4.level": ("9", (1, 17)),
    "compression.zstd.level": ("3", (-131072, 22)),
    "min.insync.replicas": ("1", (1, 2**31 - 1)),
    "unclean.leader.election.enable": ("false", _BOOLEANS),
    "message.downconversion.enable": ("true", _BOOLEANS),
    "leader.replication.throttled.replicas": ("", ()),
    "follower.replication.throttled.replicas": ("", ()),
}
"""Settings of topics that do not matter for the files on the disk: default, and the values or the range allowed."""
_INTERNAL: Final = frozenset({"internal.segment.bytes"})
_OF_KERBEROS: Final[dict[str, tuple[str, str]]] = {
    "sasl.kerberos.kinit.cmd": ("/usr/bin/kinit", "text"),
    "sasl.kerberos.min.time.before.relogin": ("60000", "long"),
    "sasl.kerberos.ticket.renew.jitter": ("0.05", "double"),
    "sasl.kerberos.ticket.renew.window.factor": ("0.8", "double"),
}
"""Settings of the broker that clients can change and that count for nothing where no listener has GSSAPI, here as on a
broker (`DynamicListenerConfig`, `BrokerSecurityConfigs`): default and type."""
_MOST_KEPT: Final = 10_000
_KEPT: Final = {"__share_group_state": {"retention.ms": "-1"}}
_TYPES: Final = {"boolean": 1, "text": 2, "int": 3, "long": 5, "double": 6, "list": 7}  # ConfigResponse.ConfigType
_STRING: Final = 2


class ConfigSynonym(NamedTuple):
    """A value that counts where a topic has none of its own, by the broker's name of it; `source`: a ConfigSource."""

    name: str
    value: str
    source: int


class ConfigEntry(NamedTuple):
    """A setting in effect.

    Args:
        name: its name.
        value: the value in effect.
        is_default: whether the resource has no value of its own.
        type_id: that of DescribeConfigs.
        default: the value if the resource has none, as of a group.
        inherited: values of the broker, the one that counts first; the last one is the default. None: there are none,
            `default` alone counts.
    """

    name: str
    value: str
    is_default: bool
    type_id: int
    default: str
    inherited: tuple[ConfigSynonym, ...] | None = None

    def source(self, own: int) -> int:
        """Return the ConfigSource of the value; `own`: that of a value of the resource itself."""
        if not self.is_default:
            return own
        return self.inherited[0].source if self.inherited else DEFAULT_CONFIG

    def synonyms(self, own: int) -> list[ConfigSynonym]:
        """Return the values that there are, the one in effect first (`ConfigHelper.createTopicConfigEntry`)."""
        given = [] if self.is_default else [ConfigSynonym(self.name, self.value, own)]
        if self.inherited is None:
            return [*given, ConfigSynonym(self.name, self.default, DEFAULT_CONFIG)]
        return [*given, *self.inherited]


class TopicConfigs:
    """Settings by topic; `broker`: values that replace the broker's defaults, by their names in server.properties.

    `settings` are those of the broker.
    """

    def __init__(self, broker: Mapping[str, str] | None = None) -> None:
        self._at_start = dict(broker or {})
        self.dynamic: Mapping[str, str] = {}
        self.settings = Settings(release=LATEST, assigned=self._at_start)
        self._of_topics: dict[tuple[str, frozenset[tuple[str, str]]], TopicSettings] = {}

    def set_dynamic(self, dynamic: Mapping[str, str]) -> None:
        """Let other settings of the broker count, those that clients have changed (DynamicBrokerConfig).

        Those that this program does not know count for nothing. Raises SettingError.
        """
        for name, (_, kind) in _OF_KERBEROS.items():
            if name in dynamic:
                _check_number(name, dynamic[name], kind)
        known = {key.name for each in SETTINGS for key in each.keys}
        settings = Settings(
            release=LATEST, assigned=self._at_start | {key: value for key, value in dynamic.items() if key in known}
        )
        for each in SETTINGS:
            if each.keys:
                settings.broker(each.name)
        self.dynamic, self.settings = dict(dynamic), settings
        self._of_topics = {}  # last: what another thread finds out from the old settings is put into the old dictionary

    def is_of_broker(self, name: str) -> bool:
        """Return whether the broker has a setting of a name that clients can change."""
        return name in _OF_KERBEROS or name in {key.name for each in SETTINGS for key in each.keys if each.of_topics}

    def broker(self, name: str) -> Setting:
        """Return a setting of the broker in effect."""
        return self.settings.broker(name)

    def check(self, topic: str, configs: Mapping[str, str]) -> None:
        """Raise SettingError for a setting that no topic has, or a value that it cannot have."""
        names = {each.name for each in SETTINGS if each.of_topics} | _INTERNAL | _OTHERS.keys()
        for name, value in configs.items():
            if name not in names:
                raise SettingError(f"Unknown topic config name: {name}")
            if name in _OTHERS:
                _check_other(name, value)
        if configs.get("message.timestamp.type", _TIMES[0]) not in _TIMES:
            raise SettingError(f"message.timestamp.type: not one of {', '.join(_TIMES)}")
        check_settings(self.of_topic(topic, configs), LATEST)

    def of_topic(self, topic: str, configs: Mapping[str, str]) -> TopicSettings:
        """Return the settings that matter for the log. Raises SettingError.

        They are kept: upkeep asks for those of every partition once a second.
        """
        kept, key = self._of_topics, (topic, frozenset(configs.items()))
        found = kept.get(key)
        if found is None:
            cluster = ClusterConfigs(topics={topic: dict(configs)}, listed=frozenset({topic}))
            found = replace(self.settings, cluster=cluster).for_topic(topic)
            if len(kept) >= _MOST_KEPT:
                kept.clear()
            kept[key] = found
        return found

    def policy_of(self, topic: str, configs: Mapping[str, str]) -> AppendPolicy:
        """Return what counts for appends."""
        settings = self.of_topic(topic, configs)
        return AppendPolicy(
            max_message_bytes=settings.max_message_bytes,
            max_decompressed_bytes=settings.max_decompressed_message_bytes,
            min_in_sync=int(configs.get("min.insync.replicas", "1")),
            codec=codec_of(configs.get("compression.type", "producer")),
            is_compacted="compact" in settings.cleanup_policy,
            has_append_time=settings.setting("message.timestamp.type").text == "LogAppendTime",
            before_max_ms=int(settings.setting("message.timestamp.before.max.ms").text),
            after_max_ms=int(settings.setting("message.timestamp.after.max.ms").text),
        )

    def entries(self, topic: str, configs: Mapping[str, str]) -> Iterator[ConfigEntry]:
        """Yield every setting of a topic with its value in effect, by name."""
        found: dict[str, ConfigEntry] = {}
        definitions = {each.name: each for each in SETTINGS}
        for each in self.of_topic(topic, configs).settings:
            definition = definitions[each.name]
            found[each.name] = ConfigEntry(
                each.name,
                each.text,
                each.name not in configs,
                _TYPES.get(definition.kind, _STRING),
                "",
                self._inherited(definition),
            )
        for name, (default, allowed) in _OTHERS.items():
            kind = _TYPES["boolean"] if allowed == _BOOLEANS else _TYPES["int"] if _is_range(allowed) else _STRING
            found[name] = ConfigEntry(name, configs.get(name, default), name not in configs, kind, default)
        yield from (found[name] for name in sorted(found))

    def broker_entries(self) -> Iterator[ConfigEntry]:
        """Yield the settings of the broker that this program knows, by name."""
        for each in SETTINGS:
            if each.keys:
                setting, type_id = self.settings.broker(each.name), _TYPES.get(each.kind, _STRING)
                yield ConfigEntry(each.keys[0].name, setting.text, True, type_id, "", self._inherited(each))
        for name, (default, kind) in _OF_KERBEROS.items():
            inherited: tuple[ConfigSynonym, ...] = (ConfigSynonym(name, default, DEFAULT_CONFIG),)
            if name in self.dynamic:
                inherited = (ConfigSynonym(name, self.dynamic[name], BROKER_CONFIG), *inherited)
            yield ConfigEntry(name, inherited[0].value, True, _TYPES[kind], default, inherited)

    def _inherited(self, definition: Definition) -> tuple[ConfigSynonym, ...]:
        """Return the broker's values of a setting, those of clients first (`ConfigHelper.configSynonyms`).

        A default is named as the last of the broker's names, in its unit: log.retention.hours.
        """
        found = [
            ConfigSynonym(key.name, values[key.name], source)
            for values, source in ((self.dynamic, BROKER_CONFIG), (self._at_start, STATIC_CONFIG))
            for key in definition.keys
            if key.name in values
        ]
        if definition.keys:
            last, value = definition.keys[-1], definition.default(LATEST)
            if isinstance(value, int) and last.factor > 1:
                value //= last.factor
            found.append(ConfigSynonym(last.name, Setting(definition.name, value, "").text, DEFAULT_CONFIG))
        return tuple(found)


def _is_range(allowed: tuple[str, ...] | tuple[int, int]) -> bool:
    return bool(allowed) and isinstance(allowed[0], int)


def _check_number(name: str, value: str, kind: str) -> None:
    """Raise SettingError for a text that is not a number of a kind; any text is one of the kind `text`."""
    try:
        if kind == "long":
            int(value)
        elif kind == "double":
            float(value)
    except ValueError:
        raise SettingError(f"{name}: {value!r} is not a number") from None


def _check_other(name: str, value: str) -> None:
    allowed = _OTHERS[name][1]
    if not allowed:
        return
    if not isinstance(allowed[0], int):
        if value not in allowed:
            raise SettingError(f"{name}: {value!r} is not one of {', '.join(map(str, allowed))}")
        return
    least, most = (int(each) for each in allowed)
    try:
        number = int(value)
    except ValueError:
        raise SettingError(f"{name}: {value!r} is not a number") from None
    if not least <= number <= most:
        raise SettingError(f"{name}: {number} is not between {least} and {most}")


def own_configs(name: str) -> dict[str, str]:
    """Return the settings with which a broker creates one of its own topics (`AutoTopicCreationManager`)."""
    if name not in INTERNAL_TOPICS or name == METADATA_TOPIC:
        return {}
    given = {"compression.type": "producer", "cleanup.policy": "compact", "segment.bytes": str(100 * 1024 * 1024)}
    policy = {key: value for key, value in INTERNAL_TOPICS[name].items() if key == "cleanup.policy"}
    return given | policy | _KEPT.get(name, {})
