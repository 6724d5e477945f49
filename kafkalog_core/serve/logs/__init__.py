"""The logs of partitions as a broker reads and writes them."""
