"""Connections of Kafka clients: sockets, frames, answers."""
