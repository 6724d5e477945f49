"""What a log directory says of its partitions: checkpoints, marks, policies."""
