"""`truncate`: what goes and what stays, what is said to be lost, and that no moment in between is worse."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from kafkalog_cli.main import cli
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import SelectionError
from kafkalog_core.findings.logs import DAMAGE_REASONS
from kafkalog_core.format.snapshot import decode_snapshot
from kafkalog_core.kafka.rules.releases import Release, parse_release
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.kafka.sim.logdir.top_files import read_broker_dir
from kafkalog_core.kafka.sim.settings import read_settings
from kafkalog_core.kafka.sim.start.partition import PartitionLoad
from kafkalog_core.kafka.sim.start.results import LoadOptions
from kafkalog_core.kafka.sim.start.snapshots import SnapshotOptions
from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanRequest
from kafkalog_core.ops.truncate.truncate import plan_truncate
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.storage.logdir import read_log_dir
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.structs import replace
from tests.support import build
from tests.support.truncating import (
    CLEANED,
    EPOCHS,
    MARK,
    NOW_MS,
    RECOVERY,
    STARTS,
    WATERMARKS,
    batch,
    batches_of,
    codes,
    cut,
    names,
    plan,
    write_log,
    write_tops,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_core.ops.repair.plan import PlanDraft, PlanReport
    from tests.support.truncating import Batch

SEGMENTS = {
    0: [(0, 4), (5, 9), (10, 14), (15, 19)],
    20: [(20, 24), (25, 29), (30, 34), (35, 39)],
    40: [(40, 44), (45, 49)],
}
ALL = [each for batches in SEGMENTS.values() for each in batches]
END = 50
ID = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A log directory after a crash: ten batches of five records in three segments, all of them committed but ten."""
    disk = write_tops(
        tmp_path / "disk",
        recovery=[("t", 0, 20)],
        watermarks=[("t", 0, 40), ("u", 0, 9)],
        cleaned=[("t", 0, 35)],
    )
    write_log(disk / "t-0", SEGMENTS)
    return disk


def flip(path: Path, position: int) -> None:
    """Turn a byte round."""
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(data)


def log(root: Path, base_offset: int, suffix: str = "log") -> Path:
    return root / "t-0" / f"{base_offset:020d}.{suffix}"


def lose(root: Path) -> None:
    """A batch in the middle of the second segment goes bad."""
    flip(log(root, 20), len(batch(20, 24)) + 70)


# --- an offset --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("offset", [0, 1, 5, 19, 20, 22, 25, 40, 45, 49])
def test_what_is_below_the_batch_of_the_offset_stays(root: Path, offset: int) -> None:
    draft = cut(root / "t-0", to_offset=offset)
    kept = [each for each in ALL if each[1] < offset]
    assert batches_of(root / "t-0") == kept
    end = kept[-1][1] + 1 if kept else 0
    is_inside = offset % 5 != 0
    assert codes(draft) == ["truncate.whole-batch"] * is_inside + ["truncate.cut"]
    loss = draft.plan.report.losses[0]
    assert (loss.first_offset, loss.next_offset, loss.records) == (end, END, END - end)
    assert loss.committed_records == max(0, 40 - end)
    assert (loss.first_timestamp_ms, loss.max_timestamp_ms) == (1000 + end, 1000 + END - 1)


def test_the_end_offset_leaves_nothing_to_do(root: Path) -> None:
    draft = plan(root / "t-0", to_offset=END)
    assert (draft.plan.changes, codes(draft), draft.plan.is_alarming) == ((), [], False)


@pytest.mark.parametrize("offset", [51, 2**40])
@pytest.mark.parametrize("tail", [b"", bytes(300), batch(50, 54)[:-3]], ids=["whole", "zeros", "torn"])
def test_an_offset_beyond_the_end_is_refused(root: Path, offset: int, tail: bytes) -> None:
    with log(root, 40).open("ab") as file:
        file.write(tail)
    draft = plan(root / "t-0", to_offset=offset)
    assert (draft.plan.changes, codes(draft), draft.plan.is_alarming) == ((), ["truncate.beyond-end"], True)
    assert f"ends at offset {END} and cannot be truncated at offset {offset}" in draft.plan.report.refusals[0].message


