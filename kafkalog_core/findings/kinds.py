"""What a finding is, and what its catalogue says of a code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

__all__ = ["Finding", "FindingType", "Severity"]

Severity = Literal["info", "warning", "error"]


class FindingType(NamedTuple):
    """One code of the catalogue.

    `message` is a template of one plain sentence about one case, `meaning` a sentence or two about all of them;
    `broker_action` and `cure` are what a broker does about it and what mends it.
    """

    severity: Severity
    message: str
    broker_action: str | None = None
    cure: str | None = None
    meaning: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding; the fields are columns of the `finding` row, `path` its `file`.

    `hides_records`: the file holds records, and none of them is among the partition's.
    """

    code: str
    severity: Severity
    path: str
    message: str
    topic: str | None = None
    partition: int | None = None
    position: int | None = None
    size_bytes: int | None = None
    offset: int | None = None
    broker_action: str | None = None
    cure: str | None = None
    hides_records: bool = False

    def row(self) -> dict[str, object]:
        """The `finding` row as a dict by column name; columns not named here are null."""
        return {
            "code": self.code,
            "severity": self.severity,
            "file": self.path,
            "topic": self.topic,
            "partition": self.partition,
            "position": self.position,
            "size_bytes": self.size_bytes,
            "offset": self.offset,
            "message": self.message,
            "broker_action": self.broker_action,
            "cure": self.cure,
        }
