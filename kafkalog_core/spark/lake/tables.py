"""One Delta table: its files by name, and commits that add and remove files in one step.

The files are written by tasks, before the commit that makes them part of the table. Each commit names transactions:
pairs of an application and a number, of which the table remembers the last one of each application.
https://github.com/delta-io/delta/blob/master/PROTOCOL.md
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

from kafkalog_core.errors import AccessError, StorageError
from kafkalog_core.spark.lake.clouds import check_installed
from kafkalog_core.spark.lake.store import reason_of, shown, store_problem
from kafkalog_core.spark.session.schema import is_derived
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from deltalake import DeltaTable

    from kafkalog_core.output.tables import Table
    from kafkalog_core.spark.lake.store import Store

__all__ = ["BOUNDED", "ConflictError", "LakeTable", "TableFile", "TableSpec"]

_LOG: Final = "_delta_log"
BOUNDED: Final = frozenset(
    {"topic", "partition", "offset", "base_offset", "last_offset", "timestamp_ms", "max_timestamp_ms"}
)
"""The columns whose bounds a commit gives, in any table that has them."""
_BOUNDED_HERE: Final = "delta.dataSkippingStatsColumns"
"""The table property that names the columns with bounds: without it, readers expect bounds of every column."""


class ConflictError(StorageError):
    """Another commit came first; nothing of this one was done."""


class TableFile(NamedTuple):
    """A file of a table.

    `name` is its path below the table's directory. `values` are the values of the partition columns, `bounds`
    the least and greatest values of other columns, and `nulls` the rows in which they are null, as far as they are
    known.
    """

    name: str
    rows: int
    size_bytes: int
    values: Mapping[str, str] = {}
    bounds: Mapping[str, tuple[Any, Any]] = {}
    nulls: Mapping[str, int] = {}


class TableSpec(Struct, frozen=True, kw_only=True):
    """What a table is.

    Args:
        name: its directory below the output.
        table: the table of its rows.
        description: a sentence for people who find the table.
        never_null: bounded columns that are null in no row. Releases that did not count nulls wrote tables of which
            readers can trust the bounds of these alone.
    """

    name: str
    table: Table
    description: str = ""
    never_null: tuple[str, ...] = ()


class LakeTable:
    """A Delta table below an output's store; it may not exist yet.

    Raises StorageError where the table cannot be read or written, with the words of the library.
    """

    def __init__(self, store: Store, spec: TableSpec, disk: Disk | None = None) -> None:
        check_installed()
        self.spec = spec
        self.store = store.below(spec.name)
        self._disk = disk or Disk()
        self._handle: DeltaTable | None = None
        self.refresh()

    @property
    def partitioned_by(self) -> tuple[str, ...]:
        """The columns whose values are in the table's log and not in its files, in tables of earlier builds."""
        return () if self._handle is None else tuple(self._handle.metadata().partition_columns)

    @property
    def version(self) -> int | None:
        """The version that this object shows; None: the table does not exist."""
        return None if self._handle is None else self._handle.version()

    def refresh(self) -> None:
        """Show the latest version."""
        with self._errors("read"):
            if self._handle is None:
                self._handle = self._opened(None)
            else:
                # Only the commits since the last look.
                self._handle.update_incremental()

    def transaction(self, application: str) -> int | None:
        """Return the number of an application's last transaction; None: it had none."""
        if self._handle is None:
            return None
        with self._errors("read"):
            return self._handle.transaction_version(application)

    def versions(self) -> dict[str, int]:
        """Return the last version that each run has committed, as far as the table's log still has it."""
        if self._handle is None:
            return {}
        with self._errors("read"):
            return {entry["run"]: entry["version"] for entry in reversed(self._handle.history()) if "run" in entry}

    def files(self, version: int | None = None) -> dict[str, TableFile]:
        """Return the files of a version, by name; None: the version that this object shows."""
        import pyarrow as pa  # noqa: PLC0415 -- where there is work for it

        with self._errors("read"):
            handle = self._handle if version is None or version == self.version else self._opened(version)
            if handle is None:
                return {}
            actions = pa.table(handle.get_add_actions(flatten=True)).to_pydict()
        bounds, nulls = (
            [name.removeprefix(kind) for name in actions if name.startswith(kind)] for kind in ("min.", "null_count.")
        )
        found = {}
        for at, path in enumerate(actions["path"]):
            # Paths in the log are URL-encoded (Delta's protocol).
            name = unquote(path)
            found[name] = TableFile(
                name,
                actions["num_records"][at] or 0,
                actions["size_bytes"][at],
                {column: str(actions[f"partition.{column}"][at]) for column in self.partitioned_by},
                {
                    column: (actions[f"min.{column}"][at], actions[f"max.{column}"][at])
                    for column in bounds
                    if actions[f"min.{column}"][at] is not None
                },
                {
                    column: actions[f"null_count.{column}"][at]
                    for column in nulls
                    if actions[f"null_count.{column}"][at] is not None
                },
            )
        return found

    def unknown(self) -> set[str] | None:
        """Return the names of the files that no commit has added or removed; None: there is no table, so all files."""
        if self._handle is None:
            return None
        with self._errors("read"):
            # Twice a dry run: with `full`, every file that no version needs; without it, those that a commit has
            # removed. The difference was never committed.
            all_unneeded, removed = (
                self._handle.vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False, full=is_full)
                for is_full in (True, False)
            )
        return {*all_unneeded} - {*removed}

    def commit(
        self,
        adds: Sequence[TableFile],
        removes: Sequence[TableFile],
        transactions: Mapping[str, int],
        *,
        now_ms: int,
        facts: Mapping[str, object],
    ) -> int:
        """Add and remove files in one step, and return the version. `facts` are shown by the table's history.

        Raises ConflictError if the table has a newer version than this object shows. The library would look itself
        whether the two commits agree, and does not see that a compaction has replaced a file that is removed here.
        """
        from deltalake import transaction as actions  # noqa: PLC0415 -- the extra [lake]: where there is work for it

        # The names of the files before the commit that names them.
        self.store.sync_directories(file.name for file in adds)
        with self._errors("written"):
            handle = self._handle or self._created()
            # As nothing is tried again
            version = handle.version() + 1
            steps: list[Any] = [_add(actions.AddAction, file, now_ms) for file in adds]
            steps += [_remove(actions.RemoveAction, file, now_ms) for file in removes]
            properties = actions.CommitProperties(
                custom_metadata={name: str(value) for name, value in facts.items()},
                max_commit_retries=0,
                app_transactions=[actions.Transaction(name, number) for name, number in transactions.items()],
            )
            self._disk.step("commit", self.store.path(_LOG))
            handle.create_write_transaction(
                steps,
                mode="append",
                schema=handle.schema(),
                partition_by=[*self.partitioned_by],
                commit_properties=properties,
            )
        self._disk.step("committed", self.store.path(_LOG))
        # The library does not fsync what it writes.
        self._sync(version)
        self.refresh()
        return version

    def create(self) -> None:
        """Create the table if it does not exist. Raises ConflictError if another run did and has committed."""
        if self._handle is None:
            with self._errors("written"):
                self._created()

    def upgrade(self) -> None:
        """Let a table of an earlier build say which columns have bounds, and have all columns of this one.

        Raises ConflictError.
        """
        if self._handle is None:
            return
        if _BOUNDED_HERE not in self._handle.metadata().configuration:
            with self._errors("written"):
                self._disk.step("commit", self.store.path(_LOG))
                self._handle.alter.set_table_properties({_BOUNDED_HERE: ",".join(self.spec.never_null)})
            self._sync(self._handle.version())
            self.refresh()
        there = set(self._columns)
        if missing := [name for name in self._wanted if name not in there]:
            from deltalake import Schema  # noqa: PLC0415 -- see `commit`

            from kafkalog_core.spark.session.arrow import arrow_schema  # noqa: PLC0415 -- see `files`

            with self._errors("written"):
                self._disk.step("commit", self.store.path(_LOG))
                self._handle.alter.add_columns(Schema.from_arrow(arrow_schema(self.spec.table, missing)).fields)
            self._sync(self._handle.version())
            self.refresh()

    @property
    def _wanted(self) -> list[str]:
        """The names of its columns in a new table."""
        return [name for name in self.spec.table.names if name != "type"]

    @property
    def _columns(self) -> list[str]:
        return [] if self._handle is None else [field.name for field in self._handle.schema().fields]

    @property
    def is_foreign(self) -> bool:
        """Whether there are files, or columns that kafkalog's table does not have.

        There may be commits: of two runs that create a table at once, both may do so, one after the other.
        """
        if self._handle is None:
            return False
        of_first_builds = {*self._wanted} - {each.name for each in self.spec.table.columns if is_derived(each)}
        return not of_first_builds <= {*self._columns} <= {*self._wanted} or bool(self.files())

    def _sync(self, version: int) -> None:
        """Fsync a commit, and the name of its file."""
        if self.store.syncs:
            self._disk.sync_file(self.store.path(f"{_LOG}/{version:020}.json"))
            self._disk.sync_directory(self.store.path(_LOG))

    def _opened(self, version: int | None) -> DeltaTable | None:
        from deltalake import DeltaTable  # noqa: PLC0415 -- see `commit`
        from deltalake.exceptions import TableNotFoundError  # noqa: PLC0415

        try:
            with self.store.delta_options() as options:
                return DeltaTable(self.store.root, version=version, storage_options=options)
        except TableNotFoundError:
            return None

    def _created(self) -> DeltaTable:
        """Create the table. Raises ConflictError if another run did and has committed since `refresh`."""
        from deltalake import DeltaTable  # noqa: PLC0415 -- see `commit`

        from kafkalog_core.spark.session.arrow import arrow_schema  # noqa: PLC0415 -- see `files`

        names = self._wanted
        self._disk.step("create", self.store.root)
        with self.store.delta_options() as options:
            self._handle = DeltaTable.create(
                self.store.root,
                schema=arrow_schema(self.spec.table, names),
                # `ignore`: of two runs that create the table at once, one succeeds and the other goes on with it.
                mode="ignore",
                name=self.spec.name,
                description=self.spec.description,
                configuration={_BOUNDED_HERE: ",".join(name for name in names if name in BOUNDED)},
                storage_options=options,
            )
        self._sync(0)
        # The table's directory, the output directory and its parent: each may be new.
        if self.store.syncs:
            for above in (
                self.store.root,
                os.path.dirname(self.store.root),
                os.path.dirname(os.path.dirname(self.store.root)),
            ):
                self._disk.sync_directory(above)
        if self._handle.version() > 0:
            raise ConflictError("another run has created this table", path=self.store.root)
        return self._handle

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        """Turn errors of the library into a sentence."""
        from deltalake.exceptions import CommitFailedError, DeltaError  # noqa: PLC0415 -- see `commit`

        try:
            yield
        except (OSError, DeltaError) as error:
            reason, cause = reason_of(error), shown(error)
            if isinstance(error, CommitFailedError):
                raise ConflictError(f"another commit came first: {reason}", path=self.store.root) from cause
            known = store_problem(self.store.root, error, what)
            if known is not None:
                raise known from cause
            kind = AccessError if isinstance(error, OSError) else StorageError
            raise kind(f"the Delta table cannot be {what}: {reason}", path=self.store.root) from cause


def _add(action: Any, file: TableFile, now_ms: int) -> Any:
    stats = {
        "numRecords": file.rows,
        "minValues": {name: low for name, (low, _) in file.bounds.items()},
        "maxValues": {name: high for name, (_, high) in file.bounds.items()},
        "nullCount": dict(file.nulls),
    }
    return action(
        path=file.name,
        size=file.size_bytes,
        partition_values=dict(file.values),
        modification_time=now_ms,
        data_change=True,
        stats=json.dumps(stats),
    )


def _remove(action: Any, file: TableFile, now_ms: int) -> Any:
    return action(
        path=file.name,
        data_change=True,
        deletion_timestamp=now_ms,
        size=file.size_bytes,
        partition_values=dict(file.values),
    )
