"""`kafkalog freeze`: keep what a broker is about to delete, next to the live broker, by hard links.

It acts at once. It changes nothing of a log directory and deletes nothing, and file.delete.delay.ms, by default a
minute, does not wait for a second command. `FreezeRequest.is_trial` shows what it would do.

All links are made first, which takes no space and ends the race with the broker. Then files that a link does not
protect are replaced by copies of themselves, each complete before it gets its name. So a run that ends anywhere leaves
links and whole copies, and the same command does the rest: it finds what is there by inode and by content.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import NotFoundError, RefusedError, StorageError
from kafkalog_core.findings import Finding, found
from kafkalog_core.format.index import used_entries
from kafkalog_core.format.layout import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kafkalog_core.format.names import LOG_KINDS, FileKind
from kafkalog_core.ops.usage.freeze_place import check_links, check_place
from kafkalog_core.ops.usage.freezing import chosen_dirs
from kafkalog_core.ops.usage.frozen_dir import FrozenDir
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.output.plans import FROZEN
from kafkalog_core.output.tables import FINDING
from kafkalog_core.storage.changing.new_dir import owned
from kafkalog_core.storage.changing.space import STAT_BLOCK_BYTES, free_bytes
from kafkalog_core.storage.changing.trusted import TrustedDirectories
from kafkalog_core.storage.changing.writer import Attributes, Disk, WriteError
from kafkalog_core.storage.scan import Damage, ScanOptions, scan
from kafkalog_core.storage.source import WINDOW_BYTES, FileChange, Source
from kafkalog_core.structs import Struct, field
from kafkalog_core.text import first_of, size

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from kafkalog_core.engine.report import Report
    from kafkalog_core.engine.targets import Target
    from kafkalog_core.ops.usage.freezing import ChosenDir, ChosenFile
    from kafkalog_core.ops.usage.frozen_dir import Origin
    from kafkalog_core.output.chunk import Chunk

__all__ = ["FreezeRequest", "Frozen", "freeze", "rows_of"]

_PASSES: Final = 3
"""How often the directories are listed while a broker renames and deletes what was listed."""
_INDEX_ENTRIES: Final = {FileKind.OFFSET_INDEX: OFFSET_INDEX_ENTRY, FileKind.TIME_INDEX: TIME_INDEX_ENTRY}
_Key = tuple["Origin", int, int]
"""A file of an origin, by device and inode: a second name of it in another partition is kept there too."""
_FREE_SHARE: Final = 2
"""A copy is made only if it leaves as many bytes free as it takes: a full disk stops the broker."""


class FreezeRequest(Struct, frozen=True, kw_only=True):
    """What to freeze.

    Args:
        resolve: lists the targets, as they are now.
        paths: as the user gave them, for the command lines that are shown.
        to: path of the directory of the links.
        takes_all: whether logs in use are kept too.
        is_trial: whether nothing is done.
    """

    resolve: Callable[[], Sequence[Target]]
    paths: tuple[str, ...]
    to: str
    takes_all: bool = False
    is_trial: bool = False


class Frozen(Struct, kw_only=True):
    """What was frozen of one partition directory, and the findings about it.

    Args:
        source: the directory.
        homes: where its files are.
        links: files that are kept by a hard link, and their bytes.
        copies: files that are copied, and their bytes.
        here_before: files that an earlier run had frozen.
    """

    topic: str
    partition: int
    source: str
    is_planned: bool
    homes: list[str] = field(default_factory=list)
    links: list[int] = field(default_factory=list)
    copies: list[int] = field(default_factory=list)
    here_before: int = 0
    findings: list[Finding] = field(default_factory=list)

    def row(self) -> dict[str, object]:
        """Return the `frozen` row."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "path": self.source,
            "state": "planned" if self.is_planned else "frozen",
            "to": "\n".join(self.homes),
            "links": len(self.links),
            "link_bytes": sum(self.links),
            "copies": len(self.copies),
            "copy_bytes": sum(self.copies),
            "here_before": self.here_before,
        }


def rows_of(each: Frozen | Finding) -> Iterator[Chunk]:
    """Yield the rows of a directory and of its findings."""
    if isinstance(each, Frozen):
        yield RowChunk(FROZEN, [each.row()])
    findings = [finding.row() for finding in _findings_of(each)]
    if findings:
        yield RowChunk(FINDING, findings)


