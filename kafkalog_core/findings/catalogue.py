"""One catalogue of everything that can be found: stable codes and their texts.

A finding is a value and never an exception. Its severity is `error` only where a broker does not start or where records
are lost; what healthy brokers leave on their disks (files that wait for deletion, indexes not yet made) is `info`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kafkalog_core.findings.files import FILES, INDEXES, SMALL_FILES
from kafkalog_core.findings.jobs import CATALOGS, EXPORTS, LOOKUPS, REPLICAS
from kafkalog_core.findings.kinds import Finding
from kafkalog_core.findings.logdirs import CHECKPOINTS, LOG_DIRS, METADATA_LOG
from kafkalog_core.findings.logs import LOGS, V07_SUFFIX, in_07
from kafkalog_core.findings.next_commands import NEXT_COMMANDS
from kafkalog_core.findings.partitions import BROKER_DIRS, PARTITIONS
from kafkalog_core.findings.plans import COMPACTIONS, REINDEXING, RETENTION, ROLLING, TRUNCATIONS
from kafkalog_core.findings.producers import PRODUCERS

if TYPE_CHECKING:
    from kafkalog_core.findings.kinds import Severity

__all__ = ["FINDING_TYPES", "NOT_SHOWN", "for_rules", "found"]

NOT_SHOWN: Final = "Its records are not shown unless the file itself is named."

FINDING_TYPES: Final = (
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
    | REINDEXING
    | COMPACTIONS
    | RETENTION
    | ROLLING
    | REPLICAS
    | EXPORTS
    | CATALOGS
)


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
    """Return a finding of the catalogue.

    Args:
        code: a key of the catalogue.
        path: of the file or directory.
        topic: of the partition that it is in.
        partition: number of that partition.
        position: byte in the file.
        size_bytes: of what it is about.
        offset: of Kafka.
        severity: where the place makes it worse or better than the catalogue has it.
        hides_records: whether the file holds records that are not shown among the partition's.
        details: values of the other placeholders in its texts.
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
        next_step=NEXT_COMMANDS.get(code),
        hides_records=hides_records,
    )


def for_rules(finding: Finding, rules: object) -> Finding:
    """Return a finding with what a broker of a release does with it; the finding itself where that is no other thing.

    Args:
        finding: of any code. One whose broker's action a check has set already is left as it is.
        rules: those of the release for loading partitions, a `LoaderRules`.
    """
    kind = FINDING_TYPES.get(finding.code)
    if kind is None or finding.broker_action != kind.broker_action:
        return finding
    variant = next((each for each in kind.variants if getattr(rules, each.rule) == each.value), None)
    if variant is None:
        return finding
    severity, cure = variant.severity or finding.severity, variant.cure or finding.cure
    return replace(finding, broker_action=variant.broker_action, severity=severity, cure=cure)
