"""The transactions of a log file, through torn ends, damage and zeros; what is odd becomes a finding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import FormatError, StorageError
from kafkalog_core.findings import found
from kafkalog_core.format.zookeeper.layout import FILE_HEADER
from kafkalog_core.format.zookeeper.transactions import decode_transaction
from kafkalog_core.format.zookeeper.txn_log import MAX_ENTRY_BYTES, LogEntry, check_log_header, find_entry, read_entry
from kafkalog_core.storage.access import code_of_error
from kafkalog_core.storage.source import Source, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from kafkalog_core.findings import Finding
    from kafkalog_core.format.zookeeper.transactions import Transaction
    from kafkalog_core.kafka.sim.zookeeper.data_dir import ZxidFile
    from kafkalog_core.progress import Progress

__all__ = ["transactions_of"]

_WINDOW_BYTES: Final = 4 * 1024 * 1024
_MAX_FRAME_BYTES: Final = MAX_ENTRY_BYTES + 64
_ENDS: Final = {"end": "zeros", "partial": "a transaction that is not whole"}
"""What a server takes for the end of a log."""
_PROBLEMS: Final = {"checksum": "the Adler-32 is wrong", "length": "no transaction has this length"}
"""What it does not start on."""


def transactions_of(file: ZxidFile, findings: list[Finding], progress: Progress) -> Iterator[Transaction]:
    """Yield the transactions of a log, in order.

    A server ends the log at an entry that was not written as a whole, and at zeros. It does not start after a wrong
    checksum (FileTxnIterator.next). Here the search continues after all of these: what is found there counts, and the
    zxids show what is missing.
    """
    try:
        with Source.open(file.path) as source:
            yield from _Reading(file.path, source, findings, progress).transactions()
    except StorageError as error:
        findings.append(found(code_of_error(error), error.path or file.path, reason=error.message))


class _Reading:
    """One pass over a log."""

    def __init__(self, path: str, source: Source, findings: list[Finding], progress: Progress) -> None:
        self._path = path
        self._source = source
        self._findings = findings
        self._progress = progress

    def transactions(self) -> Iterator[Transaction]:
        try:
            check_log_header(self._source.read(0, FILE_HEADER.size))
        except FormatError as error:
            self._add("zookeeper.log-damaged", 0, self._source.size_bytes, problem=error.message)
            return
        position: int | None = FILE_HEADER.size
        while position is not None:
            position = yield from self._run(position)

    def _run(self, position: int) -> Generator[Transaction, None, int | None]:
        """Yield the transactions up to what is none; return where the next ones are, None: there are no more."""
        needs = _WINDOW_BYTES
        while True:
            try:
                window = self._source.window(position, needs)
            except UnreadableError as error:
                self._add("zookeeper.log-damaged", position, error.size_bytes, problem="the disk cannot read them")
                return self._next_after(position + error.size_bytes)
            is_last = position + len(window) >= self._source.size_bytes
            at = 0
            while isinstance(entry := read_entry(window, at, is_last=is_last), LogEntry):
                try:
                    transaction = decode_transaction(bytes(window[entry.start : entry.end]))
                except FormatError as error:
                    size = entry.next_position - at
                    self._add(
                        "zookeeper.log-damaged", position + at, size, problem=f"not a transaction: {error.message}"
                    )
                else:
                    yield transaction
                at = entry.next_position
            self._progress.advance(at)
            position += at
            if entry.reason != "more":
                return self._stopped(entry.reason, position)
            if not at and entry.needs_bytes <= needs:  # more was asked for, and the disk does not give it
                self._add("zookeeper.log-damaged", position, len(window), problem="the disk cannot read what follows")
                return self._next_after(position + len(window))
            needs = max(_WINDOW_BYTES, min(entry.needs_bytes, _MAX_FRAME_BYTES))

    def _stopped(self, reason: str, position: int) -> int | None:
        """Report why there is no transaction at a position; return where the next one is, None: there is none."""
        size = self._source.size_bytes
        after = self._next_after(position + (reason != "end"))
        if reason in _ENDS:
            if after is not None:
                self._add("zookeeper.log-hidden", position, after - position, problem=_ENDS[reason])
            elif reason == "partial":
                self._add("zookeeper.log-torn", position, self._data_end(position) - position)
            return after
        end = self._data_end(position) if after is None else after
        self._add("zookeeper.log-damaged", position, min(end, size) - position, problem=_PROBLEMS[reason])
        return after

    def _next_after(self, position: int) -> int | None:
        """Return the position of the next whole entry; None: there is none. Holes of a sparse file are skipped."""
        size = self._source.size_bytes
        while position < size:
            position = self._source.hole_end(position)
            try:
                window = self._source.window(position, _WINDOW_BYTES)
            except UnreadableError as error:
                position += error.size_bytes
                continue
            if not len(window):
                return None
            is_last = position + len(window) >= size
            if any(window):
                found_at = find_entry(window, 0, is_last=is_last)
                if found_at is not None:
                    return position + found_at
            # An entry may begin in this window and end in the next one: half of it is searched again.
            position += len(window) if is_last else max(1, len(window) // 2)
        return None

    def _data_end(self, position: int) -> int:
        """Return the end of the last byte that is not 0, from a position on."""
        end, at = position, position
        while at < self._source.size_bytes:
            at = self._source.hole_end(at)
            try:
                window = self._source.window(at, _WINDOW_BYTES)
            except UnreadableError as error:
                at += error.size_bytes
                continue
            if not len(window):
                break
            stripped = len(bytes(window).rstrip(b"\0"))
            end = at + stripped if stripped else end
            at += len(window)
        return end

    def _add(self, code: str, position: int, size_bytes: int, problem: str = "") -> None:
        finding = found(code, self._path, position=position, size_bytes=size_bytes, problem=problem)
        self._findings.append(finding)
