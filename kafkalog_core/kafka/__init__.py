"""What each release of Kafka does with the files of its log directories: pure functions and simulations.

Nothing here knows a verb of kafkalog. Whatever predicts a broker's action (a finding of verify, a plan of truncate, a
forecast) asks this package under the release that the disk shows, or that `--kafka` names. Where to look:

- `releases`: the table of known releases, and `Since`, the first release of each change. A new release (4.5) is a row
  of `KNOWN`, and a row of `Since` for each rule that it changes. Nothing else compares releases.
- `rules`, `cleaner.rules`, `retention.rules`, `setting_table`: the rules by name, derived from `Since`.
- `evidence`: which release wrote a disk.
- `start`: what a start does (`LogLoader`, `LogManager`): swaps, recovery, truncation, producers, leader epochs.
- `logdir`: the files of a log directory and the bounds of a log (log start offset to high watermark).
- `append`: rolls and index entries (`LogSegment.append`). `fetch`: look-ups of offsets and times.
- `producers`, `snapshots`: producer state (`ProducerStateManager`). `leader_epochs`: `LeaderEpochFileCache`.
- `cleaner`: compaction (`Cleaner`, `LogCleanerManager`). What it does with a tombstone: `cleaner.clean`.
- `retention`: deletion by time, size and log start offset (`UnifiedLog.deleteOldSegments`).
- `settings`: the settings in effect and where each value comes from. `cluster_*`: what the metadata log adds.
"""
