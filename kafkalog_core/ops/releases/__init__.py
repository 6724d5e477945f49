"""Which release of Kafka counts, and which settings: by what the command line, the files and Kafka's defaults say."""
