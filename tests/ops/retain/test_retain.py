"""Retention carried out: the order of its changes, what is left, and a broker that starts in between."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog_core.errors import KafkalogError, RefusedError, SelectionError, SettingError
from kafkalog_core.findings import Finding
from kafkalog_core.kafka.rules.releases import Release
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.kafka.sim.logdir.top_files import read_broker_dir
from kafkalog_core.kafka.sim.settings import Settings
from kafkalog_core.kafka.sim.start.partition import PartitionLoad
from kafkalog_core.kafka.sim.start.results import LoadOptions
from kafkalog_core.kafka.sim.start.snapshots import SnapshotOptions
from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.apply import apply_plan
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanRequest
from kafkalog_core.ops.repair.undo import apply_undo, plan_undo, scope_of
from kafkalog_core.ops.retain.forecaster import RetainForecast, RetentionForecaster, RetentionOptions, Scenario
from kafkalog_core.ops.retain.retain import RetainRequest, retain
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.storage.logdir import read_log_dir
from kafkalog_core.storage.partition import read_partition
from tests.support import build
from tests.support.truncating import EPOCHS, MARK, RECOVERY, STARTS, WATERMARKS, write_log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.kafka.sim.start.results import LoadResult
    from kafkalog_core.ops.repair.plan import PlanDraft

RELEASE = Release(4, 3)
NOW_MS = 10**13
END = 25


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Three segments, of records of the times 1000 to 1024, stopped cleanly; mtimes are later than they are."""
    _write_log_dir(tmp_path / "data")
    return tmp_path / "data"


def _write_log_dir(root: Path) -> None:
    directory = write_log(root / "t-0", {0: [(0, 4), (5, 9)], 10: [(10, 19)], 20: [(20, 24)]})
    for base, last in ((0, 1009), (10, 1019), (20, 1024)):
        (directory / f"{base:020}.timeindex").write_bytes(build.time_index([(last, 4 if base == 20 else 9)]))
    for offset in (10, 20, END):
        (directory / f"{offset:020}.snapshot").write_bytes(build.snapshot([]))
    for name in (RECOVERY, WATERMARKS):
        (root / name).write_bytes(build.offset_checkpoint([("t", 0, END)]))
    (root / STARTS).write_bytes(build.offset_checkpoint([("other", 3, 7)]))
    (root / MARK).write_bytes(b"")


def _options(*assignments: str, **others: Any) -> dict[str, Any]:
    kafka = {"kafka": str(RELEASE), "assignments": ("retention.ms=-1", *assignments), "assume_defaults": True}
    return {"kafka": kafka, **others}


def _draft(log_dir: Path, *assignments: str, now_ms: int = NOW_MS, **others: Any) -> PlanDraft:
    request = PlanRequest(target=target_dir([str(log_dir)]), options=_options(*assignments, **others), now_ms=now_ms)
    return make_plan("retain", request)


def _shown(draft: PlanDraft, log_dir: Path) -> list[tuple[str, str]]:
    return [(change.kind, change.path.removeprefix(f"{log_dir}/")) for change in draft.plan.changes]


def _files(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and "undo" not in str(path) and path.name != ".lock"
    }


def _load(log_dir: Path) -> LoadResult:
    """What a broker makes of the partition that starts on it."""
    broker_dir = read_broker_dir(read_log_dir(str(log_dir)))
    partition = read_partition(str(log_dir / "t-0"))
    snapshots = SnapshotOptions.of_release(RELEASE, now_ms=NOW_MS, expiration_ms=10**9)
    options = LoadOptions(release=RELEASE, settings=Settings(release=RELEASE).for_topic("t"), snapshots=snapshots)
    load = PartitionLoad(partition, broker_dir.context(partition.name, as_loaded=True), options)
    for _ in load.run():
        pass
    return load.result


def test_changes_come_in_an_order_that_loses_nothing_more(log_dir: Path) -> None:
    draft = _draft(log_dir, "retention.bytes=1")
    assert _shown(draft, log_dir) == [
        *(("remove", f"t-0/{base:020}.{suffix}") for base in (0, 10) for suffix in ("log", "index", "timeindex")),
        ("replace", STARTS),
        ("remove", f"t-0/{10:020}.snapshot"),
        ("replace", f"t-0/{EPOCHS}"),
    ]
    assert not draft.plan.loses_data
    assert not draft.plan.is_alarming


def test_where_all_goes_a_new_segment_is_made_before(log_dir: Path) -> None:
    (log_dir / "t-0" / f"{END:020}.snapshot").unlink()
    draft = _draft(log_dir, "retention.bytes=0")
    assert _shown(draft, log_dir)[:8] == [
        *(("remove", f"t-0/{base:020}.timeindex") for base in (0, 10, 20)),
        ("create", f"t-0/{END:020}.snapshot"),
        *(("create", f"t-0/{END:020}.{suffix}") for suffix in ("log", "index", "timeindex")),
        ("remove", f"t-0/{0:020}.log"),
    ]


