"""One catalogue of everything that can be found: stable codes and their texts.

A finding is a value and never an exception. Severity `error` stands only where a broker does not start or where it
leaves records behind; what brokers do in the course of their life (files waiting for deletion, indexes not yet made) is
`info`.
"""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.files import FILES
from kafkalog_core.findings.kinds import Finding
from kafkalog_core.findings.logdirs import LOG_DIRS
from kafkalog_core.findings.partitions import PARTITIONS
from kafkalog_core.findings.small_files import SMALL_FILES

__all__ = ["FINDING_TYPES", "NOT_SHOWN", "found"]

NOT_SHOWN: Final = "Its records are not shown unless the file itself is named."

FINDING_TYPES: Final = FILES | PARTITIONS | LOG_DIRS | SMALL_FILES


def found(
    code: str,
    path: str,
    *,
    topic: str | None = None,
    partition: int | None = None,
    size_bytes: int | None = None,
    offset: int | None = None,
    hides_records: bool = False,
    **details: object,
) -> Finding:
    """An finding of the catalogue; `details` are what its texts name besides the columns."""
    kind = FINDING_TYPES[code]
    values = {"partition": partition, "size_bytes": size_bytes, "offset": offset, **details}
    message = kind.message.format_map(values)
    return Finding(
        code=code,
        severity=kind.severity,
        path=path,
        message=f"{message} {NOT_SHOWN}" if hides_records else message,
        topic=topic,
        partition=partition,
        size_bytes=size_bytes,
        offset=offset,
        broker_action=kind.broker_action and kind.broker_action.format_map(values),
        cure=kind.cure,
        hides_records=hides_records,
    )
