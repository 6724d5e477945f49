"""The table of what real brokers did on recovered disks, without a broker."""

from __future__ import annotations

from tests.integration import recovered_starts


def test_every_row_is_right_or_left_to_a_person() -> None:
    assert {name for name, row in recovered_starts.table().items() if not row.is_right} == set()


def test_every_case_has_a_row() -> None:
    assert not recovered_starts.cases().keys() - recovered_starts.table().keys()
