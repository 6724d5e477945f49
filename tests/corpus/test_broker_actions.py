"""What verify and explain say that a broker does: the files and lines that the real broker left say whether it did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.findings.broker_actions import DOES_NOT_START
from kafkalog_core.findings.broker_lines import hear, messages_in
from tests.corpus import verifying
from tests.support.corpus import faults
from tests.support.corpus.faults import BEFORE, STARTED, Fault
from tests.support.judging import content_of, is_stopping, is_true

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.corpus

_ENDS = (DOES_NOT_START, "Stops.", "Stopped.", "Halts", "Ends its process")
_REFUSED = ("B.dir_missing", "B.dir_empty", "B.is_a_file")  # nothing is there to be verified
_FAULTS = [
    fault for fault in verifying.faults_before() if STARTED in fault.states and not fault.path.endswith(_REFUSED)
]


@pytest.mark.parametrize("fault", _FAULTS, ids=verifying.name_of)
def test_a_broker_does_with_a_file_what_verify_says(corpus: Path, tmp_path: Path, fault: Fault) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    faults.build(corpus, fault, BEFORE, before)
    faults.build(corpus, fault, STARTED, after)
    found = [each for each in verifying.findings(*verifying.log_dirs_of(before, fault)) if each.severity != "info"]
    if is_stopping(found):
        return
    for each in found:
        assert "unless it recovers" not in (each.broker_action or ""), "the disk says how it was shut down"
        # The topic's own value is in no file of the fault, and decides for the whole log
        by_interval = any("index.interval.bytes" in (one.broker_action or "") for one in found if one.path == each.path)
        name = each.path.removeprefix(f"{before}/")
        assert by_interval or is_true(each, content_of(before / name), content_of(after / name)) is not False, each


@pytest.mark.parametrize("fault", verifying.faults_before(), ids=verifying.name_of)
def test_a_broker_ends_at_the_lines_of_which_explain_says_so(fault: Fault) -> None:
    lines = [text for line in fault.sheet["warn_error_lines"] or () for text in messages_in(line)]
    messages = [heard.message for line in lines if (heard := hear(line)) is not None]
    assert len(messages) == len(lines)
    if fault.sheet["alive_after_start"]:
        assert [each.name for each in messages if each.broker_action.startswith(_ENDS)] == []
    elif fault.sheet["started"] is False:
        assert any(each.severity == "error" for each in messages)
