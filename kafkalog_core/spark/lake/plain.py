"""An output of plain Parquet files: written once into a new directory, and complete when `_SUCCESS` is there.

There is no log of commits: other programs read every file in the directory. So a run deletes the files of tasks that
were repeated before it writes `_SUCCESS`, which lists all others.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Final

from kafkalog_core.errors import LockedError, NotFoundError, RefusedError, StorageError
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.spark.lake import run_signs
from kafkalog_core.spark.lake.output import (
    INNER,
    Committed,
    Output,
    OutputKind,
    OutputRun,
    WritingRun,
    check_directory,
    has_table,
    is_ours,
)
from kafkalog_core.spark.lake.store import Store, run_of, small_name
from kafkalog_core.spark.lake.tables import TableFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalog_core.storage.changing.writer import Disk

__all__ = ["FORMATS", "PlainOutput", "PlainRun", "check_new", "read_output"]

_SUCCESS: Final = "_SUCCESS"
_FORMAT: Final = "kafkalog-files"


def check_new(store: Store, kind: OutputKind, run_id: str | None = None) -> None:
    """Raise LockedError for the directory of another run, RefusedError if it holds other files than this run's."""
    check_directory(store)
    names = [name for name in store.files() if run_id is None or run_of(name) != run_id]
    if not names:
        return
    if _SUCCESS in names:
        problem = "it holds a finished export, and plain files are written once"
    elif has_table(names, kind):
        problem = "it holds a Delta table, which a run without --format parquet continues"
    elif other := min((name for name in names if not is_ours(name)), default=None):
        problem = f"it is not empty: it holds {other!r}"
    # No sign of the run means that it has ended; a living run on another machine looks like a killed one.
    elif all(run_signs.is_dead(store, run) for run in {run_of(name) for name in names} if run is not None):
        problem = "it holds an unfinished export, whose run was killed, and can be deleted"
    else:
        killed = WayOut("if that run was killed on another machine, delete this one")
        raise LockedError(Refusal("another run is writing into this directory", (_ELSEWHERE, killed)), path=store.root)
    reason = f"plain files cannot be written into this directory: {problem}"
    raise RefusedError(Refusal(reason, (_ELSEWHERE,)), path=store.root)


_ELSEWHERE: Final = WayOut("name a new or empty directory", options="--to DIR")


class PlainOutput(Committed):
    """A finished output, by the list in its `_SUCCESS`.

    data: contents of that file; None: there is no such file. Raises RefusedError if kafkalog has not written them.
    """

    def __init__(self, store: Store, kind: OutputKind, data: bytes | None = None) -> None:
        super().__init__(store, kind)
        self.cures = (
            WayOut("export into a new directory", f"kafkalog spark {kind.name} --format parquet --to DIR PATH"),
        )
        self._files: dict[str, dict[str, TableFile]] = {}
        if data is None:
            return
        try:
            value = json.loads(data)
            is_known = (value["format"], value["version"], value["kind"]) == (_FORMAT, 1, kind.name)
            for table, files in value["tables"].items():
                self._files[table] = {file["name"]: TableFile(**file) for file in files}
        except (ValueError, KeyError, TypeError, AttributeError):
            is_known = False
        if not is_known:
            raise RefusedError(
                f"this release of kafkalog spark {kind.name} did not write this file; name another directory",
                path=store.path(_SUCCESS),
            )

    def files(self, table: str) -> dict[str, TableFile]:
        """Return the files of a table, by name."""
        return self._files.get(table, {})


def read_output(store: Store, kind: OutputKind) -> Committed:
    """Open an output of either format.

    Raises NotFoundError if no run has finished there, RefusedError for another job's output.
    """
    store.require_answer()
    try:
        return PlainOutput(store, kind, store.read(_SUCCESS))
    except NotFoundError:
        return Output.read(store, kind)


class PlainRun(WritingRun):
    """A run that writes plain files into a new or empty directory."""

    is_once: ClassVar = True
    check: ClassVar = staticmethod(check_new)

    def __init__(self, store: Store, kind: OutputKind, run_id: str, disk: Disk | None = None) -> None:
        super().__init__(store, run_id, disk)
        check_new(store, kind)
        self.output = PlainOutput(store, kind)
        self._own_success: list[str] = []
        """`_SUCCESS`, if this run may have written it."""
        self._is_committed = False

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        if self.store.is_local:
            for folder in (run_signs.FOLDER, INNER):
                # Another run's sign is there
                with suppress(StorageError):
                    self._disk.remove_directory(self.store.path(folder))

    def commit(
        self,
        _merged: object,
        adds: Sequence[TableFile],
        _removes: object = (),
        *,
        pending: Mapping[str, Sequence[TableFile]] | None = None,
        **_more: object,
    ) -> None:
        """Write `_SUCCESS`, after all files: `adds` are files of the head table, `pending` files of the others.

        Raises LockedError or RefusedError if another run has written into the directory, StorageError.
        """
        kind, tables = self.output.kind, {self.output.kind.head.name: adds, **(pending or {})}
        # Another run may have begun meanwhile.
        check_new(self.store, kind, self.run_id)
        known = {f"{table}/{file.name}": file.size_bytes for table, files in tables.items() for file in files}
        own = {name: size for name, size in self.store.files().items() if run_of(name) == self.run_id}
        lost = min((name for name, size_bytes in known.items() if own.get(name) != size_bytes), default=None)
        if lost is not None:
            raise StorageError(
                "this file was deleted or changed while the export ran; run the same command again",
                path=self.store.path(lost),
            )
        # Files of repeated tasks: other programs would read their records twice.
        self._remove(name for name in own if name not in known and not name.startswith(INNER))
        # Every file before `_SUCCESS`, which declares them complete.
        self.store.sync_directories(known)
        value = {
            "format": _FORMAT,
            "version": 1,
            "kind": kind.name,
            "run": self.run_id,
            "tables": {table: [file._asdict() for file in files] for table, files in tables.items()},
        }
        self._step("commit", _SUCCESS)
        self._own_success = [_SUCCESS]
        # Renamed into place: a `_SUCCESS` that exists is complete.
        self.store.replace(_SUCCESS, json.dumps(value).encode(), f"{INNER}/{small_name(self.run_id, 1)}")
        self._is_committed = True
        self._step("committed", _SUCCESS)
        self.store.sync_directories([_SUCCESS])

    def _begin(self) -> None:
        check_new(self.store, self.output.kind, self.run_id)

    def _delete(self, names: Sequence[str]) -> None:
        # After `_SUCCESS` nothing of this run is a leftover.
        if not self._is_committed:
            self._remove([*self._own_success, *names])


FORMATS: Final[dict[str, type[OutputRun | PlainRun]]] = {"delta": OutputRun, "parquet": PlainRun}
"""How an export is written, by the value of `--format`."""
