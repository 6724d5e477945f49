"""The leader-epoch-checkpoint of a partition against the leader epochs of its batches."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING

from kafkalog_core.format.checkpoint import EpochEntry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.ops.logdirs.textfiles import EpochText
    from kafkalog_core.ops.sink import Sink
    from kafkalog_core.ops.verify.verdict import EpochStart

__all__ = ["add_beyond_end", "check_epochs", "first_start_offset"]


def check_epochs(
    text: EpochText,
    starts: Sequence[EpochStart],
    extent: tuple[int, int | None],
    sink: Sink,
    *,
    is_clean: bool,
    is_compacted: bool,
    is_cut: bool = False,
) -> None:
    """Compare both ways.

    An entry may name an epoch without batches: a leader that took none, or whose batches are gone. `starts` are the
    first batches of the epochs that the log has, in its order; `extent` is from its first base offset to its
    end, where that is known.
    `is_clean`: whether the broker was stopped, so that what it had to write is written.
    `is_cut`: the log has more epochs than these, its first ones.
    `is_compacted`: batches may have another leader epoch than they were written with, as the cleaner joins them.
    """
    start_offset, end_offset = extent
    epochs, offsets = _in_order(text)
    ends = [start.last_before for start in starts[1:]]
    ends += [start.offset for start in starts[-1:]] if end_offset is None or is_cut else [end_offset - 1]
    for start, end in zip(starts, ends, strict=False):
        at = bisect_right(epochs, start.epoch) - 1
        if at < 0 or epochs[at] != start.epoch:
            sink.add("epochs.missing-entry", text.path, offset=start.offset, epoch=start.epoch)
            continue
        behind = offsets[at + 1] if at + 1 < len(offsets) else None
        said = offsets[at]
        if said > start.offset:
            sink.add("epochs.wrong-start", text.path, offset=start.offset, epoch=start.epoch, said=said)
        elif behind is not None and behind <= (start.offset if is_compacted else end):
            following = epochs[at + 1]
            sink.add("epochs.early-start", text.path, offset=end, epoch=following, said=behind, before=start.epoch)
    first = next((placed for placed in text.entries if isinstance(placed.entry, EpochEntry)), None)
    if first is not None and isinstance(first.entry, EpochEntry) and 0 <= first.entry.start_offset < start_offset:
        sink.add(
            "epochs.before-start",
            text.path,
            position=first.position,
            size_bytes=first.size_bytes,
            offset=first.entry.start_offset,
            severity="error" if is_clean else None,
            epoch=first.entry.leader_epoch,
            start=start_offset,
        )
    if end_offset is not None:
        add_beyond_end(text, end_offset, sink)


def add_beyond_end(text: EpochText, end_offset: int, sink: Sink) -> None:
    """Add a finding for each entry whose epoch starts after the log end offset."""
    for placed in text.entries:
        entry = placed.entry
        if isinstance(entry, EpochEntry) and entry.start_offset > end_offset:
            sink.add(
                "epochs.beyond-end",
                text.path,
                position=placed.position,
                size_bytes=placed.size_bytes,
                offset=entry.start_offset,
                epoch=entry.leader_epoch,
                said=entry.start_offset,
                end=end_offset,
            )


def first_start_offset(text: EpochText) -> int | None:
    """Return the start offset of the first entry; `None`: there is no entry."""
    return text.entries.start_offsets[0] if text.entries else None


def _in_order(text: EpochText) -> tuple[Sequence[int], Sequence[int]]:
    """Epochs and their start offsets, ascending; a file that is right has them so."""
    epochs, offsets = text.entries.epochs, text.entries.start_offsets
    if all(before < after for before, after in pairwise(epochs)):
        return epochs, offsets
    order = sorted(range(len(epochs)), key=lambda at: (epochs[at], offsets[at]))
    return array("i", (epochs[at] for at in order)), array("q", (offsets[at] for at in order))
