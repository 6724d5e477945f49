"""Compaction as the log cleaner of each release does it, simulated.

- `kafka.rules.cleaner_rules`: the differences between releases, one field a rule, and the cleaner's settings.
- `log`: a log as the cleaner sees it, and which part may be cleaned (`LogCleanerManager`).
- `offset_map`: the first pass, which maps keys to their newest offsets (`Cleaner.buildOffsetMap`).
- `clean`: the second pass, which writes new segments (`Cleaner.cleanSegments`); `indexes`: their indexes.
- `transactions`: aborted transactions, markers and the last batches of producers (`CleanedTransactionMetadata`).

`kernels/clean_judge.py` decides which records of a batch are kept (`Cleaner.shouldRetainRecord`).

What happens to a tombstone: a clean that maps a newer record of its key removes it. Otherwise, from 3.1 on, the first
clean sets the delete horizon of its batch to the time of that clean plus delete.retention.ms, and a clean at or after
that horizon removes the tombstone (KIP-534, field `uses_horizons` of `cleaner_rules.CleaningRules`). Before 3.1, and in
magic 0 and 1, the cleaner keeps it while its segment was modified later than the last clean segment minus
delete.retention.ms (`clean.CleanPass.build`).
"""