def test_what_is_left_is_what_a_broker_leaves(log_dir: Path) -> None:
    before = _files(log_dir)
    apply_plan(_draft(log_dir, "retention.bytes=1"), Disk(), now_ms=NOW_MS)
    left = _files(log_dir)
    assert left[STARTS] == build.offset_checkpoint([("other", 3, 7), ("t", 0, 20)])
    assert left[f"t-0/{EPOCHS}"] == build.epoch_checkpoint([(0, 20)])
    assert {name for name in left if name.startswith("t-0/")} == {
        *(f"t-0/{20:020}.{suffix}" for suffix in ("log", "index", "timeindex", "snapshot")),
        f"t-0/{END:020}.snapshot",
        f"t-0/{EPOCHS}",
    }
    assert _draft(log_dir, "retention.bytes=1").plan.changes == ()
    apply_undo(plan_undo(scope_of(str(log_dir))), Disk())
    assert _files(log_dir) == before


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("retention_bytes", [1, 0])
def test_a_broker_that_starts_in_between_loses_no_more(
    log_dir: Path, tmp_path: Path, retention_bytes: int, is_clean: bool
) -> None:
    """All states that there can be: after no change, the first one, and so on."""
    if not is_clean:
        (log_dir / MARK).unlink()
    draft = _draft(log_dir, f"retention.bytes={retention_bytes}")
    kept = {20} if retention_bytes else set()
    changes = draft.plan.changes
    whole = tmp_path / "whole"
    shutil.copytree(log_dir, whole)
    apply_plan(draft, Disk(), now_ms=NOW_MS)
    for done in range(len(changes) + 1):
        state = tmp_path / f"state-{done}" / "data"
        shutil.copytree(whole, state)
        for change in changes[:done]:
            name = change.path.removeprefix(f"{log_dir}/")
            if change.kind == "remove":
                (state / name).unlink()
            else:
                shutil.copy(log_dir / name, state / name)
        result = _load(state)
        assert result.problem is None, (done, result.problem)
        assert result.lost_bytes == 0, done
        assert result.end_offset == END, done
        live = [each.base_offset for each in result.segments]
        assert kept <= set(live), done
        assert live == sorted(live)


def test_a_log_start_inside_of_a_segment_is_checkpointed(log_dir: Path) -> None:
    draft = _draft(log_dir, "retention.ms=-1", log_start_offset=13)
    removed = [("remove", f"t-0/{0:020}.{suffix}") for suffix in ("log", "index", "timeindex")]
    assert _shown(draft, log_dir)[:4] == [*removed, ("replace", STARTS)]
    apply_plan(draft, Disk(), now_ms=NOW_MS)
    assert (log_dir / STARTS).read_bytes() == build.offset_checkpoint([("other", 3, 7), ("t", 0, 13)])
    assert (log_dir / "t-0" / EPOCHS).read_bytes() == build.epoch_checkpoint([(0, 13)])
    assert [segment.base_offset for segment in read_partition(str(log_dir / "t-0")).segments] == [10, 20]


def test_an_older_log_start_is_raised_and_a_later_one_stays(log_dir: Path) -> None:
    (log_dir / STARTS).write_bytes(build.offset_checkpoint([("t", 0, 3), ("other", 3, 7)]))
    apply_plan(_draft(log_dir, "retention.bytes=1"), Disk(), now_ms=NOW_MS)
    assert (log_dir / STARTS).read_bytes() == build.offset_checkpoint([("t", 0, 20), ("other", 3, 7)])


def test_a_checkpoint_that_is_not_there_is_made(log_dir: Path) -> None:
    (log_dir / STARTS).unlink()
    apply_plan(_draft(log_dir, "retention.bytes=1"), Disk(), now_ms=NOW_MS)
    assert (log_dir / STARTS).read_bytes() == build.offset_checkpoint([("t", 0, 20)])


def test_a_checkpoint_that_no_broker_reads_is_left_alone(log_dir: Path) -> None:
    (log_dir / STARTS).write_bytes(b"rubbish\n")
    assert STARTS not in [name for _, name in _shown(_draft(log_dir, "retention.bytes=1"), log_dir)]


def test_a_broker_without_time_indexes_makes_none(log_dir: Path) -> None:
    for path in [*log_dir.rglob("*.timeindex"), *log_dir.rglob("*.snapshot"), log_dir / STARTS]:
        path.unlink()
    options = {"kafka": {"kafka": "0.10.0", "assignments": ("retention.bytes=0",)}}
    draft = make_plan("retain", PlanRequest(target=target_dir([str(log_dir)]), options=options, now_ms=NOW_MS))
    made = [name for kind, name in _shown(draft, log_dir) if kind == "create"]
    assert made == [f"t-0/{END:020}.{suffix}" for suffix in ("log", "index")]


