"""`checkpoint`: only bad lines change, what is put there never makes a broker lose more, nothing is made up."""

from __future__ import annotations

import base64
import os
import re
import shutil
import stat
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.errors import RefusedError
from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.apply import apply_plan
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanRequest
from kafkalog_core.storage.changing.writer import Disk
from tests.support import build
from tests.support.checkpoint_dirs import CLUSTER, NOW_MS, TOPIC_IDS, Line, changed, draft, lines, write_log_dir
from tests.support.clusters import registered_record, write_meta, write_metadata_log

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kafkalog_core.ops.repair.plan import PlanDraft

RECOVERY = "recovery-point-offset-checkpoint"
WATERMARKS = "replication-offset-checkpoint"
STARTS = "log-start-offset-checkpoint"
CLEANED = "cleaner-offset-checkpoint"
EPOCHS = "leader-epoch-checkpoint"
MARK = ".kafka_cleanshutdown"
OWNER = (4711, 4712) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
UUID = "0123456789abcdef0123456789abcdef"
LAST = f"{50:020d}"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A log directory whose broker crashed."""
    return write_log_dir(tmp_path / "disk")


@pytest.fixture
def clean_dir(tmp_path: Path) -> Path:
    """One whose broker was stopped."""
    return write_log_dir(tmp_path / "clean", is_clean=True)


def codes(planned: PlanDraft) -> tuple[list[str], list[str]]:
    """Of findings and of refusals."""
    outcome = planned.plan.report
    return [finding.code for finding in outcome.findings], [finding.code for finding in outcome.refusals]


def apply(planned: PlanDraft, root: Path, **options: Any) -> None:
    """Apply a plan; then there is nothing to do."""
    apply_plan(planned, Disk(), now_ms=NOW_MS)
    assert changed(draft(root, **options), root) == []


def test_a_healthy_directory_is_shown_and_left(log_dir: Path, clean_dir: Path) -> None:
    for path in (log_dir, clean_dir):
        planned = draft(path)
        assert changed(planned, path) == []
        assert codes(planned) == ([], [])
        files = list(planned.plan.report.details[0].rows())
        assert {row["verdict"] for row in files} == {"good"}
        assert len(files) == 5 + 3 * 2


def test_a_recovery_point_that_was_lost(log_dir: Path, clean_dir: Path) -> None:
    """After a crash: the base of the last segment, which costs least where older ones are damaged."""
    for path, offset in ((log_dir, 50), (clean_dir, 100)):
        (path / RECOVERY).write_bytes(b"0\n3\norders 0 12\npayments 0 x\nrubbish\norders 1 7")
        planned = draft(path)
        assert lines(planned, RECOVERY) == [
            Line(4, "payments 0 x", f"payments 0 {offset}"),
            Line(5, "rubbish", None),
        ]
        assert "checkpoint.malformed-line" in codes(planned)[0]
        assert planned.plan.is_alarming
        apply(planned, path)
        assert (path / RECOVERY).read_bytes() == f"0\n3\norders 0 12\npayments 0 {offset}\norders 1 7".encode()


@pytest.mark.parametrize("content", [None, b"", b"0\n", bytes(40)], ids=["missing", "empty", "cut", "zeros"])
def test_all_recovery_points_that_were_lost(log_dir: Path, content: bytes | None) -> None:
    if content is None:
        (log_dir / RECOVERY).unlink()
    else:
        (log_dir / RECOVERY).write_bytes(content)
    apply(draft(log_dir), log_dir)
    assert (log_dir / RECOVERY).read_bytes() == b"0\n3\norders 0 50\norders 1 50\npayments 0 50\n"


def test_entries_of_a_cut_file_come_back_at_its_end(log_dir: Path) -> None:
    (log_dir / RECOVERY).write_bytes(b"0\n3\norders 0 12\n")
    apply(draft(log_dir), log_dir)
    assert (log_dir / RECOVERY).read_bytes() == b"0\n3\norders 0 12\norders 1 50\npayments 0 50\n"


def test_a_partition_without_an_entry_is_new_and_gets_none(log_dir: Path) -> None:
    (log_dir / RECOVERY).write_bytes(b"0\n1\norders 0 12\n")
    assert changed(draft(log_dir), log_dir) == []


@pytest.mark.parametrize(
    ("name", "meant"),
    [(RECOVERY, "orders 0 100"), (WATERMARKS, "orders 0 100"), (STARTS, None), (CLEANED, None)],
)
def test_an_offset_beyond_the_end_of_the_log(log_dir: Path, name: str, meant: str | None) -> None:
    (log_dir / name).write_bytes(b"0\n2\norders 0 101\npayments 0 20\n")
    planned = draft(log_dir)
    assert Line(3, "orders 0 101", meant) in lines(planned, name)
    apply(planned, log_dir)
    kept = b"payments 0 20\n"
    assert (log_dir / name).read_bytes() == (b"0\n1\n" if meant is None else b"0\n2\norders 0 100\n") + kept


@pytest.mark.parametrize("name", [WATERMARKS, STARTS, CLEANED])
def test_other_offsets_that_were_lost_are_not_made_up(log_dir: Path, name: str) -> None:
    (log_dir / name).write_bytes(b"0\n2\norders 0 -5\npayments 0 x\n")
    planned = draft(log_dir)
    assert lines(planned, name)[1:] == [Line(3, "orders 0 -5", None), Line(4, "payments 0 x", None)]
    apply(planned, log_dir)
    assert (log_dir / name).read_bytes() == b"0\n0\n"


@pytest.mark.parametrize("content", [None, b"0\n3\norders 0 x\npayments 0 20\n"])
def test_followers_of_old_releases_cut_at_the_high_watermark(log_dir: Path, content: bytes | None) -> None:
    """So that none must be lost there."""
    if content is None:
        (log_dir / WATERMARKS).unlink()
    else:
        (log_dir / WATERMARKS).write_bytes(content)
    planned = draft(log_dir, kafka={"kafka": "0.10.2"})
    assert codes(planned)[1] == []
    apply(planned, log_dir, kafka={"kafka": "0.10.2"})
    found = (log_dir / WATERMARKS).read_text().splitlines()[2:]
    assert sorted(found) == ["orders 0 100", "orders 1 100", f"payments 0 {20 if content else 100}"]


def test_of_a_partition_that_stands_twice_the_last_line_counts(log_dir: Path) -> None:
    (log_dir / WATERMARKS).write_bytes(b"0\n3\norders 0 10\npayments 0 9\norders 0 11\n")
    planned = draft(log_dir)
    assert lines(planned, WATERMARKS) == [Line(2, "3", "2"), Line(3, "orders 0 10", None)]


def test_partitions_that_are_not_there(log_dir: Path) -> None:
    for name in (RECOVERY, WATERMARKS, CLEANED):
        (log_dir / name).write_bytes(b"0\n1\ngone 0 10\n")
    assert changed(draft(log_dir), log_dir) == [CLEANED]


def test_a_damaged_end_of_the_log_proves_nothing(log_dir: Path) -> None:
    with (log_dir / "orders-0" / f"{50:020d}.log").open("ab") as log:
        log.write(b"\1" * 100)
    (log_dir / WATERMARKS).write_bytes(b"0\n1\norders 0 120\n")
    assert changed(draft(log_dir), log_dir) == []


def test_an_index_that_lies_does_not_hide_the_end(log_dir: Path) -> None:
    (log_dir / "orders-0" / f"{50:020d}.index").write_bytes(build.offset_index([(9, 61), (30, 99_999)]) + bytes(80))
    assert changed(draft(log_dir), log_dir) == []


# --- leader epochs ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("content", "mended"),
    [
        (None, b"0\n3\n0 0\n2 30\n5 60\n"),
        (b"", b"0\n3\n0 0\n2 30\n5 60\n"),
        (b"0\n3\n0 0\n2 x\n5 60\n", b"0\n3\n0 0\n2 30\n5 60\n"),
        (b"0\n4\n0 0\n2 30\n5 60\n7 100\n9 101\n", b"0\n4\n0 0\n2 30\n5 60\n7 100\n"),
        (b"0\n3\n0 0\n1 7\n2 30\n5 60\n", b"0\n3\n0 0\n2 30\n5 60\n"),
        (b"0\n9\n0 0\n1 30\n2 30\n5 60\n", b"0\n3\n0 0\n2 30\n5 60\n"),
        (b"0\n9\n-1 0\n2 30\n5 60\n6 100\n", b"0\n4\n0 0\n2 30\n5 60\n6 100\n"),
        (b"0\n2\n5 60\n2 30\n", b"0\n3\n0 0\n2 30\n5 60\n"),
        (b"0\n2\n0 3\n", b"0\n3\n0 0\n2 30\n5 60\n"),
    ],
    ids=repr,
)
def test_leader_epochs_come_from_the_batches(log_dir: Path, content: bytes | None, mended: bytes) -> None:
    path = log_dir / "orders-0" / EPOCHS
    path.unlink() if content is None else path.write_bytes(content)
    planned = draft(log_dir)
    assert changed(planned, log_dir) == [f"orders-0/{EPOCHS}"]
    assert not codes(planned)[1]
    apply(planned, log_dir)
    assert path.read_bytes() == mended


def test_an_epoch_without_batches_stays(log_dir: Path) -> None:
    path = log_dir / "orders-0" / EPOCHS
    path.write_bytes(b"1\r\n5\r\n0 0\r\n2 30\r\n3 60\r\n5 60\r\n8 100\r\n")
    apply(draft(log_dir), log_dir)
    assert path.read_bytes() == b"0\r\n4\r\n0 0\r\n2 30\r\n5 60\r\n8 100\r\n"
    path.write_bytes(b"1\n3\n0 0\n1 30\n5 60\n")
    apply(draft(log_dir), log_dir)
    assert path.read_bytes() == b"0\n3\n0 0\n2 30\n5 60\n"


def test_a_damaged_log_says_nothing_about_epochs(log_dir: Path) -> None:
    log = log_dir / "orders-0" / f"{0:020d}.log"
    log.write_bytes(log.read_bytes()[:100] + bytes(50) + log.read_bytes()[150:])
    (log_dir / "orders-0" / EPOCHS).write_bytes(b"0\n3\n0 0\n2 x\n5 60\n")
    planned = draft(log_dir)
    assert lines(planned, EPOCHS) == [Line(2, "3", "2"), Line(4, "2 x", None)]
    assert codes(planned)[1] == ["epochs.not-from-log"]


# --- ids --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("content", [None, b"", b"version: 0\n", b"version: 0\ntopic_id: " + b"A" * 22, b"\0" * 43])
def test_a_topic_id_comes_from_another_partition(log_dir: Path, content: bytes | None) -> None:
    path = log_dir / "orders-1" / "partition.metadata"
    path.unlink() if content is None else path.write_bytes(content)
    planned = draft(log_dir)
    assert changed(planned, log_dir) == ["orders-1/partition.metadata"]
    apply(planned, log_dir)
    assert path.read_bytes() == build.partition_metadata(TOPIC_IDS["orders"])


def test_a_topic_id_that_is_nowhere_is_not_made_up(log_dir: Path) -> None:
    (log_dir / "payments-0" / "partition.metadata").unlink()
    planned = draft(log_dir)
    assert changed(planned, log_dir) == []
    assert codes(planned)[1] == ["partition-metadata.missing", "partition-metadata.no-id"]


def test_a_topic_id_stands_in_its_own_file_still(log_dir: Path) -> None:
    path = log_dir / "payments-0" / "partition.metadata"
    path.write_bytes(b"vers\ntopic_id: " + TOPIC_IDS["payments"].encode())
    apply(draft(log_dir), log_dir)
    assert path.read_bytes() == build.partition_metadata(TOPIC_IDS["payments"])


def test_two_topic_ids_are_one_too_many(log_dir: Path) -> None:
    (log_dir / "orders-1" / "partition.metadata").write_bytes(b"v\ntopic_id: " + TOPIC_IDS["payments"].encode())
    planned = draft(log_dir)
    assert changed(planned, log_dir) == []
    assert codes(planned)[1][-1] == "partition-metadata.several-ids"


def test_a_topic_id_comes_from_another_log_directory(log_dir: Path, tmp_path: Path) -> None:
    other = write_log_dir(tmp_path / "other")
    (log_dir / "payments-0" / "partition.metadata").unlink()
    assert changed(draft(log_dir, beside=[str(other)]), log_dir) == ["payments-0/partition.metadata"]


def test_meta_properties(log_dir: Path, tmp_path: Path) -> None:
    path = log_dir / "meta.properties"
    good = path.read_bytes()
    path.write_bytes(good.replace(b"node.id=1", b"node.id=one"))
    assert codes(draft(log_dir))[1][-1] == "meta.not-known"
    config = tmp_path / "server.properties"
    config.write_text("node.id=1\n")
    planned = draft(log_dir, kafka={"kafka": "4.3", "config": str(config)})
    assert lines(planned, "meta.properties") == [Line(3, "node.id=one", None), Line(None, None, "node.id=1")]
    apply(planned, log_dir)
    assert path.read_bytes() == good.replace(b"node.id=1\n", b"") + b"node.id=1\n"


def test_meta_properties_from_another_log_directory(log_dir: Path, tmp_path: Path) -> None:
    other = write_log_dir(tmp_path / "other")
    (log_dir / "meta.properties").unlink()
    planned = draft(log_dir, beside=[str(other)])
    assert codes(planned)[1] == ["meta.directory-id-lost"]
    apply(planned, log_dir, beside=[str(other)])
    assert (log_dir / "meta.properties").read_bytes() == f"#\nversion=1\nnode.id=1\ncluster.id={CLUSTER}\n".encode()


def test_a_directory_id_that_is_missing_comes_from_the_metadata_log(log_dir: Path, tmp_path: Path) -> None:
    """With a new one its partitions are offline (real brokers of 4.3.1 served nothing of such a disk)."""
    here, there = bytes(range(16)), bytes(range(16, 32))
    texts = [base64.urlsafe_b64encode(each).decode().rstrip("=") for each in (here, there)]
    path = log_dir / "meta.properties"
    known = path.read_bytes()
    good = re.sub(rb"directory\.id=.*\n", b"", known) + f"directory.id={texts[0]}\n".encode()
    path.write_bytes(re.sub(rb"directory\.id=.*\n", b"", known))
    other = write_meta(tmp_path / "other", cluster=CLUSTER, node=1)
    assert changed(draft(log_dir, beside=[str(other)]), log_dir) == [], "no directory has an id: an older release"
    with (other / "meta.properties").open("a") as file:
        file.write(f"directory.id={texts[1]}\n")
    assert changed(draft(log_dir, beside=[str(other)]), log_dir) == [], "nothing shows the id"
    write_metadata_log(other, registered_record(1, here, there))
    planned = draft(log_dir, beside=[str(other)])
    assert changed(planned, log_dir) == ["meta.properties"]
    apply(planned, log_dir, beside=[str(other)])
    assert path.read_bytes() == good


# --- the mark ---------------------------------------------------------------------------------------------------------
def test_a_mark_where_all_is_as_a_clean_stop_leaves_it(clean_dir: Path) -> None:
    (clean_dir / MARK).unlink()
    (clean_dir / RECOVERY).write_bytes(b"0\n2\norders 0 50\npayments 0 x\n")
    planned = draft(clean_dir, mark_clean=True)
    assert changed(planned, clean_dir) == [RECOVERY, MARK]
    assert not codes(planned)[1]
    apply(planned, clean_dir, mark_clean=True)
    assert (clean_dir / RECOVERY).read_bytes() == b"0\n3\norders 0 100\npayments 0 100\norders 1 100\n"
    assert (clean_dir / MARK).read_bytes() == b""


def test_no_mark_without_producer_snapshots(log_dir: Path) -> None:
    planned = draft(log_dir, mark_clean=True)
    assert changed(planned, log_dir) == []
    refusals = planned.plan.report.refusals
    assert [(finding.code, finding.offset) for finding in refusals] == [("snapshot.missing", 100)] * 3
    assert "kafkalog reindex" in (refusals[0].cure or "")
    assert planned.plan.report.note == (
        f"the clean shutdown file is not written: first {refusals[0].next_command} (3 findings)"
    )
    assert (refusals[0].next_command or "").startswith("kafkalog recover ")


@pytest.mark.parametrize("content", [None, b"", b"0\n"])
def test_a_mark_gives_young_checkpoints_their_head(clean_dir: Path, content: bytes | None) -> None:
    """A broker that was killed in its first minute leaves them empty; a clean stop does not."""
    (clean_dir / MARK).unlink()
    for name in (WATERMARKS, STARTS):
        (clean_dir / name).unlink() if content is None else (clean_dir / name).write_bytes(content)
    planned = draft(clean_dir, mark_clean=True)
    assert changed(planned, clean_dir) == [WATERMARKS, STARTS, MARK]
    apply(planned, clean_dir, mark_clean=True)
    assert (clean_dir / STARTS).read_bytes() == b"0\n0\n"


@pytest.mark.parametrize("extension", ["index", "timeindex"])
def test_no_mark_with_an_index_that_has_room_for_more(clean_dir: Path, extension: str) -> None:
    (clean_dir / MARK).unlink()
    with (clean_dir / "orders-0" / f"{50:020d}.{extension}").open("ab") as index:
        index.write(bytes(24))
    planned = draft(clean_dir, mark_clean=True)
    assert changed(planned, clean_dir) == []
    assert codes(planned)[1] == [f"{extension}.zero-entries"]


def test_no_mark_on_a_damaged_log_but_the_text_files_are_mended(clean_dir: Path) -> None:
    (clean_dir / MARK).unlink()
    log = clean_dir / "orders-0" / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[100] ^= 0xFF
    log.write_bytes(data)
    (clean_dir / STARTS).write_bytes(b"1\n0\n")
    planned = draft(clean_dir, mark_clean=True)
    assert changed(planned, clean_dir) == [STARTS]
    assert codes(planned)[1] == ["batch.crc-mismatch"]


def test_the_mark_is_that_of_a_whole_directory(clean_dir: Path) -> None:
    with pytest.raises(RefusedError, match=r"whole log directory\. Run it without .*: kafkalog checkpoint --mark-"):
        draft(clean_dir / "orders-0", mark_clean=True)


def _of_0_8(clean_dir: Path) -> None:
    """What 0.8.0 has: one log and its index, high watermarks, and the mark."""
    for name in (RECOVERY, CLEANED, STARTS, "meta.properties"):
        (clean_dir / name).unlink()
    for number in ("orders-0", "orders-1", "payments-0"):
        shutil.rmtree(clean_dir / number)
    (clean_dir / "orders-0").mkdir()
    (clean_dir / "orders-0" / f"{0:020d}.log").write_bytes(build.message_v0(build.Record(offset=0, value=b"v")))
    (clean_dir / "orders-0" / f"{0:020d}.index").touch()
    (clean_dir / WATERMARKS).write_bytes(b"0\n1\norders 0 1\n")


def test_0_8_0_has_no_recovery_points(clean_dir: Path) -> None:
    _of_0_8(clean_dir)
    (clean_dir / MARK).unlink()
    planned = draft(clean_dir, mark_clean=True, kafka={})
    assert changed(planned, clean_dir) == [MARK]


def no_time_index(log_dir: Path) -> None:
    (log_dir / f"orders-0/{LAST}.timeindex").unlink()


def no_time_indexes(log_dir: Path) -> None:
    for time_index in (log_dir / "orders-0").glob("*.timeindex"):
        time_index.unlink()


def no_indexes(log_dir: Path) -> None:
    for index in (log_dir / "orders-0").glob("*index"):
        index.unlink()


def empty_time_index(log_dir: Path) -> None:
    (log_dir / f"orders-0/{LAST}.timeindex").write_bytes(b"")


def _future(log_dir: Path) -> Path:
    return shutil.copytree(log_dir / "orders-0", log_dir / f"orders-5.{UUID}-future")


def future_without_snapshots(log_dir: Path) -> None:
    (_future(log_dir) / f"{100:020d}.snapshot").unlink()


def future_with_room_in_its_index(log_dir: Path) -> None:
    (_future(log_dir) / f"{LAST}.index").write_bytes(bytes(80))


@pytest.mark.parametrize(
    ("change", "meant"),
    [
        (no_time_index, ["segment.timeindex-missing"]),
        (no_time_indexes, ["segment.timeindex-missing"] * 2),
        (no_indexes, ["segment.index-missing", "segment.timeindex-missing"] * 2),
        (empty_time_index, ["timeindex.empty"]),
        (future_without_snapshots, ["snapshot.missing"]),
        (future_with_room_in_its_index, ["index.zero-entries"]),
    ],
)
def test_no_mark_where_recovery_would_build_what_is_missing(
    clean_dir: Path, change: Callable[[Path], None], meant: list[str]
) -> None:
    """And once `reindex` has written it, the mark."""
    (clean_dir / MARK).unlink()
    change(clean_dir)
    planned = draft(clean_dir, mark_clean=True)
    assert changed(planned, clean_dir) == []
    assert codes(planned)[1] == meant
    refusals = planned.plan.report.refusals
    assert all((finding.cure or "").startswith("kafkalog reindex --apply") for finding in refusals)
    site = target_dir([str(clean_dir)])
    request = PlanRequest(target=site, options={"kafka": {"kafka": "4.3"}}, now_ms=NOW_MS)
    apply_plan(make_plan("reindex", request), Disk(), now_ms=NOW_MS)
    assert changed(draft(clean_dir, mark_clean=True), clean_dir)[-1] == MARK


def test_releases_before_0_10_1_have_no_time_indexes(clean_dir: Path) -> None:
    (clean_dir / MARK).unlink()
    log = build.message_v0(build.Record(offset=0, value=b"v"))
    shutil.rmtree(clean_dir / "orders-0")
    (clean_dir / "orders-0").mkdir()
    (clean_dir / "orders-0" / f"{0:020d}.log").write_bytes(log)
    (clean_dir / "orders-0" / f"{0:020d}.index").touch()
    for kafka, meant in (("0.10.0", []), ("0.10.1", ["segment.timeindex-missing"])):
        refusals = draft(clean_dir, mark_clean=True, kafka={"kafka": kafka}).plan.report.refusals
        assert [finding.code for finding in refusals if finding.path.endswith(f"{0:020d}.log")] == meant


def test_no_mark_while_segments_are_being_exchanged(clean_dir: Path) -> None:
    """A broker puts them in their place before it looks for the mark; nobody has verified what the log is then."""
    (clean_dir / MARK).unlink()
    for extension in ("log", "index", "timeindex"):
        name = clean_dir / "orders-0" / f"{0:020d}.{extension}"
        shutil.copy(name, f"{name}.swap")
    planned = draft(clean_dir, mark_clean=True)
    assert changed(planned, clean_dir) == []
    assert codes(planned)[1] == ["segment.swap"]
    assert "without the clean shutdown file" in (planned.plan.report.refusals[0].cure or "")


@pytest.mark.parametrize("state", ["cleaned", "deleted"])
def test_a_mark_beside_what_every_start_sweeps_away(clean_dir: Path, state: str) -> None:
    (clean_dir / MARK).unlink()
    log = clean_dir / "orders-0" / f"{0:020d}.log"
    shutil.copy(log, f"{log}.{state}")
    assert changed(draft(clean_dir, mark_clean=True), clean_dir) == [MARK]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("kafkalog-undo-20260101T000000Z-1", "dir.journal"),
        ("orders-0.old", "dir.not-a-partition"),
        ("lost+found", "dir.not-a-partition"),
    ],
)
def test_no_mark_beside_a_directory_that_is_no_partition(clean_dir: Path, name: str, code: str) -> None:
    (clean_dir / MARK).unlink()
    (clean_dir / name).mkdir()
    planned = draft(clean_dir, mark_clean=True)
    assert changed(planned, clean_dir) == []
    (refusal,) = planned.plan.report.refusals
    assert (refusal.code, refusal.path) == (code, str(clean_dir / name))
    assert "out of the log directory" in (refusal.cure or "")


def test_no_mark_where_an_aborted_transaction_is_in_no_index(clean_dir: Path) -> None:
    (clean_dir / MARK).unlink()
    log = clean_dir / "orders-0" / f"{LAST}.log"
    records = [build.Record(offset=100, timestamp_ms=NOW_MS)]
    ids = {"producer_id": 7, "producer_epoch": 0, "leader_epoch": 5}
    data = build.batch_v2(records, base_sequence=0, is_transactional=True, **ids)  # type: ignore[arg-type]
    data += build.txn_marker(0, offset=101, **ids)
    with log.open("ab") as file:
        file.write(data)
    refusals = draft(clean_dir, mark_clean=True).plan.report.refusals
    assert "txnindex.missing-entry" in [finding.code for finding in refusals]


# --- whose the new files are ------------------------------------------------------------------------------------------
def _owned(root: Path) -> None:
    for path in (root, *root.rglob("*")):
        os.chown(path, *OWNER)


def _rights(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)


def test_new_files_are_the_brokers_own_as_its_others_are(clean_dir: Path) -> None:
    """Whatever else lies there, and comes first by its name."""
    for name in (MARK, RECOVERY, f"orders-0/{EPOCHS}"):
        (clean_dir / name).unlink()
    _owned(clean_dir)
    for around in (clean_dir, clean_dir / "orders-0"):
        note = around / "#note.txt"
        note.write_bytes(b"")
        note.chmod(0o606)
    os.chown(clean_dir / CLEANED, os.geteuid(), os.getegid())
    apply(draft(clean_dir, mark_clean=True), clean_dir, mark_clean=True)
    for name in (MARK, RECOVERY, f"orders-0/{EPOCHS}"):
        assert _rights(clean_dir / name) == (*OWNER, 0o644)


@pytest.mark.parametrize(("mode", "meant"), [(0o2775, 0o644), (0o750, 0o640), (0o700, 0o600)])
def test_without_files_of_the_brokers_its_directory_says_whose_they_are(clean_dir: Path, mode: int, meant: int) -> None:
    _of_0_8(clean_dir)
    (clean_dir / WATERMARKS).unlink()
    (clean_dir / MARK).chmod(0o606)
    _owned(clean_dir)
    clean_dir.chmod(mode)
    planned = draft(clean_dir, mark_clean=True, kafka={"kafka": "0.8.2"})
    apply_plan(planned, Disk(), now_ms=NOW_MS)
    assert changed(planned, clean_dir) == [RECOVERY]
    assert _rights(clean_dir / RECOVERY) == (*OWNER, meant)


# --- what is meant ----------------------------------------------------------------------------------------------------
def test_a_partition_or_a_file_by_itself(log_dir: Path) -> None:
    for name in (RECOVERY, WATERMARKS, f"orders-0/{EPOCHS}", f"orders-1/{EPOCHS}"):
        (log_dir / name).write_bytes(b"1\n0\n")
    assert changed(draft(log_dir / "orders-0"), log_dir) == [f"orders-0/{EPOCHS}"]
    assert changed(draft(log_dir / WATERMARKS), log_dir) == [WATERMARKS]
    assert changed(draft(log_dir / "orders-1" / EPOCHS), log_dir) == [f"orders-1/{EPOCHS}"]
    assert len(changed(draft(log_dir), log_dir)) == 4


def test_a_partition_outside_of_a_log_directory(log_dir: Path, tmp_path: Path) -> None:
    shutil.copytree(log_dir / "orders-0", tmp_path / "orders-0")
    (tmp_path / "orders-0" / EPOCHS).unlink()
    assert changed(draft(tmp_path / "orders-0"), tmp_path) == [f"orders-0/{EPOCHS}"]
