"""A real broker starts on the disk on which it died, once the commands that kafkalog prints have been run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration import walks

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.corpus.faults import Fault

pytestmark = pytest.mark.java

_EACH = 10
"""One fault in this many is walked here; `walks.txt` has all of them."""


@pytest.mark.parametrize("fault", walks.judged()[::_EACH], ids=lambda fault: fault.path.split("/", 2)[2])
def test_the_broker_starts(libs: Path, corpus: Path, tmp_path: Path, fault: Fault) -> None:
    walk, problem = walks.starts(libs, corpus, fault, tmp_path)
    assert not problem, walk.steps
