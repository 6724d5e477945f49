"""Compaction as the log cleaner of each release does it, simulated.

`rules` has the differences between releases, `log` the log as the cleaner sees it, `dirty_range` what may be cleaned
(`LogCleanerManager`), `offset_map` the first pass (`Cleaner.buildOffsetMap`), `clean` the second one
(`Cleaner.cleanSegments`), `transactions` the batches of aborted transactions, markers and the last batches of
producers (`CleanedTransactionMetadata`), `indexes` the new indexes. Which records of a batch stay is decided by the
kernel that `clean.CleanPass.filter` calls.

A tombstone: a newer record of its key removes it at once. Otherwise it is kept, from 3.1 on until the delete horizon of
its batch, which the first clean sets to its time plus delete.retention.ms (KIP-534); before, and in formats 0 and 1,
until its segment was last modified that long before the last clean one. See `clean` and `rules.uses_horizons`.
"""
