"""The whole batches that a reader must not trust: those that `verify` calls errors, found by its own checks.

A client that gets such a batch stops there, or skips other records: librdkafka never passes a batch whose payload it
cannot read, and a wrong base offset sends every consumer to a wrong place. So they are holes, like a batch with a wrong
checksum.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from kafkalog_core.findings.catalog import Sink
from kafkalog_core.findings.logs import DAMAGE_REASONS
from kafkalog_core.format.layout import MAX_INT64
from kafkalog_core.kafka.rules.batch_checks import BatchCheck, CheckedLog, RecordCheck
from kafkalog_core.kafka.sim.batch_places import PlaceWatch, is_of_header, misplaced_batches
from kafkalog_core.storage.scan import Damage, Run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog_core.findings.kinds import Finding
    from kafkalog_core.kafka.sim.batch_places import PlaceBounds
    from kafkalog_core.storage.scan import ScanOptions
    from kafkalog_core.storage.source import Source

__all__ = ["BatchFaults"]

_PLACE_CODES: Final = {"offset": "batch.offset-order", "epoch": "batch.epoch-back"}


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
    """Looks at the items of one scan of a log file; `wrong` is what a reader leaves out of it.

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
        """Whether `wrong` may return a batch."""
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

    def wrong(self) -> tuple[Damage, ...]:
        """Return the batches that are wrong, as damage, in the order of the file. Raises StorageError.

        Call it after the scan. It reads the file again only where offsets or leader epochs contradict each other.
        """
        found_at = self._errors.by_position
        if self._watch.is_suspicious:
            for each in misplaced_batches(self._source, self._bounds, self._options, self._errors.of_headers).batches:
                reason = DAMAGE_REASONS.get(_PLACE_CODES[each.fault], _PLACE_CODES[each.fault])
                damage = Damage(each.position, each.size_bytes, reason, each.detail, each.expected_offset)
                found_at[each.position] = damage
        return tuple(found_at[position] for position in sorted(found_at))
