"""An output: a directory of Delta tables, of which one is the head, and the state that the head's last commit names.

A commit writes a state file first and then the head table: files are added and removed there, and the transaction
`kafkalog` names the state, all in one step. Who reads the head knows which state counts, and by the state which
versions of the other tables. Of two runs at once one commits first; the other looks at what is new, and commits too if
it is about other partitions.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from kafkalog_core.errors import LockedError, NotFoundError, RefusedError, StorageError, UnfinishedError
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.spark.lake import run_signs
from kafkalog_core.spark.lake.clouds import check_installed
from kafkalog_core.spark.lake.store import Store, run_of, small_name, writing
from kafkalog_core.spark.lake.tables import ConflictError, LakeTable, TableFile, TableSpec
from kafkalog_core.storage.changing.space import broker_dir_around
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.storage.paths import real
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

__all__ = [
    "INNER",
    "MEANWHILE",
    "Committed",
    "Output",
    "OutputKind",
    "OutputRun",
    "WritingRun",
    "check_directory",
    "check_place",
    "has_table",
    "is_ours",
    "refuse_inside",
]

INNER: Final = "_kafkalog"
_STATES: Final = f"{INNER}/states"
_TRANSACTION: Final = "kafkalog"
_FORMAT: Final = "kafkalog-state"
_VERSION: Final = 1
_ATTEMPTS: Final = 20
_FENCE: Final = "kafkalog-fence"
_FITTING: Final = re.compile(r"[^%\\\x00-\x1f\ud800-\udfff]+")
MEANWHILE: Final = "another run has committed since this one began; run the same command again"
_WRITE_AGAIN: Final = (WayOut("write the output again into a new directory", options="--to DIR"),)
_ELSEWHERE: Final = (WayOut("name a new or empty directory", options="--to DIR"),)


class OutputKind(Struct, frozen=True, kw_only=True):
    """What an output is.

    Args:
        name: the job whose output it is: `export` or `catalog`.
        head: the table whose commits count.
        others: the other tables.
        kept: files outside the tables that a state names.
        cures: what to do about lost files; commands have `{place}` for the directory of the output.
    """

    name: str
    head: TableSpec
    others: tuple[TableSpec, ...] = ()
    kept: Callable[[Mapping[str, Any]], Iterable[str]] = lambda _: ()
    cures: tuple[WayOut, ...]


# --- where an output may be -------------------------------------------------------------------------------------------
def check_place(store: Store, kind: OutputKind) -> None:
    """Raise RefusedError for a file, for the output of another job, and for a directory that holds other files."""
    check_installed()
    _check_contents(store, kind)


def _check_contents(store: Store, kind: OutputKind) -> bool:
    """Return whether there is a head table. Raises what `check_place` raises."""
    check_directory(store)
    names = store.files()
    # The format of releases before Delta: it is recognized and refused.
    if any(name.startswith(f"{INNER}/commits/") for name in names):
        raise RefusedError(
            Refusal("this directory was written by a release of kafkalog that had a format of its own", _WRITE_AGAIN),
            path=store.root,
        )
    if has_table(names, kind):
        return True
    file = min((name for name in names if not is_ours(name)), default=None)
    if file is not None:
        reason = f"this directory is not empty and not an output of kafkalog spark {kind.name}: it holds {file!r}"
        raise RefusedError(Refusal(reason, _ELSEWHERE), path=store.root)
    return False


def check_directory(store: Store) -> None:
    """Raise RefusedError for a path at which no output may be, NotFoundError if the directory above does not exist."""
    path = store.root
    if not _FITTING.fullmatch(path):
        reason = "the path of an output may have no %, no backslash, no control characters and only valid UTF-8"
        raise RefusedError(Refusal(reason, _ELSEWHERE), path=path)
    if not store.is_local:
        store.require_answer()
        return
    # An output within a log directory would be a partition to a broker.
    around = broker_dir_around(os.path.realpath(path))
    if around is not None:
        raise RefusedError(Refusal(f"this directory is within Kafka's own directory {around}", _ELSEWHERE), path=path)
    if os.path.lexists(path) and not os.path.isdir(path):
        raise RefusedError(Refusal("this is a file, not a directory", _ELSEWHERE), path=path)
    above = os.path.dirname(path)
    if not os.path.isdir(above):
        raise NotFoundError("the directory for the output does not exist; create it", path=above)


def refuse_inside(store: Store, sources: Iterable[str]) -> None:
    """Raise RefusedError for an output within a directory that is read: the next run would read it too."""
    there = real(store.root)
    for source in sources:
        if f"{there}/".startswith(f"{real(source).rstrip('/')}/"):
            raise RefusedError(
                Refusal(f"this directory is within {source}, which is read", _ELSEWHERE), path=store.root
            )


def has_table(names: Iterable[str], kind: OutputKind) -> bool:
    """Return whether the files of a directory include the log of an output's head table."""
    return any(name.startswith(f"{kind.head.name}/_delta_log/") for name in names)


