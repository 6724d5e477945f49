"""What each release of Kafka does with the files on a disk: evidence, starts and recovery, the cleaner, log readers."""
