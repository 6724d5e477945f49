"""The catalog of messages in a broker's own log, and the search in it.

A wording is the text of the message as a release writes it, with `{name}` for each value. All wordings of one message,
from 0.8 to the newest known release, are together. The layout of the line around them (log4j, SLF4J, a container's
prefix) does not matter. Of several messages that match a line the first one counts, so special messages come before
general ones. The messages about a log in use, and those that are not about a log directory, are in this module.
"""

from __future__ import annotations

import re
from typing import Final

from kafkalog_core.findings.kinds import BrokerMessage
from kafkalog_core.findings.messages_directories import DIRECTORIES
from kafkalog_core.findings.messages_start import FILES, RECOVERY
from kafkalog_core.structs import NamedTuple

__all__ = ["BROKER_MESSAGES", "ELSEWHERE", "RUNNING", "Heard", "hear"]


_NOTHING: Final = "Nothing needs to be done."
_SEGMENTS: Final = ("kafkalog dump --segments {place}",)
_TXN: Final = "The client aborts and tries again."

RUNNING: Final = (
    BrokerMessage(
        "broker.high-watermark-back",
        "warning",
        ("Non-monotonic update of high watermark from {reason}",),
        "The high watermark of {partition} went back or was corrected: from {reason}.",
        "replication-offset-checkpoint has a value outside the log, or the log was truncated.",
        "Uses the new value.",
        "Nothing needs to be done, if no line about a truncation comes with it.",
        ("checkpoint",),
        ("kafkalog dump --files {log_dir}/replication-offset-checkpoint", "kafkalog verify {place}"),
    ),
    BrokerMessage(
        "broker.epochs-truncated",
        "warning",
        (
            (
                "New epoch entry {reason} caused truncation of conflicting entries {other}. Cache now contains "
                "{number} entries"
            ),
        ),
        "leader-epoch-checkpoint of {partition} had epochs that contradict the log; the broker dropped them.",
        "The file belongs to an older or a damaged copy, or the leader epoch of a batch is wrong (no checksum "
        "protects it).",
        "Continues with the remaining epochs. A follower may then truncate at a wrong offset.",
        "Compare the epochs with those of the other replicas.",
        ("checkpoint",),
        ("kafkalog dump --files {place}", "kafkalog verify {place}"),
    ),
    BrokerMessage(
        "broker.epochs-deleted",
        "warning",
        ("Deleting non-empty leader epoch cache due to incompatible message format {reason}",),
        "The broker deleted the leader epochs of {partition}, because its message format is older than that of 0.11.",
        "message.format.version of the topic is below 0.11.",
        "Continues without epochs. Followers truncate at the high watermark.",
        "Raise message.format.version when all clients can read it.",
        (),
        _SEGMENTS,
    ),
    BrokerMessage(
        "broker.format-downgraded",
        "warning",
        ("Record format version has been downgraded from {reason}",),
        "The broker writes new records of {partition} in an older format.",
        "message.format.version of the topic was lowered.",
        "Converts what producers send: new records lose their headers, and before 0.10 their timestamps.",
        "Raise message.format.version, if nobody lowered it on purpose.",
        ("partition.mixed-formats",),
        _SEGMENTS,
    ),
    BrokerMessage(
        "broker.out-of-order-sequence",
        "warning",
        (
            "Out of order sequence number for producer {producer} at offset {offset} in partition {partition}:",
            "Out of order sequence number for producerId {producer}",
            "Out of order sequence number for producer {producer}",
        ),
        "The sequence number of a batch of producer {producer} does not follow that of its last batch.",
        "Batches were lost (the log was truncated, or acks=0 was used), or the broker forgot the producer. In "
        "recovery: a batch before it is missing in the log.",
        "Refuses the append. At its start it only logs this line. Nothing on the disk changes.",
        "If the line comes at the start, look for a gap at that offset. Else restart the producer.",
        ("snapshot-crc-mismatch",),
        ("kafkalog dump --batches --producer-id {producer} {place}",),
    ),
    BrokerMessage(
        "broker.invalid-txn-state",
        "error",
        ("Expected transactional write from producer {producer}", "InvalidTxnStateException"),
        "Producer {producer} wrote a non-transactional batch while its transaction was open.",
        "At the start: a record in the log contradicts the transaction before it. Its marker may have been truncated, "
        "or two logs were joined. While the broker runs: an error of the client.",
        "At the start it does not start. While it runs, it refuses the append.",
        "At the start: copy the partition from a healthy replica. If a replica is in sync and leads, you may move the "
        "directory out of the log directory instead: the broker fetches the partition again.",
        ("txn.open",),
        ("kafkalog dump --batches --producer-id {producer} {place}", "kafkalog verify {place}"),
    ),
    BrokerMessage(
        "broker.producer-fenced",
        "info",
        (
            "ProducerFencedException",
            "InvalidProducerEpochException",
            "TransactionCoordinatorFencedException",
            "Invalid coordinator epoch: ",
        ),
        "The broker refused a producer, or a transaction coordinator, of an older epoch.",
        "A newer instance with the same transactional id is running.",
        "Refuses the append. Nothing on the disk changes.",
        _TXN,
        ("txn.open",),
    ),
    BrokerMessage(
        "broker.offsets-out-of-order",
        "error",
        (
            "Out of order offsets found in append to {partition}:",
            "Unexpected offset in append to {partition}.",
            "Attempt to append an offset ({offset}) to position {number} no larger than the last offset appended",
            "Attempt to append an offset {offset} to position {number} no larger than the last offset appended",
        ),
        "Offsets of {partition} do not increase.",
        "The leader's log has offsets in a wrong order, or this replica has a wrong log end offset.",
        "Refuses the append: the follower stops fetching the partition. In recovery it empties the segment.",
        "Verify the leader and the follower, and copy the partition from the healthy one.",
        ("offset-order",),
    ),
    BrokerMessage(
        "broker.fetch-failed",
        "error",
        (
            (
                "Error processing fetch with max size {count} from consumer on partition {reason}:{partition}: "
                "PartitionData"
            ),
            "Error processing fetch operation on partition {partition}",
            "Error processing fetch with max size",
            "Found invalid messages during fetch for partition {partition}",
        ),
        "A consumer or a follower could not read {partition}.",
        "A batch is damaged, or an index points into the middle of a batch, at the requested offset.",
        "Answers with an error.",
        "Verify the partition on the leader. A reader that stops there continues after a seek past the batch.",
        ("crc-mismatch", "bad-length", "index"),
    ),
    BrokerMessage(
        "broker.append-failed",
        "error",
        ("Error processing append operation on partition {partition}",),
        "A write to {partition} failed.",
        "The lines after this one show the reason: a full disk, a batch that is too large or damaged, or the state of "
        "a client.",
        "Answers with an error. It writes nothing, or takes the log directory offline.",
        "Read the exception in the next lines.",
        (),
    ),
    BrokerMessage(
        "broker.cleaner-partition",
        "error",
        (
            "Unexpected exception thrown when cleaning log {other}. Marking its partition ({partition}) as uncleanable",
            "Failed to clean up log for {partition} in dir {dir} due to IOException",
            "Failed to access checkpoint file {path}",
        ),
        "Compaction of {partition} failed. The broker does not try again until its next start.",
        "A batch in the dirty part is damaged, an offset is out of range, or the disk fails.",
        "Leaves the log uncleaned: it grows from now on.",
        "Find the damaged batch, copy the partition from a healthy replica, and start the broker again.",
        ("crc-mismatch", "payload", "offset-order"),
    ),
    BrokerMessage(
        "broker.cleaner-died",
        "error",
        ("[kafka-log-cleaner-thread-{number}]: Error due to", "[kafka-log-cleaner-thread-{number}], Error due to"),
        "A thread of the log cleaner died: it compacts nothing until a restart.",
        "Before 1.1 a damaged batch, or a segment whose keys do not fit into the buffer, stops the thread; "
        "__consumer_offsets then grows.",
        "Continues silently without the thread.",
        "The exception after this line names the partition. Repair it, and start the broker again.",
        ("crc-mismatch", "payload-limit"),
        ("kafkalog verify {log_dir}",),
    ),
    BrokerMessage(
        "broker.cleaner-offset-reset",
        "info",
        (
            (
                "Resetting first dirty offset of {partition} to log start offset {start} since the checkpointed "
                "offset {offset} is invalid"
            ),
            (
                "Resetting first dirty offset to log start offset {start} since the checkpointed offset {offset} is "
                "invalid"
            ),
            (
                "The last checkpoint dirty offset for partition {partition} is {offset}, which is larger than the log "
                "end offset {end}"
            ),
        ),
        "cleaner-offset-checkpoint had an offset outside the log; compaction starts at {start}.",
        "Segments were deleted by retention, or the log was truncated.",
        "Compacts the log again from its start.",
        _NOTHING,
        (),
        ("kafkalog dump --files {log_dir}/cleaner-offset-checkpoint",),
    ),
    BrokerMessage(
        "broker.truncated-to-leader",
        "warning",
        (
            "Truncating partition {partition} to local high watermark {offset}",
            "Truncating partition {partition} with {reason} due to",
            "Truncating to offset {offset}",
            "Truncating log {partition} to offset {offset}",
            "Truncate and start at offset {offset}",
            "Truncate and start log '{partition}' to {offset}",
            "Truncate and start log '{partition}' at offset {offset}",
        ),
        "The broker truncated {partition} at offset {offset}, to match its leader.",
        "A follower truncates what its leader does not have. This is normal after a change of the leader, and a loss "
        "after an unclean election.",
        "Truncates the log at that offset and fetches from there. It does not keep the records after it.",
        "If the leader is the one that lost records, stop this broker at once and copy its directory.",
        (),
        _SEGMENTS,
    ),
    BrokerMessage(
        "broker.retention",
        "info",
        (
            "Found deletable segments with base offsets {reason} due to {other} breach",
            "Deleting segment {segment} from log {partition}",
            "Deleting segment LogSegment(baseOffset={segment}",
            "Deleting segments due to {reason}",
            "Deleting segment files {reason}",
            "Scheduling log segment {segment} for log {partition} for deletion",
            "Scheduling segments for deletion {reason}",
            "Deleted log {path}.deleted",
            "Deleted offset index {path}",
            "Deleted time index {path}",
            "Deleted transaction index {path}",
            "Deleting index {path}",
        ),
        "Segments were deleted, by retention, compaction or with their topic.",
        "Retention by time or size applied, compaction had replaced them, or the topic was deleted.",
        "Renames the files to .deleted and deletes them after file.delete.delay.ms.",
        "If this was intended, nothing needs to be done. Else raise retention.ms or retention.bytes, and copy the "
        ".deleted files within a minute.",
        ("segment.deleted",),
        _SEGMENTS,
    ),
    BrokerMessage(
        "broker.log-start-moved",
        "info",
        (
            "Incremented log start offset to {start} due to",
            "Incrementing log start offset of partition {partition} to {start} in dir {dir}",
            "Incrementing log start offset to {start}",
        ),
        "{partition} starts at offset {start} now.",
        "Retention deleted segments, or a client deleted records.",
        "Serves no offset below it.",
        _NOTHING,
        (),
        _SEGMENTS,
    ),
    BrokerMessage(
        "broker.dir-deleted",
        "info",
        (
            "Deleted log for partition {partition} in {path}",
            "Log for partition {partition} is renamed to {path} and is scheduled for deletion",
        ),
        "{partition} was deleted from this broker.",
        "Its topic was deleted, or the replica was moved away.",
        "Renames the directory to end in -delete, and deletes it a minute later.",
        "If this was intended, nothing needs to be done. Else stop the broker and copy the -delete directory at once.",
        ("dir.delete",),
        ("kafkalog dump --segments {path}",),
    ),
    BrokerMessage(
        "broker.load-from-topic",
        "warning",
        ("Failed to load metadata from {partition} with epoch {number} due to {reason}",),
        "A coordinator could not load {partition}: {reason}.",
        "The partition is not online here, or its records cannot be read.",
        "Has no coordinator for the groups or transactions of that partition.",
        "Look for errors about this partition in the lines before.",
        (),
    ),
    BrokerMessage(
        "broker.move-failed",
        "warning",
        (
            "[ReplicaAlterLogDirsThread-{number}]: Partition {partition} marked as failed",
            "Partition {partition} marked as failed",
        ),
        "The broker stopped copying {partition}, from its leader or to another log directory.",
        "The exception in the lines before shows the reason.",
        "Keeps both copies and does not try again until the next start or election.",
        "Repair the cause in the exception, then start the broker again.",
        ("dir.future",),
    ),
)


