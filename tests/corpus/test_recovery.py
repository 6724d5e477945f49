"""What a broker made of a directory at its start is what the simulation of its start makes of it, byte for byte.

Before and after come from real brokers: killed ones, damaged ones, and every fault that the broker started on. Of what
differs every file is in `recovery_differences.txt`, with the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.corpus import verifying
from tests.support.corpus import archives, recovering
from tests.support.corpus.replaying import cut, foreseen

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.corpus.recovering import Pair

pytestmark = pytest.mark.corpus

PAIRS = recovering.pairs()
LINES = verifying.lines("recovery_differences.txt", 4)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.id)
def test_a_start_is_foreseen_and_its_cuts_are_made(corpus: Path, tmp_path: Path, pair: Pair) -> None:
    """First it is played through, then `truncate --as-broker` is applied: the broker did the same."""
    before, after = pair.lay(corpus, tmp_path)
    options = pair.options(recovering.sheet_of(corpus, pair), tmp_path)
    now_ms = recovering.started_ms(after)
    found = foreseen(before, after, options, now_ms) + cut(before, after, options, now_ms)
    left = [each for each in dict.fromkeys(found) if not any(_explains(line, pair, *each) for line in LINES)]
    assert not left, "\n".join(f"{pair.id}  {file}  {how}" for file, how in left)


def _explains(line: tuple[str, ...], pair: Pair, file: str, how: str) -> bool:
    return all(map(verifying.is_like, (pair.id, file, how), line))


def test_every_line_of_the_list_is_of_a_pair() -> None:
    stale = [line for line in LINES if not any(verifying.is_like(pair.id, line[0]) for pair in PAIRS)]
    assert not stale or not archives.is_whole(), "a part of the corpus may leave lines unused, the whole may not"