def test_a_log_that_cannot_be_read_to_its_end_leaves_producers_unknown(log_dir: Path) -> None:
    for snapshot in (log_dir / "t-0").glob("*.snapshot"):
        snapshot.unlink()
    middle = log_dir / "t-0" / f"{10:020}.log"
    middle.write_bytes(b"\x00" * 8 + b"\xff" * 40)
    draft = _draft(log_dir, "retention.bytes=0")
    assert "retain.producers-unknown" in [finding.code for finding in draft.plan.report.findings]


# --- what is refused --------------------------------------------------------------------------------------------------
def test_now_before_all_data(log_dir: Path) -> None:
    with pytest.raises(RefusedError, match="is before all of the data"):
        _draft(log_dir, now_ms=1000)
    assert _draft(log_dir, "retention.ms=-1", now_ms=1009).plan.changes == ()


def test_a_log_start_behind_the_high_watermark(log_dir: Path) -> None:
    with pytest.raises(RefusedError, match="the high watermark is 25"):
        _draft(log_dir, log_start_offset=26)


def test_files_and_several_partitions(log_dir: Path) -> None:
    request = PlanRequest(target=target_dir([str(next(log_dir.rglob("*.log")))]), options={}, now_ms=NOW_MS)
    with pytest.raises(SelectionError, match="whole partitions"):
        make_plan("retain", request)
    write_log(log_dir / "t-1", {0: [(0, 4)]})
    with pytest.raises(SelectionError, match="one partition"):
        _draft(log_dir, log_start_offset=1)


@pytest.mark.parametrize("name", ["nothing", ":f", "no_such_module:f", "os:no_such_function", "os:sep"])
def test_policies_that_are_none(log_dir: Path, name: str) -> None:
    with pytest.raises(SettingError, match="policy"):
        _draft(log_dir, policies=[name])


def test_an_uncertain_release_is_asked_for_where_releases_differ(log_dir: Path) -> None:
    """Nothing here rules out 0.11, which deletes nothing of a compacted log, nor the latest one."""
    for path in [*log_dir.rglob("*.timeindex"), *log_dir.rglob("*.snapshot"), log_dir / STARTS]:
        path.unlink()
    for policy, needs in (("compact", True), ("delete", False)):
        options = {"kafka": {"assignments": (f"cleanup.policy={policy}",)}, "log_start_offset": 10}
        draft = make_plan("retain", PlanRequest(target=target_dir([str(log_dir)]), options=options, now_ms=NOW_MS))
        assert draft.plan.report.needs_release == needs


@pytest.mark.parametrize(("days", "asks"), [(0.5, False), (3, True), (8, False)])
def test_an_uncertain_release_is_asked_for_where_it_decides_which_producers_are_kept(
    log_dir: Path, days: float, asks: bool
) -> None:
    """Releases before 3.4 forget a silent producer after 7 days, later ones after 1."""
    for path in (log_dir / "t-0").glob("*.snapshot"):
        path.unlink()
    known = build.Producer(producer_id=7, last_offset=9, timestamp_ms=NOW_MS)
    (log_dir / "t-0" / f"{20:020}.snapshot").write_bytes(build.snapshot([known]))
    kafka = {"assignments": ("retention.bytes=0",), "assume_defaults": True}
    site, now_ms = target_dir([str(log_dir)]), NOW_MS + int(days * 86_400_000)
    outcome = make_plan("retain", PlanRequest(target=site, options={"kafka": kafka}, now_ms=now_ms)).plan.report
    assert outcome.release is not None
    assert {Release(3, 3), Release(3, 4)} <= set(outcome.release.candidates)
    assert outcome.needs_release == asks
    assert ("producer.id.expiration.ms" in {each.name for each in outcome.settings}) == asks


# --- forecasts --------------------------------------------------------------------------------------------------------
def _retain(log_dir: Path, *assignments: str, now_ms: int = NOW_MS, **asked: Any) -> list[RetainForecast | Finding]:
    return list(_each(log_dir, assignments, now_ms, asked))


def _each(
    log_dir: Path, assignments: tuple[str, ...], now_ms: int, asked: dict[str, Any]
) -> Iterator[RetainForecast | Finding]:
    site = target_dir([str(log_dir)])
    wanted = RetentionOptions(kafka=SettingsRequest(kafka=str(RELEASE), assignments=assignments), now_ms=now_ms)
    return retain(RetainRequest(target=site, wanted=wanted, **asked), RetentionForecaster(site, wanted), NO_PROGRESS)


