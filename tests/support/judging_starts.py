"""Whether a real broker came out of a start as preflight says: its answers, its log and the files that it left."""

from __future__ import annotations

import collections
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from kafkalog_core.format.layout import CONTROL_BIT
from kafkalog_core.format.names import METADATA_TOPIC
from kafkalog_core.storage.scan import Run, ScanOptions, scan
from kafkalog_core.storage.source import Source
from tests.support.asking import SocketClient
from tests.support.judging import content_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.sim.start.results import LoadResult
    from kafkalog_core.ops.preflight.partition_starts import PartitionStart, StartStep

__all__ = ["Answers", "answers_of", "is_stable_true", "is_start_true"]

Judged = tuple[bool, str]
"""Whether a statement is true, and what it says next to what was found."""
_LATEST: Final = -1
_EARLIEST: Final = -2
_WAITED_S: Final = 60
_NOT_LED: Final = -1
_RECOVERED: Final = re.compile(r"partition=([^,\]]+), dir=[^\]]*\] Recovering unflushed segment (\d+)")
_FILES: Final = (".log", ".snapshot")
_TAILS: Final = ("log.torn-tail", "log.zero-tail")


@dataclass(frozen=True)
class Answers:
    """What a broker says of one partition: its first offset, its high watermark and the last stable offset."""

    first: int
    end: int
    stable: int

    @classmethod
    def ask(cls, client: SocketClient, topic: str, partition: int) -> Self:
        """Ask until it leads the partition; -1: it never does."""
        found = [_offset(client, topic, partition, *what) for what in ((_EARLIEST, 0), (_LATEST, 0), (_LATEST, 1))]
        return cls(*found)


def _offset(client: SocketClient, topic: str, partition: int, timestamp: int, isolation: int) -> int:
    asked = {"partition_index": partition, "timestamp": timestamp, "current_leader_epoch": -1}
    body = {
        "replica_id": -1,
        "isolation_level": isolation,
        "topics": [{"name": topic, "partitions": [asked]}],
        "timeout_ms": 1000,
    }
    deadline = time.monotonic() + _WAITED_S
    while True:
        (row,) = client.ask("ListOffsets", 7, **body)["topics"][0]["partitions"]
        if row["error_code"] == 0:
            offset: int = row["offset"]
            return offset
        if time.monotonic() > deadline:
            return _NOT_LED
        time.sleep(0.1)


def answers_of(address: str, starts: tuple[PartitionStart, ...]) -> dict[str, Answers]:
    """The answers for each partition that is loaded, by the name of its directory."""
    with SocketClient(address) as client:
        return {
            each.name: Answers.ask(client, each.place.name.topic, each.place.name.partition)
            for each in starts
            if each.fate == "loaded" and each.place.name.topic != METADATA_TOPIC
        }


def is_stable_true(found: Sequence[Finding], answers: Answers) -> Judged | None:
    """Whether read_committed consumers wait where verify says that they do, by its findings about the partition.

    Null: it says nothing, and a damaged log may hide what it would say.
    """
    waits = [each.offset or 0 for each in found if (each.broker_action or "").startswith("Waits for its marker")]
    if not waits and any(each.severity == "error" or each.code in _TAILS for each in found):
        return None
    told = min(waits, default=answers.end)
    return told == answers.stable, f"read_committed consumers read up to {told}; the broker says {answers}"


def is_start_true(
    start: PartitionStart, before: Path, after: Path, answers: Answers | None, output: str, *, are_epochs_old: bool
) -> Iterator[Judged]:
    """Judge what preflight says of one partition whose broker came to the end of its start.

    Args:
        start: what it says.
        before: the directory of the partition as it was.
        after: as the broker left it.
        answers: what the broker says of it; null: it does not serve it.
        output: the broker's own log.
        are_epochs_old: whether the controllers give out epochs again that the log has, because their log is truncated:
            the broker then takes entries out of leader-epoch-checkpoint when it leads the partition.
    """
    strays = list(after.parent.glob(f"{after.name}.*-stray"))  # a new one may have its name
    if start.fate == "unknown":
        return
    if (start.fate == "stray") is not bool(strays):
        yield False, f"fate {start.fate}; set aside are {strays}"
        return
    if start.fate != "loaded" or start.result is None:
        yield True, f"fate {start.fate}"
        return
    if start.place.name.topic == METADATA_TOPIC:  # to which its leader has appended, in new segments too
        if not list(after.glob("*.log.deleted")):  # a snapshot that is ahead of what is left replaces the log
            yield from _steps(start, before, after)
        return
    result = start.result
    if answers is not None:
        told = (result.log_start_offset, result.end_offset)
        if answers.end > result.end_offset and _records(after).keys() - _records(before).keys():
            return  # a coordinator has appended
        yield told == (answers.first, answers.end), f"offsets {told}; the broker says {answers}"
    yield from _losses(start, before, after)
    yield from _steps(start, before, after)
    named = {Path(step.path).name for step in start.steps}
    yield from _silences(named | {f"{result.end_offset:020}.log"}, before, after)
    yield from _recoveries(result, start.name, output)
    if not are_epochs_old:
        yield from _epochs(result, after)


