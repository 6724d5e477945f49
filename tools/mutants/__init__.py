"""Mutation testing of the core: `python -m tools.mutants`."""