def _findings_of(each: Frozen | Finding) -> list[Finding]:
    return each.findings if isinstance(each, Frozen) else [each]


def freeze(request: FreezeRequest, report: Report, disk: Disk | None = None) -> Generator[Frozen | Finding, None, None]:
    """Freeze, and yield what is kept of each directory once all of it is; a finding for what cannot be frozen.

    Raises SelectionError (single files), RefusedError (the directory is not suitable) and WriteError.
    """
    for each in _Freezing(request, disk or Disk()).run():
        for finding in _findings_of(each):
            report.add_finding(finding.row())
        report.rows += sum(chunk.count for chunk in rows_of(each))
        if isinstance(each, Frozen):
            report.partitions += 1
            report.files += len(each.links) + len(each.copies)
        yield each


class _Freezing:
    """One run: the directory, and what is known by now of each partition."""

    def __init__(self, request: FreezeRequest, disk: Disk) -> None:
        self._request = request
        self._disk = disk
        self._results: dict[Origin, Frozen] = {}
        self._done: set[_Key] = set()
        self._names: dict[str, set[str]] = {}
        self._missed: dict[_Key, ChosenFile] = {}
        self._elsewhere: dict[tuple[Origin, str], list[str]] = {}

    def run(self) -> Iterator[Frozen | Finding]:
        """Freeze all, and yield the results. Raises as `freeze`."""
        to: FrozenDir | None = None
        problems: dict[str, Finding] = {}
        for _ in range(_PASSES):
            dirs: list[ChosenDir] = []
            for each in chosen_dirs(self._request.resolve(), takes_all=self._request.takes_all):
                if isinstance(each, Finding):
                    problems[each.path] = each
                else:
                    dirs.append(each)
            missed = len(self._missed)
            if dirs:
                to = to or self._opened(dirs)
                self._freeze(to, dirs)
            # A file that is gone may have another name by now: that of a deleted one, in a directory that is renamed
            if len(self._missed) == missed:
                break
        if to is not None and not self._request.is_trial:
            to.write_manifest()
            to.sync()
        self._note_what_is_missing()
        yield from self._results.values()
        yield from problems.values()

    def _opened(self, dirs: Sequence[ChosenDir]) -> FrozenDir:
        """Return the directory, begun; check that it can hold links to these. Raises RefusedError, WriteError."""
        request = self._request
        options = ["--all"] if request.takes_all else []
        check_place(request.to, dirs, request.paths, options)
        like = os.path.dirname(dirs[0].path)
        to = FrozenDir(os.path.realpath(request.to), self._disk, like)
        if not request.is_trial:
            to.begin()
            check_links(to, dirs, request.paths, options, self._disk)
        return to

    def _freeze(self, to: FrozenDir, dirs: Sequence[ChosenDir]) -> None:
        """Link all files, then copy those that need it."""
        roots = {os.path.dirname(each.path) for each in dirs}
        waiting: list[tuple[ChosenDir, ChosenFile, str, Frozen]] = []
        with self._disk.within(TrustedDirectories([*roots, os.path.dirname(to.path)])):
            if not self._request.is_trial:  # before the first link: all lines of the manifest at once
                for each in dirs:
                    next(to.homes(each.origin, each.path))
                to.write_manifest()
            for each in dirs:
                result = self._result(each)
                for file in each.files:
                    if _key(each.origin, file) not in self._done:
                        target = self._linked(to, each, file, result)
                        if target is not None:
                            waiting.append((each, file, target, result))
            # An index before its log, so that no entry is beyond the end of the copied log
            for each, file, target, result in sorted(waiting, key=lambda item: item[1].info.name.kind in LOG_KINDS):
                self._copy(each, file, target, result)

    def _result(self, chosen: ChosenDir) -> Frozen:
        origin = chosen.origin
        return self._results.setdefault(
            origin,
            Frozen(
                topic=origin.topic,
                partition=origin.partition,
                source=chosen.place.path,
                is_planned=self._request.is_trial,
            ),
        )

    # --- links --------------------------------------------------------------------------------------------------------
    def _linked(self, to: FrozenDir, chosen: ChosenDir, file: ChosenFile, result: Frozen) -> str | None:
        """Link a file, unless it is there already; return where, if it is to be copied then; None: it is not."""
        info, key = file.info, _key(chosen.origin, file)
        try:
            home, there = self._place_of(to, chosen, file, result)
            target = f"{home}/{file.name}"
            is_same = there is not None and _is_of(there, file)
            has_all = there is not None and not is_same and _has_all(target, there, file)
            if not self._request.is_trial:
                to.open_home(home)
                if there is None:
                    self._link(info.path, target)
                    self._names[home].add(file.name)
                elif not (is_same or has_all or file.is_copied):
                    self._replace(info.path, target)
        except (NotFoundError, RefusedError):  # gone, or its directory was renamed and another one has its name
            self._missed[key] = file
            return None
        except WriteError as error:
            if error.errno != errno.ENOENT:
                raise
            self._missed[key] = file
            return None
        self._done.add(key)
        self._missed.pop(key, None)
        if has_all or (is_same and not file.is_copied):
            result.here_before += 1
        elif not file.is_copied:
            result.links.append(info.size_bytes)
        elif self._request.is_trial:
            result.copies.append(_stored_bytes(info.path))
        else:
            return target
        return None

    def _place_of(
        self, to: FrozenDir, chosen: ChosenDir, file: ChosenFile, result: Frozen
    ) -> tuple[str, os.stat_result | None]:
        """Return the directory that a file belongs in, and the status of what has its name there; None: nothing."""
        home, there = "", None
        for home in to.homes(chosen.origin, chosen.path):
            target = f"{home}/{file.name}"
            there = _status(target) if file.name in self._names_in(home) else None
            if there is None or _is_of(there, file) or file.is_text or _is_start(target, file.info.path):
                break
        if home not in result.homes:
            result.homes.append(home)
        if os.path.dirname(home) != to.path:
            self._elsewhere.setdefault((chosen.origin, home), []).append(file.name)
        return home, there

    def _names_in(self, home: str) -> set[str]:
        """Return the names in a directory, listed once: to ask for each missing one takes longer than its link."""
        if home not in self._names:
            self._names[home] = set(os.listdir(home)) if os.path.isdir(home) else set()
        return self._names[home]

    def _link(self, path: str, target: str) -> None:
        """Create a link. Raises WriteError."""
        if not self._disk.link(path, target):
            raise WriteError("the system refuses a hard link to it", path=path, number=errno.EPERM)

    def _replace(self, path: str, target: str) -> None:
        """Replace an earlier copy, which is the start of a file or an older text, by a link to the file."""
        temporary = self._disk.temporary(target)
        self._link(path, temporary)
        self._disk.rename(temporary, target)

    # --- copies -------------------------------------------------------------------------------------------------------
    def _copy(self, chosen: ChosenDir, file: ChosenFile, target: str, result: Frozen) -> None:
        """Replace the link, or an earlier copy, by a copy; where that fails, report that it is a link."""
        needed_bytes, free = _stored_bytes(file.info.path), free_bytes(os.path.dirname(target))
        if needed_bytes * _FREE_SHARE > free:
            reason = f"a copy takes {size(needed_bytes)}, and {size(free)} are free"
            self._keep_link(chosen, file, target, result, reason)
            return
        temporary = self._disk.temporary(target)
        try:
            size_bytes = self._write_copy(chosen, file, target, temporary, result)
            self._disk.rename(temporary, target)
        except StorageError as error:
            with suppress(StorageError):
                self._disk.unlink(temporary)
            self._keep_link(chosen, file, target, result, error.message)
            return
        result.copies.append(size_bytes)

    def _write_copy(self, chosen: ChosenDir, file: ChosenFile, target: str, temporary: str, result: Frozen) -> int:
        """Write a copy as it is now, a log that changes meanwhile up to its last whole batch; return its size."""
        there = _status(target)
        # Through the link, which a rename or a deletion of the file does not end
        path = target if there is not None and _is_of(there, file) else file.info.path
        kind = file.info.name.kind
        with self._disk.trusted.source(path) as source, self._disk.new_file(temporary) as copy:
            entry = _INDEX_ENTRIES.get(kind)
            if entry is not None:  # preallocated: the zeros after the last entry are not copied
                content = source.read(0, source.size_bytes)
                copy.write(content[: used_entries(entry, content) * entry.size])
            else:
                for position in range(0, source.size_bytes, WINDOW_BYTES):
                    copy.write(source.window(position))
            copy.finish(owned(Attributes.of(path, self._disk.trusted)), source.mtime_ns)
            is_moving = kind in LOG_KINDS and source.refresh() is not FileChange.NONE
            mtime_ns = source.mtime_ns
        if not is_moving:
            return copy.size_bytes
        end = _whole_end(temporary, file)
        if end < copy.size_bytes:
            self._disk.cut(temporary, end, mtime_ns)
            cut = copy.size_bytes - end
            result.findings.append(self._found("freeze.cut", target, chosen.origin, position=end, size_bytes=cut))
        return end

    def _keep_link(self, chosen: ChosenDir, file: ChosenFile, target: str, result: Frozen, reason: str) -> None:
        there = _status(target)
        if there is not None and _is_of(there, file):
            result.links.append(file.info.size_bytes)
            result.findings.append(self._found("freeze.still-linked", target, chosen.origin, why=reason))
        else:
            result.here_before += 1
            result.findings.append(self._found("freeze.older-copy", target, chosen.origin, why=reason))

    # --- findings -----------------------------------------------------------------------------------------------------
    def _note_what_is_missing(self) -> None:
        """Add the findings about files that vanished, and about files that are not in the first directory."""
        gone: dict[Origin, list[ChosenFile]] = {}
        for (origin, _, _), file in self._missed.items():
            gone.setdefault(origin, []).append(file)
        for origin, files in gone.items():
            has_log = any(file.info.name.kind in LOG_KINDS for file in files)
            result = self._results[origin]
            details = {"count": len(files), "names": first_of([file.info.name.raw for file in files])}
            severity = "error" if has_log else "warning"
            result.findings.append(self._found("freeze.vanished", result.source, origin, severity=severity, **details))
        for (origin, home), names in self._elsewhere.items():
            result = self._results[origin]
            details = {"count": len(names), "names": first_of(names)}
            result.findings.append(self._found("freeze.name-taken", home, origin, **details))

    @staticmethod
    def _found(code: str, path: str, origin: Origin, **details: object) -> Finding:
        return found(code, path, topic=origin.topic, partition=origin.partition, **details)  # type: ignore[arg-type]


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _is_of(there: os.stat_result, file: ChosenFile) -> bool:
    return (there.st_dev, there.st_ino) == (file.info.device, file.info.inode)


