"""The command that avoids a predicted loss. All of them are here, so that they are changed in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.command_lines import shell_path
from kafkalog_core.findings.kinds import RECOVERS
from kafkalog_core.findings.logs import STARTS_LATER
from kafkalog_core.ops.repair.context import recovery_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
    from kafkalog_core.kafka.sim.start.disk import StartEvent
    from kafkalog_core.ops.preflight.partition_starts import PartitionStart

__all__ = ["Ways"]

_MOST_OTHERS: Final = 3


class Ways:
    """The command lines that avoid what a start does.

    Args:
        log_dirs: of the broker: recover also writes their checkpoints and clean shutdown files, and the one with the
            metadata log shows which other replicas there are.
        request: the release and settings that were given; recover needs the same.
    """

    def __init__(self, log_dirs: Sequence[str], request: SettingsRequest) -> None:
        self._recovery = f"kafkalog recover {recovery_words(log_dirs, request)}"
        self._compat = f"kafkalog preflight --compat {' '.join(map(shell_path, log_dirs))}"

    def of_event(self, event: StartEvent) -> str | None:
        """Return the command for what more than the load of one partition decides; None: there is none."""
        finding = event.finding
        if finding is None:
            return None
        return self._recovery if finding.next_step in RECOVERS else finding.next_command

    def of_partition(self, start: PartitionStart) -> str | None:
        """Return the command that avoids what a start does to a partition; None: there is none, or none is needed."""
        problem = None if start.result is None else start.result.problem
        if problem is not None and problem.kind in STARTS_LATER:
            return self._compat
        is_repaired = any(finding.next_step in RECOVERS for finding in start.silent)
        is_harmed = start.cut is not None or start.fate in {"refused", "unknown"} or start.hidden_offsets
        return self._recovery if is_harmed or is_repaired else None

    def of_all(self, events: Iterable[StartEvent], starts: Sequence[PartitionStart]) -> Iterator[str]:
        """Yield the commands without repetition: what a person does by hand, then recover, which repairs the rest.

        What recover does not repair is shown by the commands of the findings: the first ones, if there is no other.
        """
        commands, named = [], []
        for event in events:
            commands.append(self.of_event(event))
            named += [] if commands[-1] is None else [f"{event.path}/"]
        for each in starts:
            place = f"{each.place.path}/"
            if each.fate != "refused" or not any(path.startswith(place) for path in named):
                commands.append(self.of_partition(each))
        found = [command for command in dict.fromkeys(commands) if command is not None]
        yield from (command for command in found if command != self._recovery)
        if self._recovery in found:
            yield self._recovery
        elif not found:
            others = (finding.next_command for each in starts for finding in each.silent)
            yield from [command for command in dict.fromkeys(others) if command is not None][:_MOST_OTHERS]
