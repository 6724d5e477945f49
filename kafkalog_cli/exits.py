"""Exit statuses: the one place that gives them their numbers. 1 and 2 are Python's and click's own."""

from __future__ import annotations

from enum import IntEnum

from kafkalog_core.errors import KafkalogError, UnfinishedError, WorkerLostError

__all__ = ["EXIT_STATUS_HELP", "ExitStatus", "status_of"]


class ExitStatus(IntEnum):
    """What a script learns from a finished command."""

    CLEAN = 0
    CRASH = 1
    USAGE = 2
    REFUSED = 3
    DAMAGE = 4


EXIT_STATUS_HELP = {
    ExitStatus.CLEAN: "done, and nothing wrong was found",
    ExitStatus.CRASH: "crashed, or interrupted: the result is not complete",
    ExitStatus.USAGE: "wrong options or arguments",
    ExitStatus.REFUSED: (
        "could not operate: no such file, no permission, a lock that is held, a plan that is refused; or this user "
        "may not read one of the PATHs or a file in it: the result covers the rest, and the status is 3 even if "
        "the rest is damaged; or undo --partial left files as they are"
    ),
    ExitStatus.DAMAGE: (
        "done, and damage or another finding of severity error is in the result; or a repair, not yet applied, that "
        "loses data"
    ),
}


def status_of(error: KafkalogError) -> ExitStatus:
    """The status that a command ends with where it cannot go on."""
    return ExitStatus.CRASH if isinstance(error, UnfinishedError | WorkerLostError) else ExitStatus.REFUSED
