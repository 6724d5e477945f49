"""Which release wrote a directory, told from what lies in it: each sign gives a first or a last release that fits.

A sign is a file, a field or an entry that releases write from some version on, or up to one. What is missing counts
only in a log directory of a broker, and never against what is there: a file that got lost makes no release older.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.errors import StorageError
from kafkalog_core.format.metadata_records import METADATA_VERSION
from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState, FileKind, fixed_file_name
from kafkalog_core.format.properties import PropertyFile
from kafkalog_core.format.textfile import parse_int32
from kafkalog_core.ops.logdirs.textfiles import read_properties
from kafkalog_core.ops.reading.entry_faults import EntryFile
from kafkalog_core.ops.releases.cluster_records import read_file_levels, read_log_levels
from kafkalog_core.ops.releases.release import (
    LATEST,
    NEWEST_LEVEL,
    RELEASES,
    Release,
    parse_release,
    release_of_level,
    rule_class,
)
from kafkalog_core.ops.releases.release_signs import PartitionSigns, read_partition_signs
from kafkalog_core.storage.listing import stat_path
from kafkalog_core.storage.logdir import LogDir, holds_segments, is_broker_dir, read_log_dir

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["ReleaseGuess", "infer_release"]

_MAX_PARTITIONS: Final = 48  # that are looked into: a log directory may hold ten thousand
_BOOTSTRAP: Final = "bootstrap.checkpoint"
_FIRST_SNAPSHOT: Final = "00000000000000000000-0000000000.checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseGuess:
    """The release whose rules count for a directory.

    Args:
        release: the one; the latest of the candidates where it is not certain.
        is_certain: all candidates are of one class of rules, or the user said which one it is.
        candidates: every release that fits, without its bug fixes.
        evidence: sentences, the strongest first.
        is_newer: the directory is of a release after the newest known one, whose rules are used instead.
    """

    release: Release
    is_certain: bool
    candidates: tuple[Release, ...]
    evidence: tuple[str, ...]
    is_newer: bool = False

    def describe(self) -> str:
        """Return one line for people: the release, or from which to which it may be, and why."""
        first, last = self.candidates[0], self.candidates[-1]
        span = str(first) if first == last else f"{first} to {last}"
        return f"Kafka {span} ({'; '.join(self.evidence)})"

    def agree(self, key: Callable[[Release], object]) -> bool:
        """Return whether `key` is the same for all candidates: then it need not be known which one it was.

        The rules of a release after the newest known one are unknown, so that nothing is the same for them.
        """
        values = [key(release) for release in self.candidates]
        return not self.is_newer and all(value == values[0] for value in values)


class _Sign(NamedTuple):
    """A release that bounds the answer, inclusive, and the sentence that says why."""

    release: Release
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Level:
    """A level of metadata.version; `words`: its source; `is_registered`: whether the node itself registered it."""

    level: int
    words: str
    is_registered: bool = False

    def sign(self) -> _Sign | None:
        """Return the release that the level came with; `None` for a level of no release."""
        release = release_of_level(self.level)
        if release is None:
            return None
        bound = f"release {release}" if self.is_registered else f"{release} or later"
        return _Sign(release, f"{self.words}: {bound}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signs:
    """All that was looked at. `log_dir` null: partitions by themselves, where nothing that is missing counts."""

    log_dir: LogDir | None
    meta: PropertyFile
    marker_contents: PropertyFile
    partitions: tuple[PartitionSigns, ...]

    def has_file(self, kind: FileKind) -> bool:
        """At the top of the log directory."""
        return self.log_dir is not None and any(file.name.kind is kind for file in self.log_dir.files)

    def some(self, test: Callable[[PartitionSigns], bool]) -> bool:
        """Whether it holds for a partition."""
        return any(test(partition) for partition in self.partitions)

    @property
    def is_formatted_in_log(self) -> bool:
        """Whether `kafka-storage format` wrote the features into the log's first snapshot, not bootstrap.checkpoint."""
        places = () if self.log_dir is None else self.log_dir.partitions
        firsts = (f"{place.path}/{_FIRST_SNAPSHOT}" for place in places if place.name.topic == METADATA_TOPIC)
        return any(read_file_levels(first).finalized is not None for first in firsts)

    def has_kind(self, kind: FileKind) -> bool:
        """In a partition."""
        return self.some(lambda partition: kind in partition.kinds)

    def has_directory(self, state: DirectoryState) -> bool:
        """Of a partition."""
        return self.log_dir is not None and any(place.name.state is state for place in self.log_dir.partitions)


def infer_release(path: str, *, kafka: str | None = None) -> ReleaseGuess:
    """Tell the release of a log directory, or of a partition directory and the log directory around it.

    Raises NotFoundError or AccessError for the directory itself, SettingError for a `kafka` that is no release.
    """
    if kafka is not None:
        release = parse_release(kafka)
        return ReleaseGuess(release=release, is_certain=True, candidates=(release,), evidence=(f"--kafka {kafka}",))
    stat_path(path)
    above = os.path.dirname(os.path.abspath(path))
    if is_broker_dir(path):
        return _guess(_read_signs(path, None))
    return _guess(_read_signs(above, path) if is_broker_dir(above) else _read_alone(path))


