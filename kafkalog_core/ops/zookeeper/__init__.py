"""`zookeeper`: the tree of a dead ZooKeeper server, and the Kafka cluster that it describes.

`request` has what is asked and the items that become rows, `servers` chooses among data directories and restores one,
`nodes` makes rows of nodes and of their changes, `summary` those of the cluster, `rebalance` those of owners.
"""
