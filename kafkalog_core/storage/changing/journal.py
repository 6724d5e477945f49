"""The journal of one run: what it was to change, the old content, and how far it came.

It is next to the files that were changed, under names that no broker reads: a directory in the partition directory, or,
if several partitions or files at the top of a log directory are changed, one file at that top (a directory there would
stop a broker) and a directory of the same name in each partition. `--undo-to` puts all of it in another directory, and
a file of the same name leads there from the default place.

A run with `--no-undo` also has a journal while it is at work: the intent and the new content, from which it can be
finished, and no old content. When the run is complete, nothing of the journal is left.

The file that leads to a journal elsewhere, its pointer, is in the root of the run. A full disk has no space for it
before the first change. It is then written after the first few deletions, when no other change needs its space. If the
process dies before that, or never frees enough, the directory that `--undo-to` named leads to the run, and messages
name that directory. An undo that needs the space of the pointer deletes it, and writes it again at the end if there is
space.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from typing import TYPE_CHECKING, Final, Literal, cast, get_args

from kafkalog_core.errors import FieldError
from kafkalog_core.format.names import journal_run
from kafkalog_core.format.strict_json import Fields, load_fields, path_problem
from kafkalog_core.storage.changing.changes import ChangeKind, Fingerprint
from kafkalog_core.storage.changing.space import POINTER_BYTES, STAT_BLOCK_BYTES, free_bytes, rounded
from kafkalog_core.storage.changing.trusted import ANYWHERE
from kafkalog_core.storage.changing.writer import Attributes
from kafkalog_core.structs import Struct, asdict, field, replace
from kafkalog_core.text import json_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafkalog_core.storage.changing.changes import Change
    from kafkalog_core.storage.changing.trusted import TrustedDirectories
    from kafkalog_core.storage.changing.writer import Disk

__all__ = [
    "FREED",
    "INTENT",
    "MOST_BYTES",
    "OF_SEVERAL",
    "Journal",
    "JournalEntry",
    "JournalLayout",
    "Saved",
    "State",
    "ensure_pointer",
    "ensure_pointer_if_space",
    "freed_by_pointer",
    "layout_for",
    "parse_fingerprint",
    "parse_journal",
    "remove_pointer",
    "write_beginning",
    "write_intent",
    "write_pointer",
]


State = Literal["prepared", "complete", "undoing", "undone", "pruning"]
Saved = Literal["link", "copy", "inline", "tail", "nothing"]

INTENT: Final = "intent.json"
FREED: Final = ".pruning"
"""The suffix of an intent while its journal is freed: a full disk has space for a rename."""
OF_SEVERAL: Final = "of-several"
"""An empty file in a partition's part of a journal whose intent is in the log directory."""


class JournalEntry(Struct, frozen=True, kw_only=True):
    """One change of a run.

    Args:
        number: position in the order of the changes, from 1; after an undo of a part some are missing.
        kind: as in `Change`.
        path: path relative to the journal's root.
        why: the reason, one sentence.
        before: the old file; None: there was none.
        after: the file after the change; None: it is deleted.
        old_attributes: attributes of the old file; None: there was none.
        new_attributes: attributes of the file after the change; None: it is truncated or deleted.
        saved: how the old content is kept.
        inline: the old content if it is kept in the intent.
        saved_sha256: SHA-256 of a copy or a tail; None if nothing was copied.
        new_sha256: SHA-256 of the whole new content; None if a file is truncated or deleted.
        swap: as in `Change`.
    """

    number: int
    kind: ChangeKind
    path: str
    why: str
    before: Fingerprint | None
    after: Fingerprint | None
    old_attributes: Attributes | None = None
    new_attributes: Attributes | None = None
    saved: Saved = "nothing"
    inline: bytes | None = None
    saved_sha256: str | None = None
    new_sha256: str | None = None
    swap: int | None = None

    @property
    def is_same(self) -> bool:
        """Whether the file is the same before and after: a part of a segment replacement that does not change."""
        return self.before == self.after


