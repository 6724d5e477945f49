"""Which kafkalog this is."""

from __future__ import annotations

from importlib import import_module

__all__ = ["version"]


def version() -> str:
    """The version of the installed package."""
    metadata = import_module("importlib.metadata")  # not before it is asked for: it costs as much as all of click
    try:
        return str(metadata.version("kafkalog"))
    except metadata.PackageNotFoundError:
        return "from a source tree"
