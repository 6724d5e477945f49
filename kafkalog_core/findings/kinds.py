"""The finding, and the types of the declarations in the catalogs of findings, damage reasons and broker messages."""

from __future__ import annotations

import os
from typing import Final, Literal, NamedTuple

from kafkalog_core.command_lines import shell_path
from kafkalog_core.structs import Struct

__all__ = [
    "AS_BROKER",
    "AS_BROKER_WITH",
    "AT_OFFSET",
    "CLEAN_MARK",
    "DENIED",
    "DUMP_BATCHES",
    "DUMP_RECORDS",
    "LEFT_BY_RECOVER",
    "MARK_OF_ALL",
    "MOVE_DIRECTORY",
    "MOVE_FILE",
    "MOVE_PARTITION",
    "RAISE_LIMIT",
    "RECOVER",
    "RECOVERS",
    "RECOVER_DIR",
    "RECOVER_WITH_OTHERS",
    "REPAIRED",
    "START_LATER",
    "UNLESS_RECOVERED",
    "VERIFY",
    "VERIFY_WITH_OTHERS",
    "WRITE_TOPIC_ID",
    "BrokerMessage",
    "Finding",
    "FindingType",
    "Severity",
    "Variant",
    "command_of",
]


Severity = Literal["info", "warning", "error"]

DENIED: Final = "file.permission-denied"
"""The code of a file that this user may not read: the result does not cover it, so the exit status is 3."""
CLEAN_MARK: Final = ".kafka_cleanshutdown"
"""The name of the clean shutdown file. Each cure that names it deletes it."""
MARK_OF_ALL: Final = (
    "The clean shutdown file applies to the whole log directory, so verify all of it first: without the file "
    "the next start truncates every partition at its first bad batch and deletes the segments after it."
)
"""The end of such a cure if the other partitions were not checked; else the cure reports their state."""

REPAIRED: Final = (
    "Run kafkalog recover: it keeps every batch that can be read, or lets the broker fetch them from a replica that is "
    "in sync. To read them before: kafkalog dump --records --resync."
)
"""The cure of damage in a log."""

LEFT_BY_RECOVER: Final = (
    "Recover leaves this place as it is. To read the records after it: kafkalog dump --records --resync. To end the "
    "log before it: kafkalog truncate --as-broker."
)
"""The same in a plan of recover, which does not repair it."""


UNLESS_RECOVERED: Final = ", unless it recovers the segment, which rebuilds the index"
"""The part of an action that a simulated start settles: verify leaves it out, or says that the index is rebuilt."""


class Variant(NamedTuple):
    """The texts of a finding for releases in which a rule has a value.

    Args:
        rule: name of a rule for loading partitions (`LoaderRules`).
        value: the value of that rule.
        broker_action: what the broker does.
        cure: what to do; None: the cure of the finding.
        severity: None: the severity of the finding.
    """

    rule: str
    value: str | bool
    broker_action: str
    cure: str | None = None
    severity: Severity | None = None


class FindingType(NamedTuple):
    """The declaration of one finding.

    Args:
        severity: unless the check gives another one.
        message: template of a sentence: what is there.
        broker_action: template of a sentence: what a broker does with it; None: nothing.
        cure: what to do, with the command.
        meaning: one or more sentences about every case of the finding.
        variants: texts for other releases, without placeholders.
        next_step: template of the command that comes next, see `command_of`; None: no command helps.
        is_of_records: whether it says that records of a log are lost, or are not those that a producer wrote, for
            every reader of the log: see `catalog.OF_RECORDS`. An export reports the errors of these findings.
    """

    severity: Severity
    message: str
    broker_action: str | None = None
    cure: str | None = None
    meaning: str | None = None
    variants: tuple[Variant, ...] = ()
    next_step: str | None = None
    is_of_records: bool = False


