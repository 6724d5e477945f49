"""What findings about files outside of logs mean for a start, and how its parts decide about the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from kafkalog_core.findings import found
from kafkalog_core.findings.catalog import FINDING_TYPES
from kafkalog_core.format.names import parse_directory_name
from kafkalog_core.kafka.rules.releases import parse_release
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.kafka.sim.start.disk import DiskStart, LoadedPartition, effect_of
from kafkalog_core.kafka.sim.start.results import LoadProblem, LoadResult
from kafkalog_core.storage.logdir import PartitionPath
from kafkalog_core.structs import replace

if TYPE_CHECKING:
    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.sim.start.results import LoadProblemKind

NEW: Final = rules_of(parse_release("4.3.1"))
OLD: Final = rules_of(parse_release("0.11.0.3"))
EFFECTS: Final = {
    "checkpoint.count-mismatch": "offline",
    "checkpoint.invalid-utf8": "offline",
    "checkpoint.malformed-line": "offline",
    "checkpoint.negative-count": "offline",
    "checkpoint.negative-epoch": "offline",
    "checkpoint.unsupported-version": "offline",
    "dir.duplicate-partition": "stops",
    "dir.foreign-owner": "offline",
    "dir.future-beside-current": "offline",
    "dir.in-two-log-dirs": "stops",
    "dir.metadata-elsewhere": "stops",
    "dir.no-permission": "offline",
    "dir.not-a-partition": "stops",
    "dir.not-assigned": "stray",
    "dir.other-cluster": "stops",
    "dir.read-only-mount": "offline",
    "dir.same-directory-id": "stops",
    "dir.second-metadata-log": "stops",
    "dir.unformatted": "stops",
    "dir.unreadable": "offline",
    "file.not-a-file": "offline",
    "file.not-readable": "offline",
    "file.not-writable": "offline",
    "file.unreadable": "offline",
    "meta.bad-directory-id": "offline",
    "meta.bad-node-id": "offline",
    "meta.malformed-line": "offline",
    "meta.missing-key": "offline",
    "meta.missing-kraft": "stops",
    "meta.no-broker-id": "stops",
    "meta.not-known": "offline",
    "meta.other-node-id": "stops",
    "meta.other-node-of-config": "stops",
    "meta.unsupported-version": "offline",
    "meta.only-voter": "unserved",
    "metadata-log.empty-batch": "stops",
    "metadata-log.no-snapshot": "stops",
    "metadata-log.refused": "stops",
    "partition-metadata.bad-topic-id": "offline",
    "partition-metadata.malformed-line": "offline",
    "partition-metadata.missing": "stray",
    "partition-metadata.no-id": "offline",
    "partition-metadata.not-assigned": "stray",
    "partition-metadata.too-short": "offline",
    "partition-metadata.zero-topic-id": "offline",
    "quorum-state.bad-value": "stops",
    "quorum-state.empty": "stops",
    "quorum-state.malformed-line": "stops",
    "quorum-state.missing-key": "stops",
    "quorum-state.other-cluster": "stops",
    "quorum-state.unsupported-version": "stops",
}
"""What each finding means as an error, with the text that it has where nothing more is known. All others: nothing."""


class _Any(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "1"


def error(code: str, path: str = "/a/file") -> Finding:
    """A finding of the catalog as an error."""
    kind = FINDING_TYPES[code]
    action = None if kind.broker_action is None else kind.broker_action.format_map(_Any())
    return replace(found("dir.not-a-partition", path, problem=""), code=code, severity="error", broker_action=action)


def test_each_finding_has_its_effect() -> None:
    effects = {code: effect for code in FINDING_TYPES if (effect := effect_of(error(code), NEW)) is not None}
    assert effects == EFFECTS


def test_a_warning_stops_nothing() -> None:
    assert effect_of(replace(error("dir.not-a-partition"), severity="warning"), NEW) is None


def test_before_1_0_a_failed_directory_stops_the_broker() -> None:
    assert effect_of(error("file.not-readable"), OLD) == "stops"


def test_before_3_2_so_does_a_file_of_a_partition() -> None:
    rules = rules_of(parse_release("2.8.2"))
    finding = error("partition-metadata.malformed-line", "/a/t-0/partition.metadata")
    assert (effect_of(finding, rules), effect_of(finding, NEW)) == ("stops", "offline")


def test_the_load_of_a_partition_reads_its_leader_epochs() -> None:
    assert effect_of(error("checkpoint.malformed-line", "/a/t-0/leader-epoch-checkpoint"), NEW) is None


# --- the whole --------------------------------------------------------------------------------------------------------
def partition(path: str, kind: LoadProblemKind | None = None, *, reads_unstable: bool = False) -> LoadedPartition:
    """A partition of which the load fails in a way, or does not."""
    log_dir, _, name = path.rpartition("/")
    problem = None if kind is None else LoadProblem(kind=kind, path=f"{path}/log", sentence="it is bad")
    place = PartitionPath(path=path, name=parse_directory_name(name), device=0, inode=0)
    return LoadedPartition(
        place=place, log_dir=log_dir, result=LoadResult(problem=problem, reads_unstable=reads_unstable)
    )


def start(*partitions: LoadedPartition, **findings: tuple[Finding, ...]) -> DiskStart:
    """A start on the directories of partitions and findings; a finding's key is the name of its directory."""
    paths = sorted({*(each.log_dir for each in partitions), *(f"/{name}" for name in findings)})
    return DiskStart(
        log_dirs={path: findings.get(path.strip("/"), ()) for path in paths}, partitions=partitions, rules=NEW
    )


