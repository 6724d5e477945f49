"""Kafka's settings in force, each with where its value comes from.

From the strongest: a value for one topic (`--topic-config`), one for all topics on the command line (`--set` by the
topic's name of a setting), what the topic is configured with in the cluster metadata log of the same log directory.
Then the broker's: the command line (`--set`), what was changed while it ran (metadata log), server.properties, what a
broker gives its own topics, the release's default.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import LimitError, SettingError
from kafkalog_core.format.names import METADATA_TOPIC
from kafkalog_core.format.properties import read_java_properties
from kafkalog_core.format.textfile import MAX_LINE_BYTES, parse_int32, parse_int64
from kafkalog_core.ops.releases.cluster_configs import ClusterConfigs, read_cluster_configs
from kafkalog_core.ops.releases.release import LATEST, Release
from kafkalog_core.ops.releases.setting_table import BY_NAME, INTERNAL_TOPICS, SETTINGS, Definition, Value, known_names
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = [
    "Setting",
    "Settings",
    "SettingsRequest",
    "TopicSettings",
    "parse_assignment",
    "parse_topic_assignment",
    "read_settings",
]

_SET: Final = "--set"
_EMPTY: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting, its value in its own unit, and where the value comes from."""

    name: str
    value: Value
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """What counts for one topic; each field is the setting of its name with `.` for `_`. `settings`: with origins."""

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
    message_timestamp_type: str
    message_timestamp_difference_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_after_max_ms: int
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    delete_retention_ms: int
    remote_storage_enable: bool
    remote_log_copy_disable: bool
    settings: tuple[Setting, ...]

    def origin(self, name: str) -> str:
        """Where the value of a setting, by its Kafka name, comes from."""
        return next(setting.origin for setting in self.settings if setting.name == name)


def _is_text(value: object) -> bool:
    return value is None or isinstance(value, str)


