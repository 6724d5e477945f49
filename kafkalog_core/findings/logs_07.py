"""What Kafka 0.7 does with damage in its logs, which have one copy, no index and messages at byte addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.findings.logs import LOGS

if TYPE_CHECKING:
    from kafkalog_core.findings.kinds import FindingType

__all__ = ["V07_SUFFIX", "in_07"]

V07_SUFFIX: Final = ".kafka"
"""The end of a log file's name in 0.7."""
_ELSEWHERE: Final = "In an earlier segment, and after a clean shutdown: checks nothing; consumers that read here fail."
_LAST_COPY: Final = (
    "Kafka 0.7 keeps one copy of a partition. Copy the directory away before a broker starts on it, and look at the "
    "records after this place: kafkalog dump --resync. To truncate the log as the broker does: kafkalog recover."
)
_CUTS: Final = f"In the last segment after an unclean shutdown: truncates the log at this message. {_ELSEWHERE}"
_TAIL: Final = (
    "In the last segment after an unclean shutdown: truncates these bytes. After a clean shutdown: appends after "
    "them, and consumers cannot read what it appends. In an earlier segment: checks nothing, and consumers that read "
    "here fail."
)
_MAGIC: Final = f"In the last segment after an unclean shutdown: does not start. {_ELSEWHERE}"
_SERVES: Final = "Serves the message, and the consumer fails on it."
_AFTER: Final = "Set the stored position of the consumers to the address of the next message: kafkalog dump shows it."
_READ_AGAIN: Final = "Fails at every read from here."
_DISK: Final = "Stop the broker and copy the disk (ddrescue) first: Kafka 0.7 keeps one copy of a partition."
_FRAMING: Final = {
    "log.torn-tail": (_TAIL, _LAST_COPY),
    "log.zero-tail": (_TAIL, _LAST_COPY),
    "log.zero-filled": (_CUTS, _LAST_COPY),
    "log.bad-length": (_CUTS, _LAST_COPY),
    "log.unknown-magic": (_MAGIC, _LAST_COPY),
    "log.unreadable": (_READ_AGAIN, _DISK),
    "batch.crc-mismatch": (_CUTS, _LAST_COPY),
}


def in_07(code: str, kind: FindingType) -> FindingType:
    """Return the text of a finding in a file of Kafka 0.7; the catalog's own text if it applies to 0.7 too."""
    if code not in LOGS or kind.broker_action is None:
        return kind
    broker_action, cure = _FRAMING.get(code, (_SERVES, _AFTER))
    return kind._replace(broker_action=broker_action, cure=cure)