def is_ours(name: str) -> bool:
    """Return whether a run that ended before its first commit may have left a file."""
    return name.startswith(f"{INNER}/") or (name.endswith(".parquet") and run_of(name) is not None)


# --- reading ----------------------------------------------------------------------------------------------------------
class Committed:
    """The committed files of the tables of an output, and its `state`."""

    def __init__(self, store: Store, kind: OutputKind) -> None:
        self.kind = kind
        self.store = store
        self.state: dict[str, Any] = {}
        self.cures = kind.cures

    def files(self, table: str) -> dict[str, TableFile]:
        """Return the files of a table that belong to the last commit, by name."""
        raise NotImplementedError

    def partitioned_by(self, table: str) -> tuple[str, ...]:
        """Return the partition columns of a table, as in names of directories. Tables of earlier builds have some."""
        del table
        return ()

    def lost(self, table: str, listed: Mapping[str, int] | None = None) -> dict[str, TableFile]:
        """Return the files of a table that are missing or have another size than when they were committed."""
        there = self.store.files(table) if listed is None else listed
        return {
            # Sizes, not hashes: no file is written twice, so a file of the right size is the file.
            name: file
            for name, file in self.files(table).items()
            if there.get(f"{table}/{name}") != file.size_bytes
        }


class Output(Committed):
    """An output as its last commit left it."""

    def __init__(self, store: Store, kind: OutputKind, disk: Disk | None = None) -> None:
        super().__init__(store, kind)
        self.head = LakeTable(self.store, kind.head, disk)
        self.tables = {spec.name: LakeTable(self.store, spec, disk) for spec in kind.others}
        self.versions: dict[str, int] = {}
        """Versions of other tables that belong to the state."""
        self.pending: dict[str, dict[int, list[TableFile]]] = {}
        """Files that other tables get after the head's commit, by the numbers of their commits there."""
        # Named by the commit of the head, as no commit is of two tables. A run that is killed after a commit to the
        # other table leaves rows that the next one adds again; killed before it, without this list, rows that nobody
        # adds. A version of the other table does not do: OPTIMIZE and VACUUM by another program delete its files.
        self.state_name: str | None = None
        self.load()

    @classmethod
    def read(cls, store: Store, kind: OutputKind) -> Self:
        """Open an output. Raises NotFoundError if nothing was ever committed, RefusedError for another job's output."""
        if not store.is_local or os.path.isdir(store.root):
            output = cls(store, kind) if _check_contents(store, kind) else None
            # A commit that only fences a run has none
            if output is not None and output.state:
                return output
        raise NotFoundError(
            f"no run of kafkalog spark {kind.name} has finished in this directory: nothing was committed",
            path=store.root,
        )

    def load(self) -> None:
        """Read the state that the head's last commit names."""
        # Another run may commit between the look at the table and the look at the state file.
        for _ in range(_ATTEMPTS):
            token = self.head.transaction(_TRANSACTION)
            if token is None and self.head.is_foreign:
                raise RefusedError(
                    Refusal("this is a Delta table that kafkalog did not write", _ELSEWHERE),
                    path=self.head.store.root,
                )
            if token is None:
                return
            for name in self.store.files(_STATES):
                if _token(name) == token:
                    # Another run has committed meanwhile and deleted it
                    with suppress(NotFoundError):
                        self._take(name, self.store.read(name))
                        return
            before = self.head.version
            self.head.refresh()
            # The table has not moved, so the state file is lost.
            if self.head.version == before:
                break
        raise RefusedError(
            Refusal("the file with the state of the last commit is missing", _WRITE_AGAIN), path=self.store.root
        )

    def refresh(self) -> None:
        """Show the last commit."""
        self.head.refresh()
        self.load()

    def files(self, table: str) -> dict[str, TableFile]:
        """Return the files of a table that belong to the last commit, by name."""
        if table == self.kind.head.name:
            return self.head.files()
        found = self.tables[table].files(self.versions.get(table))
        # Files that a crash kept from another table count as its files already.
        return found | {file.name: file for files in self.missing(table).values() for file in files}

    def partitioned_by(self, table: str) -> tuple[str, ...]:
        """Return the partition columns of a table, as in names of directories. Tables of earlier builds have some."""
        return (self.head if table == self.kind.head.name else self.tables[table]).partitioned_by

    def missing(self, table: str) -> dict[int, list[TableFile]]:
        """Return the files that a table lacks because the run ended too early, by number."""
        # By a transaction of its own: the table remembers the last number that it got.
        done = self.tables[table].transaction(_TRANSACTION) or 0
        return {number: files for number, files in self.pending.get(table, {}).items() if number > done}

    def _take(self, name: str, data: bytes) -> None:
        try:
            value = json.loads(data)
            self.versions = {table: int(number) for table, number in value["versions"].items()}
            self.pending = {
                table: {int(number): [TableFile(**file) for file in files] for number, files in numbered.items()}
                for table, numbered in value["pending"].items()
            }
            self.state, self.state_name = dict(value["state"]), name
            is_known = (value["format"], value["version"], value["kind"]) == (_FORMAT, _VERSION, self.kind.name)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            problem = f"it was changed: {type(error).__name__}: {error}"
            raise RefusedError(
                Refusal(f"not a state of kafkalog, {problem}", _WRITE_AGAIN), path=self.store.path(name)
            ) from error
        if not is_known:
            raise RefusedError(
                Refusal("another release of kafkalog wrote this state", _WRITE_AGAIN), path=self.store.path(name)
            )


