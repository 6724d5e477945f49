"""What the metadata log of a cluster assigns to a broker, and whose a partition's directory is.

A KRaft broker loads all its logs, recovers them where the last shutdown was not clean, and then renames each partition
that the metadata log does not assign to it to `-stray` (`LogManager.isStrayReplica`: the topic id is unknown, or the
node is not a replica). Where it is a replica, it creates an empty partition instead. A log directory whose id it never
registered is new to the controller: the partitions that are assigned to the old id are offline (KIP-858). A controller
whose metadata log directory has another id than the voter is not a voter (KIP-853).
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import StorageError
from kafkalog_core.findings import found
from kafkalog_core.findings.logdirs import FILE_IN_PLACE, MISSING_METADATA, STRAY_DELETED
from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState, FileKind, fixed_file_name
from kafkalog_core.format.textfile import parse_uuid
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.kafka.sim.evidence import infer_release
from kafkalog_core.kafka.sim.logdir.faults import EntryFile
from kafkalog_core.kafka.sim.logdir.text_files import PropertyText, read_properties
from kafkalog_core.kafka.sim.metadata_log import read_shared_image
from kafkalog_core.kafka.sim.named_dirs import identity_of, other_node_of_config
from kafkalog_core.storage.paths import is_directory
from kafkalog_core.structs import Struct, replace
from kafkalog_core.text import first_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from kafkalog_core.engine.named_dirs import NamedDirs
    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.rules.releases import Release
    from kafkalog_core.kafka.sim.logdir.text_files import PropertyText
    from kafkalog_core.kafka.sim.metadata_log import MetadataReading
    from kafkalog_core.storage.logdir import PartitionPath
    from kafkalog_core.storage.partition import Partition

__all__ = [
    "BrokerAssignments",
    "DirectoryOwners",
    "any_topic_id",
    "metadata_file",
    "other_node_of",
    "partition_count",
    "read_assignments",
    "read_cluster",
    "read_metadata_file",
    "read_topic_id",
    "read_topic_ids",
    "topic_id_of",
]


_NO_ID: Final = "A" * 22
_THIS_DIRECTORY: Final = "this log directory"
_SET_DIRECTORY_ID: Final = "sed -i.before s/^directory.id=.*/directory.id={}/ {{file}}"
_SET_NODE_ID: Final = "sed -i.before s/^node.id=.*/node.id={}/ {{file}}"
_SET_TOPIC_ID: Final = "sed -i.before '/^topic_id:/s/:.*/: {}/' {{file}}"
_METADATA_LINES: Final = 2  # version and topic_id, in this order (PartitionMetadataFile)


def read_assignments(path: str, *, damaged: bool = False, named: NamedDirs | None = None) -> MetadataReading | None:
    """Read the directory of a metadata log; None where it is damaged or cannot be read.

    Args:
        path: of the directory.
        damaged: whether what can be read of a damaged one is asked for, and of a whole one nothing.
        named: what the command reads once; None: it is read again.
    """
    reading = read_shared_image(path, named)
    return reading if reading.is_whole != damaged else None


def read_cluster(log_dirs: Iterable[str]) -> MetadataReading | None:
    """Return what the first metadata log that is whole and has topics holds; None: no log directory has one."""
    for path in log_dirs:
        log = f"{path}/{METADATA_TOPIC}-0"
        cluster = read_assignments(log) if is_directory(log) else None
        if cluster is not None and cluster.image.topics:
            return cluster
    return None


def partition_count(cluster: MetadataReading | None, topic: str) -> int:
    """Return the number of partitions of a topic in the metadata log; 0: unknown."""
    found = None if cluster is None else cluster.image.topic(topic)
    return 0 if found is None else len(found.partitions)


class BrokerAssignments(Struct, frozen=True):
    """What the metadata log assigns to one broker, to compare its log directories with.

    Args:
        cluster: what was read of the metadata log.
        node_id: of the broker.
        directory_ids: ids of those of its log directories that are here, by path; None: meta.properties has none.
        release: of the broker.
    """

    cluster: MetadataReading
    node_id: int
    directory_ids: dict[str, str | None]
    release: Release

    def stray(self, place: PartitionPath, topic_id: str | None) -> Finding | None:
        """Return why the broker does not keep a partition at its next start; None: it keeps it.

        Args:
            place: the directory of the partition.
            topic_id: of its partition.metadata; None: there is no such file.
        """
        name = place.name
        if name.topic is None or name.partition is None or name.topic == METADATA_TOPIC:
            return None
        if topic_id is None:
            missing = metadata_file(place).finding(MISSING_METADATA)
            # seen of 3.5.2 and 3.6.2: the broker keeps such a partition and writes the id of its topic; 3.7.2 does not
            return missing if rules_of(self.release).renames_strays else None
        assigned = self.cluster.image.partition(topic_id, name.partition)
        if assigned is not None and (not assigned.replicas or self.node_id in assigned.replicas):
            return None
        expected = self.cluster.image.topic_ids.get(name.topic)
        code, path, why = "dir.not-assigned", place.path, "does not have this partition"
        named = None if expected is None else self.cluster.image.partition(expected, name.partition)
        # another id in partition.metadata helps only where the topic has this partition, and has it on this node
        if expected != topic_id and named is not None and (not named.replicas or self.node_id in named.replicas):
            code, path = "partition-metadata.not-assigned", metadata_file(place).path
        elif assigned is not None:
            why = f"does not name node {self.node_id} among the replicas of this partition"
        finding = found(
            code,
            path,
            topic=name.topic,
            partition=name.partition,
            topic_id=topic_id,
            metadata_log=self.cluster.path,
            node_id=self.node_id,
            expected=expected,
            why=why,
        )
        if code == "partition-metadata.not-assigned":
            finding = replace(finding, next_step=_SET_TOPIC_ID.format(expected))
        return finding if rules_of(self.release).renames_strays else replace(finding, broker_action=STRAY_DELETED)

    def missing(self, here: Collection[tuple[str | None, int | None]]) -> Iterator[Finding]:
        """Yield which partitions each log directory should have by its id, and no log directory has.

        Seen of 4.3.1, of which a directory of a partition was deleted, or renamed to -delete: `Partition` creates an
        empty log without a warning when the broker gets the metadata.

        here: topic and number of each partition, and of each unfinished copy, in the broker's log directories.
        """
        paths = {value: path for path, value in self.directory_ids.items() if value is not None}
        names: dict[str, list[str]] = {}
        for topic in self.cluster.image.topics.values():
            for number, assigned in topic.partitions.items():
                path = paths.get(assigned.directory_of(self.node_id) or "")
                if path is not None and (topic.name, number) not in here:
                    names.setdefault(path, []).append(f"{topic.name}-{number}")
        for path, of_path in names.items():
            hidden = [name for name in of_path if os.path.lexists(f"{path}/{name}")]
            for name in hidden:
                finding = found(
                    "dir.partition-missing",
                    f"{path}/{name}",
                    metadata_log=self.cluster.path,
                    names=name,
                    where=_THIS_DIRECTORY,
                )
                yield replace(finding, severity="error", broker_action=FILE_IN_PLACE)
            absent = sorted(set(of_path) - set(hidden))
            if absent:
                yield found(
                    "dir.partition-missing",
                    path,
                    metadata_log=self.cluster.path,
                    names=first_of(absent),
                    where=_THIS_DIRECTORY,
                )
        yield from self._missing_with_directory(here)

    def _missing_with_directory(self, here: Collection[tuple[str | None, int | None]]) -> Iterator[Finding]:
        """Yield which partitions no log directory has, because another directory is in the place of theirs.

        That the broker has no other directories is known where one of those here is new to the controller, and as many
        are here as it registered. Seen of 4.3.1, whose second log directory was formatted again: it creates each
        partition empty.
        """
        image = self.cluster.image
        registered = image.brokers[self.node_id].log_dirs if self.node_id in image.brokers else ()
        new = [path for path, value in self.directory_ids.items() if value is not None and value not in registered]
        lost = set(registered) - set(self.directory_ids.values())
        if not new or len(self.directory_ids) < len(registered):
            return
        names: dict[str, list[str]] = {}
        for topic in image.topics.values():
            for number, assigned in topic.partitions.items():
                directory = assigned.directory_of(self.node_id)
                if directory in lost and (topic.name, number) not in here:
                    names.setdefault(directory, []).append(f"{topic.name}-{number}")
        for directory, absent in names.items():
            where = f"the log directory with directory.id {directory}, which is none of those here"
            listed = first_of(sorted(absent))
            yield found("dir.partition-missing", new[0], metadata_log=self.cluster.path, names=listed, where=where)

    def future(self, log_dir: str, place: PartitionPath, topic_id: str, current: str | None) -> Finding | None:
        """Return what becomes of the unfinished copy of a partition; None: the broker continues to fill it.

        Args:
            log_dir: path of the log directory with the copy, one of `directory_ids`.
            place: the directory of the copy.
            topic_id: of its partition.metadata.
            current: path of the directory of the partition itself; None: no log directory here has one.
        """
        name, own = place.name, self.directory_ids.get(log_dir)
        directory = self._directory_of(topic_id, name.partition)
        if current is not None and os.path.dirname(current) == log_dir:
            return None  # it cannot take the place of that one, which a finding of the log directory reports
        # LogManager.recoverAbandonedFutureLogs (KAFKA-16082): after all logs are loaded, however far the copy is
        if own is not None and directory == own:
            other = "" if current is None else f"; the partition itself is in {current}"
            then = "" if current is None else ", and renames the other directory to end in -delete"
            finding = found(
                "dir.future-assigned",
                place.path,
                metadata_log=self.cluster.path,
                other=other,
                then=then,
                topic=name.topic,
                partition=name.partition,
            )
            return finding if current is not None else replace(finding, severity="info")
        if current is not None:
            return None
        alone = found("dir.future-alone", place.path, topic=name.topic, partition=name.partition)
        registered = self.cluster.image.brokers.get(self.node_id)
        is_whole = registered is None or {*registered.log_dirs} <= {*self.directory_ids.values()}
        if not is_whole:  # one that is not named may have the partition: then the broker continues to fill the copy
            return replace(alone, severity="warning")
        return replace(alone, next_step=f"mv -n -- {{file}} {{parent}}/{name.topic}-{name.partition}")

    def other_directory(self, log_dir: str, held: Iterable[tuple[PartitionPath, str]]) -> Finding | None:
        """Return the finding that a log directory has another id than the metadata log knows; None: it has not.

        Args:
            log_dir: path of it, one of `directory_ids`.
            held: its partitions, each with its topic id.
        """
        value, path = self.directory_ids.get(log_dir), f"{log_dir}/{fixed_file_name(FileKind.META_PROPERTIES)}"
        if value is None:
            return None
        image = self.cluster.image
        here = set(self.directory_ids.values())
        voter = {each.voter_id: each.directory_id for each in image.voters}.get(self.node_id, _NO_ID)
        # where another log directory here has the id of the voter, that one is the voter's
        if voter not in {_NO_ID, *here} and os.path.dirname(self.cluster.path) == log_dir:
            code = "meta.only-voter" if len(image.voters) == 1 else "meta.no-voter"
            finding = found(code, path, value=value, expected=voter, node_id=self.node_id)
            return replace(finding, next_step=_SET_DIRECTORY_ID.format(voter))
        registered = image.brokers[self.node_id].log_dirs if self.node_id in image.brokers else ()
        if not registered or value in registered:
            return None
        assigned = Counter(
            directory
            for place, topic_id in held
            if (directory := self._directory_of(topic_id, place.name.partition)) in registered and directory not in here
        )
        if not assigned:
            return None
        ((expected, count),) = assigned.most_common(1)
        partitions = "1 partition" if count == 1 else f"{count:,} partitions"
        finding = found("meta.other-directory-id", path, value=value, expected=expected, partitions=partitions)
        return replace(finding, next_step=_SET_DIRECTORY_ID.format(expected))

    def _directory_of(self, topic_id: str, number: int | None) -> str | None:
        """Return the id of the log directory that holds this broker's replica; None: it is unknown."""
        assigned = None if number is None else self.cluster.image.partition(topic_id, number)
        return None if assigned is None else assigned.directory_of(self.node_id)


