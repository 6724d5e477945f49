"""The settings of a live broker's topics: which there are, what a client may set them to, and what is in effect."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.broker.appends import AppendPolicy, codec_of
from kafkalog_core.errors import SettingError
from kafkalog_core.kafka.cluster_metadata import ClusterConfigs
from kafkalog_core.kafka.releases import LATEST
from kafkalog_core.kafka.retention.rules import check_settings
from kafkalog_core.kafka.setting_table import SETTINGS, Definition, Setting
from kafkalog_core.kafka.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalog_core.kafka.setting_table import TopicSettings

__all__ = ["ConfigEntry", "TopicConfigs"]

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
_TYPES: Final = {"boolean": 1, "text": 2, "int": 3, "long": 5, "double": 6, "list": 7}  # ConfigResponse.ConfigType
_STRING: Final = 2


class ConfigEntry(NamedTuple):
    """A setting in effect; `type_id` is that of DescribeConfigs."""

    name: str
    value: str
    is_default: bool
    type_id: int
    default: str


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
            codec=codec_of(configs.get("compression.type", "producer")),
            is_compacted="compact" in settings.cleanup_policy,
            has_append_time=settings.setting("message.timestamp.type").text == "LogAppendTime",
            before_max_ms=int(settings.setting("message.timestamp.before.max.ms").text),
            after_max_ms=int(settings.setting("message.timestamp.after.max.ms").text),
        )

    def min_in_sync(self, configs: Mapping[str, str]) -> int:
        """Return min.insync.replicas."""
        return int(configs.get("min.insync.replicas", "1"))

    def entries(self, topic: str, configs: Mapping[str, str]) -> Iterator[ConfigEntry]:
        """Yield every setting of a topic with its value in effect, by name."""
        found: dict[str, ConfigEntry] = {}
        defaults = {each.name: each.text for each in self.of_topic("", {}).settings}
        kinds = {each.name: each.kind for each in SETTINGS}
        for each in self.of_topic(topic, configs).settings:
            found[each.name] = self._entry(each, configs, defaults[each.name], _TYPES.get(kinds[each.name], _STRING))
        for name, (default, allowed) in _OTHERS.items():
            kind = _TYPES["boolean"] if allowed == _BOOLEANS else _TYPES["int"] if _is_range(allowed) else _STRING
            found[name] = ConfigEntry(name, configs.get(name, default), name not in configs, kind, default)
        yield from (found[name] for name in sorted(found))

    def broker_entries(self) -> Iterator[ConfigEntry]:
        """Yield the settings of the broker that this program knows, by name."""
        for each in SETTINGS:
            if each.keys:
                setting = self.settings.broker(each.name)
                given = self.settings.assigned
                is_default = not any(key.name in given for key in each.keys)
                yield ConfigEntry(
                    each.keys[0].name, setting.text, is_default, _TYPES.get(each.kind, _STRING), setting.text
                )

        for name, (default, kind) in _OF_KERBEROS.items():
            value = self.dynamic.get(name, default)
            yield ConfigEntry(name, value, name not in self.dynamic, _TYPES[kind], default)

    @staticmethod
    def _default_of(definition: Definition) -> str:
        return Setting(definition.name, definition.default(LATEST), "").text

    @staticmethod
    def _entry(setting: Setting, configs: Mapping[str, str], default: str, type_id: int) -> ConfigEntry:
        return ConfigEntry(setting.name, setting.text, setting.name not in configs, type_id, default)


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