def _guess(signs: _Signs) -> ReleaseGuess:
    levels = list(_levels(signs))
    newer = next((each for each in levels if each.level > NEWEST_LEVEL), None)
    if newer is not None:
        return _newer(newer)
    exact = next((sign for each in levels if each.is_registered and (sign := each.sign()) is not None), None)
    if exact is not None:
        return _between(exact, exact)
    first = max(_firsts(signs, levels), default=_Sign(RELEASES[0], "nothing shows the earliest possible release"))
    last = min((sign for sign in _lasts(signs) if sign.release >= first.release), default=None)
    return _between(first, last or _Sign(LATEST, "nothing in it rules out the latest known release"))


def _newer(level: _Level) -> ReleaseGuess:
    """The guess for a directory of a release that is not in the table: what is read is read by the latest rules."""
    sentence = f"{level.words}: newer than this kafkalog knows ({LATEST}), so the rules of {LATEST} are assumed"
    return ReleaseGuess(release=LATEST, is_certain=False, candidates=(LATEST,), evidence=(sentence,), is_newer=True)


def _between(first: _Sign, last: _Sign) -> ReleaseGuess:
    candidates = tuple(release for release in RELEASES if first.release <= release <= last.release)
    classes = {rule_class(release) for release in candidates}
    return ReleaseGuess(
        release=candidates[-1],
        is_certain=len(classes) == 1,
        candidates=candidates,
        evidence=(first.sentence,) if first == last else (first.sentence, last.sentence),
    )


def _levels(signs: _Signs) -> Iterator[_Level]:
    """Yield the levels of metadata.version in the metadata log and next to it, the strongest evidence first.

    The level that this node registered at its last start is its release. No node is older than the cluster's own level:
    in the log, or where `kafka-storage format` puts it: bootstrap.checkpoint up to 4.3, then the log's first snapshot.
    """
    if signs.log_dir is None:
        return
    node_id = parse_int32(signs.meta.get("node.id") or "")
    node = "every node" if node_id is None else f"node {node_id}"
    for place in signs.log_dir.partitions:
        if place.name.topic != METADATA_TOPIC:
            continue
        found = read_log_levels(place.path, node_id)
        own = found.of_node(node_id)
        if own is not None:
            words = f"{node} registered as one that knows {METADATA_VERSION} {own}"
            yield _Level(level=own, words=words, is_registered=True)
        if found.finalized is not None:
            words = f"the metadata log sets {METADATA_VERSION} {found.finalized}"
            yield _Level(level=found.finalized, words=words)
    for file in signs.log_dir.files:
        level = read_file_levels(file.path).finalized if file.name.raw == _BOOTSTRAP else None
        if level is not None:
            yield _Level(level=level, words=f"{_BOOTSTRAP} asks for {METADATA_VERSION} {level}")


def _firsts(signs: _Signs, levels: Iterable[_Level]) -> Iterator[_Sign]:
    """The first releases that write what is there."""
    yield from (_Sign(release, sentence) for is_there, release, sentence in _presences(signs) if is_there)
    yield from (sign for level in levels if not level.is_registered and (sign := level.sign()) is not None)


def _presences(signs: _Signs) -> Iterator[tuple[bool, Release, str]]:
    """Whether something is there, the first release that writes it, and the sentence for it."""
    meta = signs.meta
    yield signs.has_kind(FileKind.LOG), Release(0, 8, 0), "files named .log: 0.8.0 or later"
    yield signs.has_file(FileKind.RECOVERY_POINT), Release(0, 8, 1), "a recovery point checkpoint: 0.8.1 or later"
    yield signs.has_file(FileKind.META_PROPERTIES), Release(0, 9), "meta.properties: 0.9 or later"
    yield signs.some(lambda one: 1 in one.magics), Release(0, 10, 0), "batches of magic 1: 0.10.0 or later"
    yield signs.has_kind(FileKind.TIME_INDEX), Release(0, 10, 1), "time indexes: 0.10.1 or later"
    yield signs.has_directory(DirectoryState.DELETE), Release(0, 10, 1), "a directory -delete: 0.10.1 or later"
    yield signs.some(lambda one: 2 in one.magics), Release(0, 11), "batches of magic 2: 0.11 or later"
    for kind, what in (
        (FileKind.LEADER_EPOCH, "leader-epoch-checkpoint files"),
        (FileKind.SNAPSHOT, "producer snapshots"),
        (FileKind.TXN_INDEX, "transaction indexes"),
    ):
        yield signs.has_kind(kind), Release(0, 11), f"{what}: 0.11 or later"
    yield signs.has_file(FileKind.LOG_START_OFFSET), Release(0, 11), "a log start checkpoint: 0.11 or later"
    yield signs.has_directory(DirectoryState.FUTURE), Release(1, 0), "a directory -future: 1.0 or later"
    yield signs.some(lambda one: one.indexes_last), Release(2, 0), "index entries of last offsets: 2.0 or later"
    yield signs.some(lambda one: "zstd" in one.codecs), Release(2, 1), "batches compressed with zstd: 2.1 or later"
    has_cluster = meta.get("cluster.id") is not None  # not in 2.3.1, in 2.4.1 (KafkaServer.checkpointBrokerMetadata)
    yield has_cluster, Release(2, 4), "meta.properties with a cluster.id: 2.4 or later"
    yield signs.has_kind(FileKind.PARTITION_METADATA), Release(2, 8), "partition.metadata files: 2.8 or later"
    yield meta.get("version") == "1", Release(2, 8), "meta.properties of a KRaft node: 2.8 or later"
    # empty in 3.6.2, JSON in 3.7.2 (CleanShutdownFileHandler)
    yield bool(signs.marker_contents.properties), Release(3, 7), "a clean shutdown file with content: 3.7 or later"
    yield signs.has_directory(DirectoryState.STRAY), Release(3, 0), "a directory -stray: 3.0 or later"
    yield meta.get("directory.id") is not None, Release(3, 7), "meta.properties with a directory.id: 3.7 or later"
    yield signs.is_formatted_in_log, Release(4, 4), "features in the first metadata snapshot: 4.4 or later"


