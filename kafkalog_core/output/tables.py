"""One declaration of every result row: names, types, units.

JSON lines, CSV, Arrow schemas, man pages and golden tests all use these tables. Every
row's first column is `type`. Times are integers `*_ms`; `*_position` is a byte in a file, `*_offset` or `offset` a
Kafka offset. A column of kind `bytes` named `key` becomes `"key": "text"` in JSON when it is exact UTF-8, else
`"key_b64": "..."`; null is `"key": null`.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from kafkalog_core.output.clusters import CLUSTER_TABLES
from kafkalog_core.output.consumers import (
    GROUP,
    GROUP_EVENT,
    GROUP_MEMBER,
    GROUP_OFFSET,
    IMPACT,
    STABLE_OFFSET,
    TRANSACTION,
    TRANSACTION_PART,
    WHICH_PARTITION,
)
from kafkalog_core.output.differences import DIFFERENCE
from kafkalog_core.output.events import EVENT
from kafkalog_core.output.plans import (
    BIG_KEY,
    CHANGE,
    CLEANED_SEGMENT,
    CLEANING_PASS,
    COMPACTION,
    FETCH,
    FROZEN,
    JOURNAL,
    LOSS,
    PLAN,
    RETAINED_SEGMENT,
    RETENTION,
    RETENTION_EVENT,
    RETENTION_WHAT_IF,
    ROLLED_SEGMENT,
    ROLLING,
    SEEK,
    SETTING,
    TEXT_FILE,
    TEXT_LINE,
)
from kafkalog_core.output.replicas import REPLICA, REPLICA_COPY, REPLICA_RANGE
from kafkalog_core.output.schema import DAMAGE_COUNTS, MAX_TIMESTAMP, PLACE, Column, Kind, Table, new_table
from kafkalog_core.output.starts import PARTITION_START, PREFLIGHT, RELEASE_START, START_EVENT, START_STEP
from kafkalog_core.output.usages import USAGE, USAGE_DIRECTORY
from kafkalog_core.output.zookeeper import ZNODE, ZNODE_CHANGE, ZOOKEEPER, ZOOKEEPER_OWNER, ZOOKEEPER_SERVER

__all__ = [
    "BATCH",
    "BIG_KEY",
    "BROKER_MESSAGE",
    "CATALOG",
    "CHANGE",
    "CHECKPOINT",
    "CLEANED_SEGMENT",
    "CLEANING_PASS",
    "COMPACTION",
    "COUNT",
    "DAMAGE",
    "DIFFERENCE",
    "EVENT",
    "EXPLANATION",
    "EXPORT",
    "FETCH",
    "FINDING",
    "GROUP",
    "GROUP_EVENT",
    "GROUP_MEMBER",
    "GROUP_OFFSET",
    "IMPACT",
    "INDEX_ENTRY",
    "JOURNAL",
    "LOSS",
    "PARTITION",
    "PARTITION_START",
    "PATH",
    "PLAN",
    "PREFLIGHT",
    "PRODUCER",
    "PROPERTY",
    "RECORD",
    "RECORD_DECODED",
    "RECORD_V07",
    "RELEASE_START",
    "RETAINED_SEGMENT",
    "RETENTION",
    "RETENTION_EVENT",
    "RETENTION_WHAT_IF",
    "ROLLED_SEGMENT",
    "ROLLING",
    "SEEK",
    "SEGMENT",
    "SETTING",
    "STABLE_OFFSET",
    "START_EVENT",
    "START_STEP",
    "STATS",
    "SUMMARY",
    "TABLES",
    "TEXT_FILE",
    "TEXT_LINE",
    "TRANSACTION",
    "TRANSACTION_PART",
    "USAGE",
    "USAGE_DIRECTORY",
    "WHICH_PARTITION",
    "ZNODE",
    "ZNODE_CHANGE",
    "ZOOKEEPER",
    "ZOOKEEPER_OWNER",
    "ZOOKEEPER_SERVER",
    "Column",
    "Kind",
    "Table",
    "with_path",
]

PATH: Final = Column("path", "string", "the file of the row; stats: the directory")


@cache
def with_path(table: Table) -> Table:
    """Return the same row type with a `path` column after topic, partition and segment.

    `checkpoint`, `property` and `finding` rows, which have a `file` column, and the summary do not change.
    """
    place = [index for index, name in enumerate(table.names) if name in {"topic", "partition", "segment"}]
    if "file" in table.names or not place:
        return table
    after = place[-1] + 1
    return Table(table.name, (*table.columns[:after], PATH, *table.columns[after:]))


_POSITION: Final = Column("position", "int64", "byte in the file where the batch starts")
_FINDING_COUNTS: Final = (
    Column("errors", "int64", "findings of severity error"),
    Column("warnings", "int64", "findings of severity warning"),
    Column("infos", "int64", "findings of severity info"),
)
_STATE: Final = Column(
    "state",
    "string",
    "clean, warnings, unread (this user may not read a file of it) or damaged: the worst of its findings",
)
_MIN_BASE_TIMESTAMP: Final = Column(
    "min_base_timestamp_ms",
    "int64",
    "smallest first timestamp of a batch (compressed v1: of its records); records inside may be older; null: none",
)
_OFFSETS: Final = (
    Column("first_offset", "int64", "of the first batch, whose first records a cleaner may have removed; null: none"),
    Column("last_offset", "int64", "of the last batch"),
)
_RESYNCED: Final = Column("resynced", "bool", "found by searching after damage; its framing may be a coincidence")
_ENCODING: Final = (
    Column("format", "string", "v07, v0, v1 or v2"),
    Column("codec", "string", "none, gzip, snappy, lz4 or zstd"),
)

_RECORD_COLUMNS: Final = (
    *PLACE,
    _POSITION,
    Column("offset", "int64", "Kafka offset; v07: the byte address at which a fetch finds it"),
    Column("timestamp_ms", "int64", "ms since 1970; null where the format has none, -1 where -1 is stored"),
    Column("timestamp_type", "string", "create, append or null"),
    Column("key", "bytes", "record key"),
    Column("value", "bytes", "record value; null is a tombstone"),
    Column("headers", "headers", "list of key and value, in order"),
    *_ENCODING,
    Column("leader_epoch", "int32", "leader epoch of the batch"),
    Column("producer_id", "int64", "-1: none"),
    Column("producer_epoch", "int16", "-1: none"),
    Column("sequence", "int32", "sequence number of the record; -1: none"),
    Column("is_transactional", "bool", "attribute bit 4 of the batch"),
    Column("control_type", "string", "commit, abort, leader_change, ...; null for data"),
    _RESYNCED,
)

RECORD: Final = new_table("record", *_RECORD_COLUMNS)
RECORD_DECODED: Final = new_table(
    "record",
    *_RECORD_COLUMNS,
    Column("decoded_key", "json", "what the key says: type, name, data; null: it does not decode, or there is none"),
    Column("decoded_value", "json", "what the value says: version, data; null: it does not decode, or a tombstone"),
)
"""A record of one of Kafka's own topics."""
RECORD_V07: Final = new_table(
    "record",
    *_RECORD_COLUMNS,
    Column("next_offset", "int64", "byte address that a 0.7 consumer stores after this record"),
    Column("magic", "int8", "0 or 1, of Kafka 0.7"),
    Column("attributes", "int8", "as stored; null for magic 0"),
    Column("crc_stored", "uint32", "CRC-32 stored with the message"),
    Column("crc_ok", "bool", "whether it agrees with the payload"),
)
BATCH: Final = new_table(
    "batch",
    *PLACE,
    _POSITION,
    Column("size_bytes", "int64", "whole batch, envelope included"),
    Column("base_offset", "int64", "first offset; null for a compressed v0 or v1 message"),
    Column("last_offset", "int64", "last offset"),
    Column("record_count", "int32", "as in the header; null for a compressed v07, v0 or v1 message"),
    *_ENCODING,
    Column("timestamp_type", "string", "create, append or null"),
    Column("base_timestamp_ms", "int64", "v2: as stored; the delete horizon if there is one"),
    Column("max_timestamp_ms", "int64", "largest timestamp; v1: of the outer message"),
    Column("leader_epoch", "int32", "-1: none"),
    Column("producer_id", "int64", "-1: none"),
    Column("producer_epoch", "int16", "-1: none"),
    Column("base_sequence", "int32", "-1: none"),
    Column("is_transactional", "bool", "attribute bit 4"),
    Column("is_control", "bool", "attribute bit 5"),
    Column("delete_horizon_ms", "int64", "ms since 1970 from which tombstones may be removed; null: none"),
    Column("crc_stored", "uint32", "checksum stored in the batch"),
    Column("crc_computed", "uint32", "checksum of its bytes"),
    Column("crc_ok", "bool", "whether they agree"),
    _RESYNCED,
)
DAMAGE: Final = new_table(
    "damage",
    *PLACE,
    Column("position", "int64", "byte in the file where the damage starts"),
    Column("size_bytes", "int64", "bytes that do not form a batch; 0: the batch is whole, but not its content"),
    Column("reason", "string", "a stable word: torn-tail, crc-mismatch, bad-length, ..."),
    Column("detail", "string", "one sentence"),
    Column(
        "next_offset",
        "int64",
        "first offset expected here after the batches before; in a whole batch the first one not read; null: unknown",
    ),
    Column(
        "severity",
        "string",
        "error; warning: brokers continue; info: preallocated space, or a batch that is being written",
    ),
)
SEGMENT: Final = new_table(
    "segment",
    *PLACE,
    Column("base_offset", "int64", "of the file name"),
    Column("state", "string", "active, closed, deleted, swap, cleaned, unread (by any broker), live (named by itself)"),
    Column("size_bytes", "int64", "of the log file"),
    Column("mtime_ms", "int64", "modification time of the log file"),
    *_OFFSETS,
    Column("batch_count", "int64", "whole batches with a good checksum"),
    Column("record_count", "int64", "records in them, by their headers; compressed v07, v0 and v1 are opened"),
    _MIN_BASE_TIMESTAMP,
    MAX_TIMESTAMP,
    Column("formats", "string", "formats found, comma separated"),
    Column("codecs", "string", "codecs found, comma separated"),
    Column("index_bytes", "int64", "size of .index; null: missing"),
    Column("timeindex_bytes", "int64", "size of .timeindex; null: missing"),
    Column("txnindex_bytes", "int64", "size of .txnindex; null: missing"),
    Column("snapshot_bytes", "int64", "size of .snapshot; null: missing"),
    *DAMAGE_COUNTS,
)
INDEX_ENTRY: Final = new_table(
    "index_entry",
    *PLACE,
    Column("kind", "string", "offset, time or txn"),
    Column("slot", "int64", "number of the entry, from 0"),
    Column("position", "int64", "byte in the index file"),
    Column("offset", "int64", "absolute: base offset of the file name + relative offset; txn: null"),
    Column("relative_offset", "int64", "as stored; txn: null"),
    Column("log_position", "int64", "offset index: byte in the .log"),
    Column("timestamp_ms", "int64", "time index: ms since 1970"),
    Column("version", "int16", "txn: version of the entry"),
    Column("producer_id", "int64", "txn: whose transaction was aborted"),
    Column("first_offset", "int64", "txn: first offset of the transaction"),
    Column("last_offset", "int64", "txn: offset of the abort marker"),
    Column("last_stable_offset", "int64", "txn: last stable offset when the marker was written"),
)
PRODUCER: Final = new_table(
    "producer",
    *PLACE,
    Column("position", "int64", "byte in the snapshot file"),
    Column("producer_id", "int64", ""),
    Column("producer_epoch", "int16", ""),
    Column("last_sequence", "int32", "-1: no batch known"),
    Column("last_offset", "int64", "-1: no batch known"),
    Column("offset_delta", "int32", "last batch: last offset - first offset"),
    Column("timestamp_ms", "int64", "of the last batch or marker"),
    Column("coordinator_epoch", "int32", "-1: no marker seen"),
    Column("current_txn_first_offset", "int64", "-1: no open transaction"),
)
CHECKPOINT: Final = new_table(
    "checkpoint",
    Column("file", "string", "path of the checkpoint file"),
    Column(
        "kind",
        "string",
        "recovery_point, high_watermark, log_start_offset, cleaner_offset, leader_epoch, or offset_checkpoint",
    ),
    Column("line", "int64", "line in the file, from 1"),
    Column("topic", "string", "of the entry; leader_epoch: of the directory"),
    Column("partition", "int32", "of the entry; leader_epoch: of the directory"),
    Column("leader_epoch", "int32", "leader_epoch: the epoch"),
    Column("offset", "int64", "the entry's offset; leader_epoch: the epoch's start offset"),
)
PROPERTY: Final = new_table(
    "property",
    Column("file", "string", "path of meta.properties, partition.metadata, .kafka_cleanshutdown or quorum-state"),
    Column("kind", "string", "meta, partition_metadata, clean_shutdown or quorum_state"),
    Column("key", "string", "as written in the file"),
    Column("value", "string", "text; JSON for what is not a scalar there"),
)
FINDING: Final = new_table(
    "finding",
    Column("code", "string", "stable code"),
    Column("severity", "string", "info, warning or error"),
    Column("file", "string", "path of the file or directory"),
    Column("topic", "string", ""),
    Column("partition", "int32", ""),
    Column("position", "int64", "byte in the file; null: the whole file"),
    Column("size_bytes", "int64", ""),
    Column("offset", "int64", "first Kafka offset that is affected"),
    Column("message", "string", "one plain sentence"),
    Column("broker_action", "string", "what a broker will do about it"),
    Column("cure", "string", "what repairs it"),
    Column("next_command", "string", "command line to run next, ready to paste; null: no command repairs it"),
)
PARTITION: Final = new_table(
    "partition",
    *PLACE[:2],
    Column("path", "string", "of the directory"),
    _STATE,
    Column("segments", "int64", "log files"),
    Column("bytes", "int64", "bytes of log"),
    Column("batches", "int64", "whole batches"),
    Column(
        "records", "int64", "records in them; those of compressed v07, v0 and v1 are counted only with --level records"
    ),
    Column("log_start_offset", "int64", "first offset that a broker serves; null: no segment"),
    Column("log_end_offset", "int64", "offset after the last whole batch"),
    Column("first_timestamp_ms", "int64", "largest timestamp of the first batch that has one; null: none"),
    Column("max_timestamp_ms", "int64", "largest timestamp of all batches"),
    Column("damage_count", "int64", "damaged places in the logs"),
    Column("damage_bytes", "int64", "bytes in them"),
    Column("at_risk_bytes", "int64", "bytes after the recovery point that an unclean start reads again; null: unknown"),
    *_FINDING_COUNTS,
)
EXPLANATION: Final = new_table(
    "explanation",
    Column("code", "string", "stable code"),
    Column("kind", "string", "finding, damage (a reason of damage rows) or message (of a broker's own log)"),
    Column("severity", "string", "info, warning or error"),
    Column("message", "string", "the sentence that is shown, with <names> for what differs"),
    Column("meaning", "string", "what it means"),
    Column("broker_action", "string", "what a broker does about it"),
    Column("cure", "string", "what repairs it"),
)
BROKER_MESSAGE: Final = new_table(
    "broker_message",
    Column("name", "string", "stable code of the message"),
    Column("severity", "string", "info, warning or error, for the disk"),
    Column("count", "int64", "lines with the message"),
    Column("first_line", "int64", "number of the first of them, from 1"),
    Column("last_line", "int64", "number of the last"),
    Column("line", "string", "the first of them, at most 500 characters"),
    Column("places", "string", "partitions, files or directories in it, at most ten, comma separated"),
    Column("is_elsewhere", "bool", "it is not about a log directory"),
    Column("happened", "string", "what happened, of the first line"),
    Column("why", "string", "why"),
    Column("broker_action", "string", "what the broker did about it"),
    Column("cure", "string", "what to do"),
    Column("commands", "string", "command lines to run next, one per line"),
    Column("codes", "string", "related codes and subjects, comma separated"),
)
SUMMARY: Final = new_table(
    "summary",
    Column("files", "int64", "files read; of plans: files that are changed"),
    Column("files_total", "int64", "files there were to read in those partitions; more than files: not all was read"),
    Column("partitions", "int64", "partitions read"),
    Column("partitions_total", "int64", "partitions there were to read"),
    Column("bytes", "int64", "bytes of log read"),
    Column("bytes_total", "int64", "bytes of log there were to read in those partitions"),
    Column("unchanged_bytes", "int64", "verify --resume: of those bytes, what an earlier run had read: not read again"),
    Column("batches", "int64", "whole batches seen"),
    Column("unopened_batches", "int64", "those whose records were not decoded, so that damage in them is not noticed"),
    Column("records", "int64", "records shown; of rows of batches, segments and figures: counted by the batch headers"),
    Column(
        "uncounted_batches", "int64", "compressed batches shown, of v07, v0 and v1, whose headers have no record count"
    ),
    Column("rows", "int64", "rows written before this one"),
    *DAMAGE_COUNTS,
    Column("severities", "map", "findings by severity, damaged places as errors"),
    Column("codes", "map", "findings by code, damaged places by reason"),
    Column("interrupted", "bool", "ended by Ctrl-C before all was read"),
    Column("exit_status", "int32", "exit status of the command"),
)
COUNT: Final = new_table("count", *PLACE[:2], Column("records", "int64", "records that the filters select"))
STATS: Final = new_table(
    "stats",
    *PLACE[:2],
    Column("segments", "int64", "log files"),
    Column(
        "unread_segments",
        "int64",
        "those that could not be opened: the figures cover the others, and are null if there are none",
    ),
    Column("bytes", "int64", "bytes of whole batches"),
    Column("batches", "int64", "whole batches"),
    Column("records", "int64", "records, control records included"),
    Column("control_records", "int64", "records of control batches"),
    Column("transactional_records", "int64", "data records in transactional batches"),
    *_OFFSETS,
    _MIN_BASE_TIMESTAMP,
    MAX_TIMESTAMP,
    Column("formats", "map", "batches by format"),
    Column("codecs", "map", "batches by codec"),
    Column("codec_bytes", "map", "bytes by codec"),
    Column("batch_sizes", "map", "batches by size: keys are upper bounds in bytes, powers of two"),
    Column("producers", "map", "records by producer id, the largest twenty, 'other' for the rest"),
    Column("producer_count", "int64", "distinct producer ids; at least, where a million is passed"),
    *DAMAGE_COUNTS,
)
CATALOG: Final = new_table(
    "catalog",
    *PLACE[:2],
    Column("path", "string", "of the partition's directory"),
    _STATE,
    Column("segments", "int64", "rows of segments, those that no broker reads included"),
    Column("batches", "int64", "rows of batches"),
    Column("records", "int64", "records in them, by their headers; compressed v07, v0 and v1 are opened"),
    Column("bytes", "int64", "bytes of log"),
    Column("read_bytes", "int64", "bytes of log that this run has read"),
    Column("unchanged_bytes", "int64", "bytes of log that an earlier run has read, and that are as they were"),
    *_FINDING_COUNTS,
)
EXPORT: Final = new_table(
    "export",
    *PLACE[:2],
    Column("path", "string", "of the partition's directory"),
    Column(
        "state",
        "string",
        "exported; unchanged (nothing new); stopped (its log is not the one that was exported: see the finding)",
    ),
    Column("from_offset", "int64", "first offset that was looked for"),
    Column("next_offset", "int64", "where the next run continues"),
    Column("log_start_offset", "int64", "base offset of the first segment; null: no segment"),
    Column("records", "int64", "records written"),
    Column("files", "int64", "Parquet files written with its records, perhaps next to those of others"),
    Column("file_bytes", "int64", "its share of the bytes in them"),
    Column("log_bytes", "int64", "bytes of log read"),
    Column("removed_files", "int64", "files of earlier runs from which its records were removed: reloaded"),
    Column("removed_records", "int64", "records that were removed"),
    Column("unread_segments", "int64", "segments that could not be opened: the next run tries them again"),
    *_FINDING_COUNTS,
)
_COPY: Final = (
    Column("topic", "string", ""),
    Column("partition", "int32", ""),
    Column("path", "string", "directory of the copy"),
    Column("is_chosen", "bool", "whether it is the copy with which a cluster would go on"),
)

