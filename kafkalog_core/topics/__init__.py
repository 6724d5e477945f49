"""What Kafka's own topics mean: bytes of their records to values. No module here reads a file."""
