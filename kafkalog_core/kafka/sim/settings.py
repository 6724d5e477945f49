"""Kafka's settings in effect, each with the source of its value, and whether it is stated or assumed.

The sources, the strongest first: a value for one topic (`--topic-config`), one for all topics on the command line
(`--set` with the topic's name of a setting), the settings of the topic in the metadata log of the cluster, or in
ZooKeeper. Then those of the broker: the command line (`--set`), what was changed while it ran (there too),
server.properties, what a broker gives its own topics, the default of the release.

A value for all topics overrides what is known of a topic itself only if the command line names the topic, by `--topic`,
`--topic-regex` or `--topic-config`. For other topics it is a default, as the broker's own values are. So an option that
was meant for one topic deletes nothing of a topic that is kept for ever: if the topic itself has no limit of time or
none of size (-1), the option for the other limit does not act on it either.

A value is stated when every stronger source is known. Where the topic's own settings are unknown (no metadata log, or
they are in ZooKeeper, of which no server was named), no value of the broker decides what the topic has; where
server.properties was not given, it is unknown whether a default is in effect. Such a value is assumed, and plans that
would lose data by it are refused.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from kafkalog_core.engine.named_dirs import NamedDirs
from kafkalog_core.errors import LimitError, SettingError, StorageError
from kafkalog_core.format.names import METADATA_TOPIC, FileKind, fixed_file_name
from kafkalog_core.format.properties import read_java_properties
from kafkalog_core.format.textfile import MAX_LINE_BYTES
from kafkalog_core.kafka.rules.releases import LATEST, Release
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.kafka.rules.setting_requests import parse_assignment, parse_topic_assignment
from kafkalog_core.kafka.rules.setting_table import (
    BY_NAME,
    INTERNAL_TOPICS,
    SETTINGS,
    Definition,
    Setting,
    SettingGap,
    TopicSettings,
    parse_value,
    producer_expiration_name,
)
from kafkalog_core.kafka.sim.cluster_metadata import ClusterConfigs, read_copies, read_zookeeper_copy
from kafkalog_core.kafka.sim.logdir.text_files import read_offsets
from kafkalog_core.kafka.sim.named_dirs import identity_of, node_of_config, other_node_of_config, related_dirs
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct, field, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
    from kafkalog_core.kafka.sim.named_dirs import ClusterDir, Identity

__all__ = ["Settings", "read_settings"]

_SET: Final = "--set"
_EMPTY: Final[Mapping[str, str]] = {}
_POLICY: Final = "cleanup.policy"
_OTHER_LIMIT: Final = {"retention.ms": "retention.bytes", "retention.bytes": "retention.ms"}
_FOR_EVER: Final = -1
_CLEANER: Final = "log.cleaner.enable"
_CLEANER_OFFSET: Final = fixed_file_name(FileKind.CLEANER_OFFSET)
_CHECKPOINT: Final = "inferred: the cleaner's checkpoint"


class _Candidate(NamedTuple):
    """A value that a source gives: its key, its text, the factor to the setting's unit, and the source.

    `is_own`: whether it is known of the topic itself, and not a default for all topics.
    """

    name: str
    text: str
    factor: int
    origin: str
    gap: SettingGap | None
    is_own: bool = False


class Settings(Struct, frozen=True, kw_only=True, dict=True):
    """All settings of one broker. Values are read, and refused, when they are asked for.

    Args:
        release: whose defaults and limits count.
        config_path: path of the server.properties; None: none was given.
        server: its properties.
        assigned: of `--set`.
        of_topics: of `--topic-config`.
        cluster: of the metadata log.
        cleaned: topics that a cleaner has cleaned, each with the checkpoint that shows it.
        cleaner: the checkpoint that shows that this broker's cleaner runs; None: none does.
        uses_zookeeper: whether topics' settings are in ZooKeeper.
        foreign_config: why the server.properties is another broker's; None: it is not.
        names_topics: whether the command line names all topics, and not only those of `of_topics`.
    """

    release: Release = LATEST
    config_path: str | None = None
    server: Mapping[str, str] = field(default_factory=dict)
    assigned: Mapping[str, str] = field(default_factory=dict)
    of_topics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    cluster: ClusterConfigs = field(default_factory=ClusterConfigs)
    cleaned: Mapping[str, str] = field(default_factory=dict)
    cleaner: str | None = None
    uses_zookeeper: bool = False
    foreign_config: str | None = None
    names_topics: bool = False

    @cached_property
    def _of_others(self) -> dict[bool, TopicSettings]:
        """The settings of topics that no source names, by whether the cluster knows them."""
        return {}

    def broker(self, name: str) -> Setting:
        """Return a setting as it is in effect for the broker. Raises SettingError for a value that it cannot have."""
        return self._setting(BY_NAME[name], None, of_broker=True)

    def producer_expiration(self) -> Setting:
        """Return the time after which the broker forgets a silent producer, in milliseconds."""
        return self.broker(producer_expiration_name(self.release))

    @property
    def producer_expiration_ms(self) -> int:
        """The value of `producer_expiration`."""
        return cast("int", self.producer_expiration().value)

    def producer_expirations_ms(self, releases: Iterable[Release]) -> tuple[int, int]:
        """Return the shortest and the longest value of `producer_expiration` under some releases."""
        values = [replace(self, release=each).producer_expiration_ms for each in releases]
        return min(values), max(values)

    def for_topic(self, topic: str | None) -> TopicSettings:
        """Return all settings of a topic; None: an unknown topic. Raises SettingError.

        Topics that no source names have the same settings, which are found once: a broker may have 100,000 of them.
        """
        if topic is None or self._is_named(topic):
            return self._for_topic(topic)
        is_known = self.cluster.knows(topic)
        found = self._of_others.get(is_known)
        if found is None:
            found = self._of_others[is_known] = self._for_topic(topic)
        return replace(found, topic=topic)

    def _is_named(self, topic: str) -> bool:
        """Return whether a source of settings names a topic, or may."""
        sources = (self.of_topics, self.cluster.topics, self.cleaned, INTERNAL_TOPICS)
        return topic == METADATA_TOPIC or bool(self.cluster.others) or any(topic in each for each in sources)

    def _for_topic(self, topic: str | None) -> TopicSettings:
        found = [self._setting(definition, topic) for definition in SETTINGS if definition.of_topics]
        settings = list(self._with_held(found, topic))
        values = {setting.name.replace(".", "_"): setting.value for setting in settings}
        expected = set(TopicSettings.__struct_fields__) - {"topic", "settings"}
        return TopicSettings(
            topic=topic,
            settings=tuple(settings),
            **{name: values[name] for name in expected},  # type: ignore[arg-type]  # each by its definition's kind
        )

    def said(self, name: str, topic: str | None) -> tuple[tuple[str, str, str], ...]:
        """Return all values given for a setting of a topic: key, text and source, the one that counts first."""
        return tuple((each.name, each.text, each.origin) for each in self._candidates(BY_NAME[name], topic))

    def held_against(self, topic: TopicSettings, names: Iterable[str], option: str) -> TopicSettings:
        """Return settings of a topic that hold an option, if the topic is not named and has one of these of its own.

        Args:
            topic: the settings.
            names: the settings against which the option acts.
            option: the option, for people.
        """
        if topic.topic is None or self._names(topic.topic):
            return topic
        known = next((name for name in names if self._own(BY_NAME[name], topic.topic) is not None), None)
        if known is None:
            return topic
        settings = (replace(each, held=(*each.held, option)) if each.name == known else each for each in topic.settings)
        return replace(topic, settings=tuple(settings))

    def for_one(self) -> Settings:
        """Return the same without the topics, for another process that has the settings of its topic."""
        cluster = replace(self.cluster, topics={}, listed=frozenset(), others=())
        return replace(self, of_topics={}, cleaned={}, cluster=cluster)

    def _setting(self, definition: Definition, topic: str | None, *, of_broker: bool = False) -> Setting:
        note = "" if of_broker else self.cluster.contradictions(topic, definition.name)
        option = next(self._options(definition, topic), None)
        other = next(self._others(definition, topic, of_broker=of_broker), None)
        if option is None:
            return self._known(definition, topic, other, note, of_broker=of_broker)
        given = self._parsed(definition, option, note)
        own = None if of_broker or self._names(topic) else self._own(definition, topic)
        if own is not None:
            return own if own.value == given.value else replace(own, held=(f"{option.name}={option.text}",))
        if not of_broker and self._is_kept(definition, topic):
            return self._known(definition, topic, other, note)
        if other is None or other.text.strip() == option.text.strip():
            return given
        return replace(given, overrides=f"{other.name}={other.text} of {other.origin}")

    def _known(
        self, definition: Definition, topic: str | None, other: _Candidate | None, note: str, *, of_broker: bool = False
    ) -> Setting:
        """Return a setting without the options for topics; other: the strongest of the other sources."""
        if other is not None:
            return self._parsed(definition, other, note)
        gap = self._default_gap(definition, topic, of_broker=of_broker)
        return Setting(definition.name, definition.default(self.release), f"default of {self.release}{note}", gap)

    def _is_kept(self, definition: Definition, topic: str | None) -> bool:
        """Return whether a topic that is not named is kept for ever by its own setting of the other limit."""
        other = _OTHER_LIMIT.get(definition.name)
        own = None if other is None or self._names(topic) else self._own(BY_NAME[other], topic)
        return own is not None and own.value == _FOR_EVER

    def _with_held(self, settings: Sequence[Setting], topic: str | None) -> Iterator[Setting]:
        """Yield the settings of a topic; one by which it is kept for ever holds the option for the other limit too."""
        known = {each.name: each for each in settings}
        for each in settings:
            other = _OTHER_LIMIT.get(each.name)
            definition = BY_NAME[other or each.name]
            option = next(self._options(definition, topic), None)
            if (
                option is not None
                and other is not None
                and self._own(definition, topic) is None
                and self._is_kept(definition, topic)
                and self._parsed(definition, option, "").value != known[other].value
            ):
                yield replace(each, held=(*each.held, f"{option.name}={option.text}"))
            else:
                yield each

    def _parsed(self, definition: Definition, candidate: _Candidate, note: str) -> Setting:
        name, text, factor, origin, gap, _ = candidate
        value = parse_value(definition, self.release, text, factor, f"{origin}: {name}", name=name)
        return Setting(definition.name, value, f"{origin}{note}", gap)

    def _names(self, topic: str | None) -> bool:
        """Return whether the command line names a topic."""
        return self.names_topics or topic in self.of_topics

    def _own(self, definition: Definition, topic: str | None) -> Setting | None:
        """Return what is known of the topic itself without the options for topics; None: a default is in effect.

        What a damaged metadata log has of the topic counts too, although a later change may be missing. The metadata
        log itself is in no verb's reach.
        """
        if topic is None or topic == METADATA_TOPIC or not definition.of_topics:
            return None
        found = next(self._others(definition, topic), None)
        if found is None or not found.is_own:
            return None
        try:
            return self._parsed(definition, found, self.cluster.contradictions(topic, definition.name))
        except SettingError:  # no broker accepts the value
            return None

    def _candidates(self, definition: Definition, topic: str | None) -> Iterator[_Candidate]:
        """Yield the sources of a setting of a topic, the strongest first, without options that are held."""
        if self._names(topic) or (self._own(definition, topic) is None and not self._is_kept(definition, topic)):
            yield from self._options(definition, topic)
        yield from self._others(definition, topic)

    def _options(self, definition: Definition, topic: str | None) -> Iterator[_Candidate]:
        """Yield what the command line gives one topic, or all of them, by the topic's names of a setting."""
        own = self.of_topics.get(topic, _EMPTY) if topic is not None else _EMPTY
        for values, origin in ((own, f"--topic-config {topic}"), (self.assigned, _SET)):
            for name in _topic_names(definition):
                if name in values:
                    yield _Candidate(name, values[name], 1, origin, None)

    def _others(self, definition: Definition, topic: str | None, *, of_broker: bool = False) -> Iterator[_Candidate]:
        """Yield the sources of a setting that are not options for topics, the strongest first."""
        configured = self.cluster.of_topic(topic)
        damage = None if self.cluster.is_whole else self._topic_gap(topic)
        for name in _topic_names(definition):
            if name in configured:
                yield _Candidate(name, configured[name], 1, self.cluster.origin, damage, is_own=True)
        topic_gap = None if of_broker or not definition.of_topics else self._topic_gap(topic)
        if topic_gap is not None:
            yield from self._evidence(definition, topic)
        for values, origin, is_fixed in self._of_the_broker(definition, topic):
            for key in definition.keys:
                if key.name in values:
                    gap = None if is_fixed else topic_gap or self._foreign_gap(origin)
                    yield _Candidate(key.name, values[key.name], key.factor, origin, gap, is_own=is_fixed)
        if topic_gap is None and self._default_gap(definition, topic, of_broker=of_broker) is not None:
            yield from self._evidence(definition, topic)

    # --- what is not known --------------------------------------------------------------------------------------------
    def _topic_gap(self, topic: str | None) -> SettingGap | None:
        """Return why the settings of a topic are unknown; None: they are known."""
        if topic == METADATA_TOPIC or self.cluster.knows(topic):
            return None
        if self.cluster.path is None:
            if self.uses_zookeeper or not rules_of(self.release).topics_in_kraft:
                return SettingGap("zookeeper", "the settings of topics are in ZooKeeper, whose dataDir was not named")
            return SettingGap("no-log", "no metadata log of its cluster is among what was named")
        if not self.cluster.is_whole:
            return SettingGap("damaged", f"{self.cluster.path} cannot be read completely, so changes may be missing")
        return SettingGap("unlisted", f"{self.cluster.path} does not list the topic")

    def _default_gap(self, definition: Definition, topic: str | None, *, of_broker: bool) -> SettingGap | None:
        """Return why it is unknown whether a default is in effect; None: it is."""
        if topic == METADATA_TOPIC:
            return None
        gap = None if of_broker or not definition.of_topics else self._topic_gap(topic)
        if gap is not None or not definition.keys:  # a setting that topics alone have
            return gap
        if self.config_path is None:
            return SettingGap("no-config", "no server.properties was given")
        return self._foreign_gap(self.config_path)

    def _foreign_gap(self, origin: str) -> SettingGap | None:
        is_foreign = self.foreign_config is not None and origin == self.config_path
        return SettingGap("other-node", self.foreign_config or "") if is_foreign else None

    def _evidence(self, definition: Definition, topic: str | None) -> Iterator[_Candidate]:
        """Yield what the files show: a cleaner's checkpoint has entries of compacted topics alone."""
        cleaned = None if topic is None else self.cleaned.get(topic)
        if definition.name == _POLICY and cleaned is not None:
            origin = f"{_CHECKPOINT} {cleaned} has an entry for a partition of the topic"
            yield _Candidate(_POLICY, "compact", 1, origin, None, is_own=True)
        if definition.name == _CLEANER and self.cleaner is not None:
            yield _Candidate(_CLEANER, "true", 1, f"{_CHECKPOINT} {self.cleaner} has entries", None)

    def _of_the_broker(
        self, definition: Definition, topic: str | None
    ) -> Iterable[tuple[Mapping[str, str], str, bool]]:
        """Yield values by the broker's keys, their source, and whether they count whatever the topic is given."""
        given = INTERNAL_TOPICS.get(topic or "", {}).get(definition.name)
        if (
            given is not None
        ):  # a broker creates the topic with it (AutoTopicCreationManager), whatever its own settings
            yield from self._given_to_own_topic(definition, given)
        if given is not None or topic == METADATA_TOPIC:  # KafkaRaftLog takes Kafka's defaults
            return
        yield self.assigned, _SET, False
        yield self.cluster.broker, self.cluster.origin, False
        yield self.cluster.brokers, self.cluster.origin, False
        yield self.server, self.config_path or "server.properties", False

    def _given_to_own_topic(self, definition: Definition, given: str) -> Iterable[tuple[Mapping[str, str], str, bool]]:
        key = definition.keys[0].name
        if given not in BY_NAME:
            yield {key: given}, "what a broker gives this topic of its own", True
            return
        setting = self._setting(BY_NAME[given], None, of_broker=True)
        yield {key: str(setting.value)}, f"{setting.origin}: {given}", setting.gap is None


