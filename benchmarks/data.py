"""Seeded log files of a wanted size, in a directory named as a partition.

`kafkalog_core.ops.bench` makes one block of distinct batches; here it is repeated up to the size, with its
base offset moved on each time, so that the file is a log that a broker could have written. (Timestamps repeat with the
block: they are covered by the checksum.) A directory that is kept holds a note beside the partition, and is used
again when recipe, seed and size agree.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from kafkalog_core.ops.bench import CODECS, SEED, SHAPES, Recipe, seeded_log
from kafkalog_core.structs import Struct, asdict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["FIRST_SEGMENT", "PARTITION", "LogFile", "recipes", "write_log"]

PARTITION: Final = "bench-0"
FIRST_SEGMENT: Final = "00000000000000000000"


class LogFile(Struct, frozen=True, kw_only=True):
    """One written file, and what a reader must find in it."""

    path: str
    size_bytes: int
    batch_count: int
    record_count: int


def recipes(*, mixed: bool) -> Iterator[Recipe]:
    """Every recipe of its own: an uncompressed message of the old formats stands alone, so it has but one shape."""
    for format_name, codecs in CODECS.items():
        for codec in codecs:
            for shape in SHAPES:
                recipe = Recipe(format=format_name, codec=codec, shape=shape, mixed=mixed)
                if recipe.is_wrapped or shape == "single":
                    yield recipe


def write_log(recipe: Recipe, directory: Path, size_bytes: int) -> LogFile:
    """Write a log of whole batches, of `size_bytes` at most (one batch at least), or take the one that is there."""
    home = directory / f"{recipe.name.replace('/', '-')}-{size_bytes}"
    suffix = ".kafka" if recipe.format == "v07" else ".log"
    path = home / PARTITION / (FIRST_SEGMENT + suffix)
    note = home / "note.json"
    made_of = {"recipe": recipe.name, "seed": SEED.decode(), "size_bytes": size_bytes}
    if note.exists() and path.exists():
        known = json.loads(note.read_text())
        if known["made_of"] == made_of and path.stat().st_size == known["log"]["size_bytes"]:
            return LogFile(**known["log"])
    path.parent.mkdir(parents=True, exist_ok=True)
    log = _write(recipe, path, size_bytes)
    note.write_text(json.dumps({"made_of": made_of, "log": asdict(log)}))
    return log


def _write(recipe: Recipe, path: Path, size_bytes: int) -> LogFile:
    written = batches = records = 0
    with path.open("wb") as file:
        for piece in seeded_log(recipe, size_bytes):
            written += file.write(piece.data)
            batches += piece.batch_count
            records += piece.record_count
    return LogFile(path=str(path), size_bytes=written, batch_count=batches, record_count=records)
