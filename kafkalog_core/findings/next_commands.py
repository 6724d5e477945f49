"""The next command of each finding: one command line of kafkalog or of the shell, ready to paste.

A template names its paths relative to the file that the finding is about: `{file}` is that path, `{parent}` the
directory that holds it, and `{above}` the directory that holds `{parent}`. Words in capitals, such as OTHER_LOG_DIR,
are values that only the user knows. A command without `--apply` prints a plan, and its output names the command that
applies it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from kafkalog_core.command_lines import shell_path

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["AS_BROKER", "AT_DAMAGE", "NEXT_COMMANDS", "command_of"]

AT_DAMAGE: Final = "kafkalog truncate {parent} --at-damage"
AS_BROKER: Final = "kafkalog truncate {parent} --as-broker"

_REINDEX: Final = "kafkalog reindex {parent} --apply"
_CHECKPOINT: Final = "kafkalog checkpoint {file} --apply"
_CHECKPOINT_HERE: Final = "kafkalog checkpoint {parent} --apply"
_CHECKPOINT_ALL: Final = "kafkalog checkpoint {parent} --beside OTHER_LOG_DIR --apply"
_MARK_CLEAN: Final = "kafkalog checkpoint {parent} --mark-clean --apply"
_CUT_HERE: Final = "kafkalog truncate {file} --at-damage"
_MOVE_FILE: Final = "mv -n -- {file} {above}/.."
_MOVE_DIRECTORY: Final = "mv -n -- {file} {parent}/.."
_LOOK: Final = "kafkalog dump {file} --records --resync"
_BATCHES: Final = "kafkalog dump {file} --batches"
_LARGER: Final = "kafkalog verify {parent} --max-batch-bytes BYTES"
_VERIFY: Final = "kafkalog verify {parent}"

_DAMAGE: Final = (
    "log.torn-tail",
    "log.zero-tail",
    "log.zero-filled",
    "log.bad-length",
    "log.unknown-magic",
    "batch.crc-mismatch",
    "batch.offset-order",
)

_UNREADABLE: Final = (
    "batch.header-contradiction",
    "batch.payload",
    "batch.payload-truncated",
    "batch.record-count",
    "batch.unknown-codec",
    "batch.wrapper-empty",
    "batch.wrapper-value",
    "record.control-key",
    "record.control-value",
    "record.headers",
    "record.headers-limit",
    "record.inner-crc",
    "record.inner-key",
    "record.inner-length",
    "record.inner-magic",
    "record.inner-nested",
    "record.inner-offset",
    "record.inner-value",
    "record.key",
    "record.length",
    "record.marker-count",
    "record.offset-order",
    "record.offset-outside",
    "record.trailing",
    "record.value",
    "record.varint",
    "record.wrapper-end",
    "record.wrapper-overlap",
    "txn.marker-unreadable",
    "txn.plain-inside",
)
"""What a batch holds under a good checksum: nothing repairs it, and dump shows what can be read around it."""

NEXT_COMMANDS: Final[Mapping[str, str]] = {
    **dict.fromkeys((*_DAMAGE, *_UNREADABLE), _LOOK),
    **dict.fromkeys(
        ("batch.bad-epoch", "batch.epoch-back", "batch.gap", "segment.overlap", "segment.overlap-v07"), _BATCHES
    ),
    **dict.fromkeys(("batch.over-limit", "batch.payload-limit"), _LARGER),
    **dict.fromkeys(("roll.not-appendable", "truncate.not-foreseen"), _VERIFY),
    "file.permission-denied": "sudo kafkalog verify {file}",
    **dict.fromkeys(
        (
            "index.before-base",
            "index.beyond-log",
            "index.partial-entry",
            "index.unreadable",
            "index.unsorted",
            "index.wrong-offset",
            "index.wrong-position",
            "index.zero-entries",
            "index.zero-tail",
            "segment.index-missing",
            "segment.timeindex-missing",
            "snapshot.corrupt",
            "snapshot.later-producer",
            "snapshot.missing",
            "snapshot.repeated-producer",
            "snapshot.wrong-state",
            "timeindex.before-base",
            "timeindex.beyond-log",
            "timeindex.empty",
            "timeindex.incomplete",
            "timeindex.partial-entry",
            "timeindex.unreadable",
            "timeindex.unsorted",
            "timeindex.wrong-offset",
            "timeindex.wrong-timestamp",
            "timeindex.zero-entries",
            "txnindex.bad-version",
            "txnindex.below-base",
            "txnindex.missing-entry",
            "txnindex.odd-version",
            "txnindex.partial-entry",
            "txnindex.unknown-entry",
            "txnindex.unsorted",
            "txnindex.wrong-entry",
            "segment.offset-overflow",
            "truncate.end-misled",
            "truncate.split-first",
        ),
        _REINDEX,
    ),
    **dict.fromkeys(
        (
            "checkpoint.count-mismatch",
            "checkpoint.invalid-utf8",
            "checkpoint.malformed-line",
            "checkpoint.negative-count",
            "checkpoint.negative-epoch",
            "checkpoint.negative-offset",
            "checkpoint.repeated",
            "checkpoint.unsupported-version",
            "epochs.before-start",
            "epochs.beyond-end",
            "epochs.early-start",
            "epochs.missing-entry",
            "epochs.not-ascending",
            "epochs.wrong-start",
            "high-watermark.beyond-end",
            "log-start.beyond-end",
            "partition-metadata.bad-topic-id",
            "partition-metadata.malformed-line",
            "partition-metadata.other-topic-id",
            "partition-metadata.shared-topic-id",
            "partition-metadata.too-short",
            "partition-metadata.zero-topic-id",
            "recovery-point.beyond-end",
        ),
        _CHECKPOINT,
    ),
    **dict.fromkeys(("checkpoint.missing", "epochs.missing", "partition-metadata.missing"), _CHECKPOINT_HERE),
    **dict.fromkeys(
        (
            "meta.bad-directory-id",
            "meta.bad-node-id",
            "meta.directory-id-lost",
            "meta.malformed-line",
            "meta.missing-key",
            "meta.missing-kraft",
            "meta.no-broker-id",
            "meta.no-version",
            "meta.not-known",
            "meta.unsupported-version",
            "partition-metadata.no-id",
        ),
        _CHECKPOINT_ALL,
    ),
    "recovery-point.not-at-end": _MARK_CLEAN,
    "log.needs-later-release": "kafkalog checkpoint {above} --mark-clean --apply",
    **dict.fromkeys(
        (
            "index.not-a-file",
            "segment.bad-name",
            "segment.misnamed",
            "segment.misnamed-empty",
            "segment.redpanda",
            "segment.swap-worse",
            "snapshot.bad-name",
        ),
        _MOVE_FILE,
    ),
    **dict.fromkeys(
        (
            "dir.duplicate-partition",
            "dir.future-beside-current",
            "dir.in-two-log-dirs",
            "dir.journal",
            "dir.not-a-partition",
            "dir.second-metadata-log",
        ),
        _MOVE_DIRECTORY,
    ),
    "dir.interrupted": "kafkalog apply --resume {file}",
    "dir.other-cluster": "sed -i.before s/^cluster.id=.*/cluster.id=CLUSTER_ID/ {file}",
    "dir.same-directory-id": "sed -i.before /^directory.id=/d {file}",
    "partition-metadata.not-assigned": "sed -i.before '/^topic_id:/s/:.*/: ID_OF_THE_METADATA_LOG/' {file}",
    **dict.fromkeys(
        ("meta.no-voter", "meta.other-directory-id"),
        "sed -i.before s/^directory.id=.*/directory.id=ID_OF_THE_METADATA_LOG/ {file}",
    ),
    "meta.other-node-id": "sed -i.before s/^node.id=.*/node.id=NODE_ID/ {file}",
    "dir.not-assigned": "kafkalog dump {file} --stats",
    "dir.foreign-owner": "chown -R --reference={parent} -- {file}",
    "dir.no-permission": "chmod u+rwx -- {file}",
    "file.no-access": "chown --reference={parent} -- {file}",
    "file.not-writable": "chmod u+w -- {file}",
    **dict.fromkeys(
        (
            "reindex.bad-records",
            "reindex.damaged",
            "reindex.disorder",
            "reindex.overflow",
            "roll.damaged",
            "truncate.broker-stops",
            "log.end-hidden",
            "log.end-unreadable",
            "truncate.end-lost",
        ),
        AT_DAMAGE,
    ),
    "truncate.completes": "kafkalog verify {file}",
    "truncate.cuts-more": "kafkalog truncate {file} --as-broker",
    "truncate.hidden": AT_DAMAGE,
    "truncate.no-log-dir": _CUT_HERE,
}
"""The template by code."""


def command_of(template: str, path: str) -> str:
    """Return the command line of a template for a finding about `path`."""
    parent = os.path.dirname(path) or "."
    above = os.path.dirname(parent) or "."
    names = {"file": path, "parent": parent, "above": above}
    return template.format_map({name: shell_path(value) for name, value in names.items()})
