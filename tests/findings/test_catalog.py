"""The catalog of findings: every text is a sentence, whatever the system said."""

from __future__ import annotations

import errno
import re
import string

from kafkalog_core.findings import FINDING_TYPES, NOT_SHOWN, found
from kafkalog_core.findings.broker_messages import ELSEWHERE
from kafkalog_core.storage.access import open_error
from kafkalog_core.storage.source import UnreadableError
from tests.support.for_each import for_each

PROBLEMS = [
    *(open_error("x", OSError(number, "")) for number in (errno.ENOENT, errno.ELOOP, errno.EACCES, errno.EIO)),
    UnreadableError("x", 4096, 512),
]
VALUES = {"topic": "t", "partition": 0, "size_bytes": 10, "offset": 5}
DETAILS = {
    "mode": "0000",
    "uid": 1,
    "directory_uid": 2,
    "end": 3,
    "other": "'t-0'",
    "producer": 7,
    "last": 9,
    "previous": "0.log",
    "version": 1,
    "following": "5.log",
}
REASONS = {
    "file.not-readable": "It was not read: {}.",
    "file.permission-denied": "It was not read: {}.",
    "file.broken-link": "A symbolic link cannot be followed: {}.",
    "dir.unreadable": "The directory cannot be listed: {}.",
}


def fields(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name}


@for_each(FINDING_TYPES)
def test_every_text_is_a_sentence(code: str) -> None:
    kind = FINDING_TYPES[code]
    named = dict.fromkeys(fields(f"{kind.message} {kind.broker_action}") - VALUES.keys() - {"position"}, 7)
    for problem in PROBLEMS:
        details = named | DETAILS | {"reason": problem.message, "problem": "its name has no partition number"}
        finding = found(code, "x", position=8, **VALUES, **details)  # type: ignore[arg-type]
        for text in (finding.message, finding.broker_action, finding.cure):
            if text is not None:
                assert re.fullmatch(r"[A-Z-][^{}]*[^.{}]\.", text), text
                assert "None" not in text.replace("None of its records", ""), text


def test_what_the_system_said_stands_behind_a_colon() -> None:
    """So it reads well whatever kind of phrase it is."""
    with_reason = {code: kind.message for code, kind in FINDING_TYPES.items() if "reason" in fields(kind.message)}
    assert {code: message.replace("{reason}", "{}") for code, message in with_reason.items()} == REASONS


def test_records_that_are_not_shown() -> None:
    plain, hiding = found("segment.deleted", "x"), found("segment.deleted", "x", hides_records=True)
    assert (plain.hides_records, hiding.hides_records) == (False, True)
    assert hiding.message == f"{plain.message} {NOT_SHOWN}"
    assert plain.row().keys() == hiding.row().keys()


def test_every_message_from_elsewhere_says_why_it_comes() -> None:
    usual = "Starts, stops and elections cause this message."
    assert all(message.why.endswith(".") for message in ELSEWHERE)
    assert {message.why == usual for message in ELSEWHERE} == {True, False}
