"""What consumers do with a wrong batch: found in the table of what real ones did, by all that is known of the batch.

A finding about one field is not enough: what a client does with a batch depends on its magic, its codec and everything
else that is wrong with it. So the findings of a batch are looked up together, the most severe of them has the sentence,
and a batch of a kind that was not tried has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import StorageError
from kafkalog_core.findings.client_reads import CONSUMERS, consumers
from kafkalog_core.findings.logs import OF_ONE_BATCH
from kafkalog_core.format import layout
from kafkalog_core.format.decode import codec_name
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.verify.verdict import PartitionVerdict

__all__ = ["with_consumers"]

_NOT_DECODED: Final = frozenset({"batch.crc-mismatch", "log.bad-length", "log.unknown-magic"})
"""Findings of batches whose records no check looks at: they are all that is known, also where records are not read."""
_UNKNOWN_MAGIC: Final = frozenset({"log.unknown-magic"})
_SEVERITIES: Final = ("error", "warning", "info")


def with_consumers(verdict: PartitionVerdict) -> PartitionVerdict:
    """Return a verdict whose findings say what consumers do with each wrong batch, once a batch, or not at all."""
    if not any(_asks(finding) for finding in verdict.findings):
        return verdict
    unopened = {each.path for each in verdict.segments if each.unopened_batches}
    batches: dict[tuple[str, int], list[int]] = {}
    for number, finding in enumerate(verdict.findings):
        if finding.position is not None and finding.code in OF_ONE_BATCH:
            batches.setdefault((finding.path, finding.position), []).append(number)
    known_to = _known_to(verdict.findings)
    sentences: dict[int, str] = {}
    for (path, position), numbers in batches.items():
        asking = [number for number in numbers if _asks(verdict.findings[number])]
        codes = frozenset(verdict.findings[number].code for number in numbers)
        is_known = position <= known_to.get(path, position) and (path not in unopened or codes <= _NOT_DECODED)
        if asking and is_known:
            worst = min(asking, key=lambda number: _SEVERITIES.index(verdict.findings[number].severity))
            sentences[worst] = _sentence(path, position, codes)
    findings = (_with(finding, sentences.get(number, "")) for number, finding in enumerate(verdict.findings))
    return replace(verdict, findings=tuple(findings))


def _asks(finding: Finding) -> bool:
    return finding.broker_action is not None and CONSUMERS in finding.broker_action


def _known_to(findings: Iterable[Finding]) -> dict[str, int]:
    """Return by file the last batch of which all findings are known: later ones of a code are only counted."""
    known: dict[str, int] = {}
    for finding in findings:
        if finding.more and finding.position is not None:
            known[finding.path] = min(finding.position, known.get(finding.path, finding.position))
    return known


def _with(finding: Finding, sentence: str) -> Finding:
    """Return a finding with a sentence where its text asks for one, the first time; without the others."""
    if not _asks(finding):
        return finding
    before, *after = (part.strip() for part in (finding.broker_action or "").split(CONSUMERS))
    return replace(finding, broker_action=" ".join(part for part in (before, sentence, *after) if part))


def _sentence(path: str, position: int, codes: frozenset[str]) -> str:
    """Return what consumers do with the batch at a place in a log; empty: that is unknown."""
    try:
        with Source.open(path) as source:
            header = source.read(position, layout.RECORD_BATCH_OVERHEAD)
    except StorageError:
        return ""
    header = header.ljust(layout.RECORD_BATCH_OVERHEAD, b"\0")  # the last message of magic 0 or 1 may be shorter
    magic = header[layout.MAGIC_POSITION]
    attributes = header[layout.V2_ATTRIBUTES + 1 if magic >= layout.MAGIC_V2 else layout.MAGIC_POSITION + 1]
    if codes == _UNKNOWN_MAGIC:  # the codec is unknown too
        return consumers(layout.MAGIC_V2, codec_name(layout.CODEC_NONE), codes)
    return consumers(magic, codec_name(attributes & layout.CODEC_MASK), codes)
