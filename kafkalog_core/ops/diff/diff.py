"""`kafkalog diff`: what changed between two copies of the log directories of a broker."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Final

from kafkalog_core.command_lines import shell_line
from kafkalog_core.engine.pool import run_all
from kafkalog_core.errors import SelectionError
from kafkalog_core.ops.diff.contents import broker_rows, group_rows, read_images, setting_rows, transaction_rows
from kafkalog_core.ops.diff.logs import compare_logs
from kafkalog_core.ops.diff.places import Places, side_dirs
from kafkalog_core.ops.diff.request import DiffFound
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.structs import Struct, field
from kafkalog_core.text import count_of, first_of
from kafkalog_core.topics.group_offsets import OFFSETS_TOPIC
from kafkalog_core.topics.share_state_records import SHARE_STATE_TOPIC
from kafkalog_core.topics.transactions import TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from kafkalog_core.engine.report import Report
    from kafkalog_core.format.names import TopicPartition
    from kafkalog_core.ops.diff.logs import LogChanges, LogTask
    from kafkalog_core.ops.diff.request import DiffRequest, Row
    from kafkalog_core.progress import Progress

__all__ = ["diff"]

_ORDER: Final = (
    ("broker", None),
    ("topic", None),
    ("partition", "truncated"),
    ("partition", "missing"),
    ("partition", "damaged"),
    ("config", None),
    (None, None),
    ("transaction", None),
    ("group", None),
    ("offset", "backwards"),
    ("offset", None),
    ("partition", "added"),
)
"""The order of the rows, by kind and change: what is gone and what an operator did comes before daily traffic."""


class _Compared(Struct):
    """What the comparison of all logs gave.

    Attributes:
        rows: `difference` rows.
        findings: `finding` rows about logs that cannot be read.
        changed: the partitions whose logs differ.
        alone: the results of logs that one side has alone, by the path of the directory.
        damaged: the partitions with the same damage in both copies.
    """

    rows: list[Row] = field(default_factory=list)
    findings: list[Row] = field(default_factory=list)
    changed: set[TopicPartition] = field(default_factory=set)
    alone: dict[str, LogChanges] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)


def _compared(tasks: Sequence[LogTask], request: DiffRequest, report: Report, progress: Progress) -> _Compared:
    """Compare the logs, in several processes if that is faster. Raises WorkerLostError."""
    found = _Compared()
    size_bytes = sum(task.size_bytes for task in tasks)
    progress.expect(size_bytes)
    report.expect(partitions=len(tasks), size_bytes=size_bytes)
    results = run_all(compare_logs, [(task,) for task in tasks], request.jobs, size_bytes, progress)
    for task, result in zip(tasks, results, strict=True):
        _count(result, report)
        found.findings += (finding.row() for finding in result.findings)
        found.rows += result.rows
        found.damaged += [task.name] if result.is_damaged_alike else []
        only = None if task.old is not None and task.new is not None else task.old or task.new
        if only is not None:
            found.alone[only.place.path] = result
        if result.rows or only is not None:
            found.changed.add((task.topic, task.partition))
    return found


def diff(request: DiffRequest, report: Report, progress: Progress = NO_PROGRESS) -> Generator[DiffFound, None, None]:
    """Yield the one result.

    Raises SelectionError for single files, for two copies of a partition on one side, and for topics that neither side
    has; StorageError, WorkerLostError.
    """
    old, new = side_dirs(request.old), side_dirs(request.new)
    places = Places(request, old, new)
    if request.topics and not places.topics:
        raise SelectionError(f"neither OLD nor NEW has a topic that matches {' or '.join(request.topics)}")
    tasks = places.tasks()
    logs = _compared(tasks, request, report, progress)
    rows, findings = logs.rows, logs.findings
    images = read_images(request.old, request.new)
    rows += places.rows(logs.alone, images.topics_after)
    on_disk = frozenset(str(row["topic"]) for row in rows if row["kind"] == "topic")
    settings, of_nodes = setting_rows(request, images, on_disk)
    rows += settings
    rows += broker_rows(old, new)
    notes = list(images.notes)
    if logs.damaged:
        command = shell_line(["kafkalog", "verify", *request.new.paths])
        notes.append(f"Damage that is not compared, as no copy is without it: {first_of(logs.damaged)}: {command}")
    topics = {topic for topic, _ in logs.changed}
    # Equal logs have the same groups and transactions: they are read only where the logs differ.
    pairs = [images.findings]
    if request.topics or request.has_zookeeper or not topics.isdisjoint({OFFSETS_TOPIC, SHARE_STATE_TOPIC}):
        of_groups, found, more = group_rows(request, progress)
        rows += of_groups
        notes += more
        pairs.append(found)
    if logs.changed:
        is_all = bool(request.topics) or TRANSACTIONS_TOPIC in topics
        rows += transaction_rows(request, None if is_all else frozenset(logs.changed), progress)
    findings += _of_one_side(pairs, notes)
    as_before = places.as_before()
    if rows and as_before is not None:
        notes.append(as_before)
    if of_nodes:
        command = shell_line(["kafkalog", "cluster", "--diff", request.old.paths[0], *request.new.paths])
        count = count_of(of_nodes, "change")
        notes.append(f"Left out: {count} of nodes, leaders and replicas, as each restart makes them: {command}")
    for row in findings:
        report.add_finding(row)
    report.rows += len(rows) + len(findings)
    yield DiffFound(
        differences=tuple(sorted(rows, key=_rank)),
        findings=tuple(findings),
        notes=tuple(notes),
        partitions=len({(task.topic, task.partition) for task in tasks}),
        old=request.old.paths,
        new=request.new.paths,
        is_deep=request.is_deep,
    )


def _count(result: LogChanges, report: Report) -> None:
    report.partitions += 1
    report.files += result.files
    report.bytes += result.size_bytes
    report.batches += result.batches
    report.records += result.records or 0


def _rank(row: Row) -> tuple[int, int]:
    kind, change = row["kind"], row["change"]
    ranks = [number for number, (one, other) in enumerate(_ORDER) if one == kind and other in {None, change}]
    records = row.get("records")
    return (ranks[0] if ranks else _ORDER.index((None, None))), -(records if isinstance(records, int) else 0)


def _of_one_side(pairs: Sequence[Sequence[Sequence[Row]]], notes: list[str]) -> Iterator[Row]:
    """Yield the findings that one side alone has; those that both have are counted in a note."""
    of_both = Counter[str]()
    for sides in pairs:
        known = [{_key(row) for row in rows} for rows in sides]
        common = known[0] & known[1] if len(known) > 1 else set()
        of_both.update(str(row["code"]) for row in sides[0] if _key(row) in common) if common else None
        yield from (row for rows in sides for row in rows if _key(row) not in common)
    if of_both:
        codes = first_of([f"{code} ({count})" for code, count in sorted(of_both.items())])
        notes.append(f"Both copies have the same findings, so a part of them was not compared: {codes}.")


def _key(row: Row) -> tuple[object, ...]:
    return row["code"], os.path.basename(str(row["file"])), row.get("offset"), row.get("position")
