"""ZooKeeper's tree, rebuilt from the files of a dead server as a start of the server would.

`data_dir` finds the files and chooses among them, `txn_files` reads logs through damage, `tree` applies transactions,
`restoring` joins them: the newest whole snapshot, then every later transaction. `ensemble` compares the servers of one
ensemble, and `changes` follows single nodes through the logs.
"""
