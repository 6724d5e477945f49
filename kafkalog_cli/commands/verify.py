"""`kafkalog verify`: check everything on a disk."""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack, closing
from typing import IO, TYPE_CHECKING, Any, Final, Self

import click

from kafkalog_cli.command import Command, Example, ExitStatus, version
from kafkalog_cli.commands.running import (
    Interruption,
    StoppableProgress,
    clock_ms,
    cores,
    warn_of_interpreted,
    write_results,
)
from kafkalog_cli.commands.shared import counted
from kafkalog_cli.options import common
from kafkalog_cli.options.common import resolve_readable
from kafkalog_cli.options.kafka import kafka_start_options
from kafkalog_cli.options.reading import input_storage_option, reading_options
from kafkalog_cli.output_file import OutputFile
from kafkalog_cli.render.progress import open_progress
from kafkalog_cli.render.report.data import RunFacts
from kafkalog_cli.render.writers import VERDICTS, open_results
from kafkalog_core.engine.report import Report
from kafkalog_core.errors import AccessError, KafkalogError
from kafkalog_core.ops.verify.engine import log_bytes, verify
from kafkalog_core.ops.verify.request import VerifyRequest
from kafkalog_core.ops.verify.resume import StateError, head_line, head_problem, place_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from types import TracebackType

    from kafkalog_cli.render.writers import ResultWriter
    from kafkalog_core.engine.selection import Selection
    from kafkalog_core.ops.verify.verdict import PartitionVerdict, PlaceVerdict

__all__ = ["StateFile", "verify_command"]

SAVE_SECONDS: Final = 10.0
_SAVE_SHARE: Final = 20
"""Saving takes at most this fraction (1/20) of the time."""
_LINE_BYTES: Final = 2**30
"""The longest line: the state of millions of producers."""

_Entry = tuple[int, int] | str

EXAMPLES = (
    Example("kafkalog verify /var/lib/kafka", "Check a whole log directory"),
    Example("kafkalog verify --quiet --fail-on warning /data/*/kafka && echo fine", "Check all disks in a script"),
    Example("kafkalog verify --report verify.html /var/lib/kafka", "Also write an HTML report"),
    Example(
        "kafkalog verify --resume verify.state /var/lib/kafka",
        "A large disk: run it again to continue an interrupted check",
    ),
    Example(
        "kafkalog verify --level checksums --topic 'pay*' /var/lib/kafka", "Check some topics without decoding records"
    ),
)


@click.command(name="verify", cls=Command, reads_objects=True, examples=EXAMPLES, exit_statuses=tuple(ExitStatus))
@common.targets_argument
@common.verdict_options
@click.option(
    "--report",
    metavar="FILE.html",
    help="Also write an HTML report: verdict, damage maps, timelines, cures. FILE must be outside log directories.",
)
@common.jobs_option
@click.option(
    "--resume",
    metavar="STATE",
    help=(
        "Save in this file which segments were checked, and skip segments that were checked before and have not "
        "changed: same size, modification time, inode, and 64 KiB at both ends. Saved every 10 seconds and at the end, "
        "also after Ctrl-C. STATE must be outside log directories."
    ),
)
@kafka_start_options
@common.selection_options
@common.limit_options
@reading_options
@input_storage_option
@common.output_option
def verify_command(paths: tuple[str, ...], selection: Selection, **given: Any) -> int:
    """Check everything on a disk: logs, indexes, snapshots, checkpoints, names, owners.

    PATH is a log directory, a partition directory, a file or a glob of them, also in an object store:
    s3://BUCKET/PREFIX. Name all log directories of a broker
    together, so that kafkalog compares them. Nothing is changed. The exit status is 4 if there is damage; files that
    brokers leave in normal operation are not damage. It is 3 if one of several PATHs cannot be read; the others are
    checked nevertheless.
    """
    if given["report"] is not None and given["resume"] is not None:
        _check_apart(given["report"], given["resume"])
    report = Report(fail_on=given["fail_on"])
    request = VerifyRequest(
        targets=resolve_readable(paths, selection, report),
        level=given["level"],
        now_ms=clock_ms(),
        max_batch_bytes=given["max_batch_bytes"],
        jobs=given["jobs"] or cores(),
        kafka=given["request"],
    )
    warn_of_interpreted()
    output = "quiet" if given["quiet"] else given["output"]
    with ExitStack() as stack:
        state = _open_state(given["resume"], request, report, stack)
        facts = _run_facts(paths, selection, request, report)
        page = _open_page(given["report"], request, facts)
        verdicts = stack.enter_context(closing(_verdicts(request, output, state, report)))
        status = write_results(open_results(VERDICTS, output), counted(verdicts, report, page), report)
        if page is not None:
            page.finish(report.summary_row())
    return status


