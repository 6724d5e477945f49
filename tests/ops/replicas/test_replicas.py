"""Copies of a partition next to each other: every way in which they can differ, by bytes that were built for it."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import SelectionError
from kafkalog_core.ops.copies.compare import Comparison, ReplicaTask, compare
from kafkalog_core.ops.copies.verdict import ReplicaDir
from kafkalog_core.ops.replicas.replicas import ReplicasRequest, replicas, work_of
from kafkalog_core.structs import replace
from tests.support.build import GZIP, ZSTD, Record, batch_v2, empty_batch, message_v0, wrapper_v1
from tests.support.replica_copies import batches, codes, compared, lay, of_broker, ranges, records, states

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path


def test_the_same_in_other_segments(tmp_path: Path) -> None:
    log = batches(0, 49)
    one = lay(tmp_path, 1, {0: log})
    other = lay(tmp_path, 2, {0: log[:3], 15: log[3:8], 40: log[8:]})
    comparison = compared(one, other)
    assert comparison.replica["state"] == "identical"
    assert comparison.ranges == ()
    assert comparison.findings == ()
    assert comparison.replica["reason"] == "All copies are the same: keep any of them."


def test_behind(tmp_path: Path) -> None:
    log = batches(0, 49)
    comparison = compared(lay(tmp_path, 1, {0: log[:6]}), lay(tmp_path, 2, {0: log}))
    assert states(comparison) == ["behind", "keep"]
    assert ranges(comparison) == [("behind", 30, 49, 20)]
    assert of_broker(comparison, 1)["lacks_behind"] == 20
    assert codes(comparison) == ["replicas.behind"]
    assert of_broker(comparison, 1)["truncation_offset"] is None


def test_a_torn_tail_is_only_behind(tmp_path: Path) -> None:
    log = batches(0, 49)
    torn = [*log[:6], log[6][:40]]
    comparison = compared(lay(tmp_path, 1, {0: torn}), lay(tmp_path, 2, {0: log}))
    assert states(comparison) == ["behind", "keep"]
    assert of_broker(comparison, 1)["damage_count"] == 1


def test_old_segments_deleted_in_one(tmp_path: Path) -> None:
    log = batches(0, 49)
    one = lay(tmp_path, 1, {0: log[:4], 20: log[4:]})
    other = lay(tmp_path, 2, {20: log[4:]}, epochs=((0, 20),))
    comparison = compared(one, other)
    assert states(comparison) == ["keep", "trimmed"]
    assert ranges(comparison) == [("trimmed", 0, 19, 20)]
    assert comparison.findings == ()


def test_a_missing_segment_is_a_loss(tmp_path: Path) -> None:
    log = batches(0, 49)
    one = lay(tmp_path, 1, {0: log[:4], 40: log[8:]})
    comparison = compared(one, lay(tmp_path, 2, {0: log}))
    assert states(comparison) == ["missing", "keep"]
    assert ranges(comparison) == [("missing", 20, 39, 20)]
    assert codes(comparison) == ["replicas.missing"]
    assert "and no broker notices that" in of_broker(comparison, 1)["advice"]


def test_damage_in_one_that_another_can_mend(tmp_path: Path) -> None:
    log = batches(0, 49)
    bad = bytearray(log[4])
    bad[-1] ^= 0xFF
    damaged = lay(tmp_path, 1, {0: [*log[:4], bytes(bad), *log[5:]]})
    comparison = compared(damaged, lay(tmp_path, 2, {0: log}))
    assert states(comparison) == ["damaged", "keep"]
    assert ranges(comparison) == [("damaged", 20, 24, 5)]
    (finding,) = comparison.findings
    assert finding.code == "replicas.damaged"
    assert finding.position == sum(map(len, log[:4]))
    assert finding.path.endswith("broker-1/t-0/00000000000000000000.log")


def test_damage_that_no_copy_is_without(tmp_path: Path) -> None:
    log = batches(0, 49)
    bad = bytes([*log[4][:-1], log[4][-1] ^ 0xFF])
    broken = [*log[:4], bad, *log[5:]]
    comparison = compared(lay(tmp_path, 1, {0: broken}), lay(tmp_path, 2, {0: broken}))
    assert ranges(comparison) == [("damaged", 20, 24, 0)]
    assert comparison.replica["state"] == "damaged"


def test_each_is_damaged_elsewhere(tmp_path: Path) -> None:
    log = batches(0, 49)

    def broken(*at: int) -> list[bytes]:
        return [batch[:-1] + bytes([batch[-1] ^ (0xFF if row in at else 0)]) for row, batch in enumerate(log)]

    comparison = compared(lay(tmp_path, 1, {0: broken(1, 2)}), lay(tmp_path, 2, {0: broken(6)}))
    assert states(comparison) == ["damaged", "keep"]
    assert comparison.replica["records_at_risk"] == 5
    assert "First save the 5 records that it does not have" in str(comparison.replica["reason"])
    assert codes(comparison) == ["replicas.damaged", "replicas.keep-lacks"]


def test_records_of_two_copies_are_saved_from_one(tmp_path: Path) -> None:
    """Two copies have all that the copy to keep lacks, and the third one has a part of it."""
    log, other = batches(0, 49), [*batches(0, 39), *batches(40, 44, epoch=3, word="new")]
    placed = [lay(tmp_path, 1, {0: log}), lay(tmp_path, 2, {0: log}), lay(tmp_path, 3, {0: other})]
    reason = str(compared(*placed, lay(tmp_path, 4, {0: log[:9]})).replica["reason"])
    assert "First save the 10 records that it does not have" in reason
    assert reason.endswith(f"kafkalog dump --records --offsets 40..49 {tmp_path}/broker-1/t-0")


@pytest.mark.parametrize("base", [40, 0])
def test_a_batch_above_the_range_of_its_segment_is_damage(tmp_path: Path, base: int) -> None:
    """The followers of a real 4.3.1 broker copied such a batch at its wrong offset, and truncated it in a loop."""
    segments = {0: batches(0, 39), 40: batches(40, 49)}
    good = lay(tmp_path, 1, segments)
    wrong = bytes([0, 0, 0, 0x55]) + segments[base][0][4:]
    comparison = compared(good, lay(tmp_path, 2, segments | {base: [wrong, *segments[base][1:]]}))
    assert states(comparison) == ["keep", "damaged"]
    assert ranges(comparison) == [("damaged", base, base + 4, 5)]


def test_what_is_damaged_in_every_copy_is_reported_and_no_copy_is_truncated(tmp_path: Path) -> None:
    log = batches(0, 49)
    bad = [batch[:-1] + bytes([batch[-1] ^ (0xFF if row in {4, 9} else 0)]) for row, batch in enumerate(log)]
    comparison = compared(lay(tmp_path, 1, {0: bad}), lay(tmp_path, 2, {0: bad}))
    assert comparison.replica["state"] == "damaged"
    assert "Every copy is damaged at offsets 20..24, 45..?." in str(comparison.replica["reason"])
    assert codes(comparison) == ["replicas.damaged-everywhere"]
    lines = [str(comparison.replica["reason"]), str(comparison.copies[1]["advice"])]
    assert [line.rpartition(" kafkalog ")[2] for line in lines] == [
        f"recover --only-copy {copy['path']}" for copy in comparison.copies
    ]
    assert not any("--refetch" in str(copy["advice"]) for copy in comparison.copies)


def test_the_copy_to_keep_is_never_told_to_be_deleted(tmp_path: Path) -> None:
    """It alone has the latest epoch, and is damaged where the other one is whole."""
    log = batches(0, 49)
    bad = log[4][:-1] + bytes([log[4][-1] ^ 0xFF])
    leader = lay(tmp_path, 1, {0: [*log[:4], bad, *log[5:], *batches(50, 59, epoch=1)]}, epochs=((0, 0), (1, 50)))
    comparison = compared(leader, lay(tmp_path, 2, {0: log}))
    assert states(comparison) == ["keep", "behind"]
    assert comparison.replica["state"] == "damaged"
    assert codes(comparison) == ["replicas.behind", "replicas.keep-lacks"]
    (told,) = [finding for finding in comparison.findings if finding.severity == "error"]
    assert "5 records" in told.message
    assert "do not delete this directory" in str(told.cure)


def test_an_old_leader_went_on(tmp_path: Path) -> None:
    common = batches(0, 19)
    old = lay(tmp_path, 1, {0: common + batches(20, 44, word=" old")}, epochs=((0, 0),))
    new = lay(tmp_path, 2, {0: common + batches(20, 34, epoch=3, word=" new")}, epochs=((0, 0), (3, 20)))
    comparison = compared(old, new)
    assert states(comparison) == ["divergent", "keep"]
    assert comparison.replica["divergent_offset"] == 20
    assert comparison.replica["basis"] == "leader-epoch"
    assert comparison.replica["records_at_risk"] == 25
    assert of_broker(comparison, 1)["truncation_offset"] == 20
    assert of_broker(comparison, 1)["only_here"] == 25
    assert of_broker(comparison, 2)["lacks_behind"] == 0
    assert [kind for kind, *_ in ranges(comparison)] == ["divergent", "divergent"]
    assert codes(comparison) == ["replicas.divergent"]


def test_a_new_leader_without_a_record_yet(tmp_path: Path) -> None:
    """Its checkpoint alone tells that it was elected at offset 20: what the other one has behind that is cut."""
    log = batches(0, 44)
    old = lay(tmp_path, 1, {0: log}, epochs=((0, 0),))
    new = lay(tmp_path, 2, {0: log[:4]}, epochs=((0, 0), (1, 20)))
    comparison = compared(old, new)
    assert states(comparison) == ["divergent", "keep"]
    assert of_broker(comparison, 1)["truncation_offset"] == 20
    assert comparison.replica["records_at_risk"] == 25


def test_a_difference_that_epochs_do_not_show(tmp_path: Path) -> None:
    log = batches(0, 49)
    other = [*log[:4], *batches(20, 24, word="!"), *log[5:]]
    one = lay(tmp_path, 1, {0: log}, high_watermark=50)
    comparison = compared(one, lay(tmp_path, 2, {0: other}, high_watermark=10))
    assert states(comparison) == ["keep", "divergent"]
    assert comparison.replica["basis"] == "high-watermark"
    assert ranges(comparison) == [("divergent", 20, 24, 5)]
    assert codes(comparison) == ["replicas.divergent-silently"]
    assert "delete the directory" in of_broker(comparison, 2)["advice"]


def test_nothing_tells_which_is_true(tmp_path: Path) -> None:
    log = batches(0, 49, epoch=-1)
    other = [*log[:4], *batches(20, 24, epoch=-1, word="!"), *log[5:]]
    comparison = compared(lay(tmp_path, 1, {0: log}, epochs=None), lay(tmp_path, 2, {0: other}, epochs=None))
    assert comparison.replica["keep"] is None
    assert states(comparison) == ["divergent", "divergent"]
    assert codes(comparison) == ["replicas.undecided"] * 2
    assert "ask the owners of the producers" in str(comparison.replica["reason"])


def test_the_same_records_of_another_epoch(tmp_path: Path) -> None:
    """A producer that tried again: its batch is the same, byte by byte, but for the epoch that no checksum covers."""
    common = batches(0, 19)
    old = lay(tmp_path, 1, {0: common + batches(20, 24)}, epochs=((0, 0),))
    new = lay(tmp_path, 2, {0: common + batches(20, 24, epoch=2)}, epochs=((0, 0), (2, 20)))
    comparison = compared(old, new)
    assert ranges(comparison) == [("epoch", 20, 24, 5)]
    assert states(comparison) == ["divergent", "keep"]
    assert comparison.replica["records_at_risk"] == 0


def test_batches_that_are_cut_otherwise(tmp_path: Path) -> None:
    one = lay(tmp_path, 1, {0: batches(0, 59, each=5)})
    other = lay(tmp_path, 2, {0: batches(0, 59, each=7)})
    third = lay(tmp_path, 3, {0: [batch_v2(records(0, 59), codec=ZSTD)]})
    comparison = compared(one, other, third)
    assert comparison.replica["state"] == "identical"
    assert comparison.ranges == ()


def test_compacted_to_different_points(tmp_path: Path) -> None:
    log = batches(0, 49)
    thin = [batch_v2([records(0, 4)[3]], base_offset=0, last_offset=4), empty_batch(5, 9), *log[2:]]
    one = lay(tmp_path, 1, {0: thin}, cleaned_to=30)
    comparison = compared(one, lay(tmp_path, 2, {0: log}))
    assert states(comparison) == ["compacted", "keep"]
    assert of_broker(comparison, 1)["lacks_compacted"] == 9
    assert comparison.findings == ()


def test_a_gap_behind_what_the_cleaner_has_seen_is_a_loss(tmp_path: Path) -> None:
    log = batches(0, 49)
    one = lay(tmp_path, 1, {0: [*log[:2], *log[3:7], *log[8:]]}, cleaned_to=30)
    comparison = compared(one, lay(tmp_path, 2, {0: log}))
    assert ranges(comparison) == [("compacted", 10, 14, 5), ("missing", 35, 39, 5)]
    assert of_broker(comparison, 1)["lacks_missing"] == 5
    assert of_broker(comparison, 1)["lacks_compacted"] == 5


def test_many_gaps_on_both_sides_of_what_the_cleaner_has_seen(tmp_path: Path) -> None:
    log = batches(0, 499, each=1)
    thin = [
        batch for offset, batch in enumerate(log) if (offset % 3 == 0 or offset >= 400) and offset not in {450, 451}
    ]
    comparison = compared(lay(tmp_path, 1, {0: thin}, cleaned_to=400), lay(tmp_path, 2, {0: log}))
    assert of_broker(comparison, 1)["lacks_missing"] == 2
    assert of_broker(comparison, 1)["lacks_compacted"] == 400 - 134


@pytest.mark.parametrize("build", [lambda some: [message_v0(each) for each in some], lambda some: [wrapper_v1(some)]])
def test_old_formats(tmp_path: Path, build: Callable[[list[Record]], list[bytes]]) -> None:
    some = [Record(offset=offset, timestamp_ms=-1, value=b"%d" % offset) for offset in range(30)]
    whole = [part for first in range(0, 30, 5) for part in build(some[first : first + 5])]
    changed = [replace(each, value=b"?") if each.offset == 17 else each for each in some]
    other = [part for first in range(0, 30, 5) for part in build(changed[first : first + 5])]
    one = lay(tmp_path, 1, {0: whole}, epochs=None, high_watermark=30)
    assert compared(one, lay(tmp_path, 2, {0: whole}, epochs=None)).replica["state"] == "identical"
    comparison = compared(one, lay(tmp_path, 3, {0: other}, epochs=None))
    assert states(comparison) == ["keep", "divergent"]
    (found,) = ranges(comparison)
    assert found[0] == "divergent"
    assert found[1] <= 17 <= found[2]  # type: ignore[operator]


def test_legacy_wrappers_after_a_gap(tmp_path: Path) -> None:
    some = [Record(offset=offset, timestamp_ms=1, value=b"%d" % offset) for offset in range(30)]
    parts = [wrapper_v1(some[first : first + 5], codec=GZIP) for first in range(0, 30, 5)]
    one = lay(tmp_path, 1, {0: parts}, epochs=None)
    comparison = compared(one, lay(tmp_path, 2, {0: [*parts[:2], *parts[3:]]}, epochs=None))
    assert states(comparison) == ["keep", "missing"]
    assert of_broker(comparison, 2)["lacks_missing"] == 5


def test_other_topics_of_one_name(tmp_path: Path) -> None:
    log = batches(0, 9)
    one = lay(tmp_path, 1, {0: log})
    comparison = compared(one, lay(tmp_path, 2, {0: log}, topic_id="O1n0h4JSTOucg5hyh92v_A"))
    assert comparison.replica["state"] == "another-topic"
    assert codes(comparison) == ["replicas.another-topic"]


def test_offsets_that_go_back_are_not_compared(tmp_path: Path) -> None:
    log = batches(0, 49)
    one = lay(tmp_path, 1, {0: [*log[:6], log[2], *log[6:]]})
    comparison = compared(one, lay(tmp_path, 2, {0: log}))
    assert states(comparison) == ["damaged", "keep"]
    assert comparison.ranges == ()
    assert of_broker(comparison, 1)["damage_count"] == 1


def test_segments_that_overlap(tmp_path: Path) -> None:
    log = batches(0, 49)
    one = lay(tmp_path, 1, {0: log[:6], 20: log[4:]})
    comparison = compared(one, lay(tmp_path, 2, {0: log}))
    assert comparison.ranges == ()
    assert of_broker(comparison, 1)["damage_count"] == 2


def test_an_empty_copy_and_one_that_is_alone(tmp_path: Path) -> None:
    log = batches(0, 9)
    comparison = compared(lay(tmp_path, 1, {0: []}, epochs=()), lay(tmp_path, 2, {0: log}))
    assert states(comparison) == ["behind", "keep"]
    alone = ReplicaTask(
        topic="t", partition=0, places=(ReplicaDir(path=str(tmp_path / "broker-2/t-0")),), max_batch_bytes=1
    )
    assert compare(alone, lambda size_bytes: None).replica["state"] == "alone"


def test_a_directory_that_vanishes_is_a_finding(tmp_path: Path) -> None:
    lay(tmp_path, 2, {0: batches(0, 9)})
    places = tuple(ReplicaDir(path=str(tmp_path / name)) for name in ("broker-2/t-0", "gone/t-0"))
    comparison = compare(
        ReplicaTask(topic="t", partition=0, places=places, max_batch_bytes=1 << 20), lambda size_bytes: None
    )
    assert [finding.path for finding in comparison.findings] == [str(tmp_path / "gone/t-0")]


def test_one_disk_alone_is_refused(tmp_path: Path) -> None:
    one = lay(tmp_path, 1, {0: batches(0, 9)})
    request = ReplicasRequest(targets=tuple(resolve([str(one)])))
    with pytest.raises(SelectionError, match="none of 1 partition has two copies"):
        work_of(request)
    file = ReplicasRequest(targets=tuple(resolve([str(one / "t-0" / "00000000000000000000.log")])))
    with pytest.raises(SelectionError, match="name a directory"):
        work_of(file)


class _Pickling:
    """Workers to whom work travels, as to other processes."""

    jobs = 2
    scratch = None

    def map(self, work_of: Callable[..., object], pieces: Iterable[tuple[object, ...]]) -> Iterator[object]:
        for piece in pieces:
            task = pickle.loads(pickle.dumps(piece))  # noqa: S301 -- our own, made in this line
            yield pickle.loads(pickle.dumps(work_of(*task, lambda size_bytes: None)))  # noqa: S301 -- as above


def test_other_workers_say_the_same(tmp_path: Path) -> None:
    log = batches(0, 49)
    dirs = [lay(tmp_path, 1, {0: log[:6]}), lay(tmp_path, 2, {0: log})]
    request = ReplicasRequest(targets=tuple(resolve([str(path) for path in dirs])))
    here, there = Report(), Report()
    mine = list(replicas(work_of(request), here))
    theirs = list(replicas(work_of(request), there, workers=_Pickling()))  # type: ignore[arg-type]
    assert [
        [*map(list, (chunk.rows() for chunk in item.chunks()))] for item in mine if isinstance(item, Comparison)
    ] == [[*map(list, (chunk.rows() for chunk in item.chunks()))] for item in theirs if isinstance(item, Comparison)]
    assert here.summary_row() == there.summary_row()
