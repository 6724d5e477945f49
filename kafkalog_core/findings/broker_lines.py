"""Lines of a broker's log: the message in a line of any layout, and the values in it.

A layout puts a time, a level, a thread and the name of a logger around the message. What is before the message does not
matter, because a wording is searched for. What is after it does, because a value may be the last part of a message:
log4j's `%d %p %m (%c)`, which is the default of every release, and Strimzi's `%d %p %m (%c) [%t]` append the logger. In
JSON the message is a string, and so is the exception, whose lines are messages too.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.findings.broker_messages import BROKER_MESSAGES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.findings.kinds import BrokerMessage

__all__ = ["MESSAGE_CHARACTERS", "NUMBERS", "Heard", "hear", "messages_in"]

MESSAGE_CHARACTERS: Final = 16 * 1024
"""A wording is searched for in at most this part of a message."""

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
        "producer",
        "stored",
        "computed",
    ]
)
"""The placeholders of a number; the values of `{dir}`, `{path}`, `{reason}` and the others are any text."""

_DIRECTORIES: Final = frozenset(["dir", "dirs", "path", "partition_dir", "entry"])
"""The placeholders of places: a name may end in any character, and a wording has the full stop of its sentence."""

# --- layouts ----------------------------------------------------------------------------------------------------------
_LEVEL: Final = r"(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL)"
_HEAD: Final = re.compile(rf".{{0,200}}?\d\d:\d\d:\d\d\S*\s+(?:\[[^\]]*\]\s+)?{_LEVEL}\s+")
"""The time and the level; between them may be the thread, and before them what journald or a container writes."""
_LOGGER_FIRST: Final = re.compile(r"(?:\[[^\]]*\]\s+)?[\w.$-]+(?::(?:\d+|\?))?\s+-\s")
"""`LogManager:76 - ` after the level: no logger is after the message then."""
_THREAD: Final = r"(?:\s+\[[^\]]*\])?\s*$"
_CLASS: Final = r"(?:[A-Za-z_][\w$-]*\.)+(?:[A-Z][\w$]*|logger)"
"""A logger's name is that of a class in a package, or one like `state.change.logger`."""
_LINE: Final = r"(?::\d+)?"
_DOTTED_LOGGER: Final = re.compile(rf"\s*\({_CLASS}{_LINE}\){_THREAD}")
_ANY_LOGGER: Final = re.compile(rf"\s*\((?:{_CLASS}|(?:[A-Z][a-z0-9]+){{2,}}){_LINE}\){_THREAD}")
"""Or that of a class alone, as `LogFutureTimestampLogger`; `(old)` and `(Copy)` are parts of a directory's name."""
_JSON: Final = re.compile(r'\{\s*"')


def messages_in(line: str) -> Iterator[str]:
    """Yield the message in a line of a log, without what a layout appends; of a line of JSON, every text in it."""
    start = _JSON.search(line)
    if start is not None and line.rstrip().endswith("}"):
        try:
            value = json.loads(line[start.start() :])
        except (ValueError, RecursionError):
            pass
        else:
            for text in _texts(value):
                for each in text.splitlines():
                    yield from messages_in(each)
            return
    yield _without_logger(line[:MESSAGE_CHARACTERS].rstrip())


def _texts(value: object) -> Iterator[str]:
    """Yield the strings of a JSON value, in their order."""
    waiting = [value]
    while waiting:
        first = waiting.pop()
        if isinstance(first, str):
            yield first
        elif isinstance(first, dict):
            waiting += [*first.values()][::-1]
        elif isinstance(first, list):
            waiting += first[::-1]


def _without_logger(text: str) -> str:
    head = _HEAD.match(text)
    if head is None:
        return _DOTTED_LOGGER.sub("", text)
    if _LOGGER_FIRST.match(text, head.end()):
        return text
    return _ANY_LOGGER.sub("", text)


# --- wordings ---------------------------------------------------------------------------------------------------------
_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")
_WORD: Final = re.compile(r"[A-Za-z]+")
_PUNCTUATION: Final = re.compile(r"[.,:;!)\]'\"]+")
_IDENTITY: Final = re.compile(
    r"\[(?P<writer>\w+) (?:partition=)?(?P<partition>[^,\]\s=]+-\d+)(?:, dir=(?P<dir>[^\]]+))?\]"
)
"""What Kafka's LogContext writes before a message: `[UnifiedLog partition=t-0, dir=/d]`, `[LeaderEpochCache t-0]`."""
_TOPIC_ID: Final = re.compile(r"[\w-]{22}:")
"""Before a topic and partition, as TopicIdPartition.toString writes it."""
_OLD_PARTITION: Final = re.compile(r"\[?(?P<topic>[\w.-]+),\s?(?P<number>\d+)\]?")


