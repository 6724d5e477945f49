"""partition.metadata: the id of a topic is taken from the file itself, other partitions, or the cluster's metadata log.

Two of them that disagree mean that the topic was deleted and made again, or that a directory was put there by hand:
nothing is written then, as a broker sets a partition with a wrong id aside.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import StorageError
from kafkalog_core.findings import found
from kafkalog_core.format.checkpoint_text import LineEdit
from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState, FileKind, fixed_file_name
from kafkalog_core.format.property_text import encode_partition_metadata
from kafkalog_core.format.textfile import parse_uuid
from kafkalog_core.ops.logdirs.textfiles import PropertyText, read_properties
from kafkalog_core.ops.mending.mend import Mend, read_text
from kafkalog_core.ops.reading.entry_faults import EntryFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafkalog_core.storage.logdir import PartitionPath

__all__ = ["TopicIds", "mend_topic_id", "read_topic_ids"]

_CODES: Final = frozenset(
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


@dataclass(frozen=True, slots=True)
class TopicIds:
    """Ids by topic: of each, those that are said, and where the first one of them is said."""

    of_topic: Mapping[str, Mapping[str, str]]


def read_topic_ids(places: Iterable[PartitionPath], of_cluster: Mapping[str, str], log: str) -> TopicIds:
    """What partitions say that are read without fault, and the metadata log at `log`."""
    of_topic: dict[str, dict[str, str]] = {}
    for topic, id_in_log in of_cluster.items():
        of_topic.setdefault(topic, {})[id_in_log] = log
    for place in places:
        if place.name.topic is None or place.name.state not in {DirectoryState.CURRENT, DirectoryState.FUTURE}:
            continue
        text = _read(place)
        topic_id = None if text is None or text.is_refused else _topic_id(text)
        if topic_id is not None:
            of_topic.setdefault(place.name.topic, {}).setdefault(topic_id, place.path)
    return TopicIds(of_topic)


def mend_topic_id(place: PartitionPath, ids: Callable[[], TopicIds], *, is_expected: bool) -> Mend | None:
    """What becomes of the file; null: there is none, and none is missed.

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
    mend = Mend(
        path=file.path,
        kind=FileKind.PARTITION_METADATA,
        topic=topic,
        partition=place.name.partition,
        entries=entries,
        findings=findings,
        mended=_CODES,
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


def _topic_id(text: PropertyText) -> str | None:
    """The id that a file says, wherever its second line puts it; null: none that may be one."""
    values = [item.value for item in text.contents.properties if item.value is not None]
    for value in reversed(values):
        uuid = parse_uuid(value)
        if uuid is not None and any(uuid):
            return value
    return None


def _read(place: PartitionPath) -> PropertyText | None:
    try:
        return read_properties(_file(place))
    except StorageError:
        return None


def _file(place: PartitionPath) -> EntryFile:
    kind = FileKind.PARTITION_METADATA
    path = f"{place.path}/{fixed_file_name(kind)}"
    return EntryFile(path=path, kind=kind, topic=place.name.topic, partition=place.name.partition)