def test_an_offset_below_the_log_start_is_refused(root: Path) -> None:
    (root / STARTS).write_bytes(build.offset_checkpoint([("t", 0, 12)]))
    draft = plan(root / "t-0", to_offset=7)
    assert (draft.plan.changes, codes(draft)) == ((), ["truncate.outside"])
    assert "starts at offset 12" in draft.plan.report.refusals[0].message


def test_a_log_start_inside_of_the_batch_is_lowered_first(root: Path) -> None:
    """Above the end of the log it would make a broker delete all of it."""
    (root / STARTS).write_bytes(build.offset_checkpoint([("t", 0, 12)]))
    draft = cut(root / "t-0", to_offset=13)
    assert Path(draft.plan.changes[0].path).name == STARTS
    assert (root / STARTS).read_bytes() == build.offset_checkpoint([("t", 0, 10)])


def test_damage_before_the_offset_that_can_be_passed_is(root: Path) -> None:
    lose(root)
    cut(root / "t-0", to_offset=35)
    assert batches_of(root / "t-0") == ALL[:7]


def test_damage_that_hides_the_offset_is_a_refusal(root: Path) -> None:
    log(root, 20).write_bytes(batch(20, 24) + bytes(300))
    draft = plan(root / "t-0", to_offset=30)
    assert (draft.plan.changes, codes(draft)) == ((), ["truncate.hidden"])


def test_other_bytes_after_zeros_hide_the_offset_too(root: Path) -> None:
    with log(root, 40).open("ab") as file:
        file.write(bytes(300) + b"other" + bytes(300))
    draft = plan(root / "t-0", to_offset=60)
    assert (draft.plan.changes, codes(draft)) == ((), ["truncate.hidden"])


def test_one_offset_is_of_one_log(root: Path) -> None:
    write_log(root / "u-0", {0: [(0, 4)]})
    with pytest.raises(SelectionError, match="one partition"):
        plan(root, to_offset=3)
    with pytest.raises(SelectionError, match="whole partitions"):
        plan(log(root, 20), at_damage=True)


@hypothesis_settings(max_examples=40)
@given(sizes=st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=5), min_size=1, max_size=4), data=st.data())
def test_any_log_and_any_offset(sizes: list[list[int]], data: st.DataObject) -> None:
    segments: dict[int, list[Batch]] = {}
    offset = 0
    for segment in sizes:
        base = offset
        segments[base] = []
        for size in segment:
            segments[base].append((offset, offset + size - 1))
            offset += size
    wanted = data.draw(st.integers(0, offset))
    with TemporaryDirectory() as directory:
        root = write_tops(Path(directory), recovery=[("t", 0, 0)], is_clean=True)
        write_log(root / "t-0", segments)
        draft = cut(root / "t-0", to_offset=wanted)
        kept = [each for batches in segments.values() for each in batches if each[1] < wanted]
        assert batches_of(root / "t-0") == kept
        assert sum(loss.records or 0 for loss in draft.plan.report.losses) == offset - (kept[-1][1] + 1 if kept else 0)


# --- the small files --------------------------------------------------------------------------------------------------
def test_indexes_keep_what_is_below(root: Path) -> None:
    before = {suffix: log(root, 20, suffix).read_bytes() for suffix in ("index", "timeindex")}
    assert [len(data) for data in before.values()] == [8, 12]
    cut(root / "t-0", to_offset=35)
    assert {suffix: log(root, 20, suffix).read_bytes() for suffix in before} == before
    cut(root / "t-0", to_offset=30)
    assert [log(root, 20, suffix).read_bytes() for suffix in before] == [b"", b""]