def test_a_partition_may_end_the_process() -> None:
    bad, good = partition("/a/t-0", "fatal"), partition("/b/t-1")
    one = start(bad, good)
    assert one.stop is not None
    assert (one.stop.path, one.fate(bad), one.fate(good)) == ("/a/t-0/log", "refused", "not-loaded")


def test_a_log_directory_may_go_offline() -> None:
    bad, beside, other = partition("/a/t-0", "offline"), partition("/a/t-1"), partition("/b/t-2")
    one = start(bad, beside, other)
    assert one.stop is None
    assert one.offline == ("/a",)
    assert [one.fate(each) for each in (bad, beside, other)] == ["refused", "offline", "loaded"]


def test_the_last_log_directory_ends_the_process() -> None:
    one = start(partition("/a/t-0", "offline"))
    assert one.stop is not None
    assert one.stop.effect == "offline"


def test_the_directory_of_the_metadata_log_is_not_one_that_is_left() -> None:
    one = start(partition("/a/t-0", "offline"), partition("/meta/__cluster_metadata-0"))
    assert one.stop is not None


def test_the_metadata_log_ends_the_process() -> None:
    one = start(partition("/a/t-0"), partition("/meta/__cluster_metadata-0", "offline"))
    assert one.stop is not None
    assert one.stop.effect == "stops"


@pytest.mark.parametrize("reads_unstable", [False, True])
def test_a_transaction_in_a_directory_that_failed_before_ends_the_process(reads_unstable: bool) -> None:
    bad = error("checkpoint.malformed-line", "/a/recovery-point-offset-checkpoint")
    one = start(partition("/a/t-0", reads_unstable=reads_unstable), partition("/b/t-1"), a=(bad,))
    assert (one.stop is not None) is reads_unstable
    assert one.offline == ("/a",)


def test_a_partition_that_is_not_assigned_is_set_aside() -> None:
    stray, other = partition("/a/t-0"), partition("/a/t-1")
    one = start(stray, other, a=(error("dir.not-assigned", "/a/t-0"),))
    assert (one.fate(stray), one.fate(other), one.stop) == ("stray", "loaded", None)


def test_the_ids_are_compared_before_anything_is_loaded() -> None:
    one = start(
        partition("/a/t-0"),
        a=(error("checkpoint.malformed-line", "/a/x"), error("meta.missing-key", "/a/meta.properties")),
    )
    assert one.stop is not None
    assert one.stop.path == "/a/meta.properties"


def test_a_node_ends_with_the_directory_of_its_metadata_log() -> None:
    """4.3.1 and 3.9.2: `Shutdown broker because the metadata log dir ... has failed`."""
    bad = error("checkpoint.malformed-line", "/a/recovery-point-offset-checkpoint")
    parts = (partition("/a/t-0"), partition("/a/__cluster_metadata-0"), partition("/b/t-1"))
    assert start(parts[0], parts[2], a=(bad,)).stop is None
    one = start(*parts, a=(bad,))
    assert one.stop is not None
    assert one.stop.effect == "offline"
    unread = error("meta.bad-node-id", "/a/meta.properties")
    two = start(*parts, a=(unread,))
    assert two.stop is not None
    assert two.stop.effect == "stops"