def test_scenarios_beat_all_other_settings(log_dir: Path) -> None:
    scenarios = tuple(
        Scenario.parse(text)
        for text in ("retention.bytes=1", "log.retention.hours=1", "cleanup.policy=compact,delete,retention.ms=-1")
    )
    (found,) = _retain(log_dir, "retention.ms=-1", scenarios=scenarios)
    assert isinstance(found, RetainForecast)
    assert [(outcome.scenario, outcome.kept_segments, outcome.kept_offsets) for outcome in found.outcomes] == [
        (None, 3, 25),
        ("retention.bytes=1", 1, 5),
        ("log.retention.hours=1", 1, 0),
        ("cleanup.policy=compact,delete,retention.ms=-1", 3, 25),
    ]


def test_a_scenario_that_no_broker_takes(log_dir: Path) -> None:
    with pytest.raises(SettingError, match=r"--what-if cleanup\.policy=squash: .*is not one of compact, delete"):
        _retain(log_dir, scenarios=(Scenario.parse("cleanup.policy=squash"),))


def test_checks_are_those_of_a_broker_that_is_started_now(log_dir: Path) -> None:
    (found,) = _retain(
        log_dir, "retention.ms=90000", "log.retention.check.interval.ms=1000", now_ms=61_000, until_ms=1_000_000
    )
    assert isinstance(found, RetainForecast)
    assert (found.schedule.first_ms, found.schedule.interval_ms, found.schedule.delay_ms) == (91_000, 1000, 60_000)
    renamed = [event for event in found.events if event.kind == "renamed"]
    assert [(event.time_ms, event.segment.base_offset) for event in renamed] == [
        (92_000, 0),
        (92_000, 10),
        (92_000, 20),
    ]


def test_compacted_logs_are_checked_by_the_cleaner(log_dir: Path) -> None:
    (found,) = _retain(log_dir, "cleanup.policy=compact,delete")
    assert isinstance(found, RetainForecast)
    assert (found.schedule.first_ms, found.schedule.interval_ms) == (NOW_MS, 15_000)


def test_settings_say_what_they_overrule(log_dir: Path, tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text("log.retention.hours=5\nlog.retention.minutes=7\n")
    site = target_dir([str(log_dir)])
    wanted = RetentionOptions(kafka=SettingsRequest(kafka="4.3", config=str(config)), now_ms=NOW_MS)
    (found,) = retain(RetainRequest(target=site, wanted=wanted), RetentionForecaster(site, wanted), NO_PROGRESS)
    assert isinstance(found, RetainForecast)
    assert found.forecast.question.rules.retention_ms == 420_000
    assert found.forecast.question.origins["retention.ms"] == (
        f"{config}: log.retention.minutes, overrides log.retention.hours=5 of {config}, assumed: no metadata log "
        "of its cluster is among what was named"
    )


def test_what_cannot_be_foreseen_is_said(log_dir: Path) -> None:
    (log_dir / "empty-0").mkdir()
    (log_dir / "__cluster_metadata-0").mkdir()
    swapped = write_log(log_dir / "swapped-0", {0: [(0, 4)]})
    (swapped / f"{0:020}.log").rename(swapped / f"{0:020}.log.swap")
    write_log(log_dir / "lost-0", {0: [(0, 4)]})
    (log_dir / STARTS).write_bytes(build.offset_checkpoint([("lost", 0, 9)]))
    shutil.copytree(log_dir / "t-0", log_dir / "t-0.0123456789abcdef0123456789abcdef-delete")
    said = {
        (finding.topic, finding.code): finding.message for finding in _retain(log_dir) if isinstance(finding, Finding)
    }
    assert said.keys() == {
        ("__cluster_metadata", "retain.metadata-log"),
        ("empty", "retain.not-foreseen"),
        ("swapped", "retain.not-foreseen"),
        ("lost", "retain.not-foreseen"),
    }
    assert "log start offset 9 is above its log end offset 5" in said["lost", "retain.not-foreseen"]


@given(data=st.data())
@settings(max_examples=60)
def test_bad_bytes_give_a_forecast_a_finding_or_an_error_of_ours(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = Path(mkdtemp(dir=tmp_path_factory.getbasetemp())) / "data"
    _write_log_dir(root)
    files = sorted(path for path in root.rglob("*") if path.is_file())
    for path in data.draw(st.lists(st.sampled_from(files), min_size=1, max_size=3, unique=True)):
        content = bytearray(path.read_bytes())
        if content and data.draw(st.booleans()):
            content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
            path.write_bytes(content)
        else:
            path.write_bytes(data.draw(st.binary(max_size=80)))
    with suppress(KafkalogError):
        _draft(root, f"retention.bytes={data.draw(st.integers(0, 300))}")
    with suppress(KafkalogError):
        _retain(root, until_ms=NOW_MS + 10**9)
