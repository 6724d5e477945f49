"""What each release of Kafka decides, as pure functions: the table of rules, settings, validation, the cleaner."""