def _elsewhere(name: str, happened: str, *wordings: str, why: str = "") -> BrokerMessage:
    return BrokerMessage(
        name=f"broker.{name}",
        severity="info",
        wordings=wordings,
        happened=happened,
        why=why or "Starts, stops and elections cause this message.",
        broker_action="Does nothing to a log directory.",
        cure="Nothing needs to be done on the disk.",
        commands=(),
        is_elsewhere=True,
    )


ELSEWHERE: Final = (
    _elsewhere(
        "elsewhere-controller",
        "The controller changed, or no broker led a partition for a moment.",
        "Performing controller activation",
        "NotControllerException",
        "The active controller appears to be node",
        "initiated state change for partition {partition} from OfflinePartition to OnlinePartition failed",
        "NoReplicaOnlineException",
        "Unexpected error handling request RequestHeader(",
        "STALE_BROKER_EPOCH",
        "StaleBrokerEpochException",
        "handleResponse: unexpected callback exception",
    ),
    _elsewhere(
        "elsewhere-shutdown",
        "Something was closed twice, or was already closed, during a stop.",
        "Attempting to close NetworkClient that has already been closed",
        "Exception while execution the action",
        "ClosedChannelException",
    ),
    _elsewhere(
        "elsewhere-network",
        "A connection was lost or refused.",
        "Closing socket for {other} because of error",
        "Connection to node {number} ({other}) could not be established",
        "Error in response for fetch request",
        "for server {other}, unexpected error, closing socket connection and attempting reconnect",
        "Broken pipe",
        "Connection reset by peer",
        "Connection refused",
    ),
    _elsewhere(
        "elsewhere-configuration",
        "A setting is unknown, invalid or unwise.",
        "Property {other} is not valid",
        "It is smaller than message.timestamp.difference.max.ms's value",
        why="The broker writes this remark about settings at each start.",
    ),
)