def _topic_names(definition: Definition) -> list[str]:
    """Return the names that a setting has at a topic, the one that counts first."""
    return [name for name in (definition.override, definition.name) if definition.of_topics and name is not None]


def read_settings(
    request: SettingsRequest, release: Release, log_dir: str | None = None, beside: NamedDirs | None = None
) -> Settings:
    """Read the settings in effect.

    Args:
        request: what the command line says.
        release: whose defaults and limits count.
        log_dir: path of the log directory that is meant; None: the files are in none.
        beside: log directories that were named together with it; None: none. What those of the same cluster hold
            about topics counts for it too, as does what those in `log.dirs` of the given server.properties know.

    Raises SettingError, NotFoundError or AccessError.
    """
    of_topics: dict[str, dict[str, str]] = {}
    for text in request.topic_assignments:
        topic, key, value = parse_topic_assignment(text)
        of_topics.setdefault(topic, {})[key] = value
    server = read_server(request)
    # Settings decide what is deleted: a directory without ids takes none from a broker that it only may be of.
    named = NamedDirs() if beside is None or identity_of(log_dir).cluster_id is None else beside
    own, dirs = related_dirs(log_dir, named, server)
    together = frozenset([each.path for each in dirs])
    copies = named.once(("copies", together), lambda: read_copies((each.path for each in dirs), named))
    if copies.newest is None and request.zookeeper_dirs:
        asked = "zookeeper", request.zookeeper_dirs, own.cluster_id
        copies = named.once(asked, lambda: read_zookeeper_copy(request.zookeeper_dirs, own.cluster_id))
    cleaned, cleaners = named.once(("cleaned", together), lambda: _cleaned(dirs))
    of_broker = [each.path for each in dirs if each.is_same_broker and each.path in cleaners]
    return Settings(
        release=release,
        config_path=request.config,
        server=server,
        assigned=dict(parse_assignment(text) for text in request.assignments),
        of_topics=of_topics,
        cluster=copies.configs(own.node_id or node_of_config(server), log_dir),
        cleaned=cleaned | cleaners.get(log_dir or "", {}),
        cleaner=f"{of_broker[0]}/{_CLEANER_OFFSET}" if of_broker else None,
        uses_zookeeper=own.uses_zookeeper,
        foreign_config=_foreign_config(request.config, other_node_of_config(server, own), own),
        names_topics=request.names_topics,
    )


