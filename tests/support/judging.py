"""Whether a broker did with a file what a finding says: the file before its start next to that after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.findings.broker_actions import DOES_NOT_START

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kafkalog_core.findings import Finding

__all__ = ["content_of", "is_stopping", "is_true"]

_OFFLINE: Final = "log directory offline"
_CONDITIONAL: Final = ("index.interval.bytes", "unless it recovers")
"""What is settled by a value that is not known, or by a start that does not come so far."""
_REBUILDS: Final = ("Recovers the segment, because", "Recovers each segment without an offset index")
_TRUSTS: Final = ("Checks only the end of the index", "Trusts the entry", "Uses the ", "Reads the zeros")
_CUTS: Final = ("Truncates the log", "Deletes the whole segment")
_KEEPS: Final = (
    *("Recovers the segment, because", "Computes no checksum", "Does not notice it at its start", "Loads the log"),
    *("Does not read this place at its start", "Does not decode the records", "Loads the batch", "Loads both"),
    *("Takes offset", "Takes the offset here", "Hides the records"),
)
_REMOVES: Final = (
    *("Deletes it.", "Deletes it at its next start.", "Deletes it, and reads", "Completes the swap"),
    *("Removes the entry at its next start", "Writes it again"),
)
_LEAVES: Final = ("Does not read it at its next start",)


def content_of(path: Path) -> bytes | None:
    """The bytes of a file; None: there is no such file."""
    return path.read_bytes() if path.is_file() else None


def is_stopping(findings: Iterable[Finding]) -> bool:
    """Whether one of them says that the broker does not start, or takes a log directory offline."""
    actions = [each.broker_action or "" for each in findings]
    return any(action.startswith(DOES_NOT_START) or _OFFLINE in action for action in actions)


def is_true(finding: Finding, before: bytes | None, after: bytes | None) -> bool | None:
    """Whether the broker did what the finding says, by its file before and after the start; None: not judged.

    Only for a broker that came to the end of its start.
    """
    action = finding.broker_action or ""
    if any(text in action for text in _CONDITIONAL):
        return None
    if action.startswith((*_REMOVES, *_LEAVES)):
        return (before != after) is action.startswith(_REMOVES)
    if finding.path.endswith("index"):
        return _is_true_of_index(action, before, after)
    return _is_true_of_log(finding, before, after) if finding.path.endswith(".log") and before is not None else None


def _is_true_of_index(action: str, before: bytes | None, after: bytes | None) -> bool | None:
    if action.startswith(_REBUILDS):
        return before != after
    return before is None or (after or b"").startswith(before) if action.startswith(_TRUSTS) else None


def _is_true_of_log(finding: Finding, before: bytes, after: bytes | None) -> bool | None:
    action = finding.broker_action or ""
    if action.startswith(_CUTS):
        return not (after or b"").startswith(before)  # a broker may have appended since
    end = 0 if finding.position is None else finding.position + (finding.size_bytes or 0)
    return (after or b"").startswith(before[:end]) if action.startswith(_KEEPS) else None
