"""Releases on each other's disks and over the logs of coordinators; the two tables have the results of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration import coordinator_table, release_pairs
from tests.support import jars
from tests.support.coordinator_cases import GROUP_CASES, TRANSACTION_CASES

if TYPE_CHECKING:
    from pathlib import Path

DISK, RELEASE = "4.3.1, upgraded to 4.4.0, levels as before", "4.3.1"


@pytest.mark.java
def test_an_upgrade_without_its_levels_is_rolled_back(tmp_path: Path) -> None:
    try:
        origin = release_pairs.disk_of(DISK, tmp_path)
        seen = release_pairs.seen_on(RELEASE, origin, tmp_path / "pair")
    except jars.MissingError as missing:
        pytest.skip(str(missing))
    row, groups = release_pairs.foretold(origin, [RELEASE])[RELEASE]
    assert seen.outcome == "starts"
    assert not release_pairs.differs(seen, row, groups), (seen, row)


@pytest.mark.java
def test_a_coordinator_loads_what_kafkalog_says(tmp_path: Path) -> None:
    try:
        seen = coordinator_table.seen_by(RELEASE, tmp_path / RELEASE)
    except jars.MissingError as missing:
        pytest.skip(str(missing))
    said = coordinator_table.foretold(RELEASE, tmp_path / "foretold")
    assert {place: each for place, each in seen.items() if coordinator_table.differs(each, said[place])} == {}


def test_the_table_has_every_pair_and_none_differs() -> None:
    text = release_pairs.TABLE.read_text().partition("\n\n")[2].partition("\n\n")[2]
    pairs = {line.partition(":")[0] for line in text.splitlines() if " -> " in line}
    assert pairs == {f"{disk} -> {release}" for disk, starts in release_pairs.STARTS.items() for release in starts}
    assert "DIFFERS" not in text


def test_the_table_of_coordinators_has_every_case_and_none_differs() -> None:
    text = "\n\n".join(coordinator_table.TABLE.read_text().split("\n\n")[3:])
    cases = [line.partition(": ")[2] for line in text.splitlines() if line.startswith("__")]
    assert cases == [*GROUP_CASES, *TRANSACTION_CASES]
    assert "DIFFERS" not in text
    assert all(release in text for release in coordinator_table.RELEASES)
