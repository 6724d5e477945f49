"""Transactions of the cluster metadata log (KIP-868): records that take effect together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.topics.metadata_records import MetadataRecord

__all__ = ["TRANSACTION_RECORDS", "MetadataTransactions"]

TRANSACTION_RECORDS: Final = frozenset(("BeginTransactionRecord", "EndTransactionRecord", "AbortTransactionRecord"))
"""The names of the records that begin and end a transaction; a record outside of one takes effect at once."""
Origin = TypeVar("Origin")


class MetadataTransactions(Generic[Origin]):
    """The transactions of a metadata log (KIP-868): their records take effect at their end, or never.

    Attributes:
        pending: records of a transaction that has not ended, each with where it is from; None: there is none.
        aborted: how many records of aborted transactions were dropped.
    """

    def __init__(self) -> None:
        self.pending: list[tuple[Origin, MetadataRecord]] | None = None
        self.aborted = 0

    def push(self, origin: Origin, record: MetadataRecord) -> Sequence[tuple[Origin, MetadataRecord]]:
        """Take the next record; return those that take effect now, each with its origin (`MetadataBatchLoader`)."""
        name = record.name
        if name == "BeginTransactionRecord":
            self.pending = []
            return ()
        if name == "EndTransactionRecord":
            ended, self.pending = self.pending or [], None
            return ended
        if name == "AbortTransactionRecord":
            self.aborted += len(self.pending or ())
            self.pending = None
            return ()
        if self.pending is not None:
            self.pending.append((origin, record))
            return ()
        return ((origin, record),)
