"""The repair of one text file: its new content, the lines that change, and the findings about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.errors import StorageError
from kafkalog_core.findings import found
from kafkalog_core.format.checkpoint import MAX_CHECKPOINT_BYTES, LineEdit
from kafkalog_core.format.names import METADATA_TOPIC, FileKind
from kafkalog_core.format.properties import (
    PropertyFile,
    encode_meta_properties,
    encode_partition_metadata,
    mend_meta_properties,
    read_meta_properties,
)
from kafkalog_core.format.textfile import parse_int32
from kafkalog_core.kafka.sim.cluster import any_topic_id, metadata_file, read_metadata_file
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct, replace
from kafkalog_core.text import first_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.sim.logdir.top_files import BrokerDir
    from kafkalog_core.storage.logdir import PartitionPath

__all__ = [
    "FileRepair",
    "MetaSources",
    "Verdict",
    "read_text",
    "repair_meta",
    "repair_topic_id",
    "why",
]


Verdict = Literal["good", "mended", "left", "missing"]
"""`left`: the plan does not repair all that is wrong with it; `missing`: a broker of the release has it, or may."""


class FileRepair(Struct, frozen=True, kw_only=True):
    """One text file.

    Args:
        path: where it is, or should be.
        kind: of the file.
        topic: of the partition that it is in; None at the top of a log directory.
        partition: its number.
        entries: number of entries that a broker finds in it, or of keys; None: there is no file.
        verdict: the result, in one word.
        content: new content; None: it is kept as it is.
        edits: lines that change.
        findings: about the file and its values as they are.
        repaired_codes: codes of the findings that the new content repairs.
        refusals: why something in it is not repaired.
    """

    path: str
    kind: FileKind
    topic: str | None = None
    partition: int | None = None
    entries: int | None = None
    verdict: Verdict = "good"
    content: bytes | None = None
    edits: Sequence[LineEdit] = ()
    findings: tuple[Finding, ...] = ()
    repaired_codes: frozenset[str] = frozenset()
    refusals: tuple[Finding, ...] = ()


def read_text(path: str) -> bytes | None:
    """Return all of a text file; None if it is missing, unreadable or too large.

    The check of the file reports which.
    """
    try:
        with Source.open(path) as source:
            # CheckpointFile reads whole files; above the limit it is not a checkpoint but something else under its
            # name.
            return source.read(0, source.size_bytes) if source.size_bytes <= MAX_CHECKPOINT_BYTES else None
    except StorageError:
        return None


def why(edits: Sequence[LineEdit]) -> str:
    """Return one sentence about the lines that change: the first ones, and how many more."""
    return first_of(edits, _of, joint="; ")


def _of(edit: LineEdit) -> str:
    if edit.old is None:
        return f"new line {edit.new!r}: {edit.problem}"
    line = f"line {edit.number} {_short(edit.old)}"
    return f"{line} is removed: {edit.problem}" if edit.new is None else f"{line} becomes {edit.new!r}: {edit.problem}"


def _short(text: str) -> str:
    # A line of garbage may be a megabyte long.
    return repr(text if len(text) <= 80 else f"{text[:77]}...")


_WORDS: Final = ("bad-directory-id", "bad-node-id", "malformed-line", "missing-key", "unsupported-version")
_CODES: Final = frozenset(
    {*(f"meta.{word}" for word in _WORDS), "meta.missing", "meta.missing-kraft", "meta.no-broker-id", "meta.no-version"}
)
_ID_KEYS: Final = ("node.id", "broker.id")
_DIRECTORY_ID: Final = "directory.id"
_VERSIONS: Final = {"1": "node.id", "0": "broker.id"}


class MetaSources(Struct, frozen=True, kw_only=True):
    """Other sources of ids.

    Args:
        other_dirs: other log directories of the broker.
        server: its server.properties, as far as it is known.
        registered_dirs: returns the ids of the log directories with which a node registered; empty: unknown.
    """

    other_dirs: Sequence[BrokerDir]
    server: Mapping[str, str]
    registered_dirs: Callable[[str | None], Sequence[str]]


def repair_meta(
    broker_dir: BrokerDir, findings: tuple[Finding, ...], sources: Callable[[], MetaSources]
) -> FileRepair | None:
    """Return the repair of meta.properties; None: there is no such file, and none is needed.

    Args:
        broker_dir: the log directory.
        findings: those about the file.
        sources: called only if the file is bad.
    """
    meta, path = broker_dir.meta, broker_dir.meta_path
    if meta is None and not findings:
        return None
    repair = FileRepair(
        path=path,
        kind=FileKind.META_PROPERTIES,
        entries=None if meta is None else len(meta.contents.properties),
        findings=findings,
        repaired_codes=_CODES,
    )
    # Other findings are about values that contradict the cluster; they need a decision, not a repair of the file.
    is_bad = any(finding.code in _CODES for finding in findings)
    if meta is None and not is_bad:
        return replace(repair, verdict="missing")
    if meta is not None and not is_bad and not _lacks_known_id(broker_dir, sources):
        return repair
    data = b"" if meta is None else read_text(path)
    if data is None:
        return replace(repair, verdict="left")
    return _Meta(broker_dir, data, sources()).repaired(repair)


def _lacks_known_id(broker_dir: BrokerDir, sources: Callable[[], MetaSources]) -> bool:
    """Return whether a file has no directory id, and it is known which one it had.

    A broker would make a new one, and the partitions of the directory are offline until they are assigned again
    (KIP-858). Where no other directory of the broker has an id, the release may be one that has none.
    """
    if broker_dir.meta is None or broker_dir.meta.is_refused or broker_dir.meta.contents.get("node.id") is None:
        return False
    if broker_dir.directory_id is not None or not any(other.directory_id for other in sources().other_dirs):
        return False
    return _Meta(broker_dir, b"", sources()).finds_directory_id()


class _Meta:
    """One file under repair."""

    def __init__(self, broker_dir: BrokerDir, data: bytes, sources: MetaSources) -> None:
        self._broker_dir = broker_dir
        self._data = data
        self._file = PropertyFile() if broker_dir.meta is None else broker_dir.meta.contents
        self._sources = sources
        self._others = [other for other in sources.other_dirs if other.meta is not None and not other.meta.is_refused]
        self._bad: dict[int, str] = {line.line: line.problem for line in self._file.malformed}
        self._new: dict[str, tuple[str, str]] = {}

    def repaired(self, repair: FileRepair) -> FileRepair:
        """Return the repair, checked with the rules of a broker; else a refusal that names what is missing."""
        # The version decides which id key is needed: 0 has broker.id, 1 has node.id (MetaPropertiesVersion).
        version = self._version()
        id_key = _VERSIONS[version]
        self._keep_or_add("version", version, "the other keys are of this version", lambda text: text == version)
        node_id = self._known(_ID_KEYS)
        self._keep_or_add(id_key, node_id[0], node_id[1], lambda text: parse_int32(text) is not None)
        cluster_id = self._known(("cluster.id",))
        self._keep_or_add("cluster.id", cluster_id[0], cluster_id[1], bool)
        is_lost = version == "1" and not self._keep_or_find_directory_id(node_id[0])
        # A file with content keeps its comments and its order; a missing one is written whole.
        if self._data:
            content, edits = mend_meta_properties(self._data, self._bad, self._new)
        else:
            content = encode_meta_properties((key, value) for key, (value, _) in self._new.items())
            edits = mend_meta_properties(b"", {}, self._new)[1]
        # Read back by the rules of a broker, before it is offered.
        refusal = read_meta_properties(content).refusal
        is_whole = refusal is None and (version != "0" or id_key in self._new or self._file.get(id_key) is not None)
        if not is_whole:
            problem = refusal.problem if refusal is not None else f"there is no {id_key}"
            return replace(repair, verdict="left", refusals=(found("meta.not-known", repair.path, problem=problem),))
        # The broker makes a new directory.id if there is none, and then counts as a broker with another directory
        # (KIP-858): a refusal names it, and the rest is repaired.
        refusals = (found("meta.directory-id-lost", repair.path),) if is_lost else ()
        verdict: Verdict = "mended" if edits else "left"
        return replace(repair, verdict=verdict, content=content if edits else None, edits=edits, refusals=refusals)

    def finds_directory_id(self) -> bool:
        """Return whether the directory id is known."""
        return self._keep_or_find_directory_id(None)

    def _version(self) -> str:
        """Return the version of the file: by its own line, the keys of this and the other files, or the directory."""
        text = self._file.get("version")
        # A version that the file has is believed: only then do its keys fit together.
        if text in _VERSIONS:
            return text
        for others in (self._file, *(other.meta.contents for other in self._others if other.meta is not None)):
            for version, key in _VERSIONS.items():
                if others.get(key) is not None:
                    return version
        return "1" if self._broker_dir.is_kraft else "0"

    def _keep_or_add(self, key: str, value: str | None, source: str, is_good: Callable[[str], bool]) -> None:
        """Keep a valid line; replace a bad or a missing one."""
        known = self._file.get(key)
        # All lines of the key, since the last of repeated ones counts (java.util.Properties).
        if known is not None and is_good(known):
            return
        self._bad |= {
            item.line: f"{item.value!r} is not a valid {key}" for item in self._file.properties if item.key == key
        }
        if value is not None and is_good(value):
            self._new[key] = value, source

    def _known(self, keys: Sequence[str]) -> tuple[str | None, str]:
        """Return a value from another file of the same broker, and the name of that file."""
        for other in self._others:
            contents = PropertyFile() if other.meta is None else other.meta.contents
            value = next((text for key in keys if (text := contents.get(key)) is not None), None)
            if value is not None:
                return value, f"as in {other.meta_path}"
        # server.properties last: it is an intention, and the other files are what the broker was formatted with.
        value = next((self._sources.server[key] for key in keys if key in self._sources.server), None)
        return value, "as in server.properties"

    def _keep_or_find_directory_id(self, node_id: str | None) -> bool:
        """Return whether the directory id is known: from the file, else as the only registered id left over."""
        bad = [item for item in self._file.properties if item.key == _DIRECTORY_ID and _is_refused_id(item.value or "")]
        self._bad |= {item.line: "not a valid directory id" for item in bad}
        if not bad and self._file.get(_DIRECTORY_ID) is not None:
            return True
        known = self._file.get("node.id") or node_id
        others = {other.directory_id for other in self._others}
        # Ids of directories that other log directories have are taken; the one that is left belongs to this one.
        left = [each for each in self._sources.registered_dirs(known) if each not in others]
        if len(left) == 1:
            self._new[_DIRECTORY_ID] = left[0], "the one that the broker registered with and no other directory has"
        return len(left) == 1


def _is_refused_id(text: str) -> bool:
    # Asked of the parser itself: which ids a broker refuses is stated there.
    file = read_meta_properties(f"broker.id=0\ndirectory.id={text}\n".encode("latin-1", "backslashreplace"))
    return file.refusal is not None


_TOPIC_IDS_CODES: Final = frozenset(
    f"partition-metadata.{word}"
    for word in (
        "bad-topic-id",
        "malformed-line",
        "missing",
        "odd-name",
        "odd-version",
        "too-short",
        "zero-topic-id",
    )
)


def repair_topic_id(
    place: PartitionPath, ids: Callable[[], Mapping[str, Mapping[str, str]]], *, is_expected: bool
) -> FileRepair | None:
    """Return the repair of partition.metadata; None: there is no such file, and none is needed.

    `is_expected`: whether the broker needs the file to recognize a partition as its own. `ids` is called only if the
    file needs an id.
    """
    topic = place.name.topic or ""
    # The cluster metadata topic has a fixed id.
    if topic == METADATA_TOPIC:
        return None
    file, text = metadata_file(place), read_metadata_file(place)
    # ZooKeeper mode works without the file.
    if text is None and not is_expected:
        return None
    missing = found("partition-metadata.missing", file.path, topic=topic, partition=place.name.partition)
    findings = (missing,) if text is None else text.findings
    entries = None if text is None else len(text.contents.properties)
    repair = FileRepair(
        path=file.path,
        kind=FileKind.PARTITION_METADATA,
        topic=topic,
        partition=place.name.partition,
        entries=entries,
        findings=findings,
        repaired_codes=_TOPIC_IDS_CODES,
    )
    if not any(finding.severity == "error" for finding in findings):
        return repair
    # A line that a broker refuses may still have a readable id: it is a witness like the other partitions of the topic.
    own = None if text is None else any_topic_id(text)
    topic_ids = dict(ids().get(topic, {}))
    if own is not None:
        topic_ids.setdefault(own, file.path)
    # Two ids for one topic: it was deleted and created again, and the disk does not show which one this partition is
    # of.
    if len(topic_ids) != 1:
        code = "partition-metadata.no-id" if not topic_ids else "partition-metadata.several-ids"
        names = " and ".join(f"{topic_id} in {where}" for topic_id, where in sorted(topic_ids.items()))
        refusal = found(code, file.path, topic=topic, partition=place.name.partition, names=names)
        return replace(repair, verdict="left", refusals=(refusal,))
    topic_id, where = next(iter(topic_ids.items()))
    # Written whole, as two lines: PartitionMetadataFile has no comment that could be kept.
    content = encode_partition_metadata(topic_id)
    return replace(
        repair, verdict="mended", content=content, edits=_edits(read_text(file.path) or b"", content, topic_id, where)
    )


def _edits(old: bytes, new: bytes, topic_id: str, where: str) -> tuple[LineEdit, ...]:
    before = old.decode("utf-8", "backslashreplace").splitlines()
    after = new.decode("ascii").splitlines()
    edits = []
    for index, line in enumerate(after):
        was = before[index] if index < len(before) else None
        if was != line:
            edits.append(LineEdit(None if was is None else index + 1, was, line, f"the id {topic_id} is in {where}"))
    return tuple(edits)