BROKER_MESSAGES: Final = {message.name: message for message in (*RECOVERY, *FILES, *DIRECTORIES, *RUNNING, *ELSEWHERE)}
"""By name, in the order in which they are tried."""

NUMBERS: Final = frozenset(
    [
        "offset",
        "position",
        "segment",
        "end",
        "start",
        "count",
        "size_bytes",
        "version",
        "number",
        "old",
        "new",
        "broker",
    ]
)
_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")
_WORD: Final = re.compile(r"[A-Za-z]+")
_PREFIX: Final = re.compile(r"\[\w+ partition=(?P<partition>[^,\]\s]+)(?:, dir=(?P<dir>[^\]]+))?\]")
_OLD_PARTITION: Final = re.compile(r"\[?(?P<topic>[\w.-]+),\s?(?P<number>\d+)\]?")


class Heard(NamedTuple):
    """A recognized line: its message, and the values of the placeholders (`path`, `partition`, `offset`, ...)."""

    message: BrokerMessage
    values: dict[str, str]


class _Wording(NamedTuple):
    anchor: str
    pattern: re.Pattern[str]
    message: BrokerMessage


def hear(line: str) -> Heard | None:
    """Return the first message of the catalog that matches a line; None: no message does."""
    words = set(_WORD.findall(line))
    for number in sorted({number for word in words & _BY_WORD.keys() for number in _BY_WORD[word]}):
        wording = _WORDINGS[number]
        if wording.anchor in line:
            match = wording.pattern.search(line)
            if match:
                return Heard(wording.message, _values(line, match))
    return None


