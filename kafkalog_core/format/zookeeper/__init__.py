"""The bytes of ZooKeeper's files, to values and back: jute records, snapshots of the tree, transaction logs.

`layout` has the fixed parts, `jute` the encoding that all records share, `transactions` the records of a log,
`txn_log` their frames in a file, and `snapshots` the tree.
"""
