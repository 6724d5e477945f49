"""Rebuilding what stands beside the logs of a partition: indexes, producer snapshots, leader epochs."""
