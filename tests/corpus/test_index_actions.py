"""What verify says that a broker does with a wrong index: the files that the real broker left say whether it did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.corpus import verifying
from tests.support.corpus import faults
from tests.support.corpus.faults import BEFORE, STARTED, Fault

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.corpus

_REBUILDS = ("Recovers the segment, because", "Recovers each segment without an offset index")
_FAILS = ("Does not start", "Takes the whole log directory offline")
_TRUSTS = ("Checks only the end of the index", "Trusts the entry", "Uses the ", "Reads the zeros")
_ON_INDEXES = [
    fault
    for fault in verifying.faults_before()
    if "index" in verifying.name_of(fault) and STARTED in fault.states and "two-log-dirs" not in fault.path
]


@pytest.mark.parametrize("fault", _ON_INDEXES, ids=verifying.name_of)
def test_an_index_is_rebuilt_where_verify_says_so_and_nowhere_else(corpus: Path, tmp_path: Path, fault: Fault) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    faults.build(corpus, fault, BEFORE, before)
    faults.build(corpus, fault, STARTED, after)
    found = [each for each in verifying.findings(*verifying.log_dirs_of(before, fault)) if each.severity != "info"]
    is_settled = not any((each.broker_action or "").startswith(_FAILS) for each in found)
    for finding in found:
        action, name = finding.broker_action or "", finding.path.removeprefix(f"{before}/")
        if not name.endswith("index"):
            continue
        assert not is_settled or "unless it recovers" not in action, "the disk says how it was shut down"
        content = _content(before / name)
        if action.startswith(_REBUILDS):
            assert content != _content(after / name), finding
        elif action.startswith(_TRUSTS):
            assert content is None or (_content(after / name) or b"").startswith(content), finding


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None
