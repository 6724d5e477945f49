"""The findings of a check: many of one code in one file are reported some times and then counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kafkalog_core.findings import found

if TYPE_CHECKING:
    from kafkalog_core.findings import Finding, Severity

__all__ = ["SHOWN", "Sink", "SinkPart"]

SHOWN: Final = 20
"""Findings of one code in one file that are reported one by one; the last one has the number of the rest."""


@dataclass(frozen=True, slots=True)
class SinkPart:
    """The findings that were added to a sink meanwhile, and how many there are by now of each code in a file."""

    findings: tuple[Finding, ...]
    counts: tuple[tuple[str, str, int], ...]


class Sink:
    """Findings of one partition or file, in the order in which they came."""

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
        """Add one finding of the catalogue; see `findings.found`."""
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
        """Add `count` more findings of a code in a file that were not made one by one."""
        self._counts[code, path] += count
        self._counted[code, path] = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings; the last one shown of a code in a file has the number of the rest."""
        findings = list(self._findings)
        for key, index in self._last.items():
            more = self._counts[key] - SHOWN
            if more > 0:
                last = findings[index]
                message = f"{last.message} And {more:,} more of these in this file."
                findings[index] = replace(last, message=message, more=more)
        return tuple(findings)

    def take_part(self) -> SinkPart:
        """Return what was added since the last call, for `add_part` of another sink."""
        counts = tuple((code, path, self._counts[code, path]) for code, path in self._counted)
        part = SinkPart(tuple(self._findings[self._taken :]), counts)
        self._taken = len(self._findings)
        self._counted.clear()
        return part

    def add_part(self, part: SinkPart) -> None:
        """Add what another sink had taken."""
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
