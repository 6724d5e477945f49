"""What a broker does at its next start with damage in a log: templates, filled from the simulated start.

Verify chooses a template by what the simulation does with the damaged bytes (`kafka.start.outcome`), so that these
sentences are the plan of `truncate --as-broker` in words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.findings.kinds import CLEAN_MARK, MARK_OF_ALL
from kafkalog_core.findings.next_commands import AS_BROKER, AT_DAMAGE

if TYPE_CHECKING:
    from kafkalog_core.findings.kinds import Severity

__all__ = ["AFTER_EITHER", "START_ACTIONS", "StartAction"]


class StartAction(NamedTuple):
    """What a broker does with damage, and what to do about it.

    Args:
        text: template, one or more sentences.
        cure: what to do; None: what the catalogue has for the finding.
        severity: None: that of the finding.
        next_step: template of the next command; None: that of the finding, which saves what can be read. A truncation
            is named only where it loses no whole batch, or where no broker starts without one.
    """

    text: str
    cure: str | None = None
    severity: Severity | None = None
    next_step: str | None = None


_COPY_AWAY: Final = "copy the directory away and see what can be read after this place: kafkalog dump --resync"
_REPLICA: Final = f"Copy the partition from a healthy replica. Without one, {_COPY_AWAY}."
_SAVE: Final = f"Start no broker on it yet. Copy the partition from a healthy replica; without one, {_COPY_AWAY}."
_UNMARK: Final = (
    "With the broker stopped, copy the directory away and truncate the log here: kafkalog truncate --at-damage. Or "
    f"delete {CLEAN_MARK}: the next start then recovers the log, and truncates it here too. {MARK_OF_ALL}"
)
_TAIL: Final = (
    f"After a crash nothing needs to be done: the next start truncates the log here. Where {CLEAN_MARK} is there, copy "
    "the directory away and truncate the log here: kafkalog truncate --at-damage. Or delete that file while the broker "
    f"is stopped, so that the next start recovers the log. {MARK_OF_ALL}"
)

START_ACTIONS: Final = {
    "payload": StartAction(
        "Does not decode the records of a batch at its start. Keeps the batch and serves it to consumers, which fail "
        "here.",
    ),
    "unreadable": StartAction(
        "Takes the whole log directory offline at the first read that reaches this place, at its start or later."
    ),
    "over-limit": StartAction(
        "Reads it: the limit is kafkalog's own. Kafka 0.8.2 to 0.10 truncate what they recover at a message larger "
        "than max.message.bytes; no other release does."
    ),
    "stops": StartAction("Does not start{where}: {problem}.", _SAVE, "error", AT_DAMAGE),
    "unknown": StartAction("What it does here is unknown{where}: {problem}.", _SAVE),
    "swept": StartAction("Deletes the whole segment{why}.", _SAVE),
    "deleted": StartAction("Deletes the whole segment{why}. {lost} are lost.", _SAVE),
    "tail-truncated": StartAction(
        "Truncates the log here: {rest} that hold no whole batch.",
        "Nothing needs to be done: the next start truncates the log here, and no whole batch is lost.",
        "info",
        AS_BROKER,
    ),
    "end-truncated": StartAction(
        "Truncates the log here: {rest} that hold no whole batch.", _SAVE, next_step=AS_BROKER
    ),
    "truncated": StartAction("Truncates the log {here}, as {why}: {rest} of this segment.", _SAVE),
    "truncated-and-later-deleted": StartAction(
        "Truncates the log {here}, as {why}: {rest} of this segment, and deletes the {later} after it. {lost} are "
        "lost, whole batches among them.",
        _SAVE,
    ),
    "kept": StartAction(
        "Recovers the segment, as {why}, and keeps this place. Consumers may skip records here, or fail.", _REPLICA
    ),
    "unread-order": StartAction("Does not notice it at its start; consumers may skip records here."),
    "unread-checksum": StartAction(
        "Computes no checksum at its start, as {why}, and serves the batch to consumers, which fail here.", _REPLICA
    ),
    "unread-tail": StartAction(
        "Takes this place for the end of the log, as {why}, and appends after these {rest}: nothing that is appended "
        "can be read then.",
        _UNMARK,
        "error",
        AT_DAMAGE,
    ),
    "unread-end": StartAction(
        "Takes this place for the end of the log, as {why}, and appends after these {rest}: nothing that is appended "
        "can be read then.",
        _SAVE,
        "error",
        AT_DAMAGE,
    ),
    "unread-hidden": StartAction(
        "Takes offset {found_end} for the log end offset, as {why}, although there are records up to offset {last}: it "
        "assigns their offsets again.",
        _SAVE,
        "error",
        AT_DAMAGE,
    ),
    "unread": StartAction(
        "Does not read this place at its start, as {why}. Reads that come here fail, so consumers do not get to the "
        "{rest} after it.",
        _REPLICA,
    ),
    "v07-tail": StartAction(
        "Truncates the log here: after an unclean shutdown 0.7 reads its last file up to the first message that is not "
        "whole.",
        "Nothing needs to be done: the next start truncates the log here, and no whole message is lost.",
        "info",
    ),
}
"""By what the simulated start does with the damage."""

AFTER_EITHER: Final = {
    "any": StartAction(
        "It is unknown whether the last shutdown was clean. After a clean one, the broker {clean} After an unclean "
        "one{scope}, it {unclean}",
        _SAVE,
    ),
    "tail": StartAction(
        "It is unknown whether the last shutdown was clean. After a clean one, the broker {clean} After an unclean "
        "one{scope}, it {unclean}",
        _TAIL,
        "warning",
        AT_DAMAGE,
    ),
}
"""For a partition outside a log directory, where both starts are simulated; `tail`: the log ends in the damage."""