def _lasts(signs: _Signs) -> Iterator[_Sign]:
    """The last releases that leave away what is not there."""
    yield from (_Sign(release, sentence) for is_missing, release, sentence in _absences(signs) if is_missing)


def _absences(signs: _Signs) -> Iterator[tuple[bool, Release, str]]:
    """Likewise of what is not there; of a directory without data nothing can be said."""
    is_v07 = signs.has_kind(FileKind.LOG_V07) and not signs.has_kind(FileKind.LOG)
    yield is_v07, Release(0, 7), "files named .kafka: 0.7"
    first, last = signs.some(lambda one: one.indexes_first), signs.some(lambda one: one.indexes_last)
    yield first and not last, Release(1, 1), "index entries of first offsets: 1.1 or earlier"
    if signs.log_dir is None or not signs.some(lambda one: one.has_data):
        return
    checkpoints = signs.has_file(FileKind.RECOVERY_POINT) or signs.has_file(FileKind.CLEANER_OFFSET)
    yield not checkpoints, Release(0, 8, 0), "no recovery point checkpoint: 0.8.0"
    yield not signs.has_file(FileKind.META_PROPERTIES), Release(0, 8, 2), "no meta.properties: 0.8.2 or earlier"
    yield not signs.has_kind(FileKind.TIME_INDEX), Release(0, 10, 0), "no time indexes: 0.10.0 or earlier"
    no_epochs = not signs.has_kind(FileKind.LEADER_EPOCH)
    yield no_epochs, Release(0, 10, 2), "no leader-epoch-checkpoint files: 0.10.2 or earlier"
    no_start = not signs.has_file(FileKind.LOG_START_OFFSET)
    yield no_start, Release(0, 10, 2), "no log start checkpoint: 0.10.2 or earlier"
    has_meta = bool(signs.meta.properties) and signs.meta.refusal is None
    no_cluster = has_meta and signs.meta.get("cluster.id") is None
    yield no_cluster, Release(2, 3), "meta.properties without a cluster.id: 2.3 or earlier"
    no_id = has_meta and signs.meta.get("directory.id") is None
    yield no_id, Release(3, 6), "meta.properties without a directory.id: 3.6 or earlier"


def _read_signs(path: str, partition: str | None) -> _Signs:
    """Of a log directory; of `partition` in any case, where one is meant."""
    log_dir = read_log_dir(path)
    places = [place.path for place in log_dir.partitions if place.name.topic != METADATA_TOPIC]
    step = -(-len(places) // _MAX_PARTITIONS) or 1
    chosen = [*([] if partition is None else [partition]), *places[::step]]
    return _Signs(
        log_dir=log_dir,
        meta=_read_contents(path, FileKind.META_PROPERTIES),
        marker_contents=_read_contents(path, FileKind.CLEAN_SHUTDOWN),
        partitions=tuple(signs for place in chosen if (signs := read_partition_signs(place)) is not None),
    )


def _read_alone(path: str) -> _Signs:
    """Return the evidence in a single partition, or in a directory of partitions without files of a broker.

    The log directory of Kafka 0.7 is such a directory: it holds partitions and nothing else.
    """
    places = [path]
    if not holds_segments(path):
        with suppress(StorageError):
            places = [place.path for place in read_log_dir(path).partitions][:_MAX_PARTITIONS]
    nothing = PropertyFile()
    partitions = tuple(signs for place in places if (signs := read_partition_signs(place)) is not None)
    return _Signs(log_dir=None, meta=nothing, marker_contents=nothing, partitions=partitions)


def _read_contents(path: str, kind: FileKind) -> PropertyFile:
    try:
        text = read_properties(EntryFile(path=f"{path}/{fixed_file_name(kind)}", kind=kind))
    except StorageError:
        return PropertyFile()
    return PropertyFile() if text is None else text.contents
