"""The settings of a live broker's topics: which there are, what a client may set them to, and what is in effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.errors import SettingError
from kafkalog_core.format.names import METADATA_TOPIC
from kafkalog_core.kafka.rules.releases import LATEST
from kafkalog_core.kafka.rules.setting_table import (
    INTERNAL_TOPICS,
    OTHER_TOPIC_SETTINGS,
    SETTINGS,
    Definition,
    Setting,
    check_topic_values,
    text_of,
)
from kafkalog_core.kafka.sim.cluster_metadata import ClusterConfigs
from kafkalog_core.kafka.sim.retention.rules import check_settings
from kafkalog_core.kafka.sim.settings import Settings
from kafkalog_core.livebroker.logs.appends import AppendPolicy, codec_of
from kafkalog_core.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafkalog_core.kafka.rules.setting_table import TopicSettings
    from kafkalog_core.serve.topics.broker_configs import BrokerConfig

__all__ = [
    "BROKER_CONFIG",
    "DEFAULT_CONFIG",
    "STATIC_CONFIG",
    "TOPIC_CONFIG",
    "ConfigEntry",
    "ConfigSynonym",
    "TopicConfigs",
    "described_config",
    "own_configs",
]

TOPIC_CONFIG: Final = 1  # DescribeConfigsResponse.ConfigSource
BROKER_CONFIG: Final = 2
STATIC_CONFIG: Final = 4
DEFAULT_CONFIG: Final = 5

_OF_KERBEROS: Final[dict[str, tuple[str, str]]] = {
    "sasl.kerberos.kinit.cmd": ("/usr/bin/kinit", "text"),
    "sasl.kerberos.min.time.before.relogin": ("60000", "long"),
    "sasl.kerberos.ticket.renew.jitter": ("0.05", "double"),
    "sasl.kerberos.ticket.renew.window.factor": ("0.8", "double"),
}
"""Settings of the broker that clients can change and that count for nothing where no listener has GSSAPI, here as on a
broker (`DynamicListenerConfig`, `BrokerSecurityConfigs`): default and type."""
_MOST_KEPT: Final = 10_000
_LIST: Final = 7  # ConfigResponse.ConfigType, as the others
_TYPES: Final = {"boolean": 1, "text": 2, "int": 3, "long": 5, "double": 6, "list": _LIST, "replicas": _LIST}
_NOTHING: Final[Mapping[str, str]] = {}
_KEPT: Final = {"__share_group_state": {"retention.ms": "-1"}}


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
        type_id: the type in DescribeConfigs.
        default: the value if the resource has none, as of a group.
        inherited: values of the broker, in the order in which they count; the default comes last. None: there are none,
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

    `settings`: the settings of the broker.
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
        # Every value is parsed before any counts, so a bad one changes nothing.
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

    def check(self, topic: str, configs: Mapping[str, str], before: Mapping[str, str] = _NOTHING) -> None:
        """Raise SettingError for a setting that no topic has, or a value that it cannot have.

        before: what is set already: an older broker may have set what a later one does not know.
        """
        # Only what changes: a topic may keep settings that another release has set.
        check_topic_values({key: text for key, text in configs.items() if before.get(key) != text}, LATEST)
        settings = self.of_topic(topic, configs)
        check_settings(settings, LATEST)
        if settings.remote_storage_enable:  # LogConfig.validateRemoteStorageOnlyIfSystemEnabled
            raise SettingError(
                "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log "
                "storage."
            )

    def of_topic(self, topic: str, configs: Mapping[str, str]) -> TopicSettings:
        """Return the settings that matter for the log. Raises SettingError.

        They are kept, since upkeep asks for them once a second for every partition.
        """
        kept, key = self._of_topics, (topic, frozenset(configs.items()))
        found = kept.get(key)
        if found is None:
            cluster = ClusterConfigs(topics={topic: dict(configs)}, listed=frozenset({topic}))
            found = replace(self.settings, cluster=cluster).for_topic(topic)
            # All at once: a bound for a broker whose settings change often, not a cache that needs an order.
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
            if not definition.exists_in(LATEST):
                continue
            found[each.name] = ConfigEntry(
                each.name,
                each.text,
                each.name not in configs,
                _TYPES[definition.kind],
                "",
                self._inherited(definition),
            )
        for other in OTHER_TOPIC_SETTINGS:
            if other.exists_in(LATEST):
                value, default = configs.get(other.name), text_of(other.default(LATEST))
                found[other.name] = ConfigEntry(
                    other.name,
                    default if value is None else value,
                    value is None,
                    _TYPES[other.kind],
                    default,
                    self._inherited(other) if other.keys else None,
                )
        yield from (found[name] for name in sorted(found))

    def broker_entries(self, others: Iterable[BrokerConfig]) -> Iterator[ConfigEntry]:
        """Yield the settings of the broker that this program knows. others: those that do not matter for logs."""
        for each in SETTINGS:
            if each.keys and each.exists_in(LATEST):
                setting, type_id = self.settings.broker(each.name), _TYPES[each.kind]
                yield ConfigEntry(each.keys[0].name, setting.text, True, type_id, "", self._inherited(each))
        for each in OTHER_TOPIC_SETTINGS:
            if each.keys and each.exists_in(LATEST):
                text = text_of(each.default(LATEST))
                yield ConfigEntry(each.keys[0].name, text, True, _TYPES[each.kind], text, self._inherited(each))
        for other in others:
            yield described_config(other)
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
            found.append(ConfigSynonym(last.name, text_of(value), DEFAULT_CONFIG))
        return tuple(found)


def described_config(config: BrokerConfig) -> ConfigEntry:
    """Return a setting of the broker as DescribeConfigs has it."""
    given = ConfigSynonym(config.name, config.value, STATIC_CONFIG)
    default = [] if config.default is None else [ConfigSynonym(config.name, config.default, DEFAULT_CONFIG)]
    found = default if config.value == config.default else [given, *default]
    return ConfigEntry(config.name, config.value, True, _TYPES[config.kind], "", tuple(found))


def _check_number(name: str, value: str, kind: str) -> None:
    """Raise SettingError for a text that is not a number of a kind; any text is one of the kind `text`."""
    try:
        if kind == "long":
            int(value)
        elif kind == "double":
            float(value)
    except ValueError:
        raise SettingError(f"{name}: {value!r} is not a number") from None


def own_configs(name: str) -> dict[str, str]:
    """Return the settings with which a broker creates one of its own topics (`AutoTopicCreationManager`)."""
    if name not in INTERNAL_TOPICS or name == METADATA_TOPIC:
        return {}
    given = {"compression.type": "producer", "cleanup.policy": "compact", "segment.bytes": str(100 * 1024 * 1024)}
    policy = {key: value for key, value in INTERNAL_TOPICS[name].items() if key == "cleanup.policy"}
    return given | policy | _KEPT.get(name, {})
