"""`kafkalog impact`: what a plan, a replica or the next start means for groups of consumers."""
