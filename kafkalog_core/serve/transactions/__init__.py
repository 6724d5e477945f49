"""Descriptions of transactions and producers. The coordinator is in `livebroker/transactions/`."""
