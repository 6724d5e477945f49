"""The log directory of a live broker: its partitions and settings, and its upkeep in the background."""
