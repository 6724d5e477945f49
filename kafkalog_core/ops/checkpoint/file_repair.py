"""The repair of one text file: its new content, the lines that change, and the findings about it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.errors import StorageError
from kafkalog_core.findings import found
from kafkalog_core.format.checkpoint import LineEdit
from kafkalog_core.format.names import METADATA_TOPIC, FileKind
from kafkalog_core.format.properties import (
    PropertyFile,
    encode_meta_properties,
    encode_partition_metadata,
    mend_meta_properties,
    read_meta_properties,
)
from kafkalog_core.format.textfile import parse_int32
from kafkalog_core.kafka.logdir.text_files import TopicIds, _file, _read, _topic_id
from kafkalog_core.storage.source import Source
from kafkalog_core.text import first_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.logdir.top_files import BrokerDir
    from kafkalog_core.storage.logdir import PartitionPath

__all__ = [
    "MAX_TEXT_BYTES",
    "FileRepair",
    "MetaSources",
    "Verdict",
    "read_text",
    "repair_meta",
    "repair_topic_id",
    "why",
]


Verdict = Literal["good", "mended", "left", "missing"]
"""`left`: something is wrong with it that is not mended here; `missing`: a broker of the release has it, or may."""

MAX_TEXT_BYTES: Final = 64 * 1024 * 1024
"""A checkpoint of a million partitions; what is larger is something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRepair:
    """One text file.

    Args:
        path: where it is, or should be.
        kind: of the file.
        topic: of the partition that it is in; None at the top of a log directory.
        partition: its number.
        entries: how many a broker finds in it, or keys; None: there is no file.
        verdict: in one word.
        content: new content; None: it is kept as it is.
        edits: lines that are other ones then.
        findings: about the file and its values as they are.
        mended: codes of the findings that the new content does away with.
        refusals: why something in it is not mended.
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
    mended: frozenset[str] = frozenset()
    refusals: tuple[Finding, ...] = ()


def read_text(path: str) -> bytes | None:
    """Return all of a text file; None if it is missing, unreadable or too large.

    The check of the file reports which.
    """
    try:
        with Source.open(path) as source:
            return source.read(0, source.size_bytes) if source.size_bytes <= MAX_TEXT_BYTES else None
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
    return repr(text if len(text) <= 80 else f"{text[:77]}...")


_WORDS: Final = ("bad-directory-id", "bad-node-id", "malformed-line", "missing-key", "unsupported-version")
_CODES: Final = frozenset(
    {*(f"meta.{word}" for word in _WORDS), "meta.missing", "meta.missing-kraft", "meta.no-broker-id", "meta.no-version"}
)
_ID_KEYS: Final = ("node.id", "broker.id")
_DIRECTORY_ID: Final = "directory.id"
_VERSIONS: Final = {"1": "node.id", "0": "broker.id"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaSources:
    """Where else ids stand.

    Args:
        beside: other log directories of the broker.
        server: its server.properties, as far as it is known.
        registered_dirs: ids of the log directories that a node registered with; empty: not known.
    """

    beside: Sequence[BrokerDir]
    server: Mapping[str, str]
    registered_dirs: Callable[[str | None], Sequence[str]]


def repair_meta(
    broker_dir: BrokerDir, findings: tuple[Finding, ...], sources: Callable[[], MetaSources]
) -> FileRepair | None:
    """Return what becomes of the file; None: there is none, and none is missed.

    Args:
        broker_dir: the log directory.
        findings: those about the file.
        sources: asked where the file is bad.
    """
    meta, path = broker_dir.meta, broker_dir.meta_path
    if meta is None and not findings:
        return None
    mend = FileRepair(
        path=path,
        kind=FileKind.META_PROPERTIES,
        entries=None if meta is None else len(meta.contents.properties),
        findings=findings,
        mended=_CODES,
    )
    if not any(finding.code in _CODES for finding in findings):
        return mend if meta is not None else replace(mend, verdict="missing")
    data = b"" if meta is None else read_text(path)
    if data is None:
        return replace(mend, verdict="left")
    return _Meta(broker_dir, data, sources()).mended(mend)


class _Meta:
    """One file under repair."""

    def __init__(self, broker_dir: BrokerDir, data: bytes, sources: MetaSources) -> None:
        self._broker_dir = broker_dir
        self._data = data
        self._file = PropertyFile() if broker_dir.meta is None else broker_dir.meta.contents
        self._sources = sources
        self._others = [other for other in sources.beside if other.meta is not None and not other.meta.is_refused]
        self._bad: dict[int, str] = {line.line: line.problem for line in self._file.malformed}
        self._new: dict[str, tuple[str, str]] = {}

    def mended(self, mend: FileRepair) -> FileRepair:
        """Return new content, checked with the rules of a broker; else a refusal that names what is missing."""
        version = self._version()
        id_key = _VERSIONS[version]
        self._keep_or_add("version", version, "as the other keys are of this version", lambda text: text == version)
        node_id = self._known(_ID_KEYS)
        self._keep_or_add(id_key, node_id[0], node_id[1], lambda text: parse_int32(text) is not None)
        cluster_id = self._known(("cluster.id",))
        self._keep_or_add("cluster.id", cluster_id[0], cluster_id[1], bool)
        is_lost = version == "1" and not self._keep_or_find_directory_id(node_id[0])
        if self._data:
            content, edits = mend_meta_properties(self._data, self._bad, self._new)
        else:
            content = encode_meta_properties((key, value) for key, (value, _) in self._new.items())
            edits = mend_meta_properties(b"", {}, self._new)[1]
        refusal = read_meta_properties(content).refusal
        is_whole = refusal is None and (version != "0" or id_key in self._new or self._file.get(id_key) is not None)
        if not is_whole:
            problem = refusal.problem if refusal is not None else f"there is no {id_key}"
            return replace(mend, verdict="left", refusals=(found("meta.not-known", mend.path, problem=problem),))
        refusals = (found("meta.directory-id-lost", mend.path),) if is_lost else ()
        verdict: Verdict = "mended" if edits else "left"
        return replace(mend, verdict=verdict, content=content if edits else None, edits=edits, refusals=refusals)

    def _version(self) -> str:
        """1 where a KRaft node says so, else 0, by the keys and by what is in the directory."""
        text = self._file.get("version")
        if text in _VERSIONS:
            return text
        for others in (self._file, *(other.meta.contents for other in self._others if other.meta is not None)):
            for version, key in _VERSIONS.items():
                if others.get(key) is not None:
                    return version
        return "1" if self._broker_dir.is_kraft else "0"

    def _keep_or_add(self, key: str, value: str | None, source: str, is_good: Callable[[str], bool]) -> None:
        """Leave a good line as it is; put another one in the place of a bad or a lost one."""
        known = self._file.get(key)
        if known is not None and is_good(known):
            return
        self._bad |= {item.line: f"{item.value!r} is no {key}" for item in self._file.properties if item.key == key}
        if value is not None and is_good(value):
            self._new[key] = value, source

    def _known(self, keys: Sequence[str]) -> tuple[str | None, str]:
        """Return a value of another place of the same broker, and which place that is."""
        for other in self._others:
            contents = PropertyFile() if other.meta is None else other.meta.contents
            value = next((text for key in keys if (text := contents.get(key)) is not None), None)
            if value is not None:
                return value, f"as in {other.meta_path}"
        value = next((self._sources.server[key] for key in keys if key in self._sources.server), None)
        return value, "as in server.properties"

    def _keep_or_find_directory_id(self, node_id: str | None) -> bool:
        """Return whether the directory id is known: from the file, else as the only registered id left over."""
        bad = [item for item in self._file.properties if item.key == _DIRECTORY_ID and _is_refused_id(item.value or "")]
        self._bad |= {item.line: "no id of a directory" for item in bad}
        if not bad and self._file.get(_DIRECTORY_ID) is not None:
            return True
        known = self._file.get("node.id") or node_id
        others = {other.directory_id for other in self._others}
        left = [each for each in self._sources.registered_dirs(known) if each not in others]
        if len(left) == 1:
            self._new[_DIRECTORY_ID] = left[0], "the one that the broker registered with and no other directory has"
        return len(left) == 1


def _is_refused_id(text: str) -> bool:
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


def repair_topic_id(place: PartitionPath, ids: Callable[[], TopicIds], *, is_expected: bool) -> FileRepair | None:
    """Return what becomes of the file; None: there is none, and none is missed.

    `is_expected`: the broker is one that does not know a partition without the file for its own. `ids` is asked where
    the file wants one.
    """
    topic = place.name.topic or ""
    if topic == METADATA_TOPIC:
        return None
    file = _file(place)
    text = _read(place)
    if text is None and not is_expected:
        return None
    missing = found("partition-metadata.missing", file.path, topic=topic, partition=place.name.partition)
    findings = (missing,) if text is None else text.findings
    entries = None if text is None else len(text.contents.properties)
    mend = FileRepair(
        path=file.path,
        kind=FileKind.PARTITION_METADATA,
        topic=topic,
        partition=place.name.partition,
        entries=entries,
        findings=findings,
        mended=_TOPIC_IDS_CODES,
    )
    if not any(finding.severity == "error" for finding in findings):
        return mend
    own = None if text is None else _topic_id(text)
    said = dict(ids().of_topic.get(topic, {}))
    if own is not None:
        said.setdefault(own, file.path)
    if len(said) != 1:
        code = "partition-metadata.no-id" if not said else "partition-metadata.several-ids"
        names = " and ".join(f"{topic_id} in {where}" for topic_id, where in sorted(said.items()))
        refusal = found(code, file.path, topic=topic, partition=place.name.partition, names=names)
        return replace(mend, verdict="left", refusals=(refusal,))
    topic_id, where = next(iter(said.items()))
    content = encode_partition_metadata(topic_id)
    return replace(
        mend, verdict="mended", content=content, edits=_edits(read_text(file.path) or b"", content, topic_id, where)
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
