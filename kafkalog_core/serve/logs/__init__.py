"""The logs of partitions as clients read them: offsets, ranges of bytes, holes. Nothing here writes."""