class JournalLayout(Struct, frozen=True, kw_only=True):
    """Where the files of a journal are.

    Args:
        run: name of the journal, such as `kafkalog-undo-20260102T030405Z-1`.
        root: directory that the paths of its entries are relative to.
        place: `partition`: a directory in `root`; `top`: a file in `root`, and directories in the partitions below it;
            `elsewhere`: a directory in `home`.
        home: directory that holds the file or directory of that name.
        is_freed: whether the journal is being freed, which the name of its intent shows.
    """

    run: str
    root: str
    place: Literal["partition", "top", "elsewhere"]
    home: str
    is_freed: bool = False

    @property
    def intent(self) -> str:
        """The file that holds the entries and the state."""
        return f"{self._intent}{FREED}" if self.is_freed else self._intent

    @property
    def unfinished_intent(self) -> str:
        """The name of an intent that is being written."""
        return f"{self._intent}.tmp"

    @property
    def _intent(self) -> str:
        return f"{self.home}/{self.run}" if self.place == "top" else f"{self.home}/{self.run}/{INTENT}"

    def directory(self, path: str) -> str | None:
        """Return the journal's directory for a file; None: there is none, at the top of a log directory."""
        if self.place != "top":
            return f"{self.home}/{self.run}"
        around = os.path.dirname(path)
        return None if around == self.root else f"{around}/{self.run}"

    def staged(self, path: str, number: int) -> str:
        """Return the path of the new content of a file."""
        directory = self.directory(path)
        return f"{self.home}/{self.run}.new-{number:04d}" if directory is None else f"{directory}/new-{number:04d}"

    def saved(self, path: str, number: int, saved: Saved) -> str:
        """Return the path of old content; `saved` is neither `inline` nor `nothing`."""
        return f"{self.directory(path)}/{'tail' if saved == 'tail' else 'old'}-{number:04d}"

    def temporary(self, path: str, number: int) -> str:
        """Return a temporary name in the directory of a file, for its replacement."""
        return f"{os.path.dirname(path)}/{self.run}.{number:04d}.tmp"


class Journal(Struct, frozen=True, kw_only=True):
    """A run and how far it came.

    Args:
        layout: where its files are; `root` is a directory that the user named, or one above it, never one that only the
            journal names.
        command: name of the command of the run.
        created_ms: time of the run, in ms since 1970.
        state: how far it came; the name of the intent shows `pruning`, the intent holds all other states.
        entries: its changes.
        pointer_is_directory: for a journal elsewhere: whether its root is a partition.
        trusted: the directories from which its files are reached.
        keeps_old: whether it holds old content, so that the run can be undone.
        logs: logs that the run does not change, by path relative to the root, as they were when the run was staged:
            those from which files that it changes are built, and checkpoints that show whether a broker has run
            (`derived`).
        left: numbers of the entries that the undo in progress leaves as they are (`derived.left_out`).
    """

    layout: JournalLayout
    command: str
    created_ms: int
    state: State
    entries: tuple[JournalEntry, ...]
    pointer_is_directory: bool
    trusted: TrustedDirectories = ANYWHERE
    keeps_old: bool
    logs: Mapping[str, Fingerprint] = field(default_factory=dict)
    left: frozenset[int] = frozenset()

    @property
    def pointer(self) -> str | None:
        """The file that leads to a journal elsewhere; None: the journal is not elsewhere."""
        if self.layout.place != "elsewhere":
            return None
        named = f"{self.layout.root}/{self.run}"
        return f"{named}/{INTENT}" if self.pointer_is_directory else named

    @property
    def run(self) -> str:
        """The name of the run."""
        return self.layout.run

    @property
    def order(self) -> tuple[str, int]:
        """The sort key of runs, by time."""
        moment, _, number = self.run.rpartition("-")
        return moment, int(number)

    @property
    def is_interrupted(self) -> bool:
        """Whether some of its files may be old and others new."""
        return self.state in {"prepared", "undoing"}

    def path_of(self, entry: JournalEntry) -> str:
        """Return the path of an entry's file."""
        return os.path.normpath(os.path.join(self.layout.root, entry.path))

    def directories(self) -> list[str]:
        """Return the directories that hold its contents, in order, each once."""
        found = (self.layout.directory(self.path_of(entry)) for entry in self.entries)
        return list(dict.fromkeys(path for path in found if path is not None))


def layout_for(
    run: str, root: str, changes: Iterable[Change], *, is_log_dir: bool, undo_to: str | None
) -> JournalLayout:
    """Return where the journal of some changes is to be."""
    if undo_to is not None:
        return JournalLayout(run=run, root=root, place="elsewhere", home=undo_to)
    around = {os.path.dirname(change.path) for change in changes}
    if not is_log_dir:
        return JournalLayout(run=run, root=root, place="partition", home=root)
    # One partition: the journal is next to its files, where a user finds it first.
    if len(around) == 1 and root not in around:
        home = around.pop()
        return JournalLayout(run=run, root=home, place="partition", home=home)
    # Several partitions: a directory at the top of a log directory stops a broker (LogManager.loadLogs parses each as a
    # partition), so the intent is a file there.
    return JournalLayout(run=run, root=root, place="top", home=root)


