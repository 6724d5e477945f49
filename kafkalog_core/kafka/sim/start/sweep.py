"""Which files a broker finds in a partition directory when it opens its segments, after it deleted and renamed others.

Files that wait for deletion and unfinished replacements are deleted; finished replacements are renamed over what they
replace (`LogLoader.removeTempFilesAndCollectSwapFiles`). Up to 2.8 these wait until the segments are open. Nothing is
touched: the result is a list of files, each under its name after the sweep, with the path at which its bytes are now.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kafkalog_core.format.layout import MAX_INT64
from kafkalog_core.format.names import FileKind, FileState, parse_file_name
from kafkalog_core.kafka.sim.start.replay import end_of_log
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.kafka.rules.rule_table import LoaderRules, OffsetSearch
    from kafkalog_core.storage.listing import FileInfo

__all__ = ["Swept", "sweep"]


_NUMBER: Final = re.compile(r"[+-]?\d+", re.ASCII)
_SWAP: Final = ".swap"
_SWAPS: Final = (".log.swap", "index.swap")  # up to 2.8, other names with this suffix are not replacements
_KEPT: Final = ".checkpoint.deleted"
_INDEXES: Final = frozenset({FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX})


class Swept(Struct, frozen=True, kw_only=True):
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
        # snapshots of the metadata log (.checkpoint.deleted) are left to KafkaRaftLog
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
    # a .swap at or above the lowest .cleaned belongs to a split that was interrupted (KAFKA-6264)
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
            # LogSegment.open creates a missing index.swap with zeros, as the log end offset is looked for
            zero_indexes.add(base)
    found: dict[str, FileInfo] = {}
    for file in left:
        number = _number(file)
        if file.name.raw in swaps:
            continue
        # LogLoader.load, second pass: every file whose offset is in [minSwapFileOffset, maxSwapFileOffset)
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
