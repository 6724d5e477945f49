"""`kafkalog diff`: what changed between two copies of the log directories of a broker.

`places` has what the names of directories show: topics and partitions; `logs` the two logs of a partition, read in
step; `contents` settings, groups and transactions, by the readers of the other verbs; `diff` puts them together.
"""