_NAMED_PLACES: Final = (
    re.compile(r"\b(?:Unified)?Log\(dir=(?P<partition_dir>.+?), topic(?:Id)?="),
    re.compile(r"(?<![^\s('\[\"=])(?P<path>(?:/|[A-Za-z]:\\).*?[/\\]\d{20}\.[a-z]+(?:\.[a-z]+)?)(?=[\s)\]'\",.:;]|$)"),
)
"""Places that a message may name in a value: a log, as UnifiedLog.toString writes it, and a file of a segment."""


class Heard(NamedTuple):
    """A recognized line: its message, and the values of the placeholders (`path`, `partition`, `offset`, ...)."""

    message: BrokerMessage
    values: dict[str, str]


class _Wording(NamedTuple):
    anchor: str
    pattern: re.Pattern[str]
    message: BrokerMessage


def hear(text: str) -> Heard | None:
    """Return the first message of the catalog that matches one of `messages_in`; None: no message does."""
    words = set(_WORD.findall(text))
    for number in sorted({number for word in words & _BY_WORD.keys() for number in _BY_WORD[word]}):
        wording = _WORDINGS[number]
        if wording.anchor in text:
            match = wording.pattern.search(text)
            if match:
                return Heard(wording.message, _values(text, match))
    return None


def _values(text: str, match: re.Match[str]) -> dict[str, str]:
    found = _identity(text) | match.groupdict()
    if not found.keys() & _DIRECTORIES:
        named = next(filter(None, (place.search(text) for place in _NAMED_PLACES)), None)
        found |= {} if named is None else named.groupdict()
    values = {
        name: value.strip() if name in _DIRECTORIES else value.strip().rstrip(".,:;")
        for name, value in found.items()
        if value.strip()
    }
    if "partition" in values:
        partition = _TOPIC_ID.sub("", values["partition"], count=1)
        old = _OLD_PARTITION.fullmatch(partition)
        values["partition"] = f"{old['topic']}-{old['number']}" if old else partition
    return values


def _identity(text: str) -> dict[str, str]:
    """Return the partition and the directory that Kafka writes before a message."""
    match = _IDENTITY.search(text)
    if match is None:
        return {}
    writer, partition, directory = match.groups()
    if directory is None:
        return {"partition": partition}
    # LocalLog of 4.x writes the partition's directory, LocalLog of 3.x and all others the log directory
    is_partition = writer == "LocalLog" and f"{directory.rpartition('/')[2]}.".startswith(f"{partition}.")
    return {"partition": partition, "partition_dir" if is_partition else "dir": directory}


def _compiled(wording: str, message: BrokerMessage) -> _Wording:
    """Return the pattern of a wording, and its longest literal part, which a search tries first because it is cheap.

    Punctuation that ends a wording ends the message: a path before it may contain the same characters.
    """
    parts = _PLACEHOLDER.split(wording)
    literals, names = parts[0::2], parts[1::2]
    pattern = re.escape(literals[0])
    for index, (name, literal) in enumerate(zip(names, literals[1:], strict=True), 1):
        is_last = index == len(names) and not literal
        pattern += f"(?P<{name}>{_group(name, is_last=is_last)})" + re.escape(literal)
    if names and _PUNCTUATION.fullmatch(literals[-1]) and names[-1] not in NUMBERS:
        pattern += r"\s*$"
    return _Wording(max(literals, key=len), re.compile(pattern), message)


def _group(name: str, *, is_last: bool) -> str:
    if name in NUMBERS:
        return r"-?\d+"
    if name == "partition":  # without spaces, but for the form `[topic, 0]`; else it takes words of another wording
        return r"(?:\[[^\]]*\]|\S+)" if is_last else r"(?:\[[^\]]*\]|\S+?)"
    start = r"(?=\S*[/\\])" if name == "path" else ""  # of a file, which is always in a directory
    return start + (".*" if is_last else ".*?")


def _telling_word(anchor: str) -> str:
    """Return the longest word of the anchor that is a whole word in every line with this wording."""
    words = [match[0] for match in _WORD.finditer(anchor)]
    whole = words[:-1] if len(words) > 1 and anchor[-1].isalpha() else words
    return max(whole, key=len)


_WORDINGS: Final = tuple(
    _compiled(wording, message) for message in BROKER_MESSAGES.values() for wording in message.wordings
)
_BY_WORD: Final[dict[str, list[int]]] = {}
for _number, _wording in enumerate(_WORDINGS):
    _BY_WORD.setdefault(_telling_word(_wording.anchor), []).append(_number)
