"""How the transactions in some logs ended, for a reader who looks at their records one by one."""

from __future__ import annotations

import os
from bisect import bisect_right
from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.engine.targets import FileTarget, LogDirTarget
from kafkalog_core.errors import StorageError
from kafkalog_core.kafka.sim.logfiles import Checkpoints, Compaction, unit_of_file, unit_of_partition
from kafkalog_core.kafka.sim.read_committed import CommittedView, read_committed_view, segments_after
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import ScanOptions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_core.engine.chunks import RowOrigin
    from kafkalog_core.engine.targets import Target

__all__ = ["LogOutcomes", "LogTransactions", "Outcome"]

Outcome = Literal["committed", "aborted", "open", "unknown"]
"""How a transaction ended."""

_OPTIONS: Final = ScanOptions(check=False, resync=True)


class LogTransactions:
    """The transactions of one log, by their producers: a look-up does not grow with their number."""

    def __init__(self, view: CommittedView) -> None:
        self._view = view
        self._spans: dict[int, list[tuple[int, int, Outcome]]] = {}
        for span in (*(one.span for one in view.undecided), *view.unfinished):
            self._spans.setdefault(span.producer_id, []).append((span.first, span.last, "unknown"))
        for span in view.open_transactions:
            self._spans.setdefault(span.producer_id, []).append((span.first, span.last, "open"))
        for spans in self._spans.values():
            spans.sort()

    def outcome_of(self, producer_id: int, offset: int) -> Outcome:
        """Return how the transaction ended that has data of a producer at an offset."""
        spans = self._spans.get(producer_id, ())
        at = bisect_right(spans, offset, key=lambda span: span[0]) - 1
        if at >= 0 and offset <= spans[at][1]:
            return spans[at][2]
        return "aborted" if self._view.is_hidden(producer_id, offset) else "committed"


class LogOutcomes:
    """The transactions in the logs of some targets; the batch headers of a log are read when it is first asked for."""

    def __init__(self, targets: Iterable[Target]) -> None:
        self._places: dict[tuple[str | None, int | None], list[FileTarget | str]] = {}
        self._logs: dict[str, LogTransactions | None] = {}
        self._checkpoints = Checkpoints()
        for target in targets:
            if isinstance(target, FileTarget):
                self._places.setdefault((target.topic, target.partition), []).append(target)
            elif isinstance(target, LogDirTarget):
                for place in target.partitions:
                    self._places.setdefault((place.name.topic, place.name.partition), []).append(place.path)
            else:
                self._places.setdefault((target.place.name.topic, target.place.name.partition), []).append(target.path)

    def outcome_of(self, place: RowOrigin, producer_id: int, offset: int) -> Outcome | None:
        """Return how the transaction ended that has data of a producer at an offset.

        Args:
            place: where the rows with this data come from.
            producer_id: of the transaction.
            offset: of the data.

        None: the log cannot be read, or several may be meant.
        """
        log = self._log_of(place)
        return None if log is None else log.outcome_of(producer_id, offset)

    def _log_of(self, place: RowOrigin) -> LogTransactions | None:
        known = self._places.get((place.topic, place.partition), [])
        if place.path is not None:
            known = [each for each in known if _holds(each, place.path)]
        files = [each for each in known if isinstance(each, FileTarget) and each.file.name.raw == place.segment]
        directories = [each for each in known if isinstance(each, str)]
        chosen: FileTarget | str | None = files[0] if files else directories[0] if len(directories) == 1 else None
        if chosen is None:
            return None
        path = chosen if isinstance(chosen, str) else chosen.path
        if path not in self._logs:
            try:
                self._logs[path] = LogTransactions(self._read(chosen))
            except StorageError:
                self._logs[path] = None
        return self._logs[path]

    def _read(self, place: FileTarget | str) -> CommittedView:
        unit = unit_of_partition(read_partition(place), None) if isinstance(place, str) else unit_of_file(place)
        following, is_whole = ((), True) if isinstance(place, str) else segments_after(unit.files[0])
        return read_committed_view(
            unit.files,
            _OPTIONS,
            None,
            following=following,
            is_whole=is_whole,
            compaction=Compaction(unit, self._checkpoints, _OPTIONS),
        )


def _holds(place: FileTarget | str, path: str) -> bool:
    return place.path == path if isinstance(place, FileTarget) else os.path.dirname(path) == place