def _foreign_config(config: str | None, node_id: str | None, own: Identity) -> str | None:
    """Return that a server.properties is of another broker, by its id; None: nothing shows that."""
    if node_id is None:
        return None
    return f"{config} is of broker {node_id}, and the log directory of broker {own.node_id}"


def _cleaned(dirs: Iterable[ClusterDir]) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Return the topics that a cleaner has cleaned, each with a checkpoint that shows it: of all and of each dir."""
    found: dict[str, dict[str, str]] = {}
    for each in dirs:
        path = f"{each.path}/{_CLEANER_OFFSET}"
        try:
            text = read_offsets(path, FileKind.CLEANER_OFFSET)
        except StorageError:
            continue
        if text is not None and not text.is_refused and text.file.entries:
            found[each.path] = dict.fromkeys((topic for topic, _ in text.file.entries), path)
    topics: dict[str, str] = {}
    for of_dir in reversed(found.values()):
        topics |= of_dir
    return topics, found


def read_server(request: SettingsRequest) -> dict[str, str]:
    """Return the lines of the server.properties that was given. Raises SettingError, NotFoundError or AccessError."""
    path = request.config
    if path is None:
        return {}
    with Source.open(path) as source:
        data = source.read(0, MAX_LINE_BYTES + 1)
    try:
        file = read_java_properties(data)
    except LimitError as error:
        raise SettingError(f"more than {MAX_LINE_BYTES} bytes; this is not a server.properties", path=path) from error
    if file.refusal is not None:
        raise SettingError(f"no broker reads this file: {file.refusal.problem}", path=path)
    return {item.key: item.value for item in file.properties if item.value is not None}