class DirectoryOwners:
    """The owners of log directories: the node that registered a directory's id, else the one in meta.properties.

    Each metadata log is read once; the image of one is kept, as those of all brokers of a cluster may be large.

    Args:
        log_dirs: paths of log directories, of one or several brokers.
        named: what the command reads once; None: nothing is kept.
    """

    def __init__(self, log_dirs: Iterable[str], named: NamedDirs | None = None) -> None:
        self._named = named
        self._identities = {path: identity_of(path) for path in log_dirs}
        logs = {path: f"{path}/{METADATA_TOPIC}-0" for path in self._identities}
        self._logs = {path: log for path, log in logs.items() if is_directory(log)}
        self._last: MetadataReading | None = None
        self._nodes: dict[str | None, list[str]] = {}
        self._registered: dict[tuple[str | None, str], dict[int, str]] = {}
        for path, log in self._logs.items():
            cluster = self._read(log)
            cluster_id = self._identities[path].cluster_id
            for broker in () if cluster is None else cluster.image.brokers.values():
                for directory_id in broker.log_dirs:
                    self._registered.setdefault((cluster_id, directory_id), {})[broker.node_id] = log

    def node_of(self, log_dir: str) -> str | None:
        """Return the id of the node that a log directory is of; None: it is unknown."""
        registered = self._registration(log_dir)
        return self._identities[log_dir].node_id if registered is None else str(registered[0])

    def of_same_node(self, log_dir: str) -> list[str]:
        """Return the paths of the log directories of the same node, the given one first."""
        if not self._nodes:
            for path in self._identities:
                self._nodes.setdefault(self.node_of(path), []).append(path)
            known = [node for node in self._nodes if node is not None]
            if len(known) == 1:  # those that have lost their ids are of the one broker, as in `across.brokers_of`
                self._nodes = {key: list(self._identities) for key in (*known, None)}
        return [log_dir, *(path for path in self._nodes[self.node_of(log_dir)] if path != log_dir)]

    def other_node(self, log_dir: str) -> Finding | None:
        """Return the finding that meta.properties has another node id than the registered one; None: it has not.

        `MetaPropertiesEnsemble.verify` compares the ids of all log directories with the broker's own.
        """
        registered, value = self._registration(log_dir), self._identities[log_dir].node_id
        if registered is None or value in {None, str(registered[0])}:
            return None
        path, (expected, log) = f"{log_dir}/{fixed_file_name(FileKind.META_PROPERTIES)}", registered
        directory_id = self._identities[log_dir].directory_id
        names = {"value": value, "expected": expected, "directory_id": directory_id, "metadata_log": log}
        finding = found("meta.other-node-id", path, **names)  # type: ignore[arg-type]
        return replace(finding, next_step=_SET_NODE_ID.format(expected))

    def assignments(self, group: Sequence[str], *, kafka: str | None = None) -> BrokerAssignments | None:
        """Return what the metadata log assigns to a broker.

        Args:
            group: the broker's log directories, all of them given before.
            kafka: the release of the broker; None: as the directory of the metadata log shows.

        Returns:
            None where none of them has the metadata log, or it is not whole, or the broker uses ZooKeeper.
        """
        log = next((self._logs[path] for path in group if path in self._logs), None)
        nodes = (self.node_of(path) for path in group if not self._identities[path].uses_zookeeper)
        node = next((each for each in nodes if each is not None), None)
        cluster = None if log is None or node is None or not node.isdecimal() else self._read(log)
        if cluster is None or node is None or not cluster.image.partition_count:
            return None
        directory_ids = {path: self._identities[path].directory_id for path in group}
        release = infer_release(os.path.dirname(cluster.path), kafka=kafka, named=self._named).release
        return BrokerAssignments(cluster, int(node), directory_ids, release)

    def _registration(self, log_dir: str) -> tuple[int, str] | None:
        """Return the one node that registered a directory id, and the metadata log with that record.

        A disk that was moved to another node on purpose is registered by both: then None.
        """
        identity = self._identities[log_dir]
        nodes = self._registered.get((identity.cluster_id, identity.directory_id or ""), {})
        return next(iter(nodes.items())) if len(nodes) == 1 else None

    def _read(self, log: str) -> MetadataReading | None:
        if self._last is None or self._last.path != log:
            self._last = read_assignments(log, named=self._named)
        return self._last


