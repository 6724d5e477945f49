"""The cluster that disks describe: nodes, topics, settings and security, from the metadata log, and their history."""
