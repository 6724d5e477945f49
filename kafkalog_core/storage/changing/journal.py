"""The journal of one run: what it was to change, what was there before, and how far it came.

It stands beside the files that were changed, where no broker looks: a directory inside of the partition directory, or,
where several partitions or files at the top of a log directory are changed, one file at that top (a directory there
would stop a broker) and a directory of the same name in each partition. `--undo-to` puts all of it elsewhere, and the
same name leads there from the place that it would have had.
"""

from __future__ import annotations

import base64
import json
import os
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, cast, get_args

from kafkalog_core.errors import FieldError
from kafkalog_core.format.json_form import json_text
from kafkalog_core.storage.changing.attributes import Attributes
from kafkalog_core.storage.changing.changes import ChangeKind, Fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalog_core.storage.changing.changes import Change
    from kafkalog_core.storage.changing.writer import Disk

__all__ = [
    "INTENT",
    "OF_SEVERAL",
    "Entry",
    "Journal",
    "Layout",
    "Saved",
    "State",
    "layout_for",
    "parse_journal",
    "write_beginning",
    "write_intent",
    "write_pointer",
]

State = Literal["prepared", "complete", "undoing", "undone", "pruning"]
Saved = Literal["link", "copy", "inline", "tail", "nothing"]

INTENT: Final = "intent.json"
OF_SEVERAL: Final = "of-several"
"""An empty file in a partition's part of a journal whose intent is in the directory above."""
_VERSION: Final = 1
_KIND: Final = "kafkalog undo journal"
_BEGUN: Final = "begun"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One change of a run.

    Args:
        number: from 1, in the order of the changes.
        kind: as in `Change`.
        path: relative to the journal's root.
        why: one plain sentence.
        before: the file that was there; null: none.
        after: the file as it is afterwards; null: none.
        had: attributes of the one that was there.
        has: attributes of the one afterwards.
        saved: how the old content is kept.
        inline: the old content where it is kept here.
        saved_sha256: of all that a copy or a tail holds; null where nothing was copied.
        new_sha256: of all the new content; null where a file is cut or taken away.
        swap: as in `Change`.
    """

    number: int
    kind: ChangeKind
    path: str
    why: str
    before: Fingerprint | None
    after: Fingerprint | None
    had: Attributes | None = None
    has: Attributes | None = None
    saved: Saved = "nothing"
    inline: bytes | None = field(default=None, repr=False)
    saved_sha256: str | None = None
    new_sha256: str | None = None
    swap: int | None = None

    @property
    def is_same(self) -> bool:
        """Whether nothing tells the file before from the one after: a part of a replacement that stays as it is."""
        return self.before == self.after


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where the parts of a journal are.

    Args:
        run: the name of the journal, `kafkalog-undo-20260102T030405Z-1`.
        root: directory that the paths of its entries start from.
        place: `partition`: a directory in `root`; `top`: a file in `root`, and directories in the partitions below it;
            `elsewhere`: a directory in `home`.
        home: the directory that holds the file or directory of that name.
    """

    run: str
    root: str
    place: Literal["partition", "top", "elsewhere"]
    home: str

    @property
    def intent(self) -> str:
        """The file that says everything."""
        return f"{self.home}/{self.run}" if self.place == "top" else f"{self.home}/{self.run}/{INTENT}"

    def directory(self, path: str) -> str | None:
        """The directory that holds what belongs to a file; null: there is none, at the top of a log directory."""
        if self.place != "top":
            return f"{self.home}/{self.run}"
        around = os.path.dirname(path)
        return None if around == self.root else f"{around}/{self.run}"

    def staged(self, path: str, number: int) -> str:
        """Where the new content of a file waits."""
        directory = self.directory(path)
        return f"{self.home}/{self.run}.new-{number:04d}" if directory is None else f"{directory}/new-{number:04d}"

    def saved(self, path: str, number: int, saved: Saved) -> str:
        """Where old content is kept; `saved` is neither `inline` nor `nothing`."""
        return f"{self.directory(path)}/{'tail' if saved == 'tail' else 'old'}-{number:04d}"

    def temporary(self, path: str, number: int) -> str:
        """A name beside a file for what is about to take its place."""
        return f"{os.path.dirname(path)}/{self.run}.{number:04d}.tmp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """A run and how far it came. `pointer_is_directory`: of one elsewhere, whose root is a partition."""

    layout: Layout
    command: str
    created_ms: int
    state: State
    entries: tuple[Entry, ...]
    pointer_is_directory: bool = False

    @property
    def pointer(self) -> str | None:
        """The file that leads here where the journal is elsewhere; null: it is not."""
        if self.layout.place != "elsewhere":
            return None
        named = f"{self.layout.root}/{self.run}"
        return f"{named}/{INTENT}" if self.pointer_is_directory else named

    @property
    def run(self) -> str:
        """Its name."""
        return self.layout.run

    @property
    def order(self) -> tuple[str, int]:
        """What sorts runs by their times."""
        moment, _, number = self.run.rpartition("-")
        return moment, int(number)

    @property
    def is_interrupted(self) -> bool:
        """Whether its files may be partly old and partly new."""
        return self.state in {"prepared", "undoing"}

    def path_of(self, entry: Entry) -> str:
        """The file that an entry is about."""
        return os.path.normpath(os.path.join(self.layout.root, entry.path))

    def directories(self) -> list[str]:
        """The directories that hold its contents, in order, each once."""
        found = (self.layout.directory(self.path_of(entry)) for entry in self.entries)
        return list(dict.fromkeys(path for path in found if path is not None))


def layout_for(run: str, root: str, changes: Iterable[Change], *, is_log_dir: bool, undo_to: str | None) -> Layout:
    """Where the journal of some changes goes."""
    if undo_to is not None:
        return Layout(run=run, root=root, place="elsewhere", home=undo_to)
    around = {os.path.dirname(change.path) for change in changes}
    if not is_log_dir:
        return Layout(run=run, root=root, place="partition", home=root)
    if len(around) == 1 and root not in around:
        home = around.pop()
        return Layout(run=run, root=home, place="partition", home=home)
    return Layout(run=run, root=root, place="top", home=root)


def write_intent(disk: Disk, journal: Journal, state: State, like: Attributes) -> Journal:
    """Bring a journal with a new state to the disk, whole or not at all; what it is from now on."""
    changed = replace(journal, state=state)
    _write_whole(disk, journal.layout.intent, _to_json(changed), like)
    return changed


def write_beginning(disk: Disk, layout: Layout, like: Attributes) -> None:
    """Say that a run has begun to lay things down: where parts of a journal are without any intent, it was lost."""
    value = {"kafkalog": _KIND, "version": _VERSION, "state": _BEGUN}
    _write_whole(disk, layout.intent, (json_text(value) + "\n").encode(), like)


def write_pointer(disk: Disk, path: str, layout: Layout, like: Attributes) -> None:
    """Leave a file that leads to a journal elsewhere."""
    value = {"kafkalog": _KIND, "version": _VERSION, "elsewhere": layout.home}
    _write_whole(disk, path, (json_text(value) + "\n").encode("utf-8", "backslashreplace"), like)


def _write_whole(disk: Disk, path: str, content: bytes, like: Attributes) -> None:
    temporary = f"{path}.tmp"
    if os.path.lexists(temporary):
        disk.unlink(temporary)
    disk.write_file(temporary, [content], like, None)
    disk.rename(temporary, path)
    disk.sync_directory(os.path.dirname(path))


def parse_journal(text: bytes, run: str, home: str, place: Literal["partition", "top"]) -> Journal | str | None:
    """A journal from its file, or the directory elsewhere that it is in; null: the run ended before it had an intent.

    Raises:
        FieldError: anything else.
    """
    try:
        value = json.loads(text)
        if value["kafkalog"] != _KIND or value["version"] != _VERSION:
            raise FieldError("is of another version of kafkalog")
        if "elsewhere" in value:
            return str(value["elsewhere"])
        state = value["state"]
        if state == _BEGUN:
            return None
        if state not in get_args(State):
            raise FieldError(f"has the unknown state {state!r}")
        root = value["root"]
        layout = Layout(
            run=run,
            root=home if root is None else str(root),
            place=place if root is None else "elsewhere",
            home=home,
        )
        return Journal(
            layout=layout,
            command=str(value["command"]),
            created_ms=int(value["created_ms"]),
            state=cast("State", state),
            pointer_is_directory=bool(value["pointer_is_directory"]),
            entries=tuple(_entry(each) for each in value["entries"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FieldError(f"is no journal that can be read: {error}") from error


def _to_json(journal: Journal) -> bytes:
    layout = journal.layout
    value = {
        "kafkalog": _KIND,
        "version": _VERSION,
        "command": journal.command,
        "created_ms": journal.created_ms,
        "state": journal.state,
        "root": layout.root if layout.place == "elsewhere" else None,
        "pointer_is_directory": journal.pointer_is_directory,
        "entries": [_entry_json(entry) for entry in journal.entries],
    }
    return (json_text(value) + "\n").encode("utf-8", "backslashreplace")


def _entry_json(entry: Entry) -> dict[str, object]:
    return {
        "number": entry.number,
        "kind": entry.kind,
        "path": entry.path,
        "why": entry.why,
        "before": entry.before and asdict(entry.before),
        "after": entry.after and asdict(entry.after),
        "had": entry.had and entry.had.to_json(),
        "has": entry.has and entry.has.to_json(),
        "saved": entry.saved,
        "inline": None if entry.inline is None else base64.b64encode(entry.inline).decode("ascii"),
        "saved_sha256": entry.saved_sha256,
        "new_sha256": entry.new_sha256,
        "swap": entry.swap,
    }


def _entry(value: Mapping[str, object]) -> Entry:
    kind, saved = value["kind"], value["saved"]
    if kind not in get_args(ChangeKind) or saved not in get_args(Saved):
        raise ValueError(f"unknown kind {kind!r} or {saved!r}")
    inline, path = value["inline"], os.path.normpath(str(value["path"]))
    if os.path.isabs(path) or path.startswith(".."):
        raise ValueError(f"{path!r} is not below its root")
    return Entry(
        number=int(str(value["number"])),
        kind=cast("ChangeKind", kind),
        path=path,
        why=str(value["why"]),
        before=_fingerprint(value["before"]),
        after=_fingerprint(value["after"]),
        had=_attributes(value["had"]),
        has=_attributes(value["has"]),
        saved=cast("Saved", saved),
        inline=None if inline is None else base64.b64decode(str(inline), validate=True),
        saved_sha256=_text(value["saved_sha256"]),
        new_sha256=_text(value["new_sha256"]),
        swap=None if value.get("swap") is None else int(str(value["swap"])),
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _fingerprint(value: object) -> Fingerprint | None:
    if value is None:
        return None
    fields = cast("dict[str, object]", value)
    return Fingerprint(int(str(fields["size_bytes"])), int(str(fields["mtime_ns"])), str(fields["sha256"]))


def _attributes(value: object) -> Attributes | None:
    return None if value is None else Attributes.from_json(cast("dict[str, object]", value))
