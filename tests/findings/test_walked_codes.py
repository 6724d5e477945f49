"""Every error of the catalogue has been walked from, and a real broker started there; or a table says why not."""

from __future__ import annotations

from kafkalog_core.findings import FINDING_TYPES
from tests.integration import walks


def table(name: str) -> dict[str, list[str]]:
    """The lines of a kept table, by code."""
    rows = (line.split("\t") for line in (walks.CODES.with_name(name)).read_text().splitlines() if "\t" in line)
    return {code: rest for code, *rest in rows}


def test_every_error_is_in_one_of_the_tables() -> None:
    walked, others = table(walks.CODES.name), table(walks.NOT_PLANTED.name)
    errors = {code for code, kind in FINDING_TYPES.items() if kind.severity == "error"}
    assert errors - walked.keys() - others.keys() == set()
    assert walked.keys() & others.keys() == set()
    assert others.keys() <= errors
    assert all(reason and not reason.isspace() for (reason,) in others.values())


def test_the_broker_started_after_every_walk() -> None:
    ends = {code: end for code, (_, end, _) in table(walks.CODES.name).items()}
    assert {code: end for code, end in ends.items() if end != "starts"} == {}
