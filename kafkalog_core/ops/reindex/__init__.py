"""`reindex`: indexes and producer snapshots, rebuilt from the logs; those that are right are left as they are."""
