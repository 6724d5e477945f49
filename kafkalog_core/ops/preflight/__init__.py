"""`kafkalog preflight`: what the next start of a broker does to its log directories."""
