"""Which release wrote a disk: the signs in a log directory and its partitions, and the releases that they allow.

Each sign is a row of `_presences` or `_absences` with the first release that writes it, from `releases.Since`. The
level of metadata.version that the node registered at its last start is the strongest.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.errors import StorageError
from kafkalog_core.format.decode import codec_name
from kafkalog_core.format.index import iter_offset_entries
from kafkalog_core.format.layout import BATCH_V2, CODEC_MASK, MAGIC_POSITION, MAGIC_V2, OFFSET_INDEX_ENTRY
from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState, FileKind, FileState, fixed_file_name
from kafkalog_core.format.properties import PropertyFile
from kafkalog_core.format.textfile import parse_int32
from kafkalog_core.kafka.rules.releases import (
    LATEST,
    NEWEST_LEVEL,
    RELEASES,
    Release,
    Since,
    last_before,
    parse_release,
    release_of_level,
    short_name,
)
from kafkalog_core.kafka.sim.cluster_metadata import level_of_node
from kafkalog_core.kafka.sim.logdir.faults import EntryFile
from kafkalog_core.kafka.sim.logdir.text_files import read_properties
from kafkalog_core.kafka.sim.metadata_log import read_file_image, read_shared_image
from kafkalog_core.storage.listing import stat_path
from kafkalog_core.storage.logdir import LogDir, holds_segments, is_broker_dir, read_log_dir
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.paths import parent
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct
from kafkalog_core.topics.metadata_records import METADATA_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkalog_core.engine.named_dirs import NamedDirs
    from kafkalog_core.storage.listing import FileInfo, Segment

__all__ = ["PartitionSigns", "ReleaseGuess", "infer_release", "read_partition_signs"]


_MAX_ENTRIES: Final = 64  # of an index that are looked at: each costs a read of the log


class PartitionSigns(Struct, frozen=True, kw_only=True):
    """The signs in one partition. An unreadable sign counts as absent.

    Args:
        kinds: of the files in it.
        magics: of the first batches of its first and last segments.
        codecs: of the same batches.
        has_data: whether a segment holds batches, and has an index.
        indexes_first: whether an entry of the last offset index has the first offset of a batch.
        indexes_last: whether one has a later offset of its batch.
    """

    kinds: frozenset[FileKind]
    magics: frozenset[int]
    codecs: frozenset[str]
    has_data: bool
    indexes_first: bool
    indexes_last: bool


def read_partition_signs(path: str) -> PartitionSigns | None:
    """Read the signs of a partition: some small reads, however large it is. None where it cannot be listed."""
    try:
        partition = read_partition(path)
    except StorageError:
        return None
    ends = {segment.base_offset: segment for segment in (*partition.segments[:1], *partition.segments[-2:])}
    headers = [header for segment in ends.values() for header in _first_header(segment)]
    styles = {style for segment in partition.segments[-2:] for style in _index_styles(segment)}
    return PartitionSigns(
        kinds=frozenset(file.name.kind for file in partition.files if file.name.state is FileState.LIVE),
        magics=frozenset(header[MAGIC_POSITION] for header in headers),
        codecs=frozenset(
            codec_name(_fields(header)["attributes"] & CODEC_MASK)
            for header in headers
            if header[MAGIC_POSITION] == MAGIC_V2
        ),
        has_data=any(segment.index is not None and segment.size_bytes for segment in partition.segments),
        indexes_first="first" in styles,
        indexes_last="last" in styles,
    )


def _first_header(segment: Segment) -> Iterator[bytes]:
    if segment.log is None or not segment.size_bytes:
        return
    header = _read(segment.log, 0, BATCH_V2.size)
    if len(header) == BATCH_V2.size:
        yield header


def _index_styles(segment: Segment) -> Iterator[str]:
    """Yield which offset of its batch each index entry has, `first` or `last`; nothing where they are the same."""
    if segment.log is None or segment.index is None:
        return
    entries = _read(segment.index, 0, _MAX_ENTRIES * OFFSET_INDEX_ENTRY.size)
    with suppress(StorageError), Source.open(segment.log.path) as source:
        for relative_offset, position in iter_offset_entries(entries):
            header = _header_at(source, position) if position > 0 else b""
            if len(header) < BATCH_V2.size or header[MAGIC_POSITION] != MAGIC_V2:
                continue
            fields = _fields(header)
            offset, first = segment.base_offset + relative_offset, fields["baseOffset"]
            if fields["lastOffsetDelta"] > 0 and offset >= first:
                yield "first" if offset == first else "last"


def _header_at(source: Source, position: int) -> bytes:
    try:
        return bytes(source.read(position, BATCH_V2.size))
    except StorageError:
        return b""


def _fields(header: bytes) -> dict[str, int]:
    return dict(zip(BATCH_V2.offsets, BATCH_V2.struct.unpack(header), strict=True))


def _read(file: FileInfo, position: int, size_bytes: int) -> bytes:
    try:
        with Source.open(file.path) as source:
            return bytes(source.read(position, size_bytes))
    except StorageError:
        return b""


_MAX_PARTITIONS: Final = 48  # that are looked into: a log directory may hold ten thousand
_BOOTSTRAP: Final = "bootstrap.checkpoint"
_FIRST_SNAPSHOT: Final = "00000000000000000000-0000000000.checkpoint"


_LAST_FIX: Final = 999
"""A number above that of every bug fix; 2.2.1 and 2.5.1, bug fixes, changed what the cleaner keeps."""


class ReleaseGuess(Struct, frozen=True, kw_only=True):
    """The release whose rules are used for a directory.

    Args:
        release: the release; the latest of the candidates where it is not certain.
        is_certain: whether no other release fits, or the user named it; what is not ruled out is not certain.
        candidates: every release that fits, without its bug fixes.
        evidence: sentences, the strongest first.
        is_newer: whether the directory is of a release after the newest known one, whose rules are used instead.
        is_named: whether the user named the release, with its bug fixes.
    """

    release: Release
    is_certain: bool
    candidates: tuple[Release, ...]
    evidence: tuple[str, ...]
    is_newer: bool = False
    is_named: bool = False

    def describe(self) -> str:
        """Return one line for people: the release, or from which to which it may be, and why."""
        first, last = self.candidates[0], self.candidates[-1]
        span = str(first) if first == last else f"{first} to {last}"
        return f"Kafka {span} ({'; '.join(self.evidence)})"

    def agree(self, key: Callable[[Release], object]) -> bool:
        """Return whether `key` is the same for all candidates and their bug fixes, so that it does not matter which.

        The rules of a release after the newest known one are unknown, so that nothing is the same for them.
        """
        last_fixes = [] if self.is_named else [release._replace(patch=_LAST_FIX) for release in self.candidates]
        values = [key(release) for release in (*self.candidates, *(each for each in last_fixes if each.major))]
        return not self.is_newer and all(value == values[0] for value in values)


class _Sign(NamedTuple):
    """A release that bounds the answer, inclusive, and the sentence that says why."""

    release: Release
    sentence: str


_OPEN_END: Final = _Sign(LATEST, "nothing in it rules out the latest known release")
"""The last release where nothing shows one."""


class _Level(Struct, frozen=True, kw_only=True):
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


class _Signs(Struct, frozen=True, kw_only=True):
    """All signs. `log_dir` None: partitions outside a log directory, where no missing file counts.

    Of `others`, the same broker's log directories, only what is about the metadata log counts. `named` keeps its image.
    """

    log_dir: LogDir | None
    others: tuple[LogDir, ...] = ()
    meta: PropertyFile
    marker_contents: PropertyFile
    partitions: tuple[PartitionSigns, ...]
    named: NamedDirs | None = None

    def has_file(self, kind: FileKind) -> bool:
        """Return whether a file is at the top of the log directory."""
        return self.log_dir is not None and any(file.name.kind is kind for file in self.log_dir.files)

    def some(self, test: Callable[[PartitionSigns], bool]) -> bool:
        """Return whether it holds for any partition."""
        return any(test(partition) for partition in self.partitions)

    @property
    def log_dirs(self) -> tuple[LogDir, ...]:
        """The log directory and those of the same broker."""
        return self.others if self.log_dir is None else (self.log_dir, *self.others)

    @property
    def metadata_logs(self) -> list[str]:
        """Paths of the metadata log, which one of a broker's log directories has."""
        places = (place for log_dir in self.log_dirs for place in log_dir.partitions)
        return [place.path for place in places if place.name.topic == METADATA_TOPIC]

    @property
    def is_formatted_in_log(self) -> bool:
        """Whether `kafka-storage format` wrote the features into the log's first snapshot, not bootstrap.checkpoint."""
        firsts = (f"{path}/{_FIRST_SNAPSHOT}" for path in self.metadata_logs)
        return any(read_file_image(first).image.level is not None for first in firsts)

    def has_kind(self, kind: FileKind) -> bool:
        """Return whether any partition has a file of a kind."""
        return self.some(lambda partition: kind in partition.kinds)

    def has_directory(self, state: DirectoryState) -> bool:
        """Return whether any partition directory has a state."""
        return self.log_dir is not None and any(place.name.state is state for place in self.log_dir.partitions)