MOST_BYTES: Final = 256 * 1024 * 1024
"""More than the journal of a hundred thousand partitions; a larger file is not one of kafkalog's."""
_VERSION: Final = 3
_KIND: Final = "kafkalog undo journal"
_BEGUN: Final = "begun"
_STATES: Final = tuple(state for state in get_args(State) if state != "pruning")
"""The states that are written into an intent; `JournalLayout.is_freed` is the other one."""
_LAST_MS: Final = 253_402_300_799_999  # the year 9999, the last that a date can show
_MOST_ID: Final = 2**32 - 2
_MOST_ENTRIES: Final = 10**9
_DEEPEST: Final = 2
_COMMAND: Final = re.compile("[a-z-]{1,40}")
_MODE: Final = re.compile("0[0-7]{3}")  # as `Attributes.to_json` writes it
_WHOLE_FILES: Final = frozenset({"replace", "create"})


# --- writing ----------------------------------------------------------------------------------------------------------
def write_intent(disk: Disk, journal: Journal, state: State, like: Attributes) -> Journal:
    """Write and fsync a journal with a new state atomically, and return it."""
    changed = replace(journal, state=state)
    layout = changed.layout
    value = {
        "command": changed.command,
        "created_ms": changed.created_ms,
        "state": state,
        # The root is written only where it cannot be seen from the place of the file; a moved log directory keeps its
        # journal valid.
        "root": layout.root if layout.place == "elsewhere" else None,
        "pointer_is_directory": changed.pointer_is_directory,
        "keeps_old": changed.keeps_old,
        "entries": [_entry_json(entry) for entry in changed.entries],
        "left": sorted(changed.left),
        "logs": {path: asdict(log) for path, log in changed.logs.items()},
    }
    _write_whole(disk, layout.intent, layout.run, value, like)
    return changed


def write_beginning(disk: Disk, layout: JournalLayout, like: Attributes) -> None:
    """Record that a run has begun to stage files: a part of a journal without this file has lost its intent."""
    _write_whole(disk, layout.intent, layout.run, {"state": _BEGUN}, like)


def write_pointer(disk: Disk, path: str, layout: JournalLayout, like: Attributes) -> None:
    """Write a file that leads to a journal elsewhere, by its real path without links."""
    _write_whole(disk, path, layout.run, {"elsewhere": os.path.realpath(layout.home)}, like)


def _write_whole(disk: Disk, path: str, run: str, members: dict[str, object], like: Attributes) -> None:
    temporary = f"{path}.tmp"
    if disk.trusted.exists(temporary):
        disk.unlink(temporary)
    disk.write_file(temporary, [_sealed({"kafkalog": _KIND, "version": _VERSION, "run": run, **members})], like, None)
    disk.rename(temporary, path)
    # Durable before the first change: without the intent, nothing could be undone.
    disk.sync_directory(os.path.dirname(path))


def _sealed(value: dict[str, object]) -> bytes:
    """Return the text of a file that begins with the hash of all its members."""
    # The hash covers every member: a journal is acted on, often as root, so a damaged one is refused.
    return _encoded({"sha256": hashlib.sha256(_encoded(value)).hexdigest(), **value}) + b"\n"


def _encoded(value: dict[str, object]) -> bytes:
    return json_text(value).encode("utf-8", "backslashreplace")


def _entry_json(entry: JournalEntry) -> dict[str, object]:
    return {
        "number": entry.number,
        "kind": entry.kind,
        "path": entry.path,
        "why": entry.why,
        "before": entry.before and asdict(entry.before),
        "after": entry.after and asdict(entry.after),
        "had": entry.old_attributes and entry.old_attributes.to_json(),
        "has": entry.new_attributes and entry.new_attributes.to_json(),
        "saved": entry.saved,
        "inline": None if entry.inline is None else base64.b64encode(entry.inline).decode("ascii"),
        "saved_sha256": entry.saved_sha256,
        "new_sha256": entry.new_sha256,
        "swap": entry.swap,
    }


