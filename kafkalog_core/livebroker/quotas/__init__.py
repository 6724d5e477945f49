"""Quotas of clients, and how they are enforced."""
