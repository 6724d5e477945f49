"""What each release of Kafka does with the files of its log directories: rules as data, and simulations.

Nothing here knows a verb of kafkalog. Whatever predicts a broker's action (a finding of verify, a plan of truncate, a
forecast) asks this package under the release that the disk shows, or that `--kafka` names. Times are arguments.

`rules`: pure functions and tables.

- `releases`: the table of known releases, and `Since`, the first release of each change. **Add a release (4.5) here**:
  the docstring lists the steps.
- `rule_table`, `cleaner_rules`, `setting_table`: the rules and settings by name, derived from `Since`.
- `append`: rolls and index entries (`LogSegment.append`). `batch_checks`: what a leader checks (`LogValidator`).
- `producers`: producer state (`ProducerStateManager`).

`sim`: the same over files, which are read through `storage`; none is changed.

- `evidence`: which release wrote a disk.
- `start`: what a start does (`LogLoader`, `LogManager`): swaps, recovery, truncation, producers, leader epochs. Its
  docstring follows a CRC error through an unclean start.
- `logdir`: the files of a log directory and the bounds of a log (log start offset to high watermark).
- `logfiles`, `committed`, `producer_states`, `group_offsets`, `transactions`: readers of logs, as `read_committed`
  consumers and coordinators read them.
- `fetch`: look-ups of offsets and times. `snapshots`: producer snapshots. `leader_epochs`: `LeaderEpochFileCache`.
- `cleaner`: compaction (`Cleaner`, `LogCleanerManager`). Its docstring follows a tombstone.
- `retention`: deletion by time, size and log start offset (`UnifiedLog.deleteOldSegments`).
- `settings`: the settings in effect and where each value comes from. `cluster`, `cluster_metadata`: the log directories
  of one cluster, and what its metadata log knows.
"""
