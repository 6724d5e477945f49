"""Templates of what a broker does with damage in a log at its next start.

Verify chooses a template by the outcome of the simulated start at the damaged bytes (`kafka.sim.start.outcome`) and
fills it from there, so that these sentences describe the plan of `truncate --as-broker`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.findings.client_reads import CONSUMERS
from kafkalog_core.findings.kinds import CLEAN_MARK, MARK_OF_ALL, RECOVER, REPAIRED, START_LATER

if TYPE_CHECKING:
    from kafkalog_core.findings.kinds import Severity

__all__ = ["AFTER_EITHER", "BEFORE_OFFLINE", "DOES_NOT_START", "OFFLINE", "START_ACTIONS", "StartAction"]

DOES_NOT_START: Final = "Does not start"
"""How an action begins with which the broker ends."""
OFFLINE: Final = "Takes the whole log directory offline"
"""How an action begins after which the broker runs on if it has another log directory."""


BEFORE_OFFLINE: Final = "Releases before 1.0 do not start, nor do those before 3.2 if it is a leader-epoch-checkpoint."
"""Which releases do not take a log directory offline where they refuse a checkpoint."""


class StartAction(NamedTuple):
    """What a broker does with damage, and what to do about it.

    Args:
        text: template, one or more sentences.
        cure: what to do; None: the cure of the finding.
        severity: None: that of the finding.
        next_step: template of the next command; None: that of the finding.
    """

    text: str
    cure: str | None = None
    severity: Severity | None = None
    next_step: str | None = None


_SAVE: Final = f"Start no broker on it yet. {REPAIRED}"
_OTHER_FIRST: Final = (
    "The other file comes first, as its own finding says: kafkalog recover repairs both, or names what is left. "
    "Truncate nothing before that."
)
_UNMARK: Final = (
    f"Stop the broker. {REPAIRED} Or delete {CLEAN_MARK}: the next start then recovers the log, and truncates it here. "
    f"{MARK_OF_ALL}"
)
_TAIL: Final = (
    f"After a crash nothing needs to be done: the next start truncates the log here. If {CLEAN_MARK} exists, stop the "
    "broker and truncate the log here: kafkalog recover. Or delete that file, so that the next start recovers the log. "
    f"{MARK_OF_ALL}"
)

START_ACTIONS: Final = {
    "index-rebuilt": StartAction("Recovers the segment, because {why}, and rebuilds its indexes."),
    "snapshot-unread": StartAction("Does not read it at its next start."),
    "snapshot-written": StartAction("Writes it again, from the log, at its next start."),
    "payload": StartAction(
        f"Does not decode the records of the batch at its start, and keeps the batch. {CONSUMERS}",
    ),
    "payload-closed": StartAction(
        "Does not decode the records of the batch at its start, and keeps the batch. Each fetch from an offset in the "
        "batch fails with an error, and so does each fetch from a later offset, up to the next entry of the offset "
        f"index. {CONSUMERS}",
        "Take the batch out of the log, with the broker stopped: kafkalog recover. A consumer that continues after a "
        "seek has to seek past the next entry of the offset index.",
        next_step=RECOVER,
    ),
    "payload-closed-4.0": StartAction(
        "Does not decode the records of the batch at its start, and keeps the batch. Each fetch from an offset in the "
        f"batch fails with an error. {CONSUMERS}",
    ),
    "unreadable": StartAction(
        "Does not start if it recovers the segment. Else it starts, and closes the connection of each fetch that "
        "reaches this place."
    ),
    "over-limit": StartAction(
        "Reads it: the limit is kafkalog's own. In recovery, Kafka 0.8.1 to 0.10.2 truncate the log at a message "
        "larger than max.message.bytes; no other release does."
    ),
    "stops": StartAction(f"{DOES_NOT_START}{{where}}: {{problem}}.", _SAVE, "error", RECOVER),
    "stops-in-batch": StartAction(f"{DOES_NOT_START}{{where}}: {{problem}}.", _SAVE, "error", RECOVER),
    # because of another file, which is mended first: only then is it known what the start does here
    "stops-elsewhere": StartAction(f"{DOES_NOT_START}{{where}}: {{problem}}.", _OTHER_FIRST),
    "offline": StartAction(
        f"{OFFLINE}{{where}}: {{problem}}. It does not start if it has no other log directory.", _OTHER_FIRST
    ),
    "stops-before-it": StartAction(f"{DOES_NOT_START} because of {{where}}. Without that it {{otherwise}}"),
    "offline-before-it": StartAction(f"{OFFLINE} because of {{where}}. Without that it {{otherwise}}"),
    "stops-until-2.0": StartAction(
        f"{DOES_NOT_START}{{where}}: {{problem}}. Release 2.0 and later start.",
        "Start release 2.0 or later on the log directory, and do not truncate the log.",
        "error",
        START_LATER,
    ),
    "unknown": StartAction("Does something here that cannot be predicted{where}: {problem}.", _SAVE),
    "split": StartAction("Splits the segment when it recovers it at its next start: {problem}."),
    "swept": StartAction("Deletes the whole segment{why}.", _SAVE),
    "deleted": StartAction("Deletes the whole segment{why}. {lost} are lost.", _SAVE),
    "tail-truncated": StartAction(
        "Truncates the log here: {rest} that hold no whole batch.",
        "Nothing needs to be done: the next start truncates the log here, and no whole batch is lost.",
        "info",
        RECOVER,
    ),
    "end-truncated": StartAction("Truncates the log here: {rest} that hold no whole batch.", _SAVE, next_step=RECOVER),
    "truncated": StartAction("Truncates the log {here}, because {why}: {rest} of this segment.", _SAVE),
    "truncated-and-later-deleted": StartAction(
        "Truncates the log {here}, because {why}: {rest} of this segment, and deletes the {later} after it. {lost} "
        "are lost, whole batches among them.",
        _SAVE,
    ),
    "kept-hidden": StartAction(
        "Recovers the segment, because {why}, and keeps this place, but takes offset {found_end} as the log end "
        f"offset, although other batches of the segment have higher offsets: it assigns these again. {CONSUMERS}",
        _SAVE,
        "error",
        RECOVER,
    ),
    "unread-order-below": StartAction(
        "Does not notice it at its start. Its offsets are below the base offset of the segment: consumers get its "
        "records only if no earlier segment has these offsets or later ones.",
    ),
    "unread-order-hidden": StartAction(
        "Does not notice it at its start, because {why}, but takes offset {found_end} as the log end offset, although "
        f"other batches of the segment have higher offsets: it assigns these again. {CONSUMERS}",
        _SAVE,
        "error",
        RECOVER,
    ),
    "kept": StartAction(f"Recovers the segment, because {{why}}, and keeps this place. {CONSUMERS}", REPAIRED),
    "by-interval": StartAction(
        "If index.interval.bytes is not {interval}, as is assumed, an index entry may be due where the offsets go "
        "back: then it empties the segment, and deletes those after it."
    ),
    "unread-order": StartAction(f"Does not notice it at its start. {CONSUMERS}"),
    "unread-checksum": StartAction(
        f"Computes no checksum at its start, because {{why}}, and keeps the batch. {CONSUMERS}",
        REPAIRED,
    ),
    "unread-tail": StartAction(
        "Takes the offset here as the log end offset, because {why}, but appends at the end of the file, after these "
        "{rest}: consumers cannot read what it appends.",
        _UNMARK,
        "error",
        RECOVER,
    ),
    "unread-end": StartAction(
        "Takes the offset here as the log end offset, because {why}, but appends at the end of the file, after these "
        "{rest}: consumers cannot read what it appends.",
        _SAVE,
        "error",
        RECOVER,
    ),
    "unread-hidden": StartAction(
        "Takes offset {found_end} as the log end offset, because {why}, although there are records up to offset "
        "{last}: it assigns their offsets again.",
        _SAVE,
        "error",
        RECOVER,
    ),
    # about an offset index
    "end-misled": StartAction(
        "After a clean shutdown, takes offset {found_end}, the base offset of the segment, as the log end offset, "
        "because the last entry of the index leads to no batch: it hides every record of the segment, and assigns "
        "their offsets again.",
        "Start no broker on it yet. With the broker stopped, kafkalog recover rebuilds the segment's indexes.",
        "error",
        RECOVER,
    ),
    "unread": StartAction(
        f"Does not read this place at its start, because {{why}}. {CONSUMERS}",
        REPAIRED,
    ),
    "txn-cut": StartAction("Deletes its records at its next start, which truncates the log before them."),
    "txn-forgotten": StartAction(
        "Forgets the transaction at its next start, because the last shutdown was clean and there is no producer "
        "snapshot: read_committed consumers get its records as if they were committed.",
        "Start no broker on it yet. kafkalog recover writes the snapshot from the log, so that the transaction remains "
        "open.",
        next_step=RECOVER,
    ),
    "producers-forgotten": StartAction(
        "Forgets all producers, because the last shutdown was clean and there is no producer snapshot: it can no "
        "longer refuse duplicates."
    ),
    "producers-read": StartAction("Reads the log from the newest snapshot that is left, or from its start."),
    "v07-tail": StartAction(
        "Truncates the log here: after an unclean shutdown 0.7 reads its last file up to the first incomplete message.",
        "Nothing needs to be done: the next start truncates the log here, and no whole message is lost.",
        "info",
    ),
}
"""The action by the outcome of the simulated start."""

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
        RECOVER,
    ),
}
"""The action for a partition outside a log directory, for both simulated starts; `tail`: the log ends in the damage."""