def _are_texts(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsRequest:
    """What a command line says about releases and settings; enough to find the same ones again.

    Args:
        kafka: the release whose rules count; null: inferred.
        config: path of a server.properties.
        assignments: `key=value` for the whole broker, the last of a key counts.
        topic_assignments: `TOPIC:key=value`.
    """

    kafka: str | None = None
    config: str | None = None
    assignments: tuple[str, ...] = ()
    topic_assignments: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, value: object) -> SettingsRequest:
        """From what JSON holds of one; null: nothing was said. Raises SettingError for anything else."""
        given = {} if value is None else value
        if isinstance(given, dict) and not given.keys() - {each.name for each in fields(cls)}:
            kafka, config = given.get("kafka"), given.get("config")
            assignments, of_topics = given.get("assignments") or (), given.get("topic_assignments") or ()
            if _is_text(kafka) and _is_text(config) and _are_texts(assignments) and _are_texts(of_topics):
                return cls(
                    kafka=kafka, config=config, assignments=tuple(assignments), topic_assignments=tuple(of_topics)
                )
        names = ", ".join(each.name for each in fields(cls))
        raise SettingError(f"the option kafka is an object with these members, or some of them: {names}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of one broker. Values are read, and refused, when they are asked for."""

    release: Release = LATEST
    config_path: str | None = None
    server: Mapping[str, str] = field(default_factory=dict)
    assigned: Mapping[str, str] = field(default_factory=dict)
    of_topics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    cluster: ClusterConfigs = field(default_factory=ClusterConfigs)

    def broker(self, name: str) -> Setting:
        """A setting as it counts for the broker. Raises SettingError for a value that it cannot have."""
        return self._setting(BY_NAME[name], None)

    def for_topic(self, topic: str | None) -> TopicSettings:
        """All settings that a topic has; null: a topic of which nothing is known. Raises SettingError."""
        settings = [self._setting(definition, topic) for definition in SETTINGS if definition.of_topics]
        values = {setting.name.replace(".", "_"): setting.value for setting in settings}
        expected = {each.name for each in fields(TopicSettings)} - {"topic", "settings"}
        return TopicSettings(
            topic=topic,
            settings=tuple(settings),
            **{name: values[name] for name in expected},  # type: ignore[arg-type]  # each by its definition's kind
        )

    def said(self, name: str, topic: str | None) -> tuple[tuple[str, str, str], ...]:
        """All that is said of a topic's setting: key, value as written and origin, the one that counts first."""
        return tuple((key, text, origin) for key, text, _, origin in self._candidates(BY_NAME[name], topic))

    def _setting(self, definition: Definition, topic: str | None) -> Setting:
        for name, text, factor, origin in self._candidates(definition, topic):
            value = self._parse(definition, text, factor, f"{origin}: {name}", is_override=name == definition.override)
            return Setting(definition.name, value, origin)
        return Setting(definition.name, definition.default(self.release), f"default of {self.release}")

    def _candidates(self, definition: Definition, topic: str | None) -> Iterable[tuple[str, str, int, str]]:
        """Name, value, factor and origin, from the strongest on."""
        own = self.of_topics.get(topic, _EMPTY) if topic is not None else _EMPTY
        topic_names = (definition.override, definition.name) if definition.of_topics else ()
        configured = self.cluster.of_topic(topic)
        given = ((own, f"--topic-config {topic}"), (self.assigned, _SET), (configured, self.cluster.origin))
        for values, origin in given:
            yield from ((name, values[name], 1, origin) for name in topic_names if name is not None and name in values)
        for values, origin in self._of_the_broker(definition, topic):
            yield from (
                (key.name, values[key.name], key.factor, origin) for key in definition.keys if key.name in values
            )

    def _of_the_broker(self, definition: Definition, topic: str | None) -> Iterable[tuple[Mapping[str, str], str]]:
        given = INTERNAL_TOPICS.get(topic or "", {}).get(definition.name)
        if given is not None:  # a broker sets it when it makes the topic, whatever else it is configured with
            yield from self._given_to_own_topic(definition, given)
        if given is not None or topic == METADATA_TOPIC:  # whose log is made from Kafka's defaults
            return
        yield self.assigned, _SET
        yield self.cluster.broker, self.cluster.origin
        yield self.cluster.brokers, self.cluster.origin
        yield self.server, self.config_path or "server.properties"

    def _given_to_own_topic(self, definition: Definition, given: str) -> Iterable[tuple[Mapping[str, str], str]]:
        key = definition.keys[0].name
        if given not in BY_NAME:
            yield {key: given}, "what a broker gives this topic of its own"
            return
        setting = self._setting(BY_NAME[given], None)
        yield {key: str(setting.value)}, f"{setting.origin}: {given}"

    def _parse(self, definition: Definition, text: str, factor: int, where: str, *, is_override: bool) -> Value:
        value = _READERS[definition.kind](text.strip())
        if value is None:
            raise SettingError(f"{where}={text}: {_WANTED[definition.kind]} is wanted")
        if isinstance(value, bool) or not isinstance(value, int | float):
            return value
        minimum = None if is_override else definition.minimum(self.release)
        if definition.negative_is_minus_one and value < 0:
            return -1
        if minimum is not None and value * factor < minimum:
            raise SettingError(f"{where}={text}: Kafka {self.release} takes nothing below {minimum}")
        return value * factor


def read_settings(request: SettingsRequest, release: Release, log_dir: str | None = None) -> Settings:
    """The settings that count.

    Args:
        request: what the command line says.
        release: whose defaults and limits count.
        log_dir: path of the log directory whose cluster metadata log counts too, where it has one.

    Raises SettingError, NotFoundError or AccessError.
    """
    of_topics: dict[str, dict[str, str]] = {}
    for text in request.topic_assignments:
        topic, key, value = parse_topic_assignment(text)
        of_topics.setdefault(topic, {})[key] = value
    return Settings(
        release=release,
        config_path=request.config,
        server={} if request.config is None else _read_server_properties(request.config),
        assigned=dict(parse_assignment(text) for text in request.assignments),
        of_topics=of_topics,
        cluster=ClusterConfigs() if log_dir is None else read_cluster_configs(log_dir),
    )


def parse_assignment(text: str) -> tuple[str, str]:
    """`key=value`. Raises SettingError for another form, and for a key that says nothing about Kafka's files."""
    key, separator, value = text.partition("=")
    key = key.strip()
    if not separator or not key:
        raise SettingError(f"{text!r} is not key=value")
    _check_name(key, list(known_names()))
    return key, value.strip()


def parse_topic_assignment(text: str) -> tuple[str, str, str]:
    """`TOPIC:key=value`. Raises SettingError, for a broker's key too."""
    topic, separator, assignment = text.partition(":")
    key, equals, value = assignment.partition("=")
    if not separator or not topic or not equals:
        raise SettingError(f"{text!r} is not TOPIC:key=value")
    names = [name for each in SETTINGS if each.of_topics for name in (each.name, each.override) if name is not None]
    _check_name(key.strip(), names)
    return topic, key.strip(), value.strip()


def _check_name(key: str, names: list[str]) -> None:
    if key in names:
        return
    near = get_close_matches(key, names, n=3, cutoff=0.5)
    hint = f"; is {' or '.join(near)} meant?" if near else ""
    raise SettingError(f"no setting {key!r} has to do with Kafka's files{hint}")


def _read_server_properties(path: str) -> dict[str, str]:
    with Source.open(path) as source:
        data = source.read(0, MAX_LINE_BYTES + 1)
    try:
        file = read_java_properties(data)
    except LimitError as error:
        raise SettingError(f"more than {MAX_LINE_BYTES} bytes; this is no server.properties", path=path) from error
    if file.refusal is not None:
        raise SettingError(f"no broker reads this file: {file.refusal.problem}", path=path)
    return {item.key: item.value for item in file.properties if item.value is not None}


def _read_boolean(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def _read_double(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _read_list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


_READERS: Final[Mapping[str, Callable[[str], Value | None]]] = {
    "int": parse_int32,
    "long": parse_int64,
    "double": _read_double,
    "boolean": _read_boolean,
    "list": _read_list,
    "text": str,
}
_WANTED: Final = {
    "int": "a whole number of 32 bits",
    "long": "a whole number of 64 bits",
    "double": "a number",
    "boolean": "true or false",
    "list": "a list",
    "text": "a text",
}
