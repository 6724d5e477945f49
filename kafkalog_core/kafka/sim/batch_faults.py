"""The whole batches that a reader must not trust: those that `verify` calls errors, found by its own checks.

A client that gets such a batch stops there, or skips other records: librdkafka never passes a batch whose payload it
cannot read. So they are holes, like a batch with a wrong checksum. A batch with a wrong offset or leader epoch is none
if consumers pass it (`batch_places`).
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from kafkalog_core.findings.catalog import Sink
from kafkalog_core.findings.logs import DAMAGE_REASONS
from kafkalog_core.format.layout import MAX_INT64
from kafkalog_core.kafka.rules.batch_checks import BatchCheck, CheckedLog, RecordCheck
from kafkalog_core.kafka.sim.batch_places import PlaceWatch, is_of_header, misplaced_batches
from kafkalog_core.storage.scan import Damage, Run
from kafkalog_core.structs import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog_core.findings.kinds import Finding
    from kafkalog_core.kafka.sim.batch_places import Misplaced, PlaceBounds
    from kafkalog_core.storage.scan import ScanOptions
    from kafkalog_core.storage.source import Source

__all__ = ["BatchFaults", "FoundFaults"]


class FoundFaults(NamedTuple):
    """The batches that are wrong, in the order of the file.

    holes: those that a reader leaves out. misplaced: those with wrong offsets that consumers pass.
    """

    holes: tuple[Damage, ...]
    misplaced: tuple[Misplaced, ...]


class _Errors(Sink):
    """The errors of batches, the first one of each, by its position; all of them, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.by_position: dict[int, Damage] = {}
        self.new: list[int] = []
        self.of_headers: set[int] = set()

    def _is_shown(self, code: str, path: str) -> bool:
        """Return True: none is only counted."""
        del code, path
        return True

    def _append(self, finding: Finding) -> None:
        """Keep an error of a batch."""
        position, code = finding.position, finding.code
        if position is None or position in self.by_position or finding.severity != "error":
            return
        reason = DAMAGE_REASONS.get(code, code)
        self.by_position[position] = Damage(
            position, finding.size_bytes or 0, reason, finding.message.removesuffix("."), finding.offset
        )
        self.new.append(position)
        if is_of_header(code):
            self.of_headers.add(position)


class BatchFaults:
    """Looks at the items of one scan of a log file; `found` is what is wrong in it.

    Args:
        source: the file.
        bounds: of its offsets.
        options: of the scan.
        opens_batches: whether headers and records are checked too; else offsets and leader epochs alone.
        start: where the scan begins, in bytes.
    """

    def __init__(
        self, source: Source, bounds: PlaceBounds, options: ScanOptions, *, opens_batches: bool, start: int = 0
    ) -> None:
        self._source = source
        self._bounds = bounds
        self._options = options
        self._watch = PlaceWatch(bounds)
        self._errors = _Errors()
        log = CheckedLog(
            path=source.path,
            base_offset=bounds.base_offset,
            size_bytes=source.size_bytes - start,
            is_v07=False,
            opens_records=True,
            now_ms=MAX_INT64,
            max_batch_bytes=options.max_batch_bytes,
            errors_only=True,
        )
        self._checks = (BatchCheck(log, self._errors), RecordCheck(log, self._errors)) if opens_batches else ()

    def watched(self, items: Iterable[Run | Damage]) -> Iterator[Run | Damage]:
        """Yield the items of the scan, and look at them."""
        for item in items:
            if isinstance(item, Damage):
                self._watch.damage(item)
                for check in self._checks:
                    check.damage(item)
            else:
                self._watch.run(item.batches)
                for check in self._checks:
                    check.run(item)
                if self._errors.new:
                    self._complete(item)
            yield item

    @property
    def may_be_wrong(self) -> bool:
        """Whether `found` may return a batch."""
        return self._watch.is_suspicious or bool(self._errors.by_position)

    def _complete(self, run: Run) -> None:
        """Set size and first offset of the new errors, which are of batches of this run: not every finding has both."""
        positions, sizes, lasts = map(run.batches.column, ("position", "size_bytes", "last_offset"))
        firsts, by_position = run.batches.column("base_offset"), self._errors.by_position
        for position in self._errors.new:
            row, error = bisect_left(positions, position), by_position[position]
            offset = lasts[row] if firsts[row] < 0 else firsts[row]
            by_position[position] = Damage(position, sizes[row], error.reason, error.detail, max(offset, 0))
        self._errors.new.clear()

    def found(self) -> FoundFaults:
        """Return the batches that are wrong. Raises StorageError.

        Call it after the scan. It reads the file again only where offsets or leader epochs contradict each other.
        """
        holes, misplaced = dict(self._errors.by_position), []
        if self._watch.is_suspicious:
            found = misplaced_batches(self._source, self._bounds, self._options, self._errors.of_headers).batches
            for each in reversed(found):
                if each.fault == "epoch" or each.position in holes:
                    continue
                if each.is_passed and each.position + each.size_bytes not in holes:
                    misplaced.append(each)
                else:
                    holes[each.position] = each.as_damage
        return FoundFaults(tuple(holes[position] for position in sorted(holes)), tuple(reversed(misplaced)))
