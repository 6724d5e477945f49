"""What a command line says of the release and the settings of Kafka (`--kafka`, `--set` and so on).

`settings` finds out what counts; this module is what every command line needs.
"""

from __future__ import annotations

from kafkalog_core.errors import SettingError
from kafkalog_core.kafka.rules.setting_table import SETTINGS, known_names
from kafkalog_core.structs import Struct
from kafkalog_core.text import names_near

__all__ = ["SettingsRequest", "parse_assignment", "parse_topic_assignment"]


def _is_text(value: object) -> bool:
    return value is None or isinstance(value, str)


def _are_texts(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value)


class SettingsRequest(Struct, frozen=True, kw_only=True):
    """Releases and settings as a command line gives them; enough to find the same ones again.

    Args:
        kafka: the release whose rules are used; None: inferred.
        config: path of a server.properties.
        assignments: `key=value` for the whole broker; of one key the last counts.
        topic_assignments: `TOPIC:key=value`.
        assume_defaults: whether plans that lose data may depend on assumed values.
        names_topics: whether the command line names every selected topic, so that `assignments` override their known
            settings; otherwise only the topics of `topic_assignments` are named.
        zookeeper_dirs: data directories of ZooKeeper servers, which have the settings of topics and brokers.
    """

    kafka: str | None = None
    config: str | None = None
    assignments: tuple[str, ...] = ()
    topic_assignments: tuple[str, ...] = ()
    assume_defaults: bool = False
    names_topics: bool = False
    zookeeper_dirs: tuple[str, ...] = ()

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics that are given settings of their own. Raises SettingError."""
        return tuple(dict.fromkeys(parse_topic_assignment(text)[0] for text in self.topic_assignments))

    @classmethod
    def from_json(cls, value: object) -> SettingsRequest:
        """Return the request that JSON holds; None: an empty one. Raises SettingError for anything else."""
        given = {} if value is None else value
        if isinstance(given, dict) and not given.keys() - set(cls.__struct_fields__):
            kafka, config = given.get("kafka"), given.get("config")
            assignments, of_topics = given.get("assignments") or (), given.get("topic_assignments") or ()
            assumes, names = given.get("assume_defaults", False), given.get("names_topics", False)
            servers = given.get("zookeeper_dirs") or ()
            are_texts = _is_text(kafka) and _is_text(config)
            are_texts = are_texts and all(map(_are_texts, (assignments, of_topics, servers)))
            if are_texts and isinstance(assumes, bool) and isinstance(names, bool):
                return cls(
                    kafka=kafka,
                    config=config,
                    assignments=tuple(assignments),
                    topic_assignments=tuple(of_topics),
                    assume_defaults=assumes,
                    names_topics=names,
                    zookeeper_dirs=tuple(servers),
                )
        names = ", ".join(cls.__struct_fields__)
        raise SettingError(f"the option kafka is an object with these members, or some of them: {names}")


def parse_assignment(text: str) -> tuple[str, str]:
    """Parse `key=value`. Raises SettingError for another form, and for a key that does not concern Kafka's files."""
    key, separator, value = text.partition("=")
    key = key.strip()
    if not separator or not key:
        raise SettingError(f"{text!r} is not key=value")
    _check_name(key, list(known_names()))
    return key, value.strip()


def parse_topic_assignment(text: str) -> tuple[str, str, str]:
    """Parse `TOPIC:key=value`. Raises SettingError for another form, and for a key that only brokers have."""
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
    near = names_near(key, names, least=0.5)
    hint = f"; is {' or '.join(near)} meant?" if near else ""
    raise SettingError(f"no setting {key!r} has to do with Kafka's files{hint}")
