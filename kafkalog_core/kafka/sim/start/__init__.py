"""The start of a broker on one partition, and on all its log directories, simulated: nothing is written.

The steps in the order of `LogLoader.load` (before 3.0 `Log.loadSegments`), with the module of each:

1. `sweep`: deletes files that wait for deletion, completes or drops interrupted replacements of segments.
2. `candidates`: which segments are recovered, and why.
3. `recovery`: recovers one segment (`LogSegment.recover`), over `sim.broker_walk`: which batch is the first bad one.
4. `partition`: the whole of it (`PartitionLoad`): truncation, deletion of later segments, log end offset, log start
   offset, leader epochs, producers (`snapshots`). `starting_segment` is a segment meanwhile. `replay` has the reads
   without checksums that follow recovery.
5. `outcome` answers what happens to one place of a log, `results` holds the options and the result, and
   `segment_views` shows the segments as retention and the cleaner see them afterwards.
6. `disk`: the start of the whole broker, of the loads of all partitions and the findings about the other files.

Apart from partitions: `metadata_load` and `coordinators` (with `group_shard`) replay the records of the metadata log
and of coordinators, `limits` compares what a start needs with the machine.

Example: 2.8 starts after an unclean shutdown and finds a batch with a wrong CRC. `candidates.first_recovered` returns
the segments to recover: from the recovery point on. `broker_walk.walk_as_broker` finds the batch (`ensureValid`),
`recovery.recover_segment` ends the segment before it, and `partition.PartitionLoad._recover_from` truncates the log
there and deletes all later segments. Which of these differ in another release: `rule_table.LoaderRules` and
`rule_table.RecoveryRules`.
"""
