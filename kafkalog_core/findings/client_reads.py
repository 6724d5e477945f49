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

CLIENT_READS: Final[dict[str, ClientReads]] = {}
"""By the code of the finding that names the batch."""

LEADER_APPENDS: Final[dict[str, str]] = {}
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
    return f"Consumers: {'; '.join(f'{name} {what}' for name, what in zip(_CLIENTS, does, strict=True))}."


def leader(code: str) -> str:
    """Return a sentence on what a leader does with such a batch from a producer; empty: none was sent."""
    return _APPENDS.get(LEADER_APPENDS.get(code, ""), "")