def test_an_index_that_is_wrong_keeps_its_good_entries(root: Path) -> None:
    """A zero tail, positions behind the log, offsets that go back: the first of them ends it."""
    index = log(root, 40, "index")
    for entries in ([(4, 7), (0, 0), (0, 0)], [(4, 7), (5, 100_000)], [(4, 7), (3, 20)]):
        index.write_bytes(build.offset_index(entries))
        plan_of = plan(root / "t-0", to_offset=45)
        sizes = {Path(change.path).name: change.size_bytes for change in plan_of.plan.changes}
        assert sizes[index.name] == 8


def test_aborted_transactions_behind_the_cut_are_forgotten(root: Path) -> None:
    log(root, 40, "txnindex").write_bytes(build.txn_index([(1, 20, 42, 43), (1, 43, 47, 48)]))
    cut(root / "t-0", to_offset=45)
    assert log(root, 40, "txnindex").read_bytes() == build.txn_index([(1, 20, 42, 43)])


def test_a_snapshot_is_made_at_the_end_and_later_ones_go(root: Path) -> None:
    producer = {"producer_id": 7, "producer_epoch": 1}
    write_log(
        root / "t-0", {20: [batch(20, 24, base_sequence=0, **producer), batch(25, 29, base_sequence=5, **producer)]}
    )
    for offset in (20, 40, 50):
        log(root, offset, "snapshot").write_bytes(build.snapshot([]))
    cut(root / "t-0", to_offset=25)
    assert [name for name in names(root / "t-0") if name.endswith(".snapshot")] == ["20.snapshot", "25.snapshot"]
    entry = next(decode_snapshot(log(root, 25, "snapshot").read_bytes()))
    assert (entry.producer_id, entry.last_sequence, entry.last_offset) == (7, 4, 24)


@pytest.mark.parametrize(("kafka", "kept"), [("0.11", []), ("2.8", [7])])
def test_producers_below_the_log_start(root: Path, kafka: str, kept: list[int]) -> None:
    (root / STARTS).write_bytes(build.offset_checkpoint([("t", 0, 12)]))
    known = build.Producer(producer_id=7, last_offset=9, timestamp_ms=NOW_MS)
    log(root, 20, "snapshot").write_bytes(build.snapshot([known]))
    cut(root / "t-0", to_offset=25, kafka=kafka)
    entries = list(decode_snapshot(log(root, 25, "snapshot").read_bytes()))
    assert [entry.producer_id for entry in entries] == kept


_DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("days", "open_since", "asks"),
    [(0.5, -1, False), (1, -1, True), (6.9, -1, True), (7, -1, False), (3, 5, False)],
    ids=["both keep it", "a day", "nearly a week", "both drop it", "a transaction is open"],
)
def test_the_release_is_asked_for_where_it_decides_whether_a_producer_is_kept(
    root: Path, days: float, open_since: int, asks: bool
) -> None:
    """Releases before 3.4 forget a silent producer after 7 days, later ones after 1; nothing else differs here."""
    known = build.Producer(producer_id=7, last_offset=9, timestamp_ms=NOW_MS, current_txn_first_offset=open_since)
    log(root, 20, "snapshot").write_bytes(build.snapshot([known]))
    now_ms = NOW_MS + int(days * _DAY_MS)
    (root / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=c\n")
    for path in (root / "t-0").glob("*.log"):
        log(root, int(path.stem), "timeindex").touch()

    def planned(kafka: str | None, **options: Any) -> PlanReport:
        options["kafka"] = {"kafka": kafka}
        return make_plan(
            "truncate", PlanRequest(target=target_dir([str(root)]), options=options, now_ms=now_ms)
        ).plan.report

    lose(root)
    for options in ({"at_damage": True}, {"as_broker": True}):
        outcome = planned(None, **options)
        assert outcome.release is not None
        assert {Release(3, 3), Release(3, 4)} <= set(outcome.release.candidates)
        named = [each.text for each in outcome.settings if each.name.endswith("id.expiration.ms")]
        assert named == (["86400000"] if asks else [])
        if options == {"at_damage": True}:
            assert outcome.needs_release == asks
        for kafka in ("3.3", "3.4"):
            assert not planned(kafka, **options).needs_release


@pytest.mark.parametrize("is_tiered", [False, True])
def test_snapshots_at_the_first_local_offset_of_a_tiered_log_stay(root: Path, is_tiered: bool) -> None:
    for path in (root / "t-0").glob(f"{0:020d}.*"):
        path.unlink()
    log(root, 20, "snapshot").write_bytes(build.snapshot([]))
    lose(root)
    topics = ["t:remote.storage.enable=true"] if is_tiered else []
    draft = plan(root, at_damage=True, topic_assignments=topics)
    gone = {Path(change.path).name for change in draft.plan.changes if change.kind == "remove"}
    assert (f"{20:020d}.snapshot" in gone) is not is_tiered
    told = {setting.name for setting in draft.plan.report.settings}
    assert ("remote.storage.enable" in told) is is_tiered


def test_releases_without_snapshots_get_none(root: Path) -> None:
    cut(root / "t-0", to_offset=25, kafka="0.10.2")
    assert not [name for name in names(root / "t-0") if name.endswith(".snapshot")]


def test_where_the_producers_cannot_be_read_no_snapshot_is_made(root: Path) -> None:
    log(root, 0).write_bytes(batch(0, 4) + bytes(100))
    draft = cut(root / "t-0", to_offset=25)
    assert codes(draft) == ["truncate.cut", "truncate.snapshot-not-made"]
    assert not [name for name in names(root / "t-0") if name.endswith(".snapshot")]


def test_transactions_whose_end_goes_are_told(root: Path) -> None:
    fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    marker = build.txn_marker(build.COMMIT, offset=25, producer_id=7)
    write_log(root / "t-0", {20: [batch(20, 24, **fields), marker, (26, 29)]})
    draft = cut(root / "t-0", to_offset=25)
    assert codes(draft) == ["truncate.cut", "truncate.open-transactions"]
    loss = draft.plan.report.losses[0]
    assert (loss.records, loss.producers, loss.transactions) == (4 + 10, 1, 0), "a marker is no record"


def test_epochs_and_checkpoints_follow(root: Path) -> None:
    (root / "t-0" / EPOCHS).write_bytes(build.epoch_checkpoint([(0, 0), (3, 25), (5, 30), (6, 50)]))
    cut(root / "t-0", to_offset=30)
    assert (root / "t-0" / EPOCHS).read_bytes() == build.epoch_checkpoint([(0, 0), (3, 25)])
    assert (root / RECOVERY).read_bytes() == build.offset_checkpoint([("t", 0, 20)])
    assert (root / WATERMARKS).read_bytes() == build.offset_checkpoint([("t", 0, 30), ("u", 0, 9)])
    assert (root / CLEANED).read_bytes() == build.offset_checkpoint([("t", 0, 30)])
    cut(root / "t-0", to_offset=5)
    assert (root / RECOVERY).read_bytes() == build.offset_checkpoint([("t", 0, 5)])


def test_a_checkpoint_that_a_broker_refuses_is_left_alone(root: Path) -> None:
    (root / WATERMARKS).write_bytes(b"0\n7\nt 0 40\n")
    draft = cut(root / "t-0", to_offset=30)
    assert (root / WATERMARKS).read_bytes() == b"0\n7\nt 0 40\n"
    assert draft.plan.report.losses[0].committed_records is None


# --- damage -----------------------------------------------------------------------------------------------------------
def test_the_first_damage_ends_the_log(root: Path) -> None:
    lose(root)
    draft = cut(root, at_damage=True)
    assert batches_of(root / "t-0") == ALL[:5]
    loss = draft.plan.report.losses[0]
    assert (loss.first_offset, loss.records, loss.committed_records) == (30, 20, 10), "the bad one is not counted"
    assert "high watermark" in (loss.cure or "")
    assert draft.plan.is_alarming


HIGH = build.batch_v2([build.Record(offset=990 + index, timestamp_ms=1000, value=b"v") for index in range(5)])
BAD = {
    "goes back": [batch(20, 24), batch(25, 29), batch(20, 24), batch(30, 34)],
    "twice": [batch(20, 24), batch(20, 24), batch(25, 29)],
    "too high": [batch(20, 24), HIGH, batch(30, 34)],
    "too high at the start": [HIGH, batch(25, 29), batch(30, 34)],
    "too high at the end": [batch(20, 24), batch(25, 29), HIGH],
    "below the name": [batch(10, 14), batch(20, 24)],
    "checksum": [batch(20, 24), batch(25, 29)[:-1] + b"!", batch(30, 34)],
    "zeros": [batch(20, 24), bytes(80), batch(30, 34)],
    "length": [batch(20, 24), batch(25, 29)[:8] + b"\x7f" + batch(25, 29)[9:], batch(30, 34)],
    "magic": [batch(20, 24), batch(25, 29)[:16] + b"\t" + batch(25, 29)[17:], batch(30, 34)],
    "other bytes in zeros": [batch(20, 24), bytes(300) + b"other" + bytes(300)],
}


@pytest.mark.parametrize("batches", BAD.values(), ids=BAD)
def test_the_log_is_cut_where_verify_names_the_first_error(root: Path, batches: list[bytes]) -> None:
    log(root, 20).write_bytes(b"".join(batches))
    verdicts = verify(VerifyRequest(targets=tuple(resolve([str(root / "t-0")])), now_ms=NOW_MS))
    places = [
        finding.position
        for verdict in verdicts
        for finding in verdict.findings
        if finding.path == str(log(root, 20)) and finding.severity == "error" and finding.code in DAMAGE_REASONS
    ]
    cut(root / "t-0", at_damage=True)
    assert places
    assert log(root, 20).stat().st_size == min(place for place in places if place is not None)


def test_a_torn_tail_is_no_loss(root: Path) -> None:
    with log(root, 40).open("ab") as file:
        file.write(batch(50, 54)[:-3])
    draft = cut(root, at_damage=True)
    assert batches_of(root / "t-0") == ALL
    assert (draft.plan.report.losses, draft.plan.is_alarming) == ((), False)


def test_a_bad_batch_alone_is_a_loss_though_nothing_can_be_counted(root: Path) -> None:
    flip(log(root, 40), len(batch(40, 44)) + 70)
    loss = cut(root, at_damage=True).plan.report.losses[0]
    assert (loss.first_offset, loss.records, loss.bytes) == (None, 0, len(batch(45, 49)))


def test_no_damage_leaves_nothing_to_do(root: Path) -> None:
    draft = plan(root, at_damage=True)
    assert (draft.plan.changes, codes(draft)) == ((), [])
    assert "does not look into batches" in (draft.plan.report.note or "")


def test_a_waiting_replacement_would_bring_it_back(root: Path) -> None:
    lose(root)
    shutil.copy(log(root, 20), log(root, 20, "log.swap"))
    draft = plan(root, at_damage=True)
    assert (draft.plan.changes, codes(draft)) == ((), ["truncate.replacement"])


def test_addresses_of_0_7(tmp_path: Path) -> None:
    messages = [build.message_v07(b"m%d" % number) for number in range(6)]
    size = len(messages[0])
    partition = tmp_path / "disk" / "t-0"
    partition.mkdir(parents=True)
    (partition / f"{0:020d}.kafka").write_bytes(b"".join(messages[:3]))
    (partition / f"{3 * size:020d}.kafka").write_bytes(b"".join(messages[3:5]) + messages[5][:-1] + b"x")
    cut(tmp_path / "disk", as_broker=True, kafka="0.7")
    assert (partition / f"{3 * size:020d}.kafka").read_bytes() == b"".join(messages[3:5])
    cut(partition, to_offset=size, kafka="0.7")
    assert [path.read_bytes() for path in partition.glob("*.kafka")] == [messages[0]]


# --- as a broker ------------------------------------------------------------------------------------------------------
def test_a_broker_cuts_from_the_recovery_point_on(root: Path) -> None:
    lose(root)
    cut(root, as_broker=True)
    assert batches_of(root / "t-0") == ALL[:5]
    assert log(root, 20, "index").read_bytes() == b""


@pytest.mark.parametrize("change", ["clean", "below"])
def test_a_broker_does_not_notice_it(root: Path, change: str) -> None:
    lose(root)
    if change == "clean":
        (root / MARK).touch()
    else:
        (root / RECOVERY).write_bytes(build.offset_checkpoint([("t", 0, 40)]))
    draft = plan(root, as_broker=True)
    assert (draft.plan.changes, codes(draft)) == ((), [])


def test_without_an_index_a_segment_is_cut_alone(root: Path) -> None:
    lose(root)
    log(root, 20, "index").unlink()
    draft = cut(root, as_broker=True)
    assert batches_of(root / "t-0") == [*ALL[:5], *ALL[8:]], "a hole"
    assert draft.plan.report.losses[0].records == 10


def test_a_log_that_ends_below_its_start_goes(root: Path) -> None:
    (root / STARTS).write_bytes(build.offset_checkpoint([("t", 0, 60)]))
    cut(root, as_broker=True)
    assert names(root / "t-0") == ["60.index", "60.log", "60.timeindex"]
    assert (root / "t-0" / EPOCHS).read_bytes() == build.epoch_checkpoint([])


def test_offsets_that_go_back_empty_the_segment(root: Path) -> None:
    write_log(root / "t-0", {20: [(36, 39), (33, 35), (30, 32), (27, 29), (24, 26), (20, 23)]})
    draft = cut(root, as_broker=True)
    assert batches_of(root / "t-0") == ALL[:4]
    assert draft.plan.report.losses[0].bytes > 0


def test_a_broker_that_stops_cuts_nothing(root: Path) -> None:
    (root / MARK).touch()
    with log(root, 40).open("ab") as file:
        file.write(bytes(100))
    draft = plan(root, as_broker=True)
    assert (draft.plan.changes, codes(draft), draft.plan.is_alarming) == ((), ["truncate.broker-stops"], True)


def test_without_a_log_directory_nobody_knows(root: Path, tmp_path: Path) -> None:
    lose(root)
    shutil.copytree(root / "t-0", tmp_path / "alone" / "t-0")
    draft = plan(tmp_path / "alone" / "t-0", as_broker=True)
    assert codes(draft) == ["truncate.no-log-dir"]


def test_deleted_directories_are_passed_over(root: Path) -> None:
    lose(root)
    (root / "t-0").rename(root / f"t-0.{ID}-delete")
    assert plan(root, at_damage=True).plan.changes == ()


# --- other directories of a partition ---------------------------------------------------------------------------------
@pytest.mark.parametrize("options", [{"at_damage": True}, {"as_broker": True}])
@pytest.mark.parametrize("ending", ["stray", "future"])
def test_offsets_of_the_served_directory_stay(root: Path, ending: str, options: dict[str, Any]) -> None:
    """The checkpoints name a partition, and mean the directory that is served."""
    for name, offset in {RECOVERY: 0, WATERMARKS: 50, STARTS: 0, CLEANED: 50}.items():
        (root / name).write_bytes(build.offset_checkpoint([("t", 0, offset)]))
    before = {name: (root / name).read_bytes() for name in (RECOVERY, WATERMARKS, STARTS, CLEANED)}
    other = write_log(root / f"t-0.{ID}-{ending}", {0: [(0, 4), (5, 9), (10, 14)]})
    flip(other / f"{0:020d}.log", len(batch(0, 4)) + 70)
    draft = cut(root, **options)
    assert (batches_of(other), batches_of(root / "t-0")) == ([(0, 4)], ALL)
    assert {name: (root / name).read_bytes() for name in before} == before
    assert draft.plan.report.losses[0].committed_records is None, "what is committed is in the other directory"


def test_offsets_of_a_future_directory_alone_are_its_own(root: Path) -> None:
    (root / "t-0").rename(root / f"t-0.{ID}-future")
    (root / RECOVERY).write_bytes(build.offset_checkpoint([("t", 0, 50)]))
    flip(root / f"t-0.{ID}-future" / f"{20:020d}.log", len(batch(20, 24)) + 70)
    draft = cut(root, at_damage=True)
    assert draft.plan.report.losses[0].committed_records == 10
    assert (root / RECOVERY).read_bytes() == build.offset_checkpoint([("t", 0, 25)])


@pytest.mark.parametrize("is_beside", [False, True])
@pytest.mark.parametrize("ending", ["", f".{ID}-future", f".{ID}-stray"])
def test_a_broker_loads_every_directory_with_the_offsets_of_its_partition(
    root: Path, ending: str, is_beside: bool
) -> None:
    (root / RECOVERY).write_bytes(build.offset_checkpoint([("t", 0, 40)]))
    lose(root)
    (root / "t-0").rename(root / f"t-0{ending}")
    if is_beside and ending:
        write_log(root / "t-0", SEGMENTS)
    draft = plan(root, as_broker=True)
    assert (draft.plan.changes, codes(draft)) == ((), []), "the damage lies below the recovery point"
    (root / RECOVERY).write_bytes(build.offset_checkpoint([("t", 0, 20)]))
    cut(root, as_broker=True)
    assert batches_of(root / f"t-0{ending}") == ALL[:5]


# --- every moment in between ------------------------------------------------------------------------------------------
class Interrupted:
    """A stage that makes the first changes of a plan itself."""

    def __init__(self, count: int) -> None:
        self.left = count

    def write(self, path: str, content: Iterable[bytes], **_: object) -> None:
        if self._goes_on():
            Path(path).write_bytes(b"".join(content))

    def cut(self, path: str, size_bytes: int, **_: object) -> None:
        if Path(path).stat().st_size > size_bytes and self._goes_on():
            with Path(path).open("r+b") as file:
                file.truncate(size_bytes)

    def remove(self, path: str, **_: object) -> None:
        if Path(path).exists() and self._goes_on():
            Path(path).unlink()

    def _goes_on(self) -> bool:
        self.left -= 1
        return self.left >= 0


def kept_by_a_start(root: Path) -> list[Batch] | None:
    """Batches that can be read when a broker has started; null: it does not start."""
    partition = read_partition(str(root / "t-0"))
    release = parse_release("4.3")
    settings = read_settings(SettingsRequest(assignments=("log.index.interval.bytes=150",)), release)
    load = PartitionLoad(
        partition,
        read_broker_dir(read_log_dir(str(root))).context(partition.name),
        LoadOptions(
            release=release,
            settings=settings.for_topic("t"),
            snapshots=SnapshotOptions.of_release(release, now_ms=NOW_MS, expiration_ms=10**9),
        ),
    )
    for _ in load.run():
        pass
    if load.result.problem is not None:
        return None
    return [each for each in batches_of(root / "t-0") if each[1] < load.result.end_offset]


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("options", [{"to_offset": 27}, {"to_offset": 0}, {"at_damage": True}, {"as_broker": True}])
def test_a_start_in_between_loses_no_more(root: Path, tmp_path: Path, options: dict[str, Any], is_clean: bool) -> None:
    if "to_offset" not in options:
        lose(root)
    for offset in (20, 40, 50):
        log(root, offset, "snapshot").write_bytes(build.snapshot([]))
    (root / STARTS).write_bytes(build.offset_checkpoint([("t", 0, 0)]))
    if is_clean:
        (root / MARK).touch()
    draft = plan(root if "to_offset" not in options else root / "t-0", **options)
    steps = len(draft.plan.changes)
    assert steps > 5 or (is_clean and options == {"as_broker": True})
    finished = interrupted(draft, root, tmp_path / "all", steps)
    goal = batches_of(finished / "t-0")
    for count in range(steps):
        at = interrupted(draft, root, tmp_path / str(count), count)
        kept = kept_by_a_start(at)
        assert kept is not None
        assert set(goal) <= set(kept), draft.plan.changes[count]


def interrupted(draft: PlanDraft, root: Path, copy: Path, count: int) -> Path:
    """A copy of the directory with the first changes of a plan."""
    shutil.copytree(root, copy)
    request = draft.plan.request
    moved = target_dir([str(copy) if request.target.is_whole else str(copy / "t-0")])
    stage: Any = Interrupted(count)
    plan_truncate(replace(request, target=moved), stage, NO_PROGRESS)
    return copy


# --- the command ------------------------------------------------------------------------------------------------------
def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["truncate", "--output", "table", "--kafka", "4.3", *arguments])
    return result.exit_code, " ".join(result.output.split())  # where a line ends depends on the directory


