"""What consumers do with a wrong batch, and a leader with one from a producer: a table made by running real ones.

`tests/integration/client_table.py` runs them over crafted batches of each kind; `client_table.txt` next to it holds
what each one did, and a test compares this table with it. The sentences about consumers in findings are made of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["CONSUMERS", "READS", "ClientReads", "consumers"]

CONSUMERS: Final = (
    "What consumers do depends on the client, the magic and the codec: kafkalog verify knows it of each kind of batch "
    "that was tried."
)
"""The place of a sentence about consumers in texts on what a broker does: verify, which sees the batch, has it."""


class ClientReads(NamedTuple):
    """What three clients and a leader did with the batches of one kind.

    Args:
        magic: of the batch.
        codecs: with which they did the same, separated by blanks.
        codes: all findings about the batch, separated by blanks.
        java, librdkafka, kafka_python: what these consumers did, each in the words of `_DOES`, separated by blanks.
        leader: what a leader of 4.3.1 did with it from a producer: `appends` or `refuses`; empty: the magic is old.
    """

    magic: int
    codecs: str
    codes: str
    java: str
    librdkafka: str
    kafka_python: str
    leader: str


_CLIENTS: Final = ("Java 4.3", "librdkafka", "kafka-python")
_DOES: Final = {
    "all": "reads all of its records",
    "null": "reads all of its records, one of them without its value",
    "others": "returns other bytes as records",
    "some": "skips some of its records",
    "none": "skips all of its records",
    "after": "skips records after it",
    "some-after": "skips some of its records and records after it",
    "again": "reads its records again and again",
    "ends": "reads no record after it in its segment",
    "stops": "stops there",
    "others-stops": "returns other bytes as records and stops there",
    "hangs": "hangs",
    "crashes": "crashes",
}
"""What a consumer does, in the order in which a sentence names it."""

READS: Final = (
    ClientReads(2, "none", "batch.bad-epoch", "all", "all", "all", "appends"),
    ClientReads(2, "gzip lz4 zstd", "batch.compressed-empty", "none", "crashes", "none", "refuses"),
    ClientReads(2, "snappy", "batch.compressed-empty", "none", "stops", "stops", "refuses"),
    ClientReads(
        2,
        "gzip snappy lz4 zstd",
        "batch.compressed-empty batch.header-contradiction batch.record-count",
        "none",
        "all",
        "stops",
        "refuses",
    ),
    ClientReads(2, "gzip", "batch.compressed-empty batch.payload-truncated", "stops", "hangs", "none", "refuses"),
    ClientReads(
        2, "snappy lz4", "batch.compressed-empty batch.payload-truncated", "stops", "stops", "stops", "refuses"
    ),
    ClientReads(2, "zstd", "batch.compressed-empty batch.payload-truncated", "none", "stops", "none", "refuses"),
    ClientReads(
        2, "gzip snappy lz4 zstd", "batch.compressed-empty batch.record-count", "none", "all", "stops", "refuses"
    ),
    ClientReads(2, "none lz4", "batch.crc-mismatch", "stops", "all ends stops", "stops", "refuses"),
    ClientReads(2, "gzip", "batch.crc-mismatch", "stops", "all stops hangs", "stops", "refuses"),
    ClientReads(2, "snappy zstd", "batch.crc-mismatch", "stops", "all stops", "stops", "refuses"),
    ClientReads(
        2, "none gzip snappy lz4 zstd", "batch.header-contradiction", "all stops", "all", "all stops", "refuses"
    ),
    ClientReads(2, "none", "batch.header-contradiction batch.record-count", "none", "all", "stops", "refuses"),
    ClientReads(
        2,
        "none gzip snappy lz4 zstd",
        "batch.header-contradiction record.offset-order",
        "some",
        "all",
        "all",
        "refuses",
    ),
    ClientReads(
        2,
        "none gzip snappy lz4 zstd",
        "batch.header-contradiction record.offset-outside",
        "all after",
        "all",
        "all",
        "refuses",
    ),
    ClientReads(
        2, "none gzip snappy lz4 zstd", "batch.header-contradiction record.varint", "stops", "all", "stops", "refuses"
    ),
    ClientReads(2, "none", "batch.negative-timestamp", "all", "all", "all", "appends"),
    ClientReads(
        2,
        "none gzip snappy lz4 zstd",
        "batch.offset-order",
        "all some none after",
        "all none",
        "all",
        "appends refuses",
    ),
    ClientReads(2, "gzip", "batch.payload", "stops", "all stops", "all stops", "refuses"),
    ClientReads(2, "snappy lz4 zstd", "batch.payload", "stops", "stops", "stops", "refuses"),
    ClientReads(2, "lz4", "batch.payload-checksum", "all", "stops", "stops", "appends"),
    ClientReads(2, "lz4", "batch.payload-dependent", "stops", "all", "all", "refuses"),
    ClientReads(2, "gzip", "batch.payload-flags", "all", "stops", "all", "appends"),
    ClientReads(2, "gzip", "batch.payload-trailing", "all", "all", "all stops", "appends"),
    ClientReads(2, "snappy", "batch.payload-trailing", "all", "stops", "stops", "appends"),
    ClientReads(2, "lz4 zstd", "batch.payload-trailing", "all", "stops", "all", "appends"),
    ClientReads(2, "lz4", "batch.payload-trailing record.length", "stops", "stops", "stops", "refuses"),
    ClientReads(2, "gzip", "batch.payload-truncated", "stops", "hangs", "stops", "refuses"),
    ClientReads(2, "snappy zstd", "batch.payload-truncated", "stops", "stops", "all stops", "refuses"),
    ClientReads(2, "lz4", "batch.payload-truncated", "stops", "all stops", "stops", "refuses"),
    ClientReads(2, "zstd", "batch.payload-window", "stops", "all", "all stops", "refuses"),
    ClientReads(2, "none", "batch.record-count", "none stops", "all stops", "stops", "refuses"),
    ClientReads(2, "gzip snappy lz4 zstd", "batch.record-count", "stops", "all stops", "stops", "refuses"),
    ClientReads(2, "none", "batch.timestamp-order record.timestamp-over-max", "all", "all", "all", "appends"),
    ClientReads(2, "none", "batch.unknown-attributes", "all", "all", "all", "appends"),
    ClientReads(2, "unknown-5 unknown-6 unknown-7", "batch.unknown-codec", "stops", "stops", "stops", "refuses"),
    ClientReads(2, "none", "log.bad-length", "stops", "stops", "stops", "refuses"),
    ClientReads(2, "none", "log.unknown-magic", "stops", "stops", "all stops", "refuses"),
    ClientReads(2, "none gzip snappy lz4 zstd", "record.header-key", "all", "all", "stops", "appends"),
    ClientReads(2, "none gzip snappy lz4", "record.headers", "stops", "all stops", "stops", "refuses"),
    ClientReads(2, "zstd", "record.headers", "stops", "all some stops", "stops", "refuses"),
    ClientReads(2, "none gzip snappy lz4 zstd", "record.key", "stops", "stops", "stops", "refuses"),
    ClientReads(2, "none", "record.length", "stops", "stops", "stops", "refuses"),
    ClientReads(2, "gzip snappy zstd", "record.length", "stops", "stops", "stops", "appends"),
    ClientReads(2, "lz4", "record.length", "stops", "stops", "stops", "appends refuses"),
    ClientReads(2, "none gzip snappy lz4 zstd", "record.negative-length", "all", "all stops", "all", "appends"),
    ClientReads(2, "none", "record.offset-order", "some", "all", "all", "appends"),
    ClientReads(2, "gzip snappy lz4 zstd", "record.offset-order", "some", "all", "all", "refuses"),
    ClientReads(2, "none", "record.offset-order record.offset-outside", "some some-after", "all", "all", "appends"),
    ClientReads(
        2,
        "gzip snappy lz4 zstd",
        "record.offset-order record.offset-outside",
        "some some-after",
        "all",
        "all",
        "refuses",
    ),
    ClientReads(2, "none", "record.offset-outside", "after", "all", "all", "appends"),
    ClientReads(2, "gzip snappy lz4 zstd", "record.offset-outside", "after", "all", "all", "refuses"),
    ClientReads(2, "none", "record.timestamp-under-max", "all", "all", "all", "appends"),
    ClientReads(2, "none gzip snappy lz4 zstd", "record.trailing", "stops", "all stops", "stops", "refuses"),
    ClientReads(2, "none", "record.value", "stops", "stops", "stops", "refuses"),
    ClientReads(2, "gzip snappy lz4 zstd", "record.value", "stops", "stops", "stops", "appends refuses"),
    ClientReads(2, "none", "record.varint", "stops", "all stops", "all stops", "refuses"),
    ClientReads(2, "gzip snappy lz4 zstd", "record.varint", "stops", "all stops", "all stops", "appends refuses"),
    ClientReads(1, "none", "batch.crc-mismatch", "stops", "all", "stops", ""),
    ClientReads(1, "gzip", "batch.crc-mismatch", "all stops", "all stops", "stops", ""),
    ClientReads(1, "snappy", "batch.crc-mismatch", "all stops", "all some stops", "stops", ""),
    ClientReads(1, "lz4", "batch.crc-mismatch", "all some stops", "all some stops", "stops", ""),
    ClientReads(1, "none", "batch.offset-order", "some", "all", "all", ""),
    ClientReads(1, "gzip", "batch.payload", "stops", "all stops", "all stops", ""),
    ClientReads(1, "snappy lz4", "batch.payload", "stops", "stops", "stops", ""),
    ClientReads(1, "lz4", "batch.payload-checksum", "all", "stops", "stops", ""),
    ClientReads(1, "gzip", "batch.payload-flags", "all", "stops", "all", ""),
    ClientReads(1, "gzip", "batch.payload-trailing", "all", "all", "all stops", ""),
    ClientReads(1, "snappy", "batch.payload-trailing", "all", "stops", "stops", ""),
    ClientReads(1, "lz4", "batch.payload-trailing", "all", "stops", "all", ""),
    ClientReads(1, "lz4", "batch.payload-trailing record.inner-cut", "some", "stops", "stops", ""),
    ClientReads(1, "gzip", "batch.payload-truncated", "stops", "hangs", "stops", ""),
    ClientReads(1, "snappy", "batch.payload-truncated", "stops", "stops", "all stops", ""),
    ClientReads(1, "lz4", "batch.payload-truncated", "stops", "all stops crashes", "stops", ""),
    ClientReads(1, "unknown-5 unknown-6 unknown-7", "batch.unknown-codec", "stops", "stops", "stops", ""),
    ClientReads(1, "zstd", "batch.unknown-codec", "stops", "all stops", "stops", ""),
    ClientReads(1, "gzip lz4", "batch.wrapper-empty", "stops", "none crashes", "stops", ""),
    ClientReads(1, "snappy", "batch.wrapper-empty", "stops", "none stops", "stops", ""),
    ClientReads(1, "gzip", "batch.wrapper-value", "stops", "stops hangs", "all stops", ""),
    ClientReads(1, "snappy lz4", "batch.wrapper-value", "stops", "stops", "all stops", ""),
    ClientReads(1, "gzip snappy lz4", "record.inner-crc", "stops", "all", "stops", ""),
    ClientReads(1, "gzip snappy lz4", "record.inner-cut", "some", "some", "stops", ""),
    ClientReads(1, "none", "record.inner-key", "stops", "others-stops", "stops", ""),
    ClientReads(1, "gzip snappy lz4", "record.inner-key", "stops", "some", "stops", ""),
    ClientReads(1, "gzip snappy lz4", "record.inner-length", "stops", "stops crashes", "stops", ""),
    ClientReads(1, "gzip snappy lz4", "record.inner-magic", "all", "some stops", "all", ""),
    ClientReads(1, "gzip snappy lz4", "record.inner-nested", "stops", "some", "stops", ""),
    ClientReads(1, "gzip snappy lz4", "record.inner-offset", "stops", "stops", "all", ""),
    ClientReads(1, "none", "record.inner-value", "stops", "others-stops", "all", ""),
    ClientReads(1, "gzip snappy lz4", "record.inner-value", "stops", "some", "others", ""),
    ClientReads(1, "none", "record.negative-length", "all null", "stops", "others", ""),
    ClientReads(1, "gzip snappy lz4", "record.negative-length", "all null", "some", "others", ""),
    ClientReads(1, "gzip snappy lz4", "record.offset-order", "some some-after", "all", "all", ""),
    ClientReads(1, "gzip snappy lz4", "record.other-magic record.timestamp-under-max", "all", "all", "stops", ""),
    ClientReads(0, "none", "batch.crc-mismatch", "stops", "all", "stops", ""),
    ClientReads(0, "gzip", "batch.crc-mismatch", "all stops", "all stops", "stops", ""),
    ClientReads(0, "snappy", "batch.crc-mismatch", "all stops", "all some stops", "stops", ""),
    ClientReads(0, "lz4", "batch.crc-mismatch", "all some stops", "all some none stops", "stops", ""),
    ClientReads(0, "none", "batch.offset-order", "some", "all", "all", ""),
    ClientReads(0, "gzip", "batch.payload", "stops", "all stops", "all stops", ""),
    ClientReads(0, "snappy lz4", "batch.payload", "stops", "stops", "stops", ""),
    ClientReads(0, "lz4", "batch.payload-checksum", "all", "stops", "stops", ""),
    ClientReads(0, "gzip", "batch.payload-flags", "all", "stops", "all", ""),
    ClientReads(0, "gzip", "batch.payload-trailing", "all", "all", "all stops", ""),
    ClientReads(0, "snappy", "batch.payload-trailing", "all", "stops", "stops", ""),
    ClientReads(0, "lz4", "batch.payload-trailing", "all", "stops", "all", ""),
    ClientReads(0, "lz4", "batch.payload-trailing record.inner-cut", "some", "stops", "stops", ""),
    ClientReads(0, "gzip", "batch.payload-truncated", "stops", "hangs", "none stops", ""),
    ClientReads(0, "snappy", "batch.payload-truncated", "stops", "stops", "all stops", ""),
    ClientReads(0, "lz4", "batch.payload-truncated", "stops", "all stops crashes", "stops", ""),
    ClientReads(0, "unknown-5 unknown-6 unknown-7", "batch.unknown-codec", "stops", "stops", "stops", ""),
    ClientReads(0, "zstd", "batch.unknown-codec", "stops", "all stops", "stops", ""),
    ClientReads(0, "gzip lz4", "batch.wrapper-empty", "stops", "none crashes", "none stops", ""),
    ClientReads(0, "snappy", "batch.wrapper-empty", "stops", "none stops", "stops", ""),
    ClientReads(0, "gzip", "batch.wrapper-value", "stops", "stops hangs", "all stops", ""),
    ClientReads(0, "snappy lz4", "batch.wrapper-value", "stops", "stops", "all stops", ""),
    ClientReads(0, "gzip snappy lz4", "record.inner-crc", "stops", "all", "stops", ""),
    ClientReads(0, "gzip snappy lz4", "record.inner-cut", "some", "some", "stops", ""),
    ClientReads(0, "none", "record.inner-key", "stops", "stops", "stops", ""),
    ClientReads(0, "gzip snappy lz4", "record.inner-key", "stops", "some", "stops", ""),
    ClientReads(0, "gzip snappy lz4", "record.inner-length", "stops", "all crashes", "stops", ""),
    ClientReads(0, "gzip snappy lz4", "record.inner-magic", "stops", "stops", "all", ""),
    ClientReads(0, "gzip snappy lz4", "record.inner-nested", "stops", "all", "stops", ""),
    ClientReads(0, "none", "record.inner-value", "stops", "others", "all", ""),
    ClientReads(0, "gzip snappy lz4", "record.inner-value", "stops", "some", "others", ""),
    ClientReads(0, "none", "record.negative-length", "all null", "stops", "others", ""),
    ClientReads(0, "gzip snappy lz4", "record.negative-length", "all null", "some", "others", ""),
    ClientReads(0, "gzip snappy lz4", "record.offset-order", "some", "all", "all", ""),
    ClientReads(0, "gzip snappy lz4", "record.offset-order record.wrapper-end", "some", "all", "all", ""),
    ClientReads(0, "gzip snappy lz4", "record.other-magic", "all", "all", "stops", ""),
    ClientReads(0, "gzip snappy lz4", "record.wrapper-end", "all", "all", "all", ""),
    ClientReads(0, "gzip snappy lz4", "record.wrapper-end record.wrapper-overlap", "some", "all", "all", ""),
    ClientReads(0, "gzip snappy lz4", "record.wrapper-overlap", "some", "all", "all", ""),
)

_READS: Final = {
    (each.magic, codec, frozenset(each.codes.split())): each for each in READS for codec in each.codecs.split()
}
_BY_PRODUCERS: Final = frozenset({"batch.header-contradiction", "record.offset-order", "record.offset-outside"})
"""Findings that a reader may take for damage of the disk, although a producer may have written the batch so."""
_APPENDS: Final = {
    "appends": "A leader of 4.3 appends such a batch if a producer sends it.",
    "refuses": "A leader of 4.3 refuses such a batch from a producer.",
}


def consumers(magic: int, codec: str, codes: Iterable[str]) -> str:
    """Return what consumers do with a batch, in whole sentences; empty: no such batch was tried.

    Args:
        magic: of the batch.
        codec: name of its codec.
        codes: of all findings about the batch.
    """
    found = frozenset(codes)
    reads = _READS.get((magic, codec, found))
    if reads is None:
        return ""
    of_clients = (reads.java, reads.librdkafka, reads.kafka_python)
    does = (" or ".join(_DOES[word] for word in words.split()) for words in of_clients)
    each = "; ".join(f"{name} {what}" for name, what in zip(_CLIENTS, does, strict=True))
    sentence = f"Consumers with default settings: {each}."
    leader = _APPENDS.get(reads.leader, "") if found & _BY_PRODUCERS else ""
    return f"{sentence} {leader}".strip()
