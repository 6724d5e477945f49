"""What each release of Kafka does with the files of its log directories: rules as data, and simulations.

Nothing here knows a verb of kafkalog. Whatever predicts a broker's action (a finding of verify, a plan of truncate, a
forecast) asks this package under the release that the disk shows, or that `--kafka` names. Times are arguments.

`rules`: pure functions and tables.

- `releases`: the table of known releases, and `Since`, the first release of each change. **Add a release (4.5) here**:
  the docstring lists the steps.
- `rule_table`, `cleaner_rules`, `setting_table`: the rules and settings by name, derived from `Since`.
- `setting_requests`: what a command line states of release and settings.
- `append`: rolls and index entries (`LogSegment.append`). `batch_checks`: what a leader checks (`LogValidator`).
- `coordinator_rules`, `metadata_rules`: which records of coordinators and of the metadata log a release loads.
- `offset_expiry`: when committed offsets expire. `partitioners`: the partition of a group, a transactional id, a key.
- `old_consumers`: how consumers of 0.7 to 1.x divided partitions, by the nodes in ZooKeeper.
- `producers`: producer state (`ProducerStateManager`). `producer_anomalies`: markers, and what is odd in the batches of
  a producer.

`sim`: the same over files, which are read through `storage`; none is changed.

- `evidence`: which release wrote a disk.
- `broker_walk`: a log as recovery walks it, up to the first bad batch.
- `start`: what a start does (`LogLoader`, `LogManager`): swaps, recovery, truncation, producer snapshots. Its docstring
  follows a CRC error through an unclean start.
- `logdir`: the files of a log directory, leader epochs (`LeaderEpochFileCache`), and the bounds of a log (log start
  offset to high watermark).
- `logfiles`: the logs of a command, and which missing offsets are a loss. `held_offsets`: those that a log holds
  elsewhere. `batch_faults`, `batch_places`: batches that a reader must not trust.
- `read_committed`, `outcomes`, `committed_findings`: what a `read_committed` consumer gets, and how transactions ended.
- `producer_states`, `group_states`, `share_states`, `transactions`: what a broker that loads these logs knows.
  `coordinator_logs`: the records of Kafka's own topics, one after the other.
- `copies`: the copies of a partition on several disks, and which one a cluster would go on with.
- `consumer_positions`: where a consumer of a group goes on after a change of its log.
- `fetch`: look-ups of offsets and times through the indexes.
- `cleaner`: compaction (`Cleaner`, `LogCleanerManager`). Its docstring follows a tombstone.
- `retention`: deletion by time, size and log start offset (`UnifiedLog.deleteOldSegments`).
- `settings`: the settings in effect and where each value comes from.
- `named_dirs`: which log directories are of one broker. `across`: what they contradict each other in. `cluster`,
  `cluster_metadata`: what the metadata log of their cluster knows, which `metadata_log` reads. `quorum_disk`: where
  that log ends on a node, and who may vote.
- `zookeeper`: the tree of a ZooKeeper server, as its start rebuilds it (`FileTxnSnapLog`, `DataTree`).
"""