def other_node_of(config: str | None, server: Mapping[str, str], log_dir: str) -> Finding | None:
    """Return the finding that a server.properties has another broker id than meta.properties; None: it has not.

    Since there is a meta.properties: `KafkaServer.getBrokerIdAndOfflineDirs`, with KRaft `KafkaRaftServer`, from 3.7 on
    `MetaPropertiesEnsemble.verify`.

    Args:
        config: path of the server.properties; None: none was given.
        server: its values.
        log_dir: path of the log directory.
    """
    own = identity_of(log_dir)
    expected = other_node_of_config(server, own)
    if config is None or expected is None:
        return None
    path = f"{log_dir}/{fixed_file_name(FileKind.META_PROPERTIES)}"
    key = "broker.id" if own.uses_zookeeper else "node.id"
    return found("meta.other-node-of-config", path, key=key, value=own.node_id, expected=expected, config=config)


def metadata_file(place: PartitionPath | Partition) -> EntryFile:
    """Return the partition.metadata that a partition has, or should have."""
    kind = FileKind.PARTITION_METADATA
    path = f"{place.path}/{fixed_file_name(kind)}"
    return EntryFile(path=path, kind=kind, topic=place.name.topic, partition=place.name.partition)


def read_metadata_file(place: PartitionPath) -> PropertyText | None:
    """Read the partition.metadata of a partition; None: there is none, or it cannot be read."""
    try:
        return read_properties(metadata_file(place))
    except StorageError:
        return None