# --- writing ----------------------------------------------------------------------------------------------------------
class WritingRun:
    """A run that writes files into an output; a context manager that deletes the files that were not committed."""

    def __init__(self, store: Store, run_id: str, disk: Disk | None) -> None:
        self.run_id = run_id
        self.store = store
        self.listed: dict[str, int] = {}
        """Files of the output when the run began, with their sizes."""
        self._disk = disk or Disk()
        self._sign = run_signs.LiveRun(store, run_id)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with self._stack as stack:
            self._step("create", run_signs.FOLDER)
            # The sign comes first: from here on no other run takes these files for leftovers.
            stack.enter_context(self._sign)
            self._begin()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        # The sign is deleted after the files: a run without a sign has ended.
        with self._stack, suppress(StorageError):
            self._delete([name for name in self.store.files() if run_of(name) == self.run_id])

    def _begin(self) -> None:
        """Read the present state, after the sign of the run is written."""

    def _delete(self, names: Sequence[str]) -> None:
        """Delete the given files that no commit names."""
        raise NotImplementedError

    def _remove(self, names: Iterable[str]) -> None:
        for name in names:
            self._step("delete", name)
            self.store.delete([name])

    def _step(self, what: str, name: str) -> None:
        with writing(self.store.path(name)):
            self._disk.step(what, self.store.path(name))