def _key(origin: Origin, file: ChosenFile) -> _Key:
    return origin, file.info.device, file.info.inode


def _has_all(target: str, there: os.stat_result, file: ChosenFile) -> bool:
    """Return whether what an earlier run has kept needs nothing of the file as it is now.

    A log or an index only grows: what is as long, and begins alike, has all of it. A text of the same length may be
    another one, as a broker replaces it as a whole.
    """
    if file.is_text:
        return there.st_size == file.info.size_bytes and _is_start(target, file.info.path)
    return there.st_size >= file.info.size_bytes


def _is_start(path: str, other: str) -> bool:
    """Return whether one of two files is the start of the other: a log, or an index, at two times."""
    with Source.open(path) as first, Source.open(other) as second:
        common = min(first.size_bytes, second.size_bytes)
        for position in range(0, common, WINDOW_BYTES):
            wanted = min(WINDOW_BYTES, common - position)
            if first.window(position, wanted) != second.window(position, wanted):
                return False
    return True


def _stored_bytes(path: str) -> int:
    """Return the bytes that a file takes on its disk, at most its size; 0: it is gone."""
    try:
        status = os.stat(path)
    except OSError:
        return 0
    return min(status.st_size, status.st_blocks * STAT_BLOCK_BYTES)


def _whole_end(path: str, file: ChosenFile) -> int:
    """Return where the last whole batch ends before a torn one; the end of the file if none is torn."""
    is_v07 = file.info.name.kind is FileKind.LOG_V07
    with Source.open(path) as source:
        options = ScanOptions(check=False)
        for item in scan(source, base_offset=file.info.name.base_offset, is_v07=is_v07, options=options):
            if isinstance(item, Damage) and item.is_plain_tail:
                return item.position
        return source.size_bytes