def _values(line: str, match: re.Match[str]) -> dict[str, str]:
    prefix = _PREFIX.search(line)
    found = (prefix.groupdict() if prefix else {}) | match.groupdict()
    values = {name: text.strip().rstrip(".,:;") for name, text in found.items() if text and text.strip()}
    old = _OLD_PARTITION.fullmatch(values.get("partition", ""))
    if old:
        values["partition"] = f"{old['topic']}-{old['number']}"
    return values


def _compiled(wording: str, message: BrokerMessage) -> _Wording:
    """Return the pattern of a wording, and its longest literal part, which a search tries first because it is cheap."""
    parts = _PLACEHOLDER.split(wording)
    literals, names = parts[0::2], parts[1::2]
    pattern = re.escape(literals[0])
    for name, literal in zip(names, literals[1:], strict=True):
        pattern += f"(?P<{name}>{_group(name, is_last=not literal)})" + re.escape(literal)
    return _Wording(max(literals, key=len), re.compile(pattern), message)


def _group(name: str, *, is_last: bool) -> str:
    if name in NUMBERS:
        return r"-?\d+"
    if name == "path" and is_last:
        return r"\S+"
    return ".*" if is_last else ".*?"


def _telling_word(anchor: str) -> str:
    """Return the longest word of the anchor that is a whole word in every line with this wording."""
    words = [match[0] for match in _WORD.finditer(anchor)]
    whole = words[:-1] if len(words) > 1 and anchor[-1].isalpha() else words
    return max(whole, key=len)


_WORDINGS: Final = tuple(
    _compiled(wording, message) for message in BROKER_MESSAGES.values() for wording in message.wordings
)
_BY_WORD: Final[dict[str, list[int]]] = {}
for _number, _wording in enumerate(_WORDINGS):
    _BY_WORD.setdefault(_telling_word(_wording.anchor), []).append(_number)