def topic_id_of(text: PropertyText) -> str | None:
    """Return the topic id of a partition.metadata as a broker reads it: the second line; None: it refuses the file."""
    # PartitionMetadataFile.PartitionMetadataReadBuffer.read splits two lines at ":", and compares no name
    lines = text.contents.properties
    return None if text.is_refused or len(lines) < _METADATA_LINES else lines[1].value


def read_topic_id(place: PartitionPath) -> str | None:
    """Return the topic id of a partition; None: it has none, or its partition.metadata cannot be read."""
    text = read_metadata_file(place)
    return None if text is None else topic_id_of(text)


def read_topic_ids(
    places: Iterable[PartitionPath], of_cluster: Mapping[str, str], log: str
) -> dict[str, dict[str, str]]:
    """Return the topic ids in valid files of partitions and in the metadata log at `log`, by topic.

    Each id has the path of the first file with it. Directories that wait for deletion, and stray ones, do not count.
    """
    of_topic: dict[str, dict[str, str]] = {}
    for topic, id_in_log in of_cluster.items():
        of_topic.setdefault(topic, {})[id_in_log] = log
    for place in places:
        if place.name.topic is None or place.name.state not in {DirectoryState.CURRENT, DirectoryState.FUTURE}:
            continue
        text = read_metadata_file(place)
        topic_id = None if text is None or text.is_refused else any_topic_id(text)
        if topic_id is not None:
            of_topic.setdefault(place.name.topic, {}).setdefault(topic_id, place.path)
    return of_topic


def any_topic_id(text: PropertyText) -> str | None:
    """Return the last valid topic id in a partition.metadata, whatever its line is called; None: it has none."""
    values = [item.value for item in text.contents.properties if item.value is not None]
    for value in reversed(values):
        uuid = parse_uuid(value)
        if uuid is not None and any(uuid):
            return value
    return None