# --- reading ----------------------------------------------------------------------------------------------------------
def parse_journal(text: bytes, run: str, home: str, place: Literal["partition", "top"]) -> Journal | str | None:
    """Return a journal from its file, or the directory elsewhere that holds it; None: the run ended before its intent.

    The root of a journal elsewhere comes from the file; the caller compares it with a directory that the user named.

    Raises:
        FieldError: the file is not a journal, or is damaged.
    """
    fields = load_fields(text)
    _check_seal(fields, run)
    # An absolute path without links: it is compared with directories that the user names.
    if "elsewhere" in fields.value:
        home = fields.path("elsewhere")
        if not os.path.isabs(home) or os.path.normpath(home) != home or home == os.path.dirname(home):
            raise FieldError("its member 'elsewhere' is not the absolute path of a directory")
        return home
    state = fields.choice("state", (_BEGUN, *_STATES))
    if state == _BEGUN:
        return None
    root = None if fields.any("root") is None else fields.path("root")
    layout = JournalLayout(
        run=run, root=home if root is None else root, place=place if root is None else "elsewhere", home=home
    )
    entries = tuple(_entries(fields.objects("entries")))
    # Two entries for one file would be restored in an order that nobody planned.
    if not entries or len({entry.path for entry in entries}) != len(entries):
        raise FieldError("has no entry, or two for one file")
    left = {number for number in fields.items("left") if type(number) is int}
    if not left <= {entry.number for entry in entries} or len(left) != len(fields.items("left")):
        raise FieldError("its member 'left' names a file that has no entry")
    return Journal(
        layout=layout,
        command=_command(fields.text("command")),
        created_ms=fields.integer("created_ms", 0, _LAST_MS),
        state=cast("State", state),
        pointer_is_directory=fields.flag("pointer_is_directory"),
        keeps_old=fields.flag("keeps_old"),
        entries=entries,
        logs=_logs(fields.fields("logs")),
        left=frozenset(left),
    )


def _entries(objects: Iterable[Fields]) -> Iterator[JournalEntry]:
    least = 1
    for fields in objects:
        entry = _entry(fields, least)
        yield entry
        # Ascending numbers keep the order of the changes.
        least = entry.number + 1


def _logs(fields: Fields) -> dict[str, Fingerprint]:
    return {_relative(path): parse_fingerprint(fields.fields(path)) for path in fields.value}


def _command(name: str) -> str:
    """Return the name of a command, which is shown in messages. Raises FieldError."""
    if _COMMAND.fullmatch(name) is None:
        raise FieldError("its command is not one of kafkalog's")
    return name


def _check_seal(fields: Fields, run: str) -> None:
    if fields.any("kafkalog") != _KIND or fields.any("version") != _VERSION:
        # No migration: a journal is finished or undone by the version that wrote it.
        raise FieldError("was written by another version of kafkalog")
    value = dict(fields.value)
    if value.pop("sha256", None) != hashlib.sha256(_encoded(value)).hexdigest():
        raise FieldError("is damaged: its checksum does not match its content")
    if fields.text("run") != run:
        raise FieldError("belongs to another run than its name shows")


def _entry(fields: Fields, least: int) -> JournalEntry:
    number = fields.integer("number", least, _MOST_ENTRIES)
    before, after = fields.optional_fields("before"), fields.optional_fields("after")
    entry = JournalEntry(
        number=number,
        kind=cast("ChangeKind", fields.choice("kind", get_args(ChangeKind))),
        path=_relative(fields.text("path")),
        why=fields.text("why"),
        before=None if before is None else parse_fingerprint(before),
        after=None if after is None else parse_fingerprint(after),
        old_attributes=_attributes(fields.optional_fields("had")),
        new_attributes=_attributes(fields.optional_fields("has")),
        saved=cast("Saved", fields.choice("saved", get_args(Saved))),
        inline=None if fields.any("inline") is None else fields.base64("inline"),
        saved_sha256=fields.optional_sha256("saved_sha256"),
        new_sha256=fields.optional_sha256("new_sha256"),
        swap=fields.optional_integer("swap"),
    )
    problem = _contradiction(entry)
    if problem is not None:
        raise FieldError(f"its entry {number} {problem}")
    return entry


def _contradiction(entry: JournalEntry) -> str | None:
    """Return what in an entry contradicts itself; None: nothing."""
    before, after, kind, saved = entry.before, entry.after, entry.kind, entry.saved
    is_whole = kind in _WHOLE_FILES
    is_longer = before is not None and after is not None and after.size_bytes > before.size_bytes
    problems = {
        f"is not a valid {kind}": (before is None, after is None) != (kind == "create", kind == "remove"),
        "is a truncation that makes a file longer": kind == "cut" and is_longer,
        "is to write a file and lacks its hash": (entry.new_sha256 is not None) != is_whole,
        "is to write a file and lacks its owner": (entry.new_attributes is not None) != is_whole,
        "lacks the owner of the file that was there": (entry.old_attributes is None) != (before is None),
        "has old content where none is saved": (entry.inline is not None) != (saved == "inline"),
        "lacks the hash of what is saved": (entry.saved_sha256 is not None) != (saved in {"copy", "tail"}),
        "has saved a tail of what is not cut": saved == "tail" and kind != "cut",
        "has saved what was not there": saved != "nothing" and before is None,
    }
    return next((problem for problem, is_so in problems.items() if is_so), None)


