"""`dump`: the contents of Kafka's files as rows, once (`dump`) or as they grow (`follow`)."""
