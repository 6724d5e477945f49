"""The terms of the cleaner's filter: what a caller says of batches, what releases do, what came of a run."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kafkalog_core.format.clean_wrappers import WRAPPER_FORMS
from kafkalog_core.format.deflate import GZIP_SYSTEM, LZ4_JAVA
from kafkalog_core.format.kernels import clean_numbers as n

if TYPE_CHECKING:
    from kafkalog_core.format.arena import PayloadDamage
    from kafkalog_core.format.columns import BatchColumns

__all__ = [
    "BIT_DISCARD",
    "BIT_EMPTY_TXN",
    "BIT_RETAIN_EMPTY",
    "OUTCOME_EMPTIED",
    "OUTCOME_REBUILT",
    "OUTCOME_REMOVED",
    "OUTCOME_VERBATIM",
    "REASONS",
    "FilterRules",
    "Filtered",
    "Tally",
]

BIT_DISCARD: Final = n.BIT_DISCARD
BIT_RETAIN_EMPTY: Final = n.BIT_RETAIN_EMPTY
BIT_EMPTY_TXN: Final = n.BIT_EMPTY_TXN
OUTCOME_REMOVED: Final = n.OUTCOME_REMOVED
OUTCOME_VERBATIM: Final = n.OUTCOME_VERBATIM
OUTCOME_REBUILT: Final = n.OUTCOME_REBUILT
OUTCOME_EMPTIED: Final = n.OUTCOME_EMPTIED
REASONS: Final = (
    "latest",
    "past-map",
    "control",
    "tombstone",
    "superseded",
    "tombstone-expired",
    "null-key",
    "aborted",
    "marker-expired",
)
"""Why records stay (the first four) or go, in the order of the cells of a `Tally`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterRules:
    """What releases do differently; as it stands: 4.1 and later.

    Attributes:
        keeps_past_latest: records that the map does not reach stay (0.10.2 and later).
        looks_up_control_keys: the keys of control records are looked up as any other (0.11 to 3.0).
        uses_horizons: batches hold the time until which tombstones and markers stay (3.1 and later).
        converts_legacy: all of magic 0 and 1 becomes magic 2 (4.0 and later).
        wrappers: how those of magic 0 and 1 are written again: "filter" (0.10.2 and later), "relative" (0.10.0,
            0.10.1), "absolute" (0.9), or "flat" (0.8: their messages stand by themselves then).
        wrapper_magic: what 0.10.0 and 0.10.1 give them, the topic's message format; None: what they had.
        gzip_system: see `deflate.compress`.
        lz4_java: see there too.
    """

    keeps_past_latest: bool = True
    looks_up_control_keys: bool = False
    uses_horizons: bool = True
    converts_legacy: bool = True
    wrappers: str = WRAPPER_FORMS[0]
    wrapper_magic: int | None = None
    gzip_system: int = GZIP_SYSTEM
    lz4_java: str = LZ4_JAVA


@dataclass(slots=True)
class Tally:
    """Records by reason, as many as `REASONS`, and the bytes of their keys and values.

    Records of aborted batches that are not even opened are counted as the headers do, without bytes.
    """

    cells: array[int] = field(default_factory=lambda: array("q", bytes(8 * n.T_SIZE)))

    @property
    def records(self) -> array[int]:
        """How many, by reason."""
        return self.cells[: n.T_BYTES]

    @property
    def bytes(self) -> array[int]:
        """Of keys and values, by reason."""
        return self.cells[n.T_BYTES : n.T_TOMBSTONES]

    @property
    def tombstones(self) -> int:
        """That are the latest records of their keys."""
        return self.cells[n.T_TOMBSTONES]

    @property
    def lone_tombstones(self) -> int:
        """Of these, those whose key has no other record."""
        return self.cells[n.T_LONE]

    def copy(self) -> Tally:
        """The same figures, which do not grow."""
        return Tally(self.cells[:])

    def since(self, before: Tally) -> Tally:
        """What came behind an earlier copy."""
        return Tally(array("q", [now - then for now, then in zip(self.cells, before.cells, strict=True)]))


@dataclass(frozen=True, slots=True)
class Filtered:
    """What is left of a run. `data` and `batches` are valid until the next run is filtered.

    Attributes:
        rows: batches of the run that are done; less than all only where there is damage.
        data: the bytes of the output.
        batches: batch columns of the output; positions are those of the cleaned log.
        cells: the kernels' cells of each batch of the run.
        damage: why the batch in row `rows` stops the cleaner: it cannot be read, or not be written again.
    """

    rows: int
    data: memoryview
    batches: BatchColumns
    cells: array[int]
    damage: PayloadDamage | None

    @property
    def sizes(self) -> array[int]:
        """Bytes of the output of each batch of the run; 0: it is removed."""
        return self._each(n.K_BYTES)

    @property
    def kept(self) -> array[int]:
        """Records of each batch that stay."""
        return self._each(n.K_KEPT)

    @property
    def first_kept(self) -> array[int]:
        """Offset of the first record of each batch that stays; of no use where none does."""
        return self._each(n.K_FIRST)

    @property
    def last_kept(self) -> array[int]:
        """Offset of the last record of each batch that stays; of no use where none does."""
        return self._each(n.K_LAST)

    @property
    def outcomes(self) -> array[int]:
        """What became of each batch: `OUTCOME_*`."""
        return self._each(n.K_OUTCOME)

    def _each(self, cell: int) -> array[int]:
        return self.cells[cell : self.rows * n.K_SIZE : n.K_SIZE]