def _relative(path: str) -> str:
    """Return the path of a file in a log directory or in one of its partitions. Raises FieldError."""
    parts = path.split("/")
    problem = path_problem(path)
    if problem is not None:
        raise FieldError(f"the path of a file {problem}")
    # Files of a log directory or of its partitions: `..` or a deeper path would lead to other files.
    if len(parts) > _DEEPEST or not all(parts) or {".", ".."} & set(parts):
        raise FieldError("the path of a file leads out of the directory")
    if any(journal_run(part) is not None for part in parts):
        raise FieldError("the path of a file is that of a journal")
    return path


def parse_fingerprint(fields: Fields) -> Fingerprint:
    """Return the fingerprint in a JSON object of a journal or plan file. Raises FieldError."""
    return Fingerprint(fields.integer("size_bytes"), fields.integer("mtime_ns", -(2**63)), fields.sha256("sha256"))


def _attributes(fields: Fields | None) -> Attributes | None:
    if fields is None:
        return None
    extended = fields.fields("extended")
    for name in extended.value:
        if path_problem(name) is not None:
            raise FieldError("the name of an extended attribute cannot be one")
    return Attributes(
        uid=fields.integer("uid", 0, _MOST_ID),
        gid=fields.integer("gid", 0, _MOST_ID),
        mode=_mode(fields.text("mode")),
        extended={name: extended.base64(name) for name in extended.value},
    )


def _mode(text: str) -> int:
    if _MODE.fullmatch(text) is None:
        raise FieldError("the permissions of a file are not an octal number up to 0777")
    return int(text, 8)


def ensure_pointer(disk: Disk, journal: Journal) -> None:
    """Write the pointer, unless it exists or the journal needs none."""
    path, trusted = journal.pointer, journal.trusted
    # The pointer exists, or its place is not one that the user named.
    if path is None or not trusted.holds(path) or trusted.exists(path):
        return
    around = os.path.dirname(path)
    if journal.pointer_is_directory and not trusted.exists(around):
        # Readable as the directory around it, and writable by its owner alone.
        root = Attributes.of(journal.layout.root, trusted)
        disk.make_directory(around, replace(root, mode=0o700 | root.mode & 0o055, extended={}))
    write_pointer(disk, path, journal.layout, Attributes.of_new_file(journal.layout.root, trusted))
    if journal.pointer_is_directory:
        disk.sync_directory(journal.layout.root)


def ensure_pointer_if_space(disk: Disk, journal: Journal, rest: Iterable[JournalEntry]) -> None:
    """Write the pointer if the changes that are still to be made do not need its space."""
    if journal.pointer is None:
        return
    written = (entry.after for entry in rest if entry.kind != "cut" and entry.after is not None)
    needed = POINTER_BYTES + sum(rounded(file.size_bytes) for file in written)
    # The remaining changes come first: a pointer is a convenience.
    if free_bytes(journal.layout.root) >= needed:
        ensure_pointer(disk, journal)


def remove_pointer(disk: Disk, journal: Journal) -> None:
    """Delete the pointer, and the temporary file of one that was not finished."""
    paths = list(_paths(journal))
    for path in paths:
        disk.unlink(path)
    pointer = journal.pointer
    if pointer is None:
        return
    around = os.path.dirname(pointer)
    has_directory = journal.pointer_is_directory and journal.trusted.holds(around) and journal.trusted.exists(around)
    if has_directory:
        disk.remove_directory(around)
    if paths or has_directory:
        disk.sync_directory(journal.layout.root)


def freed_by_pointer(journal: Journal) -> int:
    """Return the number of bytes that deleting the pointer frees."""
    statuses = (journal.trusted.status(path) for path in _paths(journal))
    return sum(status.st_blocks * STAT_BLOCK_BYTES for status in statuses if status is not None)


def _paths(journal: Journal) -> Iterator[str]:
    """Yield the pointer and its temporary file, as far as they exist."""
    path, trusted = journal.pointer, journal.trusted
    for name in () if path is None else (path, f"{path}.tmp"):
        if trusted.holds(name) and trusted.exists(name):
            yield name
