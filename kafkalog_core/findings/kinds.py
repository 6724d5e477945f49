"""What a finding is, and what its catalogue says of a code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from kafkalog_core.findings.next_commands import command_of

__all__ = [
    "CLEAN_MARK",
    "DENIED",
    "MARK_OF_ALL",
    "BrokerMessage",
    "DamageType",
    "Finding",
    "FindingType",
    "Severity",
    "Variant",
]

Severity = Literal["info", "warning", "error"]

DENIED: Final = "file.permission-denied"
"""The code of what this user may not read: the result lacks it, so the exit status is 3."""
CLEAN_MARK: Final = ".kafka_cleanshutdown"
"""A cure that names it is one that deletes it."""
MARK_OF_ALL: Final = (
    "The clean shutdown file applies to the whole log directory: verify all of it first, as without that file "
    "the next start truncates every partition at its first bad batch and deletes the segments after it."
)
"""The end of such a cure where the other partitions were not checked; else it reports what they are like."""


class Variant(NamedTuple):
    """What a broker does otherwise than the catalogue's own text where a rule of its release has a value.

    Args:
        rule: name of a rule for loading partitions (`LoaderRules`).
        value: of the rule.
        broker_action: what the broker does then.
        cure: what to do then; None: as else.
        severity: of the finding then; None: as else.
    """

    rule: str
    value: str | bool
    broker_action: str
    cure: str | None = None
    severity: Severity | None = None


class FindingType(NamedTuple):
    """One code of the catalogue.

    Args:
        severity: where no check knows better.
        message: template of one sentence about one case: what is there.
        broker_action: template: what a broker does with it; None: nothing.
        cure: what to do, with the command.
        meaning: a sentence or two about all cases.
        variants: texts for releases that do otherwise. They have no placeholders.
    """

    severity: Severity
    message: str
    broker_action: str | None = None
    cure: str | None = None
    meaning: str | None = None
    variants: tuple[Variant, ...] = ()


class DamageType(NamedTuple):
    """One reason of `damage` rows: what it means, what a broker does about it, and what mends it."""

    meaning: str
    broker_action: str
    cure: str


class BrokerMessage(NamedTuple):
    """One message of a broker's own log; the texts are templates of what its `wordings` name.

    `severity` is about the disk: error where records are lost, or where a partition, a directory or the broker is out
    of service. `codes` are findings, damage reasons or whole subjects that go with it; `is_elsewhere` are messages that
    say nothing about a log directory.
    """

    name: str
    severity: Severity
    wordings: tuple[str, ...]
    happened: str
    why: str
    broker_action: str
    cure: str
    codes: tuple[str, ...] = ()
    commands: tuple[str, ...] = ("kafkalog verify {place}",)
    is_elsewhere: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding; the fields are columns of the `finding` row, `path` its `file`.

    `next_step`: the template of the command that comes next (see `next_commands`); `None`: no command mends this.
    `hides_records`: the file holds records, and none of them is among the partition's. `more`: how many others of this
    code in this file are not given out one by one.
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
    next_step: str | None = None
    hides_records: bool = False
    more: int = 0

    @property
    def next_command(self) -> str | None:
        """The command line that comes next, ready to paste; `None`: nothing needs to be done, or no command helps."""
        return None if self.next_step is None or self.severity == "info" else command_of(self.next_step, self.path)

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
            "next_command": self.next_command,
        }