class OutputRun(WritingRun):
    """A run that commits to the tables of an output.

    Opening it completes the other tables and deletes what ended runs have left.
    """

    is_once: ClassVar = False
    """Whether there is one commit, at the end of the run."""
    check: ClassVar = staticmethod(check_place)

    def __init__(self, store: Store, kind: OutputKind, run_id: str, disk: Disk | None = None) -> None:
        super().__init__(store, run_id, disk)
        check_place(store, kind)
        self.output = Output(store, kind, disk)
        self._kind = kind
        self._commits = 0  # and attempts at them

    def _begin(self) -> None:
        for table in (self.output.head, *self.output.tables.values()):
            # Another run has committed: the next one sees to it
            with suppress(ConflictError):
                table.upgrade()
        self._append_pending()
        # After the sign is written, so that this run's files are nobody's leftovers.
        self.listed = self.store.files()
        self._tidy(self.listed)

    def commit(
        self,
        merged: Callable[[dict[str, Any]], dict[str, Any]],
        adds: Sequence[TableFile],
        removes: Sequence[TableFile] = (),
        *,
        now_ms: int,
        transactions: Mapping[str, int] | None = None,
        versions: Mapping[str, int] | None = None,
        pending: Mapping[str, Sequence[TableFile]] | None = None,
        facts: Mapping[str, object] | None = None,
    ) -> int:
        """Commit to the head table, and return its version.

        Args:
            merged: returns the new state from the last one, which another run may have committed meanwhile; raises
                LockedError if this run may not commit then.
            adds: new files of the head table.
            removes: files that it has no longer.
            now_ms: time of the commit, in ms since 1970.
            transactions: further transactions: numbers by application.
            versions: versions of other tables that belong to this commit; None: the versions of the last commit.
            pending: files that other tables get after it.
            facts: facts for the table's history.

        Raises LockedError if another run has committed what this one would, StorageError if nothing is committed,
        UnfinishedError if the other tables did not get their files: the next run adds them.
        """
        output = self.output
        self._sign.renew()
        # As often as other runs may commit first; each time the state is merged again.
        for _ in range(_ATTEMPTS):
            self._refuse_if_fenced()
            self._commits += 1
            state = merged(output.state)
            name = f"{_STATES}/{small_name(self.run_id, self._commits)}"
            # The state file before the commit that names it: a commit without its state could not be read.
            self._write_state(name, state, versions, pending)
            try:
                version = output.head.commit(
                    adds,
                    removes,
                    {_TRANSACTION: _token(name), **(transactions or {})},
                    now_ms=now_ms,
                    facts={"run": self.run_id, **(facts or {})},
                )
            except ConflictError:
                # The head has moved: look at the new state, and decide again whether both fit.
                output.refresh()
                self._refuse_if_other(removes)
                continue
            break
        else:
            raise LockedError("other runs commit all the time; run the same command again", path=self.store.root)
        before = output.state_name
        output.load()
        if before is not None:
            # The old state is not needed any more; if this fails, the next run deletes it.
            with suppress(StorageError):
                self._remove([before])
        try:
            self._append_pending()
        except StorageError as error:
            raise UnfinishedError(
                f"the records are committed, but another table is not complete: {error}; run the same command again",
                path=self.store.root,
            ) from error
        return version

    def commit_other(self, table: str, adds: Sequence[TableFile], removes: Sequence[TableFile], *, now_ms: int) -> int:
        """Commit to another table before the head, and return its version, for `versions` of `commit`.

        The table then has the files that belonged to the last commit of the head, changed by these.
        """
        other, number = self.output.tables[table], self.output.versions.get(table)
        before = {} if number is None else other.files(number)
        gone = {file.name for file in removes}
        wanted = {name: file for name, file in before.items() if name not in gone}
        wanted |= {file.name: file for file in adds}
        with suppress(ConflictError):
            # Before the others, so that the directory is known for what it is
            self.output.head.create()
        for _ in range(_ATTEMPTS):
            self._refuse_if_moved()
            other.refresh()
            there = other.files()
            new = [file for name, file in wanted.items() if name not in there]
            old = [file for name, file in there.items() if name not in wanted]
            if not new and not old and other.version is not None:
                return other.version
            with suppress(ConflictError):
                return other.commit(new, old, {}, now_ms=now_ms, facts={"run": self.run_id})
        raise LockedError(MEANWHILE, path=self.store.root)

    def _write_state(
        self,
        name: str,
        state: Mapping[str, Any],
        versions: Mapping[str, int] | None,
        pending: Mapping[str, Sequence[TableFile]] | None,
    ) -> None:
        waiting = {table: self.output.missing(table) for table in self.output.pending}
        for table, files in (pending or {}).items():
            number = max(waiting.get(table, {}), default=self.output.tables[table].transaction(_TRANSACTION) or 0) + 1
            waiting[table] = {**waiting.get(table, {}), number: list(files)}
        value = {
            "format": _FORMAT,
            "version": _VERSION,
            "kind": self._kind.name,
            "versions": self.output.versions if versions is None else versions,
            "pending": {
                table: {number: [file._asdict() for file in files] for number, files in numbered.items()}
                for table, numbered in waiting.items()
                if numbered
            },
            "state": state,
        }
        self._step("write", name)
        self.store.write(name, json.dumps(value).encode())
        # Durable before the commit, which may be durable at once.
        self.store.sync_directories([name])

    def _append_pending(self) -> None:
        """Add to the other tables what belongs to commits of the head; doing so twice changes nothing."""
        for name in self.output.pending:
            table = self.output.tables[name]
            for _ in range(_ATTEMPTS):
                table.refresh()
                # Doing it twice changes nothing: the transaction number says which files are in.
                missing = self.output.missing(name)
                if not missing:
                    break
                files = [file for some in missing.values() for file in some]
                with suppress(ConflictError):
                    table.commit(files, (), {_TRANSACTION: max(missing)}, now_ms=0, facts={"run": self.run_id})

    def _refuse_if_moved(self) -> None:
        before = self.output.state_name
        self.output.refresh()
        self._refuse_if_fenced()
        if self.output.state_name != before:
            raise LockedError(MEANWHILE, path=self.store.root)

    def _refuse_if_fenced(self) -> None:
        if self.output.head.transaction(f"{_FENCE}/{self.run_id}") is not None:
            raise LockedError(
                "another run took this one for ended, as it had committed nothing for a day, and has deleted its "
                "files; run the same command again",
                path=self.store.root,
            )

    def _refuse_if_other(self, removes: Sequence[TableFile]) -> None:
        """Raise LockedError if files that this run removes are no longer in the table."""
        if removes and not {file.name for file in removes} <= self.output.head.files().keys():
            raise LockedError(
                "files that this run replaces were replaced by somebody else meanwhile; run the same command again",
                path=self.store.root,
            )

    # --- what ended runs have left ------------------------------------------------------------------------------------
    def _tidy(self, listed: Mapping[str, int]) -> None:
        """Delete the uncommitted files of runs that have ended."""
        # Files without the name of a run are not ours to delete.
        others = [name for name in listed if run_of(name) not in {None, self.run_id}]
        # They may be committed meanwhile, and by runs that go on
        doubtful = self._left(others)
        # By the store's clock: machines may differ.
        now_s = self.store.written_s(run_signs.sign_name(self.run_id)) or 0.0
        ended, silent = set(), set()
        for run in {run for name in doubtful if (run := run_of(name)) is not None}:
            if run_signs.is_dead(self.store, run):
                ended.add(run)
            elif run_signs.is_silent(self.store, run, now_s):
                silent.add(run)
        if silent:
            # First the fence, then the deletion: a silent run that wakes up must not commit deleted files.
            self._fence(sorted(silent))
        gone = ended | silent
        if gone:
            self._delete([name for name in doubtful if run_of(name) in gone])

    def _delete(self, names: Sequence[str]) -> None:
        """Delete the given files that no commit names, by the present state of all tables."""
        # Looked at again: what was doubtful may be committed by now.
        self.output.refresh()
        for table in self.output.tables.values():
            table.refresh()
        self._remove(self._left(names))

    def _left(self, names: Sequence[str]) -> list[str]:
        """Return the files that no commit names."""
        output = self.output
        known = {output.state_name, *self._kind.kept(output.state)}
        for folder, numbered in output.pending.items():
            known |= {f"{folder}/{file.name}" for files in numbered.values() for file in files}
        for table in (output.head, *output.tables.values()):
            folder = f"{table.spec.name}/"
            own = {name for name in names if name.startswith(folder)}
            unknown = table.unknown() if own else None
            if unknown is not None:
                known |= {name for name in own if name.removeprefix(folder) not in unknown}
        return [name for name in names if name not in known]

    def _fence(self, silent: Sequence[str]) -> None:
        """Commit that some runs may not commit any more."""
        head = self.output.head
        # A transaction of the table and no state: whatever a silent run commits next conflicts with it, as no commit
        # is tried again without a look at the table.
        fences = {f"{_FENCE}/{run}": 1 for run in silent}
        for _ in range(_ATTEMPTS):
            with suppress(ConflictError):
                head.commit((), (), fences, now_ms=0, facts={"run": self.run_id})
                return
            head.refresh()
        raise LockedError("other runs commit all the time; run the same command again", path=self.store.root)


def _token(name: str) -> int:
    """Return the number by which a transaction names a state file."""
    # 63 bits: Delta's transaction versions are signed.
    return int.from_bytes(hashlib.sha256(name.rpartition("/")[2].encode()).digest()[:8]) >> 1
