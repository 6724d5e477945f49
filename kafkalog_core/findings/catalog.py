"""The catalog of findings, and the collection of the findings of a check.

A finding is a value, never an exception. Its severity is `error` only if a broker does not start or if records are
lost. Whatever healthy brokers leave on their disks (files that wait for deletion, indexes without entries) is `info`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from kafkalog_core.findings.excisions import EXCISIONS
from kafkalog_core.findings.files import FILES, SMALL_FILES
from kafkalog_core.findings.freezes import FREEZES
from kafkalog_core.findings.index_files import INDEXES
from kafkalog_core.findings.jobs import CATALOGS, CLUSTER, EXPORTS, GROUPS, LOOKUPS, REPLICAS
from kafkalog_core.findings.kinds import Finding
from kafkalog_core.findings.logdirs import CHECKPOINTS, LOG_DIRS
from kafkalog_core.findings.logs import LOGS
from kafkalog_core.findings.logs_07 import V07_SUFFIX, in_07
from kafkalog_core.findings.metadata_log import METADATA_LOG
from kafkalog_core.findings.partitions import BROKER_DIRS, PARTITIONS
from kafkalog_core.findings.plans import COMPACTIONS, REINDEXING, RETENTION, ROLLING, TRUNCATIONS
from kafkalog_core.findings.producers import PRODUCERS
from kafkalog_core.findings.recoveries import RECOVERIES
from kafkalog_core.findings.starts import STARTS
from kafkalog_core.findings.transplants import TRANSPLANTS
from kafkalog_core.findings.zookeeper import ZOOKEEPER
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from kafkalog_core.findings.kinds import Severity

__all__ = ["FINDING_TYPES", "NOT_SHOWN", "SHOWN", "Sink", "SinkPart", "for_rules", "found"]


NOT_SHOWN: Final = "Its records are not shown unless the file itself is named."

_TYPES: Final = (
    FILES
    | LOGS
    | PARTITIONS
    | LOG_DIRS
    | SMALL_FILES
    | CHECKPOINTS
    | METADATA_LOG
    | PRODUCERS
    | BROKER_DIRS
    | INDEXES
    | LOOKUPS
    | TRUNCATIONS
    | EXCISIONS
    | REINDEXING
    | COMPACTIONS
    | RETENTION
    | ROLLING
    | RECOVERIES
    | REPLICAS
    | EXPORTS
    | CATALOGS
    | GROUPS
    | CLUSTER
    | STARTS
    | TRANSPLANTS
    | FREEZES
    | ZOOKEEPER
)
_OF_STARTS: Final = frozenset(
    {
        "batch.epoch-back",
        "log.end-hidden",
        "log.end-unreadable",
        "log.first-offset-back",
        "log.needs-later-release",
        "log.stops-broker",
    }
)
"""Findings about logs whose records are all there, and are those that were written: what a broker does is wrong."""
OF_RECORDS: Final = (LOGS.keys() - _OF_STARTS) | {
    "batch.gap",
    "batch.gaps",
    "dir.not-a-partition",
    "epochs.before-start",
    "epochs.beyond-end",
    "high-watermark.beyond-end",
    "log-start.beyond-end",
    "recovery-point.beyond-end",
    "segment.bad-name",
    "segment.gap",
    "segment.overlap",
}
"""Findings about records: damage in logs, offsets that are missing or twice, and logs that are not read as such."""

FINDING_TYPES: Final = {code: kind._replace(is_of_records=code in OF_RECORDS) for code, kind in _TYPES.items()}


def found(  # noqa: PLR0913 - the columns of the finding row
    code: str,
    path: str,
    *,
    topic: str | None = None,
    partition: int | None = None,
    position: int | None = None,
    size_bytes: int | None = None,
    offset: int | None = None,
    severity: Severity | None = None,
    hides_records: bool = False,
    **details: object,
) -> Finding:
    """Return a finding of the catalog.

    Args:
        code: a key of the catalog.
        path: of the file or directory.
        topic: of the partition.
        partition: number of the partition.
        position: byte in the file.
        size_bytes: size of the affected bytes.
        offset: first affected Kafka offset.
        severity: None: that of the catalog.
        hides_records: whether the file holds records that are not shown as records of the partition.
        details: values of the other placeholders in the texts.
    """
    kind = FINDING_TYPES[code]
    if path.endswith(V07_SUFFIX):
        kind = in_07(code, kind)
    values = {"partition": partition, "position": position, "size_bytes": size_bytes, "offset": offset, **details}
    message = kind.message.format_map(values)
    return Finding(
        code=code,
        severity=severity or kind.severity,
        path=path,
        message=f"{message} {NOT_SHOWN}" if hides_records else message,
        topic=topic,
        partition=partition,
        position=position,
        size_bytes=size_bytes,
        offset=offset,
        broker_action=kind.broker_action and kind.broker_action.format_map(values),
        cure=kind.cure,
        next_step=kind.next_step,
        hides_records=hides_records,
    )


def for_rules(finding: Finding, rules: object) -> Finding:
    """Return a finding with the broker action, cure and severity of a release.

    Args:
        finding: of any code. It is returned unchanged if a check has set its broker action.
        rules: the `LoaderRules` of the release.
    """
    kind = FINDING_TYPES.get(finding.code)
    if kind is None or finding.broker_action != kind.broker_action:
        return finding
    variant = next((each for each in kind.variants if getattr(rules, each.rule) == each.value), None)
    if variant is None:
        return finding
    severity, cure = variant.severity or finding.severity, variant.cure or finding.cure
    return replace(finding, broker_action=variant.broker_action, severity=severity, cure=cure)


SHOWN: Final = 20
"""The number of findings of one code in one file that are reported one by one; the last one counts the others."""


class SinkPart(Struct, frozen=True):
    """The findings that were added to a sink since the last part, and the counts so far by code and file."""

    findings: tuple[Finding, ...]
    counts: tuple[tuple[str, str, int], ...]


class Sink:
    """The findings of one partition or file, in order. After `SHOWN` of one code in one file, they are only counted."""

    def __init__(self, topic: str | None = None, partition: int | None = None) -> None:
        self._topic = topic
        self._partition = partition
        self._findings: list[Finding] = []
        self._counts: Counter[tuple[str, str]] = Counter()
        self._last: dict[tuple[str, str], int] = {}
        self._taken = 0
        self._counted: dict[tuple[str, str], None] = {}

    def add(
        self,
        code: str,
        path: str,
        *,
        position: int | None = None,
        size_bytes: int | None = None,
        offset: int | None = None,
        severity: Severity | None = None,
        **details: object,
    ) -> None:
        """Add one finding of the catalog; see `findings.found`."""
        if self._is_shown(code, path):
            finding = found(
                code,
                path,
                topic=self._topic,
                partition=self._partition,
                position=position,
                size_bytes=size_bytes,
                offset=offset,
                severity=severity,
                hides_records=False,
                **details,
            )
            self._append(finding)

    def put(self, finding: Finding) -> None:
        """Add a finding that exists already."""
        if self._is_shown(finding.code, finding.path):
            if finding.topic is None:
                finding = replace(finding, topic=self._topic, partition=self._partition)
            self._append(finding)

    def count_more(self, code: str, path: str, count: int) -> None:
        """Count `count` more findings of a code in a file."""
        self._counts[code, path] += count
        self._counted[code, path] = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings; the last one of a code in a file has the number of those that are only counted."""
        findings = list(self._findings)
        for key, index in self._last.items():
            more = self._counts[key] - SHOWN
            if more > 0:
                last = findings[index]
                message = f"{last.message} And {more:,} more of these in this file."
                findings[index] = replace(last, message=message, more=more)
        return tuple(findings)

    def take_part(self) -> SinkPart:
        """Return the findings since the last call, for `add_part` of another sink."""
        counts = tuple((code, path, self._counts[code, path]) for code, path in self._counted)
        part = SinkPart(tuple(self._findings[self._taken :]), counts)
        self._taken = len(self._findings)
        self._counted.clear()
        return part

    def add_part(self, part: SinkPart) -> None:
        """Add a part of another sink."""
        for finding in part.findings:
            self._append(finding)
        for code, path, count in part.counts:
            self._counts[code, path] = count
        self._taken = len(self._findings)

    def _is_shown(self, code: str, path: str) -> bool:
        self._counts[code, path] += 1
        self._counted[code, path] = None
        return self._counts[code, path] <= SHOWN

    def _append(self, finding: Finding) -> None:
        self._last[finding.code, finding.path] = len(self._findings)
        self._findings.append(finding)