def infer_release(
    path: str, *, kafka: str | None = None, beside: Iterable[str] = (), named: NamedDirs | None = None
) -> ReleaseGuess:
    """Return the release of a log directory, or of a partition directory and the log directory around it.

    Args:
        path: the directory.
        kafka: the release, where it was given.
        beside: other log directories of the same broker: one of them may hold the metadata log.
        named: what a command reads once, for the metadata log; None: it is read again.

    Raises NotFoundError or AccessError for the directory itself, SettingError for a `kafka` that is not a release.
    """
    if kafka is not None:
        release, evidence = parse_release(kafka), f"--kafka {kafka}"
        return ReleaseGuess(
            release=release, is_certain=True, candidates=(release,), evidence=(evidence,), is_named=True
        )
    stat_path(path)
    above = parent(path)
    if is_broker_dir(path):
        return _guess(_read_signs(path, None, beside, named))
    return _guess(_read_signs(above, path, beside, named) if is_broker_dir(above) else _read_alone(path))


def _named(release: Release, option: str) -> ReleaseGuess:
    return ReleaseGuess(release=release, is_certain=True, candidates=(release,), evidence=(option,), is_named=True)


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
    return _between(first, last or _OPEN_END)


def _newer(level: _Level) -> ReleaseGuess:
    """Return the guess for a directory of an unknown later release, which is read by the latest rules."""
    sentence = f"{level.words}: newer than this kafkalog knows ({LATEST}), so the rules of {LATEST} are assumed"
    return ReleaseGuess(release=LATEST, is_certain=False, candidates=(LATEST,), evidence=(sentence,), is_newer=True)


