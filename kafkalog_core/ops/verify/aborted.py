"""Aborted transactions of a segment in little memory: 32 bytes each, as a log may be nothing but such."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from kafkalog_core.ops.producing.producers import CompletedTxn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["AbortedTxns"]

_OTHERS: Final = 3  # fields beside the marker's offset


class AbortedTxns:
    """Kept as they come; `find` needs them in the order of their markers, in which they are in a good log."""

    def __init__(self, txns: Iterable[CompletedTxn] = ()) -> None:
        self._lasts = array("q")
        self._others = array("q")
        for txn in txns:
            self.add(txn)

    def __len__(self) -> int:
        return len(self._lasts)

    def __iter__(self) -> Iterator[CompletedTxn]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, index: int) -> CompletedTxn:
        at = index * _OTHERS
        producer_id, first, stable = self._others[at : at + _OTHERS]
        return CompletedTxn(producer_id, first, self._lasts[index], is_aborted=True, last_stable_offset=stable)

    def add(self, txn: CompletedTxn) -> None:
        """One more."""
        self._lasts.append(txn.last_offset)
        self._others.extend((txn.producer_id, txn.first_offset, txn.last_stable_offset))

    def by_marker(self) -> AbortedTxns:
        """The same in the order of their markers' offsets; of several with one, the last one put in."""
        if all(one < other for one, other in pairwise(self._lasts)):
            return self
        by_last = {txn.last_offset: txn for txn in self}
        return AbortedTxns(by_last[last] for last in sorted(by_last))

    def find(self, last_offset: int) -> int | None:
        """The number of the one that a marker ended, where they are in order."""
        index = bisect_left(self._lasts, last_offset)
        return index if index < len(self) and self._lasts[index] == last_offset else None
