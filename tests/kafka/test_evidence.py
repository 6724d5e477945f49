"""Which release wrote a directory: never wrong where it is said to be certain."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import NotFoundError, SettingError
from kafkalog_core.format.names import parse_directory_name
from kafkalog_core.kafka.rules.releases import LATEST, NEWEST_LEVEL, RELEASES, Release, parse_release
from kafkalog_core.kafka.sim.evidence import infer_release
from kafkalog_core.storage.logdir import is_broker_dir
from kafkalog_core.structs import replace
from tests.support import build

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RELEASE_IN_PATH = re.compile(r"\d+\.\d+\.\d+(?:\.\d+)?")
DIRECTORY_ID = "y6G1A3bjT0yi8a8zoDBS7Q"


def _directories(corpus: Path) -> Iterator[tuple[str, Release]]:
    """Log directories, and partitions in none, with the release that the path says wrote them last."""
    for path, directories, _ in os.walk(corpus):
        is_partition = parse_directory_name(os.path.basename(path)).is_partition
        if is_broker_dir(path) or (is_partition and not is_broker_dir(os.path.dirname(path))):
            found = RELEASE_IN_PATH.findall(os.path.relpath(path, corpus))
            if found:
                yield path, parse_release(found[-1])
            directories.clear()


def test_the_corpus(corpus: Path) -> None:
    seen = certain = 0
    for path, release in _directories(corpus):
        guess = infer_release(path)
        first, last = guess.candidates[0], guess.candidates[-1]
        assert first <= release <= last._replace(patch=99, build=99), path
        assert guess.is_certain <= (first == last), path
        assert guess.release == guess.candidates[-1]
        assert guess.evidence
        seen += 1
        certain += guess.is_certain
    assert seen > 20
    assert certain


def _write(directory: Path, files: dict[str, bytes]) -> str:
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return str(directory)


def _data(*, per_batch: int = 1) -> bytes:
    records = [build.Record(offset=offset, value=b"v") for offset in range(per_batch)]
    return build.batch_v2(records) * 2


MESSAGE = build.message_v0(build.Record(offset=0, value=b"v"))
META_V1 = build.meta_properties({"node.id": "1", "version": "1", "cluster.id": "c"})
META_37 = build.meta_properties({"node.id": "1", "version": "1", "cluster.id": "c", "directory.id": DIRECTORY_ID})
OLD = {"t-0/00000000000000000000.log": MESSAGE, "t-0/00000000000000000000.index": b""}


def test_0_8_0(tmp_path: Path) -> None:
    guess = infer_release(_write(tmp_path, {**OLD, "replication-offset-checkpoint": b"0\n0\n"}))
    assert guess.is_certain
    assert guess.candidates == (Release(0, 8, 0),)
    assert guess.evidence == ("files named .log: 0.8.0 or later", "no recovery point checkpoint: 0.8.0")


def test_a_log_directory_of_0_7_is_of_the_release_of_its_partitions(tmp_path: Path) -> None:
    """0.7 keeps nothing at the top: there are partitions and nothing else."""
    files = {f"{name}/00000000000000000000.kafka": build.message_v07(b"v") for name in ("t-0", "t-1")}
    guess = infer_release(_write(tmp_path, files))
    assert guess.candidates == (Release(0, 7),)
    assert infer_release(str(tmp_path / "t-0")).candidates == guess.candidates


@pytest.mark.parametrize(("cluster", "span"), [({}, "2.0 to 2.3"), ({"cluster.id": "c"}, "2.4 to 3.9")])
def test_a_cluster_id_in_meta_properties_is_of_2_4_and_later(
    tmp_path: Path, cluster: dict[str, str], span: str
) -> None:
    """2.3.1 does not write it, 2.4.1 does (KafkaServer.checkpointBrokerMetadata)."""
    first, second = ([build.Record(offset=offset) for offset in span] for span in (range(3), range(3, 6)))
    files = {
        **dict.fromkeys(("recovery-point-offset-checkpoint", "log-start-offset-checkpoint"), b"0\n0\n"),
        "meta.properties": build.meta_properties({"broker.id": "1", "version": "0", **cluster}),
        "t-0/00000000000000000000.log": build.batch_v2(first) + build.batch_v2(second),
        "t-0/00000000000000000000.index": build.offset_index([(5, len(build.batch_v2(first)))]),
        "t-0/00000000000000000000.timeindex": b"",
        "t-0/leader-epoch-checkpoint": build.epoch_checkpoint([(0, 0)]),
    }
    assert infer_release(_write(tmp_path, files)).describe().startswith(f"Kafka {span} (")


@pytest.mark.parametrize(("ending", "first"), [("future", Release(1, 1)), ("stray", Release(3, 0))])
def test_a_directory_that_only_later_releases_make(tmp_path: Path, ending: str, first: Release) -> None:
    log = {"t-0/00000000000000000000.log": _data(), "meta.properties": build.meta_properties({"broker.id": "1"})}
    before = infer_release(_write(tmp_path / "before", log)).candidates
    moved = {f"t-1.{'0' * 32}-{ending}/00000000000000000000.log": _data()}
    after = infer_release(_write(tmp_path / "after", log | moved)).candidates
    assert min(before) < first
    assert after == tuple(release for release in before if release >= first)


def test_what_is_missing_from_a_partition_by_itself_says_nothing(tmp_path: Path) -> None:
    guess = infer_release(_write(tmp_path / "t-0", {"00000000000000000000.log": MESSAGE}))
    assert not guess.is_certain
    assert (guess.candidates[0], guess.release) == (Release(0, 8, 0), LATEST)
    assert guess.evidence[1] == "nothing in it rules out the latest known release"


def test_what_is_missing_says_nothing_against_what_is_there(tmp_path: Path) -> None:
    files = {**OLD, "t-0/partition.metadata": b"version: 0\ntopic_id: a", "log-start-offset-checkpoint": b""}
    guess = infer_release(_write(tmp_path, files))
    assert guess.candidates == tuple(release for release in RELEASES if release >= Release(2, 8))
    assert not guess.is_certain


def test_a_directory_without_data_says_nothing_by_what_is_missing(tmp_path: Path) -> None:
    assert not infer_release(_write(tmp_path, {"recovery-point-offset-checkpoint": b""})).is_certain


@pytest.mark.parametrize(("slot", "first", "last"), [(0, (0, 11), (1, 1)), (1, (2, 0), LATEST[:2])])
def test_the_index_tells_first_offsets_from_last_ones(
    tmp_path: Path, slot: int, first: tuple[int, int], last: tuple[int, int]
) -> None:
    records = [build.Record(offset=offset, value=b"v") for offset in (2, 3)]
    log = build.batch_v2([build.Record(offset=0), build.Record(offset=1)])
    index = build.offset_index([((2, 3)[slot], len(log))])
    files = {"00000000000000000000.log": log + build.batch_v2(records), "00000000000000000000.index": index}
    guess = infer_release(_write(tmp_path / "t-0", files))
    assert (guess.candidates[0], guess.candidates[-1]) == (Release(*first), Release(*last))


def _register(node_id: int, level: int) -> bytes:
    name = b"metadata.version"
    feature = bytes([len(name) + 1]) + name + b"\0\1" + level.to_bytes(2, "big") + b"\0"
    end_point = b"\2P" + b"\2h" + b"\x23\x84" + b"\0\0" + b"\0"
    node = node_id.to_bytes(4, "big") + b"\0" + bytes(16) + bytes(8)
    return b"\1\0\3" + node + b"\2" + end_point + b"\2" + feature + b"\0\1\0" + b"\0"


@pytest.mark.parametrize(("level", "release"), [(21, (3, 9)), (27, (4, 1)), (30, (4, 3)), (33, (4, 4)), (5, (3, 3))])
def test_what_the_node_registered_with_is_the_release(tmp_path: Path, level: int, release: tuple[int, int]) -> None:
    values = [_register(1, 12), _register(1, level), _register(2, 20)]
    log = build.batch_v2([build.Record(offset=offset, value=value) for offset, value in enumerate(values)])
    files = {"meta.properties": META_37, "__cluster_metadata-0/00000000000000000000.log": log}
    guess = infer_release(_write(tmp_path, files))
    assert guess.candidates == (Release(*release),)
    assert guess.evidence == (f"node 1 registered as one that knows metadata.version {level}: release {guess.release}",)


def _finalize(level: int) -> bytes:
    name = b"metadata.version"
    return b"\1\x0c\0" + bytes([len(name) + 1]) + name + level.to_bytes(2, "big") + b"\0"


def _values(*values: bytes) -> bytes:
    return build.batch_v2([build.Record(offset=offset, value=value) for offset, value in enumerate(values)])


METADATA_LOG = "__cluster_metadata-0/00000000000000000000.log"
FIRST_SNAPSHOT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
NEWER = NEWEST_LEVEL + 1


@pytest.mark.parametrize(
    ("files", "who"),
    [
        ({METADATA_LOG: _values(_register(1, NEWER))}, "node 1 registered as one that knows"),
        ({METADATA_LOG: _values(_register(1, 99))}, "node 1 registered as one that knows"),
        ({METADATA_LOG: _values(_register(1, 30), _finalize(NEWER))}, "the metadata log sets"),
        ({METADATA_LOG: _values(_finalize(NEWER))}, "the metadata log sets"),
        ({FIRST_SNAPSHOT: _values(_finalize(NEWER))}, "the metadata log sets"),
        ({"bootstrap.checkpoint": _values(_finalize(NEWER))}, "bootstrap.checkpoint asks for"),
    ],
)
def test_a_level_above_the_newest_known_is_of_a_newer_release(
    tmp_path: Path, files: dict[str, bytes], who: str
) -> None:
    guess = infer_release(_write(tmp_path, {"meta.properties": META_37, **files}))
    assert (guess.release, guess.is_certain, guess.is_newer) == (LATEST, False, True)
    assert guess.evidence[0].startswith(f"{who} metadata.version ")
    assert f": newer than this kafkalog knows ({LATEST})" in guess.evidence[0]
    assert not guess.agree(lambda _: True), "its rules are unknown"
    settled = infer_release(str(tmp_path), kafka=str(LATEST))
    assert (settled.is_certain, settled.is_newer) == (True, False)


def test_another_node_of_a_newer_release_says_nothing_about_this_one(tmp_path: Path) -> None:
    log = _values(_register(1, NEWEST_LEVEL), _register(2, NEWER))
    guess = infer_release(_write(tmp_path, {"meta.properties": META_37, METADATA_LOG: log}))
    assert (guess.candidates, guess.is_newer) == ((LATEST,), False)


def test_a_formatted_directory_shows_its_release_by_where_its_features_are(tmp_path: Path) -> None:
    new = infer_release(_write(tmp_path / "new", {"meta.properties": META_37, FIRST_SNAPSHOT: _values(_finalize(22))}))
    assert (new.candidates, new.is_certain) == ((Release(4, 4),), False), "a later one may be known some day"
    assert new.evidence[0] == "features in the first metadata snapshot: 4.4 or later"
    files = {"bootstrap.checkpoint": _values(_finalize(22)), FIRST_SNAPSHOT: _values(b"\1\x14\0\0")}
    old = infer_release(_write(tmp_path / "old", {"meta.properties": META_37, **files}))
    assert old.candidates[0] == Release(4, 0)


def test_a_node_that_never_registered_is_not_taken_for_another_one(tmp_path: Path) -> None:
    log = build.batch_v2([build.Record(offset=0, value=_register(2, 30))])
    files = {"meta.properties": META_37, "__cluster_metadata-0/00000000000000000000.log": log}
    guess = infer_release(_write(tmp_path, files))
    assert (guess.candidates[0], guess.is_certain) == (Release(3, 7), False)
    (tmp_path / "meta.properties").unlink()
    assert infer_release(str(tmp_path / "__cluster_metadata-0")).is_certain is False
    _write(tmp_path, {"recovery-point-offset-checkpoint": b""})
    assert infer_release(str(tmp_path)).candidates == (Release(4, 3),)


def test_bootstrap_gives_the_first_release(tmp_path: Path) -> None:
    files = {"meta.properties": META_37, "bootstrap.checkpoint": _values(_finalize(30))}
    guess = infer_release(_write(tmp_path, files))
    assert (guess.candidates[0], guess.is_certain) == (Release(4, 3), False)
    assert guess.evidence[0] == "bootstrap.checkpoint asks for metadata.version 30: 4.3 or later"


def test_damage_in_the_metadata_log_is_no_evidence(tmp_path: Path) -> None:
    log = build.batch_v2([build.Record(offset=0, value=_register(1, 30)[:40]), build.Record(offset=1, value=b"\xff")])
    files = {"meta.properties": META_V1, "__cluster_metadata-0/00000000000000000000.log": log + b"\0" * 9}
    assert infer_release(_write(tmp_path, files)).candidates[0] == Release(2, 8)


def test_the_user_knows_better(tmp_path: Path) -> None:
    guess = infer_release(str(tmp_path), kafka="2.8.2")
    assert (guess.release, guess.is_certain, guess.evidence) == (Release(2, 8, 2), True, ("--kafka 2.8.2",))
    assert guess.describe() == "Kafka 2.8.2 (--kafka 2.8.2)"
    with pytest.raises(SettingError):
        infer_release(str(tmp_path), kafka="new")
    with pytest.raises(NotFoundError):
        infer_release(str(tmp_path / "missing"))


def test_a_release_that_the_user_names_is_no_other_bug_fix(tmp_path: Path) -> None:
    """2.5.1 changed the cleaner; who names 2.5 names 2.5.0."""
    named = infer_release(str(tmp_path), kafka="2.5")
    assert named.agree(lambda release: release >= Release(2, 5, 1))
    assert not replace(named, is_named=False).agree(lambda release: release >= Release(2, 5, 1))


def test_rules_that_are_the_same_for_all_candidates_need_no_release(tmp_path: Path) -> None:
    guess = infer_release(_write(tmp_path, {"meta.properties": META_37}))
    assert guess.describe().startswith(f"Kafka 3.7 to {LATEST} (meta.properties with a directory.id: 3.7 or later; ")
    assert guess.agree(lambda release: release >= Release(2, 8))
    assert not guess.agree(lambda release: release >= Release(4, 0))
