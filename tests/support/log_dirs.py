"""Log directories written for a test, and what is found in them without reading their logs."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_core.engine.targets import LogDirTarget, PartitionTarget, resolve
from kafkalog_core.ops.verify.companions import read_metadata, refine
from kafkalog_core.ops.verify.logdir import LogDirs
from kafkalog_core.ops.verify.verdict import PartitionVerdict
from kafkalog_core.storage.partition import read_partition
from tests.support import build

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from kafkalog_core.findings import Finding

__all__ = [
    "CLUSTER",
    "DIRECTORY_IDS",
    "TOPIC_ID",
    "Found",
    "brief",
    "find",
    "tree_hash",
    "write_log_dir",
    "write_partition",
]

CLUSTER = "JP8dLpwyRqt7lTsK7P_TbQ"
DIRECTORY_IDS = ("7EVkxLGh-XcHy9MykOI4gg", "3bnUVZuOWvi-XUn7Cw_5ag")
TOPIC_ID = "dY86piI2T52nV-5FQRA3tA"
LOG_END = 100


class Found(NamedTuple):
    """A finding in short."""

    severity: str
    code: str
    name: str
    position: int | None


def write_partition(path: Path, *, topic_id: str | None = TOPIC_ID) -> Path:
    """A partition whose one segment holds offsets 0 to 99."""
    path.mkdir(parents=True)
    records = [build.Record(offset=offset, value=b"v", timestamp_ms=1000) for offset in range(LOG_END)]
    (path / f"{0:020d}.log").write_bytes(build.batch_v2(records, leader_epoch=0))
    (path / f"{0:020d}.index").touch()
    (path / f"{0:020d}.timeindex").touch()
    (path / "leader-epoch-checkpoint").write_bytes(build.epoch_checkpoint([(0, 0)]))
    if topic_id is not None:
        (path / "partition.metadata").write_bytes(build.partition_metadata(topic_id))
    return path


def write_log_dir(path: Path, names: Sequence[str] = ("t-0",), *, number: int = 0, is_clean: bool = True) -> Path:
    """A healthy log directory of a KRaft broker; `number` makes its directory id."""
    topic_ids: dict[str, str] = {}
    for name in names:
        topic = name.rpartition("-")[0]
        topic_id = topic_ids.setdefault(topic, f"{topic.replace('.', '_'):A<21}A")
        write_partition(path / name, topic_id=topic_id)
    path.mkdir(exist_ok=True)
    entries = [(name.rpartition("-")[0], int(name.rpartition("-")[2]), LOG_END) for name in names if "." not in name]
    for file in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (path / file).write_bytes(build.offset_checkpoint(entries))
    (path / "log-start-offset-checkpoint").write_bytes(build.offset_checkpoint([]))
    (path / "cleaner-offset-checkpoint").touch()
    meta = {
        "version": "1",
        "node.id": "1",
        "cluster.id": CLUSTER,
        "directory.id": DIRECTORY_IDS[number % len(DIRECTORY_IDS)],
    }
    (path / "meta.properties").write_bytes(build.meta_properties(meta))
    if is_clean:
        (path / ".kafka_cleanshutdown").write_bytes(b'{"version":0,"brokerEpoch":7}')
    return path


def find(
    *paths: Path, log_ends: Mapping[str, int | None] | None = None, formats: Iterable[str] = ("v2",)
) -> list[Finding]:
    """All findings but those in logs, in their order; `log_ends` by the name of the partition's directory."""
    targets = resolve([str(path) for path in paths])
    log_dirs = LogDirs(targets)
    findings: list[Finding] = []
    for target in targets:
        assert isinstance(target, LogDirTarget | PartitionTarget)
        for place in target.partitions if isinstance(target, LogDirTarget) else (target.place,):
            partition = read_partition(place.path)
            end = (log_ends or {}).get(place.name.raw, LOG_END) if partition.segments else None
            verdict = PartitionVerdict(
                path=place.path,
                topic=partition.topic,
                partition=partition.partition,
                segments=(),
                findings=tuple(refine(partition, log_dirs.context(target, place), set(formats))),
                log_start_offset=None if end is None else partition.segments[0].base_offset,
                log_end_offset=end,
                at_risk_bytes=None,
                metadata=read_metadata(partition),
            )
            findings += log_dirs.with_findings(verdict).findings
        if isinstance(target, LogDirTarget):
            findings += log_dirs.verdict(target).findings
    for across in log_dirs.across():
        findings += across.findings
    return findings


def brief(findings: Iterable[Finding]) -> list[Found]:
    """Severity, code, last part of the path and position."""
    return [
        Found(finding.severity, finding.code, finding.path.rpartition("/")[2], finding.position) for finding in findings
    ]


def tree_hash(path: Path) -> str:
    """A hash over the names, permissions, sizes, times and contents in a directory."""
    digest = hashlib.sha256()
    for each in sorted(path.rglob("*")):
        status = each.stat()
        digest.update(f"{each.relative_to(path)} {status.st_mode} {status.st_size} {status.st_mtime_ns}\n".encode())
        digest.update(each.read_bytes() if each.is_file() else b"")
    return digest.hexdigest()
