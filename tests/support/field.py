"""Disks of public reports about Kafka, as `fixtures/field` keeps them."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Final

_FIELD: Final = Path(__file__).parents[2] / "fixtures" / "field"


def unpack(name: str, into: Path) -> Path:
    """The directory of a disk, unpacked."""
    with tarfile.open(_FIELD / f"{name}.tgz") as archive:
        archive.extractall(into, filter="data")
    return into / name