def _verdicts(
    request: VerifyRequest, output: str, state: StateFile | None, report: Report
) -> Generator[PartitionVerdict | PlaceVerdict, None, None]:
    """Yield the verdicts until Ctrl-C. Raises Stopped."""
    is_shared = output == "quiet" or (sys.stdout.isatty() and output != "table")
    with Interruption() as interruption, open_progress(shares_terminal=is_shared) as progress:
        if sys.stderr.isatty() and not is_shared:
            progress.expect(log_bytes(request.targets))
        with closing(verify(request, StoppableProgress(progress, interruption, report), state)) as verdicts:
            yield from verdicts


def _check_apart(report: str, state: str) -> None:
    if os.path.realpath(report) == os.path.realpath(state):
        raise click.UsageError("--report and --resume name the same file; name two files")


def _open_state(path: str | None, request: VerifyRequest, report: Report, stack: ExitStack) -> StateFile | None:
    """Open the state file of --resume; return `None` without --resume."""
    return None if path is None else stack.enter_context(StateFile(path, request, report, version()))


def _open_page(
    path: str | None, request: VerifyRequest, facts: RunFacts
) -> ResultWriter[PartitionVerdict | PlaceVerdict] | None:
    """Return the writer of the HTML report; `None` without --report."""
    if path is None:
        return None
    return open_results(
        VERDICTS, "html", OutputFile(path, (each.path for each in request.targets), is_ours=_is_page), facts
    )


def _is_page(start: bytes) -> bool:
    """Return whether a file begins like a report of this command."""
    return start.startswith(b"<!DOCTYPE html>") and b"<title>kafkalog verify</title>" in start


def _run_facts(paths: tuple[str, ...], selection: Selection, request: VerifyRequest, report: Report) -> RunFacts:
    return RunFacts(
        version=version(),
        level=request.level,
        targets=paths,
        selection=str(selection),
        started_ms=request.now_ms,
        refused=tuple(report.refusals),
    )


