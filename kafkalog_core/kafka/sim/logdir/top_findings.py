"""Findings about files at the top of a log directory that are missing or were emptied, and what a start does then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.findings import found
from kafkalog_core.findings.logdirs import NO_NODE_ID
from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState, FileKind, fixed_file_name
from kafkalog_core.kafka.rules.metadata_rules import cluster_modes
from kafkalog_core.storage.paths import exists
from kafkalog_core.structs import replace
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog_core.findings import Finding, Severity
    from kafkalog_core.kafka.rules.releases import Release
    from kafkalog_core.kafka.sim.logdir.top_files import BrokerDir
    from kafkalog_core.storage.logdir import LogDir, PartitionPath

__all__ = ["file_findings", "listed_findings", "unformatted"]

_NO_META: Final = frozenset({"meta.missing", "meta.missing-kraft"})
"""Findings that there is no meta.properties."""
_WORSE: Final = _NO_META | {"dir.future-beside-current"}
"""Warnings of a listing that are errors in a log directory: no healthy broker leaves them."""
_SINCE_META: Final = (FileKind.LEADER_EPOCH, FileKind.PARTITION_METADATA)
_EFFECTS: Final = {
    FileKind.RECOVERY_POINT: "it recovers every segment after an unclean stop",
    FileKind.HIGH_WATERMARK: "it shows consumers nothing until the replicas agree on high watermarks",
    FileKind.LOG_START_OFFSET: "records that were deleted by request, and not yet from the disk, come back",
}


def listed_findings(log_dir: LogDir) -> Iterator[Finding]:
    """Yield the findings of a listing of a log directory, with the severity that they have in one of a broker."""
    for finding in log_dir.findings:
        yield replace(finding, severity="error") if finding.code in _WORSE else finding


def file_findings(broker_dir: BrokerDir) -> Iterator[Finding]:
    """Yield findings about missing and emptied checkpoints, and a missing directory id."""
    meta = broker_dir.meta
    if meta is not None and not meta.is_refused and broker_dir.is_kraft and broker_dir.directory_id is None:
        yield found("meta.no-directory-id", broker_dir.meta_path)
    if meta is not None and not meta.is_refused and meta.contents.get("version") is None:
        versionless = found("meta.no-version", broker_dir.meta_path)
        # of version 0, which a file without a version is, only broker.id is read (`MetaProperties.Builder`)
        action = versionless.broker_action if meta.contents.get("broker.id") else NO_NODE_ID
        yield replace(versionless, broker_action=action)
    elif meta is not None and not meta.is_refused and not broker_dir.is_kraft and not meta.contents.get("broker.id"):
        yield found("meta.no-broker-id", broker_dir.meta_path)
    partitions = [place for place in broker_dir.log_dir.partitions if _is_counted(place)]
    yield from _missing_meta(broker_dir, partitions)
    if not partitions:
        return
    named = count_of(len(partitions), "partition")
    for kind, effect in _EFFECTS.items():
        path = f"{broker_dir.path}/{fixed_file_name(kind)}"
        if _is_expected(kind, broker_dir, partitions) and not exists(path):
            missing = found("checkpoint.missing", path, name=fixed_file_name(kind), effect=effect)
            # of the others only a backup has the entries
            yield missing if kind is FileKind.RECOVERY_POINT else replace(missing, next_step=None)
        text = broker_dir.offsets.get(kind)
        verdict = None if text is None else text.file.verdict
        if text is not None and verdict is not None and not text.is_refused and verdict.declared_count is None:
            severity = (
                _severity_of_emptied(kind, broker_dir) if not text.file.size_bytes else _severity_of_cut(broker_dir)
            )
            yield found("checkpoint.emptied", path, partitions=named, effect=effect, severity=severity)

    cleaner = broker_dir.offsets.get(FileKind.CLEANER_OFFSET)
    is_cut = cleaner is not None and not cleaner.is_refused and cleaner.file.verdict.declared_count is None
    if cleaner is not None and is_cut and cleaner.file.size_bytes:  # until the first clean it has no bytes at all
        effect, severity = "it cleans each log from its start again", _severity_of_cut(broker_dir)
        path = cleaner.file.path
        yield found("checkpoint.emptied", path, partitions=named, effect=effect, severity=severity)


def unformatted(log_dir: LogDir, others: Iterable[BrokerDir | None], release: Release) -> Iterator[Finding]:
    """Yield that an empty log directory keeps a broker from starting, unless one with ZooKeeper may start on it.

    `KafkaRaftServer.initializeLogDirs` refuses a directory without meta.properties; seen of 4.3.1. A ZooKeeper broker
    (`KafkaServer.checkpointBrokerMetadata`) writes the file.

    Args:
        log_dir: the directory; of one that is not empty, nothing is yielded.
        others: the log directories that were named with it.
        release: of the broker.
    """
    if not log_dir.is_empty:
        return
    kraft = next((each for each in others if each is not None and each.meta is not None and each.is_kraft), None)
    if kraft is None and cluster_modes(release).has_zookeeper:
        return
    yield found("dir.unformatted", log_dir.path)


def _missing_meta(broker_dir: BrokerDir, partitions: Iterable[PartitionPath]) -> Iterator[Finding]:
    """Yield a finding about a lost meta.properties (since 0.9): partitions have files that only 0.11 and later write.

    A listing of the log directory already reports it if files at its top show it.
    """
    is_reported = any(finding.code in _NO_META for finding in broker_dir.log_dir.findings)
    if broker_dir.meta is None and not is_reported and any(_has_any(place, _SINCE_META) for place in partitions):
        yield found("meta.missing", broker_dir.meta_path, severity="error")


def _has_any(place: PartitionPath, kinds: Iterable[FileKind]) -> bool:
    return any(exists(f"{place.path}/{fixed_file_name(kind)}") for kind in kinds)


def _is_counted(place: PartitionPath) -> bool:
    return place.name.state is DirectoryState.CURRENT and place.name.topic != METADATA_TOPIC


def _is_expected(kind: FileKind, broker_dir: BrokerDir, partitions: Iterable[PartitionPath]) -> bool:
    """Return whether a broker of the release that left this directory has written the file."""
    is_later = broker_dir.meta is not None or FileKind.LOG_START_OFFSET in broker_dir.offsets
    if kind is FileKind.RECOVERY_POINT:
        return is_later or FileKind.CLEANER_OFFSET in broker_dir.offsets
    if kind is FileKind.HIGH_WATERMARK:
        return is_later or FileKind.RECOVERY_POINT in broker_dir.offsets
    if broker_dir.is_kraft:
        return True
    return any(_has_any(place, (FileKind.LEADER_EPOCH,)) for place in partitions)


def _severity_of_cut(broker_dir: BrokerDir) -> Severity:
    """Return the severity of a checkpoint that ends after its version: no broker writes it that way."""
    return "error" if broker_dir.log_dir.is_clean else "warning"


def _severity_of_emptied(kind: FileKind, broker_dir: BrokerDir) -> Severity:
    if broker_dir.log_dir.is_clean:
        return "error"
    # Bytes in another checkpoint show that this broker had something to write.
    others = [text for other, text in broker_dir.offsets.items() if other in _EFFECTS and other is not kind]
    return "warning" if any(text.file.size_bytes for text in others) else "info"
