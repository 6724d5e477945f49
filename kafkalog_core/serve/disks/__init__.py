"""The log directories of dead brokers: their topics, and the best copy of each partition."""
