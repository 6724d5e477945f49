"""The kind of a wrong batch, and the good batches around it in a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tests.support.build import GZIP, LZ4, NONE, SNAPPY, ZSTD, Record, batch_v2, message_v0, message_v1

if TYPE_CHECKING:
    from collections.abc import Callable

VALUES: Final = (b"first", b"second", b"third")
BEFORE: Final = 2
"""Number of good records before the wrong batch in a kind's log."""
AFTER: Final = 2
NOW_MS: Final = 1_760_000_000_000
CODECS: Final = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
MESSAGE_CODECS: Final = {name: codec for name, codec in CODECS.items() if codec not in {NONE, ZSTD}}
"""Those of compressed messages of magic 0 and 1."""


class Kind(NamedTuple):
    """One kind of wrong batch: a function of its base offset.

    Args:
        name: what is wrong.
        magic: of the batch.
        codec: name of the codec that its header gives.
        make: the bytes at a base offset; they hold three records with the values of `VALUES`, or what is left of them.
        codes: the findings that name it, with blanks between them; empty: verify finds nothing wrong.
        span: offsets that its header takes.
    """

    name: str
    magic: int
    codec: str
    make: Callable[[int], bytes]
    codes: str
    span: int = len(VALUES)

    @property
    def title(self) -> str:
        """Magic, codec and name, which no two kinds share."""
        return f"{self.magic} {self.codec} {self.name}"

    def log(self, *, is_first: bool = False) -> bytes:
        """The wrong batch after a good one (or before all), and a good one after it; all of one magic."""
        base = 0 if is_first else BEFORE
        before = b"" if is_first else _good(self.magic, 0, BEFORE)
        return before + self.make(base) + _good(self.magic, base + self.span, AFTER)


def records(base: int, count: int = len(VALUES)) -> list[Record]:
    """Records at offsets from `base` on."""
    return [Record(offset=base + n, timestamp_ms=NOW_MS + n, value=VALUES[n]) for n in range(count)]


def _good(magic: int, base: int, count: int) -> bytes:
    good = [Record(offset=base + n, timestamp_ms=NOW_MS + n, value=b"good") for n in range(count)]
    if magic == 2:
        return batch_v2(good)
    return b"".join((message_v1 if magic == 1 else message_v0)(each) for each in good)
