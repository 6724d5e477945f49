"""Which files a broker finds in a partition directory when it opens its segments, after it deleted and renamed others.

Files that wait for deletion and unfinished replacements are deleted; finished replacements are renamed over what they
replace (`LogLoader.removeTempFilesAndCollectSwapFiles`). Up to 2.8 these wait until the segments are open. Nothing is
touched: the result is a list of files, each under its name after the sweep, with the path at which its bytes are now.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import StorageError
from kafkalog_core.format.index import decode_offset_entry, decode_time_entry, iter_txn_entries
from kafkalog_core.format.layout import MAX_INT64, OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY, TXN_INDEX_ENTRY
from kafkalog_core.format.names import METADATA_TOPIC, FileKind, FileState, parse_file_name
from kafkalog_core.kafka.start.replay import end_of_log
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.format.layout import Layout
    from kafkalog_core.kafka.rules import LoaderRules, OffsetSearch
    from kafkalog_core.storage.listing import FileInfo, Segment

__all__ = ["Swept", "first_recovered", "is_candidate", "is_odd_index", "sweep", "txn_index_fault"]


_NUMBER: Final = re.compile(r"[+-]?\d+", re.ASCII)
_SWAP: Final = ".swap"
_SWAPS: Final = (".log.swap", "index.swap")  # up to 2.8, other names with this suffix are not replacements
_KEPT: Final = ".checkpoint.deleted"
_INDEXES: Final = frozenset({FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX})


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """The files that are left, or why that is unknown.

    Args:
        files: under their names after the sweep.
        zero_indexes: base offsets of replacements without an offset index; the broker creates one of zeros and trusts
            it.
        removed: files that are deleted, each with the reason.
        waiting: logs of replacements that are completed when the segments are open.
        problem: why the broker stops here, or why the simulation does; None: neither does.
        path: of the file with the problem.
    """

    files: tuple[FileInfo, ...]
    zero_indexes: frozenset[int] = frozenset()
    removed: tuple[tuple[FileInfo, str], ...] = ()
    waiting: tuple[FileInfo, ...] = ()
    problem: str | None = None
    path: str | None = None


def sweep(files: Sequence[FileInfo], *, rules: LoaderRules) -> Swept:
    """Return the files of a partition directory as they are when the first segment is opened.

    Args:
        files: as they are now.
        rules: those of the release.
    """
    removed: list[tuple[FileInfo, str]] = []
    left: list[FileInfo] = []
    for file in files:
        raw = file.name.raw
        if raw.endswith(".deleted") and not raw.endswith(_KEPT):
            removed.append((file, "it waits for deletion"))
        else:
            left.append(file)
    swaps_of = _SWAPS if rules.swaps == "recovered" else (_SWAP,)
    unfinished = [file for file in left if file.name.raw.endswith((".cleaned", *swaps_of))]
    for file in unfinished:
        if _number(file) is None:
            return Swept(
                files=tuple(left), problem=f"the name of {file.name.raw} does not start with a number", path=file.path
            )
    cleaned = [file for file in unfinished if not file.name.raw.endswith(_SWAP)]
    swaps = [file for file in unfinished if file.name.raw.endswith(_SWAP)]
    if swaps and rules.swaps == "not-foreseen":
        problem = "a replacement of segments is not finished, and what this release does with it is not simulated"
        return Swept(files=tuple(left), problem=problem, path=swaps[0].path)
    least = min((_number(file) or 0 for file in cleaned), default=MAX_INT64)
    removed += [(file, "it belongs to a replacement that was never finished") for file in cleaned]
    removed += [(file, "its replacement was not complete") for file in swaps if (_number(file) or 0) >= least]
    if rules.swaps == "recovered":
        return _wait(left, removed, least)
    gone = {file.path for file, _ in removed}
    return _complete([file for file in left if file.path not in gone], removed, rules.search)


def _wait(left: list[FileInfo], removed: list[tuple[FileInfo, str]], least: int) -> Swept:
    """Leave the replacements until the segments are open (`Log.removeTempFilesAndCollectSwapFiles`, 2.5 to 2.8).

    The indexes of the segment with the base offset of a replacement are deleted at once, whether the replacement is
    complete or not, so that the segment is recovered first. Indexes of a replacement without a log are kept.

    Args:
        left: files that do not wait for deletion.
        removed: files that are deleted, incomplete replacements among them.
        least: the lowest offset of a replacement that is not complete.
    """
    swaps = [file for file in left if file.name.state is FileState.SWAP]
    bases = {_number(file) for file in swaps if file.name.kind is FileKind.LOG or file.name.kind in _INDEXES}
    logs = {_number(file): file for file in swaps if file.name.kind is FileKind.LOG}
    removed = [each for each in removed if each[0] not in swaps or _number(each[0]) in logs]
    for file in left:
        if file.name.kind in _INDEXES and file.name.state is FileState.LIVE and _number(file) in bases:
            removed.append((file, "its segment has a replacement, so the broker builds it again"))
    waiting = tuple(file for number, file in logs.items() if (number or 0) < least)
    gone = {file.path for file, _ in removed}
    files = tuple(file for file in left if file.path not in gone and file not in waiting)
    return Swept(files=files, removed=tuple(removed), waiting=waiting)


def _complete(left: list[FileInfo], removed: list[tuple[FileInfo, str]], search: OffsetSearch) -> Swept:
    """Rename the replacements over what they replace (`LogLoader.load`, from 3.0 on)."""
    swaps = {file.name.raw: file for file in left if file.name.raw.endswith(_SWAP)}
    first, end = MAX_INT64, -1
    zero_indexes: set[int] = set()
    for name, log in swaps.items():
        if not name.endswith(".log.swap"):
            continue
        base = _number(log) or 0
        index = swaps.get(name.replace(".log.swap", ".index.swap"))
        found_end = end_of_log(log.path, log.size_bytes, base, index, search=search)
        obstacle = found_end.obstacle
        if obstacle is not None:
            problem = f"the replacement {name} cannot be read at byte {obstacle.position}"
            return Swept(files=tuple(left), removed=tuple(removed), problem=problem, path=log.path)
        first, end = min(first, base), max(end, found_end.offset)
        if index is None:
            zero_indexes.add(base)
    found: dict[str, FileInfo] = {}
    for file in left:
        number = _number(file)
        if file.name.raw in swaps:
            continue
        if number is not None and first <= number < end:
            removed.append((file, "a replacement takes its place"))
        else:
            found[file.name.raw] = file
    for name, swap in swaps.items():
        target = name.removesuffix(_SWAP)
        if target in found:
            removed.append((found[target], "a replacement takes its place"))
        found[target] = replace(swap, name=parse_file_name(target))
    files = tuple(found[name] for name in sorted(found))
    return Swept(files=files, zero_indexes=frozenset(zero_indexes), removed=tuple(removed))


def _number(file: FileInfo) -> int | None:
    """Return what a broker takes for the offset of a file: all before the first dot, however many digits."""
    text = file.name.raw.partition(".")[0]
    return int(text) if _NUMBER.fullmatch(text) and abs(int(text)) <= MAX_INT64 else None


def is_odd_index(segment: Segment) -> bool:
    """Return whether a release before 2.0 takes an offset or time index for corrupt; the zero tail of a crash looks so.

    It checks the sizes, the last entry, which must be above the base offset, and the first time
    (`OffsetIndex.sanityCheck`, `TimeIndex.sanityCheck`).
    """
    last = _entry(segment.index, OFFSET_INDEX_ENTRY, -1)
    if last is not None and (not last or decode_offset_entry(last)[0].relative_offset <= 0):
        return True
    first_time, last_time = (_entry(segment.timeindex, TIME_INDEX_ENTRY, which) for which in (0, -1))
    if first_time is None or last_time is None:
        return False
    if not first_time or not last_time:
        return True
    first, final = decode_time_entry(first_time)[0], decode_time_entry(last_time)[0]
    return final.timestamp_ms < first.timestamp_ms or final.relative_offset < 0


def txn_index_fault(path: str, base_offset: int) -> str | None:
    """Return what a broker finds wrong with a transaction index: `stray` (it recovers) or `version` (it stops)."""
    try:
        with Source.open(path) as source:
            position = 0
            while window := source.window(position):
                whole = len(window) - len(window) % TXN_INDEX_ENTRY.size
                for version, _, _, last_offset, _ in iter_txn_entries(window[:whole]):
                    if version >= 256:  # AbortedTxn reads the first byte alone, as a signed number
                        return "version"
                    if last_offset < base_offset:
                        return "stray"
                if not whole:
                    return None
                position += whole
    except StorageError:
        return None
    return None


def _entry(file: FileInfo | None, layout: Layout, which: int) -> bytes | None:
    """Return the first or last entry; None: there is none; empty: the file ends in the middle of one."""
    if file is None:
        return None
    try:
        with Source.open(file.path) as source:
            count, rest = divmod(source.size_bytes, layout.size)
            if rest:
                return b""
            return source.read(0 if which == 0 else (count - 1) * layout.size, layout.size) if count else None
    except StorageError:
        return None


def is_candidate(
    next_base_offset: int | None, recovery_point: int | None, *, is_clean: bool | None, topic: str | None = None
) -> bool:
    """Return whether a start recovers a segment: reads all of it, truncates it if it is bad, builds its indexes again.

    It recovers every segment of the metadata log at every start. After an unclean shutdown it recovers those from the
    one with the recovery point on, and the last one in any case (`LogLoader.recoverLog`). False where it is unknown how
    the broker was stopped. A segment without an offset index is recovered on its own, whatever this returns.

    Args:
        next_base_offset: of the segment after it; None: it is the last one.
        recovery_point: None: unknown, and 0 counts.
        is_clean: whether the last shutdown was clean; None: unknown.
        topic: of the partition.
    """
    if topic == METADATA_TOPIC:
        return True
    if is_clean is not False:
        return False
    return next_base_offset is None or (recovery_point or 0) < next_base_offset


def first_recovered(
    base_offsets: Sequence[int],
    recovery_point: int | None,
    *,
    is_clean: bool | None,
    topic: str | None = None,
    only_last: bool = False,
) -> int | None:
    """Return the index of the first segment that is recovered, with all after it; None: none is, as far as is known.

    Args:
        base_offsets: of all segments, ascending.
        recovery_point: None: unknown.
        is_clean: whether the last shutdown was clean; None: unknown.
        topic: of the partition.
        only_last: whether the release (0.8.0) recovers the last segment alone.
    """
    nexts = (*base_offsets[1:], None) if base_offsets else ()
    found = (
        index
        for index, next_base_offset in enumerate(nexts)
        if (next_base_offset is None or not only_last)
        and is_candidate(next_base_offset, recovery_point, is_clean=is_clean, topic=topic)
    )
    return next(found, None)