TABLES: Final = {
    table.name: table
    for table in (
        RECORD,
        BATCH,
        DAMAGE,
        SEGMENT,
        INDEX_ENTRY,
        PRODUCER,
        CHECKPOINT,
        PROPERTY,
        FINDING,
        COUNT,
        STATS,
        PARTITION,
        EXPLANATION,
        BROKER_MESSAGE,
        PLAN,
        CHANGE,
        LOSS,
        SETTING,
        JOURNAL,
        TEXT_FILE,
        TEXT_LINE,
        SEEK,
        FETCH,
        RETENTION,
        RETAINED_SEGMENT,
        RETENTION_WHAT_IF,
        RETENTION_EVENT,
        COMPACTION,
        CLEANING_PASS,
        CLEANED_SEGMENT,
        BIG_KEY,
        ROLLING,
        ROLLED_SEGMENT,
        FROZEN,
        CATALOG,
        EXPORT,
        REPLICA,
        REPLICA_COPY,
        REPLICA_RANGE,
        DIFFERENCE,
        TRANSACTION,
        TRANSACTION_PART,
        STABLE_OFFSET,
        GROUP,
        GROUP_OFFSET,
        GROUP_MEMBER,
        GROUP_EVENT,
        EVENT,
        WHICH_PARTITION,
        *CLUSTER_TABLES,
        ZOOKEEPER_SERVER,
        ZOOKEEPER,
        ZNODE,
        ZNODE_CHANGE,
        ZOOKEEPER_OWNER,
        USAGE,
        USAGE_DIRECTORY,
        IMPACT,
        PREFLIGHT,
        START_EVENT,
        PARTITION_START,
        START_STEP,
        RELEASE_START,
        SUMMARY,
    )
}
