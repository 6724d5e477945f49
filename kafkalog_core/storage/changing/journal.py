"""The journal of one run: what it was to change, what was there before, and how far it came.

It stands beside the files that were changed, where no broker looks: a directory inside of the partition directory, or,
where several partitions or files at the top of a log directory are changed, one file at that top (a directory there
would stop a broker) and a directory of the same name in each partition. `--undo-to` puts all of it elsewhere, and the
same name leads there from the place that it would have had.

A run with `--no-undo` has a journal too while it is at work: the intent and the new content, from which it can be
finished, and nothing of the old content. When it is done nothing of the journal is left.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.storage.changing.trusted import ANYWHERE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalog_core.storage.changing.attributes import Attributes
    from kafkalog_core.storage.changing.changes import Change, ChangeKind, Fingerprint
    from kafkalog_core.storage.changing.trusted import TrustedDirectories

__all__ = [
    "FREED",
    "INTENT",
    "OF_SEVERAL",
    "Entry",
    "Journal",
    "Layout",
    "Saved",
    "State",
    "layout_for",
]

State = Literal["prepared", "complete", "undoing", "undone", "pruning"]
Saved = Literal["link", "copy", "inline", "tail", "nothing"]

INTENT: Final = "intent.json"
FREED: Final = ".pruning"
"""What the name of an intent ends in once its journal is freed: a full disk has room for a rename."""
OF_SEVERAL: Final = "of-several"
"""An empty file in a partition's part of a journal whose intent is in the directory above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One change of a run.

    Args:
        number: in the order of the changes, from 1 on; after an undo of a part some are missing.
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
    inline: bytes | None = None
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
        is_freed: whether the journal is being freed, which the name of its intent says.
    """

    run: str
    root: str
    place: Literal["partition", "top", "elsewhere"]
    home: str
    is_freed: bool = False

    @property
    def intent(self) -> str:
        """The file that says everything."""
        return f"{self._intent}{FREED}" if self.is_freed else self._intent

    @property
    def unfinished_intent(self) -> str:
        """The name of an intent that is being written."""
        return f"{self._intent}.tmp"

    @property
    def _intent(self) -> str:
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
    """A run and how far it came.

    Args:
        layout: where its parts are; `root` is a directory that the user named, or above one, never one that only the
            journal names.
        command: the command that was run.
        created_ms: when.
        state: how far it came; `pruning` is said by the name of its intent, all others are in it.
        entries: its changes.
        pointer_is_directory: of a journal elsewhere: its root is a partition.
        trusted: the directories that its files are reached from.
        keeps_old: whether it holds old content, so that the run can be taken back.
        logs: logs that the run does not change, by their paths relative to the root, as they were when it was staged:
            those that files which it changes are made of, and checkpoints that tell of a broker (`derived`).
        left: numbers of the entries that the undo which is at work leaves as they are (`partial`).
    """

    layout: Layout
    command: str
    created_ms: int
    state: State
    entries: tuple[Entry, ...]
    pointer_is_directory: bool
    trusted: TrustedDirectories = field(default=ANYWHERE, compare=False)
    keeps_old: bool
    logs: Mapping[str, Fingerprint] = field(default_factory=dict)
    left: frozenset[int] = frozenset()

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
