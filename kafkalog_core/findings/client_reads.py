"""What consumers do with a wrong batch, and a leader with one from a producer: a table made by running real ones.

`tests/integration/client_table.py` runs them over crafted batches of each kind; `client_table.txt` next to it holds
what each one did, and a test compares this table with it. The sentences about consumers in findings are made of it.
"""

from __future__ import annotations

from typing import Final

from kafkalog_core.structs import NamedTuple

__all__ = ["CLIENT_READS", "LEADER_APPENDS", "ClientReads", "consumers", "leader"]


class ClientReads(NamedTuple):
    """What three clients did with the batches of one finding, each in the words of `_DOES`, separated by blanks."""

    java: str
    librdkafka: str
    kafka_python: str


_CLIENTS: Final = ("Java 4.3", "librdkafka", "kafka-python")
_DOES: Final = {
    "all": "reads all of its records",
    "others": "returns other bytes as records",
    "some": "skips some of its records",
    "none": "skips all of its records",
    "after": "skips records after it",
    "again": "reads its records again and again",
    "stops": "stops there",
    "hangs": "hangs",
    "crashes": "crashes",
}
"""What a consumer does, in the order in which a sentence names it."""

CLIENT_READS: Final[dict[str, ClientReads]] = {
    "batch.bad-epoch": ClientReads("all", "all", "all"),
    "batch.crc-mismatch": ClientReads("stops", "all", "stops"),
    "batch.header-contradiction": ClientReads("all some after stops", "all", "all stops"),
    "batch.negative-timestamp": ClientReads("all", "all", "all"),
    "batch.offset-order": ClientReads("some", "all", "all"),
    "batch.payload": ClientReads("stops", "stops", "stops"),
    "batch.payload-checksum": ClientReads("all", "stops", "stops"),
    "batch.payload-dependent": ClientReads("stops", "all", "all"),
    "batch.payload-trailing": ClientReads("all", "all stops", "all stops"),
    "batch.payload-truncated": ClientReads("stops", "all stops hangs crashes", "stops"),
    "batch.record-count": ClientReads("none stops", "all", "stops"),
    "batch.unknown-attributes": ClientReads("all", "all", "all"),
    "batch.unknown-codec": ClientReads("stops", "all stops", "stops"),
    "batch.wrapper-empty": ClientReads("stops", "crashes", "none stops"),
    "batch.wrapper-value": ClientReads("stops", "hangs", "stops"),
    "log.bad-length": ClientReads("stops", "stops", "stops"),
    "log.unknown-magic": ClientReads("stops", "stops", "all"),
    "record.headers": ClientReads("stops", "all", "stops"),
    "record.inner-crc": ClientReads("stops", "all", "stops"),
    "record.inner-cut": ClientReads("some", "some", "stops"),
    "record.inner-length": ClientReads("stops", "crashes", "stops"),
    "record.inner-magic": ClientReads("all stops", "stops", "all"),
    "record.inner-nested": ClientReads("stops", "all some", "stops"),
    "record.inner-offset": ClientReads("stops", "stops", "all"),
    "record.inner-value": ClientReads("stops", "others some stops", "all others"),
    "record.key": ClientReads("stops", "stops", "stops"),
    "record.length": ClientReads("stops", "stops", "stops"),
    "record.offset-order": ClientReads("some", "all", "all"),
    "record.offset-outside": ClientReads("some after", "all", "all"),
    "record.timestamp-over-max": ClientReads("all", "all", "all"),
    "record.timestamp-under-max": ClientReads("all", "all", "all"),
    "record.trailing": ClientReads("stops", "all", "stops"),
    "record.value": ClientReads("stops", "stops", "stops"),
    "record.varint": ClientReads("stops", "all stops hangs", "stops"),
    "record.wrapper-end": ClientReads("all", "all", "all"),
    "record.wrapper-overlap": ClientReads("some", "all", "all"),
}
"""By the code of the finding that names the batch."""

LEADER_APPENDS: Final[dict[str, str]] = {
    "batch.bad-epoch": "appends",
    "batch.crc-mismatch": "refuses",
    "batch.header-contradiction": "refuses",
    "batch.negative-timestamp": "appends",
    "batch.offset-order": "appends",
    "batch.payload": "refuses",
    "batch.payload-checksum": "appends",
    "batch.payload-dependent": "refuses",
    "batch.payload-trailing": "appends",
    "batch.payload-truncated": "refuses",
    "batch.record-count": "refuses",
    "batch.unknown-attributes": "appends",
    "batch.unknown-codec": "refuses",
    "log.bad-length": "refuses",
    "log.unknown-magic": "refuses",
    "log.zero-filled": "refuses",
    "record.control-key": "refuses",
    "record.control-type": "refuses",
    "record.control-value": "refuses",
    "record.headers": "refuses",
    "record.key": "refuses",
    "record.length": "refuses",
    "record.marker-count": "refuses",
    "record.offset-order": "appends refuses",
    "record.offset-outside": "appends",
    "record.timestamp-over-max": "appends",
    "record.timestamp-under-max": "appends",
    "record.trailing": "refuses",
    "record.value": "refuses",
    "record.varint": "refuses",
}
"""What a leader of 4.3.1 did with such batches of magic 2 from a producer: `appends`, `refuses`, or both."""

_APPENDS: Final = {
    "appends": "A leader of 4.3 appends such a batch if a producer sends it.",
    "refuses": "A leader of 4.3 refuses such a batch from a producer.",
    "appends refuses": (
        "A leader of 4.3 appends such a batch if a producer sends it without compression; it refuses compressed ones."
    ),
}


def consumers(code: str) -> str:
    """Return a sentence on what consumers do with the batch of a finding; empty: none of them was tried."""
    reads = CLIENT_READS.get(code)
    if reads is None:
        return ""
    does = (" or ".join(_DOES[word] for word in words.split()) for words in reads)
    each = (f"{name} {what}" for name, what in zip(_CLIENTS, does, strict=True))
    return f"Consumers with default settings: {'; '.join(each)}."


def leader(code: str) -> str:
    """Return a sentence on what a leader does with such a batch from a producer; empty: none was sent."""
    return _APPENDS.get(LEADER_APPENDS.get(code, ""), "")
