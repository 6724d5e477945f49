"""Messages that brokers log about their log directories: one catalogue, and the search in it.

A wording is the text of the message as a release writes it, with `{name}` for what differs from line to line. All
wordings of one message, from 0.8 to the newest known release, are together; the layout of the line around them (log4j,
SLF4J, a container's prefix) does not matter. Of several messages that fit a line the first of the catalogue is meant,
so the special ones come before the general ones.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.findings.messages_dirs import DIRECTORIES, ELSEWHERE
from kafkalog_core.findings.messages_files import FILES
from kafkalog_core.findings.messages_recovery import RECOVERY
from kafkalog_core.findings.messages_running import RUNNING

if TYPE_CHECKING:
    from kafkalog_core.findings.kinds import BrokerMessage

__all__ = ["BROKER_MESSAGES", "Heard", "hear"]

BROKER_MESSAGES: Final = {message.name: message for message in (*RECOVERY, *FILES, *DIRECTORIES, *RUNNING, *ELSEWHERE)}
"""By name, in the order in which they are tried."""

NUMBERS: Final = frozenset(
    [
        "offset",
        "position",
        "segment",
        "end",
        "start",
        "count",
        "size_bytes",
        "version",
        "number",
        "old",
        "new",
        "broker",
    ]
)
_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")
_WORD: Final = re.compile(r"[A-Za-z]+")
_PREFIX: Final = re.compile(r"\[\w+ partition=(?P<partition>[^,\]\s]+)(?:, dir=(?P<dir>[^\]]+))?\]")
_OLD_PARTITION: Final = re.compile(r"\[?(?P<topic>[\w.-]+),\s?(?P<number>\d+)\]?")


class Heard(NamedTuple):
    """One line that was recognised, and what it names: `path`, `partition`, `offset`, ..."""

    message: BrokerMessage
    values: dict[str, str]


class _Wording(NamedTuple):
    anchor: str
    pattern: re.Pattern[str]
    message: BrokerMessage


def hear(line: str) -> Heard | None:
    """Return the first message of the catalogue that a line holds; None: it holds none."""
    words = set(_WORD.findall(line))
    for number in sorted({number for word in words & _BY_WORD.keys() for number in _BY_WORD[word]}):
        wording = _WORDINGS[number]
        if wording.anchor in line:
            match = wording.pattern.search(line)
            if match:
                return Heard(wording.message, _values(line, match))
    return None


def _values(line: str, match: re.Match[str]) -> dict[str, str]:
    prefix = _PREFIX.search(line)
    found = (prefix.groupdict() if prefix else {}) | match.groupdict()
    values = {name: text.strip().rstrip(".,:;") for name, text in found.items() if text and text.strip()}
    old = _OLD_PARTITION.fullmatch(values.get("partition", ""))
    if old:
        values["partition"] = f"{old['topic']}-{old['number']}"
    return values


def _compiled(wording: str, message: BrokerMessage) -> _Wording:
    """The wording as a pattern, and its longest literal part, which is looked for first: that is far cheaper."""
    parts = _PLACEHOLDER.split(wording)
    literals, names = parts[0::2], parts[1::2]
    pattern = re.escape(literals[0])
    for name, literal in zip(names, literals[1:], strict=True):
        pattern += f"(?P<{name}>{_group(name, is_last=not literal)})" + re.escape(literal)
    return _Wording(max(literals, key=len), re.compile(pattern), message)


def _group(name: str, *, is_last: bool) -> str:
    if name in NUMBERS:
        return r"-?\d+"
    if name == "path" and is_last:
        return r"\S+"
    return ".*" if is_last else ".*?"


def _telling_word(anchor: str) -> str:
    """Return a word of every line with this wording: the longest that cannot continue after the end of the anchor."""
    words = [match[0] for match in _WORD.finditer(anchor)]
    whole = words[:-1] if len(words) > 1 and anchor[-1].isalpha() else words
    return max(whole, key=len)


_WORDINGS: Final = tuple(
    _compiled(wording, message) for message in BROKER_MESSAGES.values() for wording in message.wordings
)
_BY_WORD: Final[dict[str, list[int]]] = {}
for _number, _wording in enumerate(_WORDINGS):
    _BY_WORD.setdefault(_telling_word(_wording.anchor), []).append(_number)