# --- the state file of --resume ---------------------------------------------------------------------------------------
class StateFile:
    """The state file of --resume: which segments were checked, so that an interrupted run can continue.

    The file is always complete: every few seconds and at the end it is written under another name and renamed. If the
    machine stops, only the work since the last save is lost. Lines are read from the file on request.

    Args:
        path: as the user gave it; an existing file is read.
        request: the request of the run.
        report: counts the bytes that are not read again.
        version: the version of kafkalog.

    Raises StateError for a file that is not a state, AccessError for a file that cannot be read or written.
    """

    def __init__(self, path: str, request: VerifyRequest, report: Report, version: str) -> None:
        self._report = report
        self._path = path
        self._out = OutputFile(path, (each.path for each in request.targets))
        self._head = head_line(request, version)
        self._entries: dict[str, list[_Entry]] = {}
        self._file: IO[bytes] | None = None
        self._is_changed = False
        self._is_warned = False
        self._saved_at = time.monotonic()
        self._pause = SAVE_SECONDS
        self._end = 0
        if os.path.lexists(path):
            try:
                self._open(request, version)
            except KafkalogError:
                self._close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_changed:
            self._save()
        self._close()

    def lines_of(self, partition: str) -> Sequence[str]:
        """Return the lines of a partition's first segments, in order."""
        return [self._text(entry) for entry in self._entries.get(partition, ())]

    def keep(self, partition: str, index: int, line: str) -> None:
        """Keep the line of a segment; it replaces the known lines of this segment and of all after it."""
        entries = self._entries.setdefault(partition, [])
        entries[index:] = [line]
        self._is_changed = True
        if time.monotonic() - self._saved_at > self._pause:
            self._save()

    def skipped(self, size_bytes: int) -> None:
        """Count bytes of log that were not read again."""
        self._report.unchanged_bytes += size_bytes

    # --- reading ------------------------------------------------------------------------------------------------------
    def _open(self, request: VerifyRequest, version: str) -> None:
        number = 0
        try:
            self._file = open(self._path, "rb")  # noqa: SIM115 -- lines are read from it until the end
            for number, raw in enumerate(_raw_lines(self._file), 1):
                line = _text_of(raw)
                if number > 1:
                    self._add(line)
                elif not self._is_usable(line, request, version):
                    self._close()
                    return
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise AccessError(f"the state of an earlier run cannot be read: {reason}", path=self._path) from error
        except StateError as error:
            message = f"not the state of an earlier run of kafkalog verify (line {number}: {error.message})"
            raise StateError(f"{message}; name another file, or delete it", path=self._path) from error
        if not number:
            raise StateError("an empty file, not the state of an earlier run; delete it", path=self._path)

    def _is_usable(self, head: str, request: VerifyRequest, version: str) -> bool:
        self._end = len(head)
        problem = head_problem(head, request, version)
        if problem is not None:
            click.echo(f"kafkalog: {self._path} is not used, {problem}: everything is read", err=True)
        return problem is None

    def _add(self, line: str) -> None:
        partition, index = place_of(line)
        entries = self._entries.setdefault(partition, [])
        if index != len(entries):
            raise StateError("its segments are not in order")
        entries.append((self._end, len(line)))
        self._end += len(line)

    def _text(self, entry: _Entry) -> str:
        if isinstance(entry, str):
            return entry
        if self._file is None:
            raise AssertionError("lines without a file")
        self._file.seek(entry[0])
        return self._file.read(entry[1]).decode("ascii")

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()

    # --- writing ------------------------------------------------------------------------------------------------------
    def _save(self) -> None:
        """Write the file; if that fails, the check continues, and the next save tries again."""
        start = time.monotonic()
        try:
            self._out.write(self._pieces())
            self._reopen()
        except AccessError as error:
            if not self._is_warned:
                click.echo(f"kafkalog: {error}; the check continues, but a later run may have to start over", err=True)
            self._is_warned = True
        self._saved_at = time.monotonic()
        self._pause = max(SAVE_SECONDS, _SAVE_SHARE * (self._saved_at - start))

    def _pieces(self) -> Iterator[str]:
        yield self._head
        for entries in self._entries.values():
            for entry in entries:
                yield self._text(entry)

    def _reopen(self) -> None:
        """Read lines from the file that was just written from now on."""
        self._is_changed = False
        self._close()
        self._file = open(self._path, "rb")  # noqa: SIM115 -- as above
        self._end = len(self._head)
        for entries in self._entries.values():
            for index, entry in enumerate(entries):
                size_bytes = len(entry) if isinstance(entry, str) else entry[1]
                entries[index] = (self._end, size_bytes)
                self._end += size_bytes


def _raw_lines(file: IO[bytes]) -> Iterator[bytes]:
    while line := file.readline(_LINE_BYTES):
        yield line


def _text_of(line: bytes) -> str:
    if not line.endswith(b"\n"):
        raise StateError("it is cut off")
    try:
        return line.decode("ascii")
    except UnicodeDecodeError as error:
        raise StateError("it is not a line of JSON") from error
