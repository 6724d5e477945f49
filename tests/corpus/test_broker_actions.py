"""What verify says that a broker does with a wrong file: the files that the real broker left say whether it did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.findings.broker_actions import DOES_NOT_START, OFFLINE
from kafkalog_core.findings.broker_lines import hear, messages_in
from tests.corpus import verifying
from tests.support.corpus import faults
from tests.support.corpus.faults import BEFORE, STARTED, Fault

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.findings import Finding

pytestmark = pytest.mark.corpus

_REBUILDS = ("Recovers the segment, because", "Recovers each segment without an offset index")
_TRUSTS = ("Checks only the end of the index", "Trusts the entry", "Uses the ", "Reads the zeros")
_CUTS = ("Truncates the log", "Deletes the whole segment")
_KEEPS = (
    *("Recovers the segment, because", "Computes no checksum", "Does not notice it at its start", "Loads the log"),
    *("Does not read this place at its start", "Does not decode the records", "Loads the batch", "Loads both"),
)
_REMOVES = ("Deletes it.", "Deletes it at its next start.", "Deletes it and uses", "Completes the swap")
_REFUSED = ("B.dir_missing", "B.dir_empty", "B.is_a_file")  # nothing is there to be verified
_ENDS = (DOES_NOT_START, "Stops.", "Stopped.", "Halts", "Ends its process")
_FAULTS = [
    fault for fault in verifying.faults_before() if STARTED in fault.states and not fault.path.endswith(_REFUSED)
]


@pytest.mark.parametrize("fault", _FAULTS, ids=verifying.name_of)
def test_a_broker_does_with_a_file_what_verify_says(corpus: Path, tmp_path: Path, fault: Fault) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    faults.build(corpus, fault, BEFORE, before)
    faults.build(corpus, fault, STARTED, after)
    found = [each for each in verifying.findings(*verifying.log_dirs_of(before, fault)) if each.severity != "info"]
    is_stopped = any((each.broker_action or "").startswith((DOES_NOT_START, OFFLINE)) for each in found)
    # The topic's own value is in no file of the fault
    by_interval = {each.path for each in found if "index.interval.bytes" in (each.broker_action or "")}
    for each in found:
        name = each.path.removeprefix(f"{before}/")
        if is_stopped:
            continue
        old, new = _content(before / name), _content(after / name)
        if name.endswith("index"):
            _judge_index(each, old, new)
        elif name.endswith(".log") and each.path not in by_interval:
            _judge_log(each, old, new)
        elif (each.broker_action or "").startswith(_REMOVES):
            assert old != new, each


@pytest.mark.parametrize("fault", verifying.faults_before(), ids=verifying.name_of)
def test_a_broker_ends_at_the_lines_of_which_explain_says_so(fault: Fault) -> None:
    lines = [text for line in fault.sheet["warn_error_lines"] or () for text in messages_in(line)]
    messages = [heard.message for line in lines if (heard := hear(line)) is not None]
    assert len(messages) == len(lines)
    if fault.sheet["alive_after_start"]:
        assert [each.name for each in messages if each.broker_action.startswith(_ENDS)] == []
    elif fault.sheet["started"] is False:
        assert any(each.severity == "error" for each in messages)


def _judge_index(finding: Finding, old: bytes | None, new: bytes | None) -> None:
    action = finding.broker_action or ""
    assert "unless it recovers" not in action, "the disk says how it was shut down"
    if action.startswith(_REBUILDS):
        assert old != new, finding
    elif action.startswith(_TRUSTS):
        assert old is None or (new or b"").startswith(old), finding


def _judge_log(finding: Finding, old: bytes | None, new: bytes | None) -> None:
    action = finding.broker_action or ""
    assert old is not None
    if action.startswith(_CUTS):
        assert new is None or (len(new) < len(old) and old.startswith(new)), finding
    elif action.startswith(_KEEPS):
        end = 0 if finding.position is None else finding.position + (finding.size_bytes or 0)
        assert (new or b"").startswith(old[:end]), finding


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
