"""The meaning of a code, and of the lines of a broker's log, from the catalogs.

A log is read line by line in bounded memory. Each message is reported once, with the number of its lines, the first
and the last. Unknown lines of level WARN or worse are counted, and some of them are shown.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.command_lines import shell_word
from kafkalog_core.findings import FINDING_TYPES
from kafkalog_core.findings.broker_lines import hear, messages_in
from kafkalog_core.findings.broker_messages import BROKER_MESSAGES
from kafkalog_core.findings.entries import ENTRY_DAMAGE
from kafkalog_core.findings.logs import LOG_DAMAGE
from kafkalog_core.format.names import FileKind, parse_file_name
from kafkalog_core.structs import Struct, field, replace
from kafkalog_core.text import names_near

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_core.findings.broker_lines import Heard
    from kafkalog_core.findings.kinds import BrokerMessage, Severity

__all__ = ["Digest", "Entry", "Heading", "candidates", "entries", "explained", "near", "places_of", "texts_of"]

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "info")
SHOWN_PLACES: Final = 10
SHOWN_UNKNOWN: Final = 5
SAMPLE_CHARACTERS: Final = 500
LINE_CHARACTERS: Final = 1024 * 1024
"""More than a message has: in JSON a line has a message, and an exception with all of its lines."""
_LEVEL: Final = re.compile(r"\b(?:WARN|ERROR|FATAL)\b")
_LEVEL_WITHIN: Final = 200  # the level is near the start of a line
_NEAR: Final = 5
_PARTITION_DIR: Final = re.compile(r".+-\d+(?:\.[0-9a-f]{32}-(?:delete|future|stray))?")
_PLACES: Final = ("partition", "path", "partition_dir", "entry", "dir", "dirs")
_IN_COMMANDS: Final = ("dir", "dirs", "path", "partition_dir", "entry", "place", "log_dir")
_OF_LOG_DIR: Final = frozenset(
    {
        FileKind.RECOVERY_POINT,
        FileKind.HIGH_WATERMARK,
        FileKind.LOG_START_OFFSET,
        FileKind.CLEANER_OFFSET,
        FileKind.META_PROPERTIES,
        FileKind.CLEAN_SHUTDOWN,
        FileKind.LOCK,
    }
)
_ON_WINDOWS: Final = re.compile(r"[A-Za-z]:\\")
_LOG_DIRS: Final = re.compile(r"(?:^|\s)(?P<name>log\.dirs?|metadata\.log\.dir) = \[?(?P<dirs>.*?)\]?\s*$")
"""A line of the settings that a broker logs at its start; 4.3 writes a list in brackets."""
_NO_DIRS: Final = frozenset({"", "null"})
_DIRS: Final = re.compile(r",\s*(?=/|[A-Za-z]:|\.)")
_NOT_NAMED: Final = {
    "path": "a file",
    "partition_dir": "a partition directory",
    "entry": "a file",
    "dirs": "the log directories",
    "partition": "a partition",
    "dir": "the log directory",
    "reason": "the line says no more",
    "other": "another place",
    "file": "a segment",
    "stored": "?",
    "computed": "?",
}


class Entry(NamedTuple):
    """A code of the catalogs and its texts; `kind` is finding, damage or message."""

    code: str
    kind: str
    severity: Severity
    message: str
    meaning: str
    broker_action: str
    cure: str

    def row(self) -> dict[str, object]:
        """Return the `explanation` row."""
        return self._asdict()


class Heading(Struct):
    """One message in a broker's log: its lines, and the values in the first of them.

    `log_dir`: the only log directory of the broker; None: it has several, or it is unknown.
    """

    message: BrokerMessage
    first_line: int
    sample: str
    values: dict[str, str]
    count: int = 0
    last_line: int = 0
    places: list[str] = field(default_factory=list)
    has_more_places: bool = False
    log_dir: str | None = None

    def add(self, number: int, heard: Heard) -> None:
        """Count one more line."""
        self.count += 1
        self.last_line = number
        place = next((heard.values[name] for name in _PLACES if name in heard.values), None)
        if place and place not in self.places:
            if len(self.places) < SHOWN_PLACES:
                self.places.append(place)
            else:
                self.has_more_places = True

    def row(self) -> dict[str, object]:
        """Return the `broker_message` row."""
        texts = texts_of(self.message, self.values, self.log_dir)
        return {
            "name": self.message.name,
            "severity": self.message.severity,
            "count": self.count,
            "first_line": self.first_line,
            "last_line": self.last_line,
            "line": self.sample,
            "places": ", ".join(self.places),
            "is_elsewhere": self.message.is_elsewhere,
            **texts,
        }


class Digest:
    """The messages of a log, in memory that does not depend on its size."""

    def __init__(self) -> None:
        self.lines = 0
        self.recognised = 0
        self.unknown = 0
        self.unknown_samples: list[tuple[int, str]] = []
        self._headings: dict[str, Heading] = {}
        self._settings: dict[str, str] = {}

    def take(self, lines: Iterable[str]) -> Digest:
        """Read lines, of each at most 1 Mi characters, and return the digest itself."""
        for line in lines:
            self.lines += 1
            self._take(line[:LINE_CHARACTERS].rstrip("\r\n"))
        return self

    def headings(self) -> list[Heading]:
        """Return the messages, the most severe first, and those of one severity in the order of the log.

        Those that name no cause come after the others of their severity. If the log shows a single log directory, it
        is that of the messages that name none.
        """
        log_dir = self.log_dir
        return sorted(
            (replace(heading, log_dir=log_dir) for heading in self._headings.values()),
            key=lambda heading: (
                SEVERITIES.index(heading.message.severity),
                heading.message.names_no_cause,
                heading.first_line,
            ),
        )

    @property
    def log_dir(self) -> str | None:
        """The only log directory that the log shows; None: there are several, or none."""
        found = self._log_dirs()
        return found.pop() if len(found) == 1 else None

    def _log_dirs(self) -> set[str]:
        """Return the log directories in the settings, or those that the lines name if there are no settings.

        Every broker logs log.dir, which log.dirs replaces.
        """
        if not self._settings:
            places = (places_of(heading.values).get("log_dir") for heading in self._headings.values())
            return {path for path in places if path is not None}
        named = (self._settings.get(name, "") for name in ("log.dirs", "log.dir"))
        used = [next((each for each in named if each not in _NO_DIRS), ""), self._settings.get("metadata.log.dir", "")]
        return {path for each in used if each not in _NO_DIRS for path in _DIRS.split(each)}

    def _take(self, line: str) -> None:
        found: dict[str, Heard] = {}
        for text in messages_in(line):
            setting = _LOG_DIRS.search(text) if "log.dir" in text else None
            if setting is not None:
                self._settings[setting["name"]] = setting["dirs"]
            heard = hear(text)
            if heard is not None:
                found.setdefault(heard.message.name, heard)
        if not found and _LEVEL.search(line, 0, _LEVEL_WITHIN):
            self.unknown += 1
            if len(self.unknown_samples) < SHOWN_UNKNOWN:
                self.unknown_samples.append((self.lines, line[:SAMPLE_CHARACTERS]))
        self.recognised += bool(found)
        for name, heard in found.items():
            if name not in self._headings:
                self._headings[name] = Heading(heard.message, self.lines, line[:SAMPLE_CHARACTERS], heard.values)
            self._headings[name].add(self.lines, heard)


def entries() -> dict[str, Entry]:
    """Return all findings, damage reasons and broker messages by their codes; placeholders are shown as `<name>`."""
    result = {
        code: Entry(
            code,
            "finding",
            kind.severity,
            *map(_generic, (kind.message, kind.meaning or kind.message, kind.broker_action or "", kind.cure or "")),
        )
        for code, kind in FINDING_TYPES.items()
    }
    for code, damage in (ENTRY_DAMAGE | LOG_DAMAGE).items():
        result[code] = Entry(code, "damage", "error", damage.meaning, damage.meaning, damage.broker_action, damage.cure)
    for code, message in BROKER_MESSAGES.items():
        texts = [_generic(text) for text in (message.wordings[0], message.happened, message.why)]
        meaning = f"{texts[1]} {texts[2]}"
        actions = map(_generic, (message.broker_action, message.cure))
        result[code] = Entry(code, "message", message.severity, texts[0], meaning, *actions)
    return result


def explained(word: str) -> list[Entry]:
    """Return the entry of a code, or all entries of a subject (the part of a code before the dot)."""
    known = entries()
    if word in known:
        return [known[word]]
    return [entry for code, entry in known.items() if code.startswith(f"{word}.")]


def candidates(word: str) -> list[Entry]:
    """Return the entries whose code has a text in it, those that have it as a whole word first."""
    found = [entry for code, entry in entries().items() if word in code]
    return sorted(found, key=lambda entry: word not in re.split(r"[.-]", entry.code))


def near(word: str) -> list[str]:
    """Return codes that resemble a word, the best match first."""
    return names_near(word, entries(), count=_NEAR, least=0.5)


def texts_of(message: BrokerMessage, values: dict[str, str], log_dir: str | None = None) -> dict[str, str]:
    """Return the texts of a message about one line, with its values, quoted for a shell in the commands.

    `log_dir` is used in the commands if the line names no log directory.
    """
    path = _path(values)
    named = values if path is None else {"path": path} | values
    filled = defaultdict(lambda: "?", _NOT_NAMED | named)
    places = places_of(values)
    if log_dir is not None and "log_dir" not in places:
        places = places_of(values | {"dir": log_dir}) | {"dir": log_dir}
    quoted = {name: shell_word(value) for name, value in (named | places).items()}
    if "dirs" in values:
        quoted["dirs"] = " ".join(map(shell_word, _DIRS.split(values["dirs"])))
    in_commands = defaultdict(lambda: "...", {name: name.upper() for name in _IN_COMMANDS} | quoted)
    return {
        "happened": message.happened.format_map(filled),
        "why": message.why.format_map(filled),
        "broker_action": message.broker_action.format_map(filled),
        "cure": message.cure.format_map(filled),
        "commands": "\n".join(command.format_map(in_commands) for command in message.commands),
        "codes": ", ".join(message.codes),
    }


def _path(values: dict[str, str]) -> str | None:
    """Return the file or directory that a line names; None: it names none."""
    return next((values[name] for name in _PLACES[1:] if name in values), None)


def places_of(values: dict[str, str]) -> dict[str, str]:
    """Return `place`, the partition directory or the best known directory, and `log_dir`, if they are known."""
    log_dir, partition = values.get("dir"), values.get("partition")
    directory = values.get("partition_dir")
    if directory is None and _separator(values.get("path", "")) in values.get("path", ""):
        directory = _directory_of(values["path"])
    if "entry" in values:
        log_dir = _split(values["entry"])[0]
    if directory is None:
        if log_dir:
            return {"place": f"{log_dir}/{partition}" if partition else log_dir, "log_dir": log_dir}
        return {"place": f"LOG_DIR/{partition}"} if partition else {}
    is_partition = "partition_dir" in values or _is_partition(values["path"], directory)
    return {"place": directory, "log_dir": log_dir or (_split(directory)[0] if is_partition else directory)}


def _separator(path: str) -> str:
    return "\\" if _ON_WINDOWS.match(path) else "/"


def _split(path: str) -> tuple[str, str]:
    """Return the directory of a path, and its last part."""
    parent, _, name = path.rpartition(_separator(path))
    return parent, name


def _directory_of(path: str) -> str:
    """Return the directory that a path is in, or the path itself if it can only be a directory."""
    parent, name = _split(path)
    is_directory = parse_file_name(name).kind is FileKind.UNKNOWN and _PARTITION_DIR.fullmatch(name)
    return path if is_directory else parent


def _is_partition(path: str, directory: str) -> bool:
    """Return whether the directory of a path is that of a partition. A log directory may have the name `data-0`."""
    if not _PARTITION_DIR.fullmatch(_split(directory)[1]):
        return False
    return parse_file_name(_split(path)[1]).kind not in _OF_LOG_DIR


def _generic(text: str) -> str:
    return re.sub(r"\{(\w+)\}", r"<\1>", text)
