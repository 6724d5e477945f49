"""The matrix of releases over one of them; `release_matrix.txt` has the results of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration import release_matrix
from tests.integration.releases import VERSIONS
from tests.support import jars

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.java


@pytest.mark.parametrize("version", ["2.4.1"])
def test_nothing_is_wrong_with_the_disks_of_a_release(tmp_path: Path, version: str) -> None:
    try:
        release_matrix.make(version, tmp_path / version)
    except jars.MissingError as missing:
        pytest.skip(str(missing))
    line = release_matrix.check(version, tmp_path / version)
    assert line.is_right, line


def test_the_table_has_every_release() -> None:
    text = release_matrix.TABLE.read_text()
    rows = text[text.index("\nrelease ") :].splitlines()[2:]
    assert [row.split()[0] for row in rows] == list(VERSIONS)
