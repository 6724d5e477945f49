"""Some lines of the table of what clients do with wrong batches, made again; `client_table.txt` has all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration import client_table
from tests.support import jars
from tests.support.client_table import COLUMNS, read
from tests.support.wrong_batches import KINDS

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.java

AGAIN = (
    "2 none record offset deltas 2 1 0",
    "2 zstd record count 2 of 3",
    "2 gzip reserved flags",
    "2 lz4 content checksum wrong",
    "2 lz4 dependent blocks",
    "2 zstd window of 256 MiB",
    "0 gzip nested",
    "1 gzip nested",
    "1 snappy checksum wrong",
    "1 lz4 inner checksum wrong",
)


def test_the_software_does_what_the_table_says(tmp_path: Path) -> None:
    kinds = [kind for kind in KINDS if kind.title in AGAIN]
    try:
        rows = [*client_table.run(kinds, tmp_path)]
    except jars.MissingError as missing:
        pytest.skip(str(missing))
    kept = [row for row in read() if f"{row['magic']} {row['codec']} {row['kind']}" in AGAIN]
    assert [dict(zip(COLUMNS, row, strict=True)) for row in rows] == kept
