"""Transactions: the coordinator and its requests."""