def test_a_plan_that_loses_records_ends_with_4(root: Path) -> None:
    lose(root)
    status, text = run("--at-damage", str(root))
    assert (status, "20 records" in text) == (4, True)
    assert batches_of(root / "t-0")[:6] == ALL[:6], "nothing was changed"
    assert run("--at-damage", "--apply", str(root))[0] == 0
    assert run("--at-damage", str(root))[0] == 0
    assert batches_of(root / "t-0") == ALL[:5]


def test_nothing_to_do_is_said(root: Path) -> None:
    status, text = run("--at-damage", str(root))
    assert (status, "truncate changes nothing in " in text) == (0, True)


@pytest.mark.parametrize("wrong", [[], ["--at-damage", "--as-broker"], ["--to-offset", "3", "--at-damage"]])
def test_one_place_is_named(root: Path, wrong: list[str]) -> None:
    status, text = run(*wrong, str(root))
    assert (status, "give one of --to-offset" in text) == (2, True)


def test_several_logs_at_once_in_several_processes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkalog_core.engine.pool.SHARED_BYTES", 0)
    write_log(root / "u-0", SEGMENTS)
    lose(root)
    flip(root / "u-0" / f"{40:020d}.log", 70)
    status, _ = run("--at-damage", "--jobs", "2", "--apply", str(root))
    assert status == 0
    assert (batches_of(root / "t-0"), batches_of(root / "u-0")) == (ALL[:5], ALL[:8])


def test_a_cut_of_the_metadata_log_says_what_it_is(tmp_path: Path) -> None:
    disk = write_tops(tmp_path / "disk")
    write_log(disk / "__cluster_metadata-0", SEGMENTS)
    assert "truncate.metadata-log" in codes(plan(disk / "__cluster_metadata-0", to_offset=20))


def test_records_inside_of_old_compressed_messages_are_counted(tmp_path: Path) -> None:
    disk = write_tops(tmp_path / "disk", watermarks=[("old", 0, 5)])
    data = b"".join(
        build.wrapper_v1([build.Record(offset=first + n, timestamp_ms=1000, value=b"v") for n in range(3)], codec=1)
        for first in (0, 3, 6)
    )
    partition = disk / "old-0"
    partition.mkdir()
    (partition / f"{0:020d}.log").write_bytes(
        data + build.message_v1(build.Record(offset=9, timestamp_ms=1, value=b""))
    )
    loss = plan(partition, kafka="0.10.2", to_offset=3).plan.report.losses[0]
    assert (loss.records, loss.committed_records) == (7, 0)