class BrokerMessage(NamedTuple):
    """One message of a broker's own log. The texts are templates with the placeholders of its `wordings`.

    Args:
        severity: for the disk: error if records are lost, or if a partition, a directory or the broker is offline.
        wordings: the texts of the message in all releases, with placeholders. `{dir}` is a log directory, `{dirs}` a
            list of them, `{entry}` a file or directory in one, `{partition_dir}` the directory of a partition, and
            `{path}` a file of any of them.
        codes: related findings, damage reasons, or subjects of findings.
        commands: templates of the command lines to run next.
        is_elsewhere: whether the message is not about a log directory.
        names_no_cause: whether another line of the log names the cause, and is shown before this one.
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
    names_no_cause: bool = False


class Finding(Struct, frozen=True, kw_only=True):
    """One finding. Its fields are the columns of the `finding` row; `path` is the column `file`.

    Args:
        next_step: template of the next command, see `command_of`; None: no command repairs this.
        dirs: the log directories of its broker as words of a command; empty: only that of the file is known.
        hides_records: whether the file holds records that are not shown as records of the partition.
        more: the number of findings with the same code and file that are not reported one by one.
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
    dirs: str = ""
    hides_records: bool = False
    more: int = 0

    @property
    def next_command(self) -> str | None:
        """The command line that comes next, ready to paste; `None`: nothing needs to be done, or no command helps."""
        if self.next_step is None or self.severity == "info":
            return None
        if self.path.startswith("s3://") and not self.next_step.startswith(_READS_OBJECTS):
            return None if self.next_step.startswith("sudo ") else command_of(_COPY, self.path)
        return command_of(self.next_step, self.path, self.dirs)

    def row(self) -> dict[str, object]:
        """Return the `finding` row by column name."""
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


# Templates of next commands. Words in capitals are values that only the user knows. A command without --apply prints a
# plan, and its output names the command that applies it.
RECOVER: Final = "kafkalog recover {dirs}"
RECOVER_DIR: Final = "kafkalog recover {file}"
RECOVER_WITH_OTHERS: Final = "kafkalog recover {dirs} OTHER_LOG_DIR"
"""The same where another log directory of the broker has what is lost."""
WRITE_TOPIC_ID: Final = "printf 'version: 0\\ntopic_id: %s' TOPIC_ID > {file}"
"""`PartitionMetadataFile` writes these bytes; kafka-topics.sh --describe shows the id."""
RECOVERS: Final = frozenset({RECOVER, RECOVER_DIR, RECOVER_WITH_OTHERS})
AS_BROKER: Final = "kafkalog truncate {parent} --as-broker"
AS_BROKER_WITH: Final = "kafkalog truncate {{above}} {metadata_dir} --as-broker --topic {topic} --partition {partition}"
"""The same with the directory of the metadata log, which has the settings of topics; to be formatted first."""
AT_OFFSET: Final = "kafkalog truncate {{parent}} --to-offset {offset}"
"""To be formatted with the offset first."""
START_LATER: Final = "kafkalog verify {parent} --kafka 2.0"
MOVE_FILE: Final = "mv -n -- {file} {above}/.."
MOVE_PARTITION: Final = "mv -n -- {parent} {above}/.."
MOVE_DIRECTORY: Final = "mv -n -- {file} {parent}/.."
DUMP_RECORDS: Final = "kafkalog dump {file} --records --resync"
DUMP_BATCHES: Final = "kafkalog dump {file} --batches"
RAISE_LIMIT: Final = "kafkalog verify {parent} --max-batch-bytes BYTES"
VERIFY: Final = "kafkalog verify {parent}"
VERIFY_WITH_OTHERS: Final = "kafkalog verify {above} OTHER_LOG_DIR"
_COPY: Final = "aws s3 sync {parent} DIR"
"""What precedes every command that changes files, or plans to, where the finding is of an object store."""
_READS_OBJECTS: Final = ("kafkalog verify ", "kafkalog dump ")


def command_of(template: str, path: str, dirs: str = "") -> str:
    """Return the command line of a template, ready to paste.

    Args:
        template: with `{file}` for the path, `{parent}` for its directory, `{above}` for the directory of that, and
            `{dirs}` for the log directories of its broker.
        path: of the file or directory that the finding is about.
        dirs: the log directories as words of a command; empty: the directory of the file replaces them.
    """
    parent = _parent(path)
    above = _parent(parent)
    names = {"file": path, "parent": parent, "above": above}
    words = {name: shell_path(value) for name, value in names.items()}
    return template.format_map({**words, "dirs": dirs or words["parent"]})


def _parent(path: str) -> str:
    parent = os.path.dirname(path) or "."
    return path if parent in {"s3:", "s3:/"} else parent  # the bucket itself
