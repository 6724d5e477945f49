"""The start of a broker on one partition, simulated: nothing is written.

The steps in the order of `LogLoader.load`: `sweep` (files that wait for deletion, interrupted replacements),
`partition` (the segments, the log end offset, the log start offset, leader epochs, producers), `recovery` (one segment,
`LogSegment.recover`) over `walk` (which batch is the first bad one, and where the log is truncated), `replay` (reads
without checksums that follow). `outcome` answers what happens to one place of a log.

Example: 2.8 truncates a log at a batch with a wrong CRC. `walk.walk_as_broker` finds the batch,
`recovery.recover_segment` ends before it, `partition.PartitionLoad._recover_from` truncates the segment there and
deletes the later ones. `sweep.first_recovered` decides whether the segment is recovered at all.
"""