def _between(first: _Sign, last: _Sign) -> ReleaseGuess:
    candidates = tuple(release for release in RELEASES if first.release <= release <= last.release)
    return ReleaseGuess(
        release=candidates[-1],
        is_certain=len(candidates) == 1 and last is not _OPEN_END,
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
    for path in signs.metadata_logs:
        image = read_shared_image(path, signs.named).image
        own = level_of_node(image, node_id)
        if own is not None:
            words = f"{node} registered as one that knows {METADATA_VERSION} {own}"
            yield _Level(level=own, words=words, is_registered=True)
        level = image.level
        if level is None:  # formatted, and not started yet
            level = read_file_image(f"{path}/{_FIRST_SNAPSHOT}").image.level
        if level is not None:
            words = f"the metadata log sets {METADATA_VERSION} {level}"
            yield _Level(level=level, words=words)
    for file in (file for log_dir in signs.log_dirs for file in log_dir.files):
        level = read_file_image(file.path).image.level if file.name.raw == _BOOTSTRAP else None
        if level is not None:
            yield _Level(level=level, words=f"{_BOOTSTRAP} asks for {METADATA_VERSION} {level}")


def _firsts(signs: _Signs, levels: Iterable[_Level]) -> Iterator[_Sign]:
    """Yield the first releases that write what is there."""
    yield from (
        _Sign(first, f"{what}: {short_name(first)} or later") for is_there, first, what in _presences(signs) if is_there
    )
    yield from (sign for level in levels if not level.is_registered and (sign := level.sign()) is not None)


def _presences(signs: _Signs) -> Iterator[tuple[bool, Release, str]]:
    """Yield whether something is there, the first release that writes it, and what it is."""
    meta = signs.meta
    yield signs.has_kind(FileKind.LOG), Since.LOG_FILES, "files named .log"
    yield signs.has_file(FileKind.RECOVERY_POINT), Since.RECOVERY_POINTS, "a recovery point checkpoint"
    yield signs.has_file(FileKind.META_PROPERTIES), Since.META_PROPERTIES, "meta.properties"
    yield signs.some(lambda one: 1 in one.magics), Since.MAGIC_1, "batches of magic 1"
    yield signs.has_kind(FileKind.TIME_INDEX), Since.TIME_INDEX, "time indexes"
    yield signs.has_directory(DirectoryState.DELETE), Since.DELETE_DIRECTORIES, "a directory -delete"
    yield signs.some(lambda one: 2 in one.magics), Since.PRODUCERS, "batches of magic 2"
    for kind, what in (
        (FileKind.LEADER_EPOCH, "leader-epoch-checkpoint files"),
        (FileKind.SNAPSHOT, "producer snapshots"),
        (FileKind.TXN_INDEX, "transaction indexes"),
    ):
        yield signs.has_kind(kind), Since.PRODUCERS, what
    yield signs.has_file(FileKind.LOG_START_OFFSET), Since.LOG_START_OFFSET, "a log start checkpoint"
    yield signs.has_directory(DirectoryState.FUTURE), Since.FUTURE_DIRECTORIES, "a directory -future"
    yield signs.some(lambda one: one.indexes_last), Since.LAST_OFFSET_IN_INDEX, "index entries of last offsets"
    yield signs.some(lambda one: "zstd" in one.codecs), Since.ZSTD, "batches compressed with zstd"
    yield meta.get("cluster.id") is not None, Since.CLUSTER_ID, "meta.properties with a cluster.id"
    yield signs.has_kind(FileKind.PARTITION_METADATA), Since.PARTITION_METADATA, "partition.metadata files"
    yield meta.get("version") == "1", Since.KRAFT, "meta.properties of a KRaft node"
    yield bool(signs.marker_contents.properties), Since.CLEAN_SHUTDOWN_WITH_EPOCH, "a clean shutdown file with content"
    yield signs.has_directory(DirectoryState.STRAY), Since.STRAY_DIRECTORIES, "a directory -stray"
    yield meta.get("directory.id") is not None, Since.DIRECTORY_ID, "meta.properties with a directory.id"
    yield signs.is_formatted_in_log, Since.FEATURES_IN_SNAPSHOT, "features in the first metadata snapshot"


def _lasts(signs: _Signs) -> Iterator[_Sign]:
    """Yield the last releases that do not write what is missing."""
    for is_missing, first, what in _absences(signs):
        if is_missing:
            last = last_before(first)
            is_one = last < Since.RECOVERY_POINTS  # another sign distinguishes 0.7 and 0.8.0
            yield _Sign(last, f"{what}: {short_name(last)}{'' if is_one else ' or earlier'}")


def _absences(signs: _Signs) -> Iterator[tuple[bool, Release, str]]:
    """Yield whether something is missing, the first release that writes it, and what it is.

    A directory without data shows only whose it is.
    """
    is_kraft = signs.meta.get("version") == "1"
    is_old = not is_kraft and signs.meta.get("broker.id") is not None and signs.meta.refusal is None
    yield is_old, Since.WITHOUT_ZOOKEEPER, "meta.properties of a broker with ZooKeeper"
    is_v07 = signs.has_kind(FileKind.LOG_V07) and not signs.has_kind(FileKind.LOG)
    yield is_v07, Since.LOG_FILES, "files named .kafka"
    first, last = signs.some(lambda one: one.indexes_first), signs.some(lambda one: one.indexes_last)
    yield first and not last, Since.LAST_OFFSET_IN_INDEX, "index entries of first offsets"
    if signs.log_dir is None or not signs.some(lambda one: one.has_data):
        return
    checkpoints = signs.has_file(FileKind.RECOVERY_POINT) or signs.has_file(FileKind.CLEANER_OFFSET)
    yield not checkpoints, Since.RECOVERY_POINTS, "no recovery point checkpoint"
    yield not signs.has_file(FileKind.META_PROPERTIES), Since.META_PROPERTIES, "no meta.properties"
    yield not signs.has_kind(FileKind.TIME_INDEX), Since.TIME_INDEX, "no time indexes"
    no_epochs = not signs.has_kind(FileKind.LEADER_EPOCH)
    yield no_epochs, Since.PRODUCERS, "no leader-epoch-checkpoint files"
    no_start = not signs.has_file(FileKind.LOG_START_OFFSET)
    yield no_start, Since.LOG_START_OFFSET, "no log start checkpoint"
    has_meta = bool(signs.meta.properties) and signs.meta.refusal is None
    no_cluster = has_meta and signs.meta.get("cluster.id") is None
    yield no_cluster, Since.CLUSTER_ID, "meta.properties without a cluster.id"
    # seen of 3.9.2: with ZooKeeper a broker writes none
    no_id = has_meta and is_kraft and signs.meta.get("directory.id") is None
    yield no_id, Since.DIRECTORY_ID, "meta.properties without a directory.id"


def _read_signs(path: str, partition: str | None, beside: Iterable[str], named: NamedDirs | None) -> _Signs:
    """Return the signs in a log directory; in any case those of `partition`, if one is given."""
    others: list[LogDir] = []
    for other in beside:
        with suppress(StorageError):
            others.append(read_log_dir(other))
    log_dir = read_log_dir(path)
    places = [place.path for place in log_dir.partitions if place.name.topic != METADATA_TOPIC]
    step = -(-len(places) // _MAX_PARTITIONS) or 1
    chosen = [*([] if partition is None else [partition]), *places[::step]]
    return _Signs(
        log_dir=log_dir,
        others=tuple(others),
        meta=_read_contents(path, FileKind.META_PROPERTIES),
        marker_contents=_read_contents(path, FileKind.CLEAN_SHUTDOWN),
        partitions=tuple(signs for place in chosen if (signs := read_partition_signs(place)) is not None),
        named=named,
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