def _losses(start: PartitionStart, before: Path, after: Path) -> Iterator[Judged]:
    if start.lost_records is not None:
        gone = sum((_records(before) - _records(after)).values())
        yield gone == start.lost_records, f"{start.lost_records} records lost; {gone} are gone"


def _records(partition: Path) -> collections.Counter[tuple[int, int]]:
    """The number of records of each batch that can be read, by its base offset and checksum."""
    found: collections.Counter[tuple[int, int]] = collections.Counter()
    for log in partition.glob("*.log"):
        with Source.open(str(log)) as source:
            for item in scan(source, base_offset=None, options=ScanOptions(resync=True), end=source.size_bytes):
                if isinstance(item, Run):
                    columns = map(item.batches.column, ("base_offset", "crc_stored", "record_count", "attributes"))
                    for base, crc, count, attributes in zip(*columns, strict=True):
                        found[base, crc] += 0 if attributes & CONTROL_BIT else count
    return found


def _steps(start: PartitionStart, before: Path, after: Path) -> Iterator[Judged]:
    for step in start.steps:
        truth = _is_step_true(step, before, after)
        if truth is not None:
            yield truth, f"{step.kind} {Path(step.path).name} at {step.position}"


def _is_step_true(step: StartStep, before: Path, after: Path) -> bool | None:
    name = Path(step.path).name
    was, now = content_of(before / name), content_of(after / name)
    if step.kind in {"deleted", "renamed"}:
        return now is None or now != was
    if step.kind in {"created", "written"}:
        return now is not None
    if step.kind == "truncated":
        kept = (was or b"")[: step.position]
        return now is not None and now.startswith(kept) and not now.startswith(was or b"")
    return None


def _silences(named: set[str], before: Path, after: Path) -> Iterator[Judged]:
    """A log or snapshot that is another one after the start has a step, or was appended to."""
    names = {path.name for place in (before, after) for path in place.iterdir() if path.suffix in _FILES}
    contents = {name: (content_of(before / name), content_of(after / name)) for name in names - named}
    changed = [name for name, (was, now) in contents.items() if was is None or now is None or not now.startswith(was)]
    yield not changed, f"other files are as they were; {sorted(changed)} are not"


def _recoveries(result: LoadResult, name: str, output: str) -> Iterator[Judged]:
    """The segments that are recovered because they were not flushed: a start may read more, which it then deletes."""
    found = {int(base) for partition, base in _RECOVERED.findall(output) if partition == name}
    told = {each.base_offset for each in result.segments if each.occasion == "unclean-stop"}
    removed = {each.segment.base_offset for each in result.removed}
    yield told <= found <= told | removed, f"recovered {sorted(told)}; the broker's log has {sorted(found)}"


def _epochs(result: LoadResult, after: Path) -> Iterator[Judged]:
    """The entries of leader-epoch-checkpoint; a leader adds that of its own epoch."""
    if result.epochs is None:
        return
    told = [(each.epoch, each.start_offset) for each in result.epochs]
    lines = (after / "leader-epoch-checkpoint").read_text().splitlines()[2:]
    kept = [(int(epoch), int(first)) for epoch, first in map(str.split, lines)]
    if kept and told and kept[-1][0] < told[-1][0]:  # a leader of that epoch takes the entries of later ones out
        return
    yield kept[: len(told)] == told and len(kept) <= len(told) + 1, f"epochs {told}; the broker has {kept}"
