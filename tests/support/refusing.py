"""What a refusal on standard error offers."""

from __future__ import annotations

__all__ = ["commands_of"]


def commands_of(stderr: str) -> list[str]:
    """The commands of a refusal, each of which is a line below it."""
    return [line.strip() for line in stderr.splitlines() if line.startswith("  ")]
