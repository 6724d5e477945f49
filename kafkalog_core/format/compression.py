"""Decompression of a batch's records, with every codec that Kafka knows, in bounded memory.

`decompress` takes the whole compressed part: the value of a magic 0 or 1 wrapper, the payload of a 0.7 wrapper, the
bytes behind a magic 2 header. Rules that hold for every codec:

- **Bounded.** No more than the limit and one piece of 1 MiB is ever inflated, of no more than `bounded.MAX_PARTS`
  members, frames or blocks. What a stream declares (a content size, a
  block's preamble) is held against the limit, and against what so few bytes can hold at all, before memory is taken.
  Beside the result a zstd frame may use its window, at most `layout.ZSTD_MAX_WINDOW_BYTES`.
- **Whole.** A stream that ends early gives nothing: `TruncatedError`.
- **Nothing is dropped in silence.** What Kafka's readers read on through is read: further gzip members, a new header in
  a snappy block stream, further zstd frames. What they ignore behind the end is a `TrailingError`, which has the
  content: GZIPInputStream ignores a tail that is no member or is too short for one, KafkaLZ4BlockInputStream all that
  follows its first frame, SnappyInputStream a tail of 1 to 3 bytes.

Checksums inside of the streams are verified, but for lz4's header checksum in magic 0 (Kafka does not verify lz4's
content checksum either). The libraries are imported at the first use of their codec, and contexts are kept, one a
thread.

Single-record batches make millions of calls, which should cost little more than the library's own call. So each codec
asks its library first, where no more than one piece can come of it, and takes the answer if it is beyond doubt: the
whole payload was used, and the stream is complete. All else goes the careful way, which knows the reason too.
Where the kernels are compiled, they inflate ordinary payloads of gzip, snappy and lz4 by themselves, without a call of
Python for each (`kernels.inflate_rows`): only what they do not vouch for comes here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import UnsupportedError
from kafkalog_core.format.codec_gzip import gunzip
from kafkalog_core.format.codec_lz4 import unlz4
from kafkalog_core.format.codec_snappy import unsnappy
from kafkalog_core.format.codec_zstd import unzstd

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog_core.format.bounded import Buffer, Content

    Inflater = Callable[[Buffer, int, int], Content]

__all__ = ["decompress", "inflater"]


def decompress(codec: int, payload: Buffer, *, magic: int, limit_bytes: int) -> Content:
    """The inflated bytes of `payload`; for codec 0 the payload itself.

    Args:
        codec: codec id, the low bits of the batch's attributes.
        payload: the compressed part, whole and contiguous, as unsigned bytes.
        magic: of the batch (0.7: 0). Magic 0 excuses the header checksum of lz4 frames; below 2 there is no zstd.
        limit_bytes: the most that may be inflated.

    Raises:
        TruncatedError: the stream ends early.
        LimitError: it inflates to more than the limit, has too many parts, or a zstd frame asks for too large a window.
        UnsupportedError: a codec id that no release writes, or not with this magic.
        TrailingError: bytes stand behind the stream's end, which Kafka ignores. The error has the content.
        FieldError: anything else that the codec's reader refuses.
    """
    return inflater(codec)(payload, magic, limit_bytes)


def inflater(codec: int) -> Inflater:
    """What inflates payloads of one codec: `decompress` for many calls. Its arguments: payload, magic, limit in bytes.

    Raises:
        UnsupportedError: a codec id that no release writes.
    """
    if not 0 <= codec < len(_INFLATERS):
        raise UnsupportedError(f"codec id {codec} is none of Kafka's")
    return _INFLATERS[codec]


def _stored(payload: Buffer, _magic: int, _limit_bytes: int) -> Buffer:
    return payload


_INFLATERS: Final[tuple[Inflater, ...]] = (_stored, gunzip, unsnappy, unlz4, unzstd)
