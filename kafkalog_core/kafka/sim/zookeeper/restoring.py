"""A server's tree as its start would rebuild it: the newest whole snapshot, then each later transaction of the logs.

FileTxnSnapLog.restore, FileSnap.deserialize and FileTxnLog.getLogFiles are the rule. A server applies what follows a
gap all the same; here a gap is found by the zxids, which a leader counts without one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import FormatError, SelectionError, StorageError
from kafkalog_core.findings import DENIED, found
from kafkalog_core.format.zookeeper.layout import CREATES
from kafkalog_core.kafka.sim.zookeeper.data_dir import read_snapshot
from kafkalog_core.kafka.sim.zookeeper.tree import Tree, empty_tree, is_next, zxid_text
from kafkalog_core.kafka.sim.zookeeper.txn_files import transactions_of
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.storage.access import code_of_error
from kafkalog_core.structs import Struct
from kafkalog_core.text import moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.format.zookeeper.transactions import Transaction
    from kafkalog_core.kafka.sim.zookeeper.data_dir import DataDir, ZxidFile
    from kafkalog_core.progress import Progress

__all__ = ["Restored", "UntilZxid", "restore", "transactions_from"]

_TRIED_SNAPSHOTS: Final = 100
"""How many snapshots a server tries (FileSnap.deserialize)."""
_DIGEST_VERSION: Final = 2
_SHOWN_GAPS: Final = 20


class UntilZxid(Struct, frozen=True):
    """The moment that is asked for: the last transaction, or a time; both None: the end of the logs."""

    zxid: int | None = None
    time_ms: int | None = None


_UNREAD: Final = frozenset((DENIED, "file.not-readable", "file.vanished", "object.replaced"))
"""What `code_of_error` says of a file that cannot be read at all."""


class Restored(Struct, kw_only=True):
    """A tree and how far it can be trusted.

    Args:
        data_dir: the files.
        tree: the nodes.
        snapshot: where it begins; None: with an empty tree.
        last_zxid: the last transaction that it has.
        last: that transaction; None: no log has it.
        transactions: how many were applied.
        gaps: the first and the last transaction of what is missing.
        digest_is_equal: whether the tree has the digest that the last transaction recorded; None: it recorded none.
        findings: about the files.
        is_cut: whether transactions follow that were not asked for.
    """

    data_dir: DataDir
    tree: Tree
    snapshot: ZxidFile | None = None
    last_zxid: int = 0
    last: Transaction | None = None
    transactions: int = 0
    gaps: list[tuple[int, int]]
    digest_is_equal: bool | None = None
    findings: list[Finding]
    is_cut: bool = False

    @property
    def time_ms(self) -> int | None:
        """When the last transaction was made; None: no log has it."""
        return None if self.last is None else self.last.time_ms

    @property
    def can_be_restored(self) -> bool:
        """Whether every change is in the tree."""
        return not self.gaps and self.digest_is_equal is not False


class _Base(Struct, frozen=True, kw_only=True):
    """Where a replay begins.

    Args:
        file: a snapshot; None: the tree is empty.
        tree: its tree.
        newest: the last transaction of which a fuzzy snapshot may have effects: without it the tree is of no moment.
    """

    file: ZxidFile | None
    tree: Tree
    newest: int = 0

    @property
    def zxid(self) -> int:
        """The transaction after which the replay begins."""
        return 0 if self.file is None else self.file.zxid


def restore(data_dir: DataDir, until: UntilZxid | None = None, progress: Progress = NO_PROGRESS) -> Restored:
    """Return the tree of a server at its end, or at a moment. Raises SelectionError for one before the logs."""
    end = _zxid_of(data_dir, until or UntilZxid(), progress)
    restored = _replay(data_dir, data_dir.snapshots, end, progress)
    first = restored
    while end is not None and restored.digest_is_equal is False and not restored.gaps and restored.snapshot is not None:
        # A fuzzy snapshot may lack a node that a later transaction deleted: nothing but the digest shows that.
        older = [file for file in data_dir.snapshots if file.zxid < restored.snapshot.zxid]
        try:
            restored = _replay(data_dir, older, end, progress)
        except SelectionError:
            return first
    return first if restored.gaps else restored


def _replay(data_dir: DataDir, snapshots: Sequence[ZxidFile], end: int | None, progress: Progress) -> Restored:
    """Return the tree that these snapshots and the logs give."""
    findings: list[Finding] = []
    base = _choose_base(data_dir, snapshots, end, findings)
    tree = base.tree
    restored = Restored(
        data_dir=data_dir, tree=tree, snapshot=base.file, last_zxid=base.zxid, gaps=[], findings=findings
    )
    # The log that has the last transaction of the snapshot too: its time and its digest are there.
    for transaction in transactions_from(data_dir, base.zxid - 1, findings, progress):
        zxid = transaction.zxid
        if end is not None and zxid > end:
            restored.is_cut = True
            break
        if zxid > restored.last_zxid:
            if not is_next(zxid, restored.last_zxid):
                restored.gaps.append((restored.last_zxid + 1, zxid - 1))
            tree.apply(transaction)
            restored.transactions += 1
            restored.last_zxid = zxid
        if zxid == restored.last_zxid:
            restored.last = transaction
    # The name of a log is its first transaction (FileTxnLog.append): that one is missing with a log that is not read.
    unread = {finding.path for finding in findings if finding.code in _UNREAD}
    hidden = (file.zxid for file in data_dir.logs if file.path in unread and (end is None or file.zxid <= end))
    newest = max([base.newest, *hidden])
    if newest > restored.last_zxid and not restored.is_cut:
        restored.gaps.append((restored.last_zxid + 1, newest))
    _judge(restored)
    return restored


def transactions_from(
    data_dir: DataDir, zxid: int, findings: list[Finding], progress: Progress = NO_PROGRESS
) -> Iterator[Transaction]:
    """Yield the transactions of the log that may have this one, and of all later logs (FileTxnLog.getLogFiles)."""
    logs = data_dir.logs
    first = max([number for number, file in enumerate(logs) if file.zxid <= zxid + 1], default=0)
    for file in logs[first:]:
        yield from transactions_of(file, findings, progress)


def _zxid_of(data_dir: DataDir, until: UntilZxid, progress: Progress) -> int | None:
    """Return the last transaction that is asked for; None: all. A time is that of the last one before it."""
    if until.time_ms is None:
        return until.zxid
    last: int | None = None
    first_ms: int | None = None
    for transaction in transactions_from(data_dir, 0, [], progress):
        first_ms = transaction.time_ms if first_ms is None else first_ms
        if transaction.time_ms > until.time_ms:
            break
        last = transaction.zxid
    if last is None:
        begin = "there is no log" if first_ms is None else f"the logs begin at {moment(first_ms)}"
        raise SelectionError(f"{data_dir.path}: nothing is known of that moment: {begin}")
    return last


def _choose_base(data_dir: DataDir, snapshots: Sequence[ZxidFile], end: int | None, findings: list[Finding]) -> _Base:
    """Return the newest whole snapshot of that moment or before; else the empty tree."""
    is_old = _is_before_34(data_dir)
    skipped: list[tuple[ZxidFile, Exception]] = []
    early = [file for file in snapshots if end is None or file.zxid <= end]
    fuzzy: _Base | None = None
    for file in early[:_TRIED_SNAPSHOTS]:
        try:
            snapshot = read_snapshot(file)
        except (FormatError, StorageError) as error:
            skipped.append((file, error))
            continue
        tree = Tree(snapshot, counts_deletes=is_old)
        recorded = 0 if snapshot.digest is None else snapshot.digest.zxid
        base = _Base(file=file, tree=tree, newest=max(recorded, tree.newest_zxid()))
        # What the snapshot has of later transactions cannot be taken out: an older one is exact.
        if end is not None and base.newest > end:
            fuzzy = fuzzy or base
            continue
        findings += _of_skipped(skipped, has_other=True)
        if file.zxid and not data_dir.logs and end is None:  # a new server has a snapshot of zxid 0, and no log yet
            findings.append(found("zookeeper.no-log", data_dir.path, zxid=zxid_text(file.zxid)))
        return base
    findings += _of_skipped(skipped, has_other=False)
    starts = [file.zxid for file in data_dir.logs]
    if end is not None and (not starts or not is_next(starts[0], 0)):
        if fuzzy is not None:
            return fuzzy
        begins = min([*starts, *(file.zxid for file in data_dir.snapshots)], default=0)
        raise SelectionError(
            f"{data_dir.path}: the tree at {zxid_text(end)} is unknown: the files begin at {zxid_text(begins)}"
        )
    if starts and end is None:
        findings.append(found("zookeeper.no-snapshot", data_dir.path))
    return _Base(file=None, tree=empty_tree(counts_deletes=is_old))


def _is_before_34(data_dir: DataDir) -> bool:
    """Return whether a server before 3.4 wrote the newest log that creates a node: its record has no cversion."""
    for file in reversed(data_dir.logs):
        for transaction in transactions_of(file, [], NO_PROGRESS):
            if transaction.operation.type in CREATES:
                return transaction.operation.parent_cversion is None
    return False


def _of_skipped(skipped: Iterable[tuple[ZxidFile, Exception]], *, has_other: bool) -> Iterator[Finding]:
    severity = "warning" if has_other else "error"
    for file, error in skipped:
        if isinstance(error, StorageError):
            yield found(code_of_error(error), error.path or file.path, reason=error.message)
        elif isinstance(error, FormatError):
            problem, position = error.message, error.position
            yield found(
                "zookeeper.snapshot-damaged",
                file.path,
                position=position,
                severity="error" if severity == "error" else "warning",
                problem=problem,
            )


def _judge(restored: Restored) -> None:
    """Compare digests, and add a finding for each gap."""
    last = restored.last
    digest = None if last is None or last.zxid != restored.last_zxid else last.digest
    if digest is not None and digest.version == _DIGEST_VERSION:
        restored.digest_is_equal = restored.tree.digest() == digest.value
    path = restored.data_dir.path
    for first, end in restored.gaps[:_SHOWN_GAPS]:
        restored.findings.append(found("zookeeper.gap", path, first=zxid_text(first), last=zxid_text(end)))
    if restored.digest_is_equal is False and not restored.gaps:
        restored.findings.append(found("zookeeper.digest", path, zxid=zxid_text(restored.last_zxid)))
