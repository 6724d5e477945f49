"""What a preflight foresees is what the real broker did, in every fault and crash case of the corpus.

`preflight_cases.txt` has a row for each case: what the broker did, by its own log and by the sheet of the case. Where
preflight foresees something else, `preflight_differences.txt` has the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.corpus import preflighting, verifying
from tests.support.corpus import archives

if TYPE_CHECKING:
    from pathlib import Path

    from tests.corpus.preflighting import Case

pytestmark = pytest.mark.corpus

COLUMNS: Final = ("process", "offline", "stray", "deleted", "bad")
CASES: Final = preflighting.cases()
ROWS: Final = {line[0]: line[1:] for line in verifying.lines("preflight_cases.txt", 6)}
DIFFERENCES: Final = verifying.lines("preflight_differences.txt", 3)
_KEPT: Final = [case for case in CASES if preflighting.has_states(case)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_start_is_foreseen(corpus: Path, tmp_path: Path, case: Case) -> None:
    has_log = bool(case.log(corpus))  # fixtures/ has few of them
    assert not has_log or ROWS[case.id] == preflighting.seen(case, corpus), "the table has what the broker did"
    directories = case.lay(corpus, tmp_path)
    result = preflighting.foresee(directories, case.options(corpus, tmp_path))
    mine = preflighting.foreseen(result)
    others = {column for column, own, real in zip(COLUMNS, mine, ROWS[case.id], strict=True) if own != real}
    assert others == _explained(case), mine
    if mine[0] == ROWS[case.id][0] == "dies" and has_log:
        is_named = preflighting.logged_why(case, corpus, result)
        assert is_named != ("why" in _explained(case, "why")), result.verdict
        assert preflighting.is_logged(case, corpus, result)


@pytest.mark.parametrize("case", _KEPT, ids=lambda case: case.id)
def test_the_directories_and_files_afterwards_are_foreseen(corpus: Path, tmp_path: Path, case: Case) -> None:
    """Of a broker that started, the directories; its files are those of `test_recovery`. Of a dead one, each file."""
    (tmp_path / "laid").mkdir()
    directories = case.lay(corpus, tmp_path / "laid")
    options = case.options(corpus, tmp_path / "laid")
    before, after = preflighting.states(case, corpus, tmp_path / "states")
    result = preflighting.foresee(directories, options)
    found = []
    for home in directories:
        place = preflighting.place_of(home, tmp_path / "laid")
        if place is None:
            continue
        if case.has_started(corpus):
            found += preflighting.other_directories(result, home, after / place)
        else:
            found += preflighting.beyond_allowed(before / place, after / place, options)
    assert bool(found) == ("directories" in _explained(case, "directories")), found


@pytest.mark.parametrize("case", [case for case in CASES if preflighting.offsets(case)], ids=lambda case: case.id)
def test_the_offsets_that_a_consumer_sees_are_foreseen(corpus: Path, tmp_path: Path, case: Case) -> None:
    """The log start and log end offset after the start, as the broker answered them: no record more is lost."""
    directories = case.lay(corpus, tmp_path)
    result = preflighting.foresee(directories, case.options(corpus, tmp_path))
    answers = preflighting.offsets(case)
    found = {name: answers[name] for name in answers if preflighting.bounds(result, name) not in {None, answers[name]}}
    assert bool(found) == ("offsets" in _explained(case, "offsets")), found


def _explained(case: Case, *columns: str) -> set[str]:
    """The columns in which a difference is explained."""
    wanted = columns or COLUMNS
    return {line[1] for line in DIFFERENCES if verifying.is_like(case.id, line[0]) and line[1] in wanted}


def test_the_table_has_all_cases() -> None:
    ids = {case.id for case in CASES}
    assert ids <= ROWS.keys()
    if archives.is_whole():
        assert not ROWS.keys() - ids
        stale = [line for line in DIFFERENCES if not any(verifying.is_like(each, line[0]) for each in ids)]
        assert not stale
