"""Offset checkpoint files: every entry with its line, and the offsets that a broker takes from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalog_core.format.checkpoint import CheckpointEpoch, CheckpointOffset, CheckpointVerdict, read_offset_checkpoint
from kafkalog_core.format.textfile import iter_lines
from kafkalog_core.storage.source import Source, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkalog_core.format.names import FileKind
    from kafkalog_core.format.textfile import MalformedLine

__all__ = ["CheckpointFile", "PlacedLine", "TextWindows", "placed_lines", "read_checkpoint"]

_WINDOW_BYTES = 64 * 1024
_MAX_KEPT = 1000  # malformed lines and repetitions: garbage under a checkpoint's name has any number of them
_Topic = tuple[str, int]


class TextWindows:
    """A text file in windows, up to the first place that the disk cannot read: `lost`.

    `look` is called before each window; it may end the reading with an error of its own.
    """

    def __init__(self, source: Source, look: Callable[[], None] | None = None) -> None:
        self._source = source
        self._look = look
        self.lost: UnreadableError | None = None

    def windows(self) -> Iterator[bytes]:
        """Yield the file in pieces, in order."""
        position = 0
        while True:
            if self._look is not None:
                self._look()
            try:
                window = bytes(self._source.window(position, _WINDOW_BYTES))
            except UnreadableError as error:
                self.lost = error
                return
            if not window:
                return
            yield window
            position += len(window)


@dataclass(frozen=True, slots=True)
class PlacedLine:
    """An entry of a checkpoint, with its line (from 1) and byte."""

    entry: CheckpointOffset | CheckpointEpoch
    position: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFile:
    """The content of an offset checkpoint; of two entries for one partition the last one is in `entries`.

    `repeated` are the entries after another one of their partition, `lost` is where the disk could not be read further.
    Of malformed and repeated lines the first thousand are kept.
    """

    path: str
    kind: FileKind
    size_bytes: int
    entries: dict[_Topic, PlacedLine]
    repeated: tuple[PlacedLine, ...]
    malformed: tuple[MalformedLine, ...]
    verdict: CheckpointVerdict
    lost: UnreadableError | None

    @property
    def is_refused(self) -> bool:
        """Whether a broker refuses the whole file: none of its entries counts then (`LogManager.loadLogs`)."""
        return self.verdict.refusal is not None

    def offset(self, topic: str | None, partition: int | None) -> int | None:
        """Return the offset that counts for a partition; None: there is none."""
        placed = None if topic is None or partition is None else self.entries.get((topic, partition))
        return placed.entry.offset if placed is not None and isinstance(placed.entry, CheckpointOffset) else None


def read_checkpoint(path: str, kind: FileKind) -> CheckpointFile:
    """Read an offset checkpoint, whatever is in it. Raises NotFoundError or AccessError."""
    entries: dict[_Topic, PlacedLine] = {}
    repeated: list[PlacedLine] = []
    malformed: list[MalformedLine] = []
    verdict = CheckpointVerdict(version=None, declared_count=None, entry_count=0, refusal=None)
    with Source.open(path) as source:
        text = TextWindows(source)
        for item in placed_lines(read_offset_checkpoint, source, text):
            if isinstance(item, CheckpointVerdict):
                verdict = item
            elif not isinstance(item, PlacedLine):
                malformed += [item][: _MAX_KEPT - len(malformed)]
            elif isinstance(item.entry, CheckpointOffset):
                key = (item.entry.topic, item.entry.partition)
                if key in entries:
                    repeated += [item][: _MAX_KEPT - len(repeated)]
                entries[key] = item
        return CheckpointFile(
            path=path,
            kind=kind,
            size_bytes=source.size_bytes,
            entries=entries,
            repeated=tuple(repeated),
            malformed=tuple(malformed),
            verdict=verdict,
            lost=text.lost,
        )


def placed_lines(
    read: Callable[[Iterable[bytes]], Iterator[CheckpointOffset | CheckpointEpoch | MalformedLine | CheckpointVerdict]],
    source: Source,
    text: TextWindows,
) -> Iterator[PlacedLine | MalformedLine | CheckpointVerdict]:
    """Yield what a reader of checkpoints yields, its entries with the places of their lines."""
    lines = iter_lines(TextWindows(source).windows())  # a second look, side by side: nothing has to be kept
    for item in read(text.windows()):
        if isinstance(item, CheckpointOffset | CheckpointEpoch):
            for line in lines:  # where there is none, the file was cut under our hands
                if line.number == item.line:
                    yield PlacedLine(item, line.position, line.size_bytes)
                    break
        else:
            yield item
