"""`kafkalog retain` as its users run it: options, forms of output, the first line, exit statuses."""

from __future__ import annotations

import csv
import io
import json
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from tests.support import build
from tests.support.truncating import EPOCHS, MARK, RECOVERY, STARTS, WATERMARKS, write_log

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

NOW = 1_700_000_000_000
HOUR = 3_600_000
DELETED = ("--set", "cleanup.policy=delete")
NAMES = [f"{base:020}.log" for base in (0, 10, 20)]


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Two partitions of three segments each, whose newest records are 3, 2 and 1 hours old."""
    root = tmp_path / "data"
    for name in ("t-0", "t-1"):
        directory = write_log(root / name, {0: [(0, 9)], 10: [(10, 19)]})
        for base, hours in ((0, 3), (10, 2)):
            (directory / f"{base:020}.timeindex").write_bytes(build.time_index([(NOW - hours * HOUR, 9)]))
        records = [build.Record(offset=offset, timestamp_ms=NOW - HOUR, value=b"v") for offset in range(20, 25)]
        (directory / f"{20:020}.log").write_bytes(build.batch_v2(records))
        (directory / f"{20:020}.index").write_bytes(b"")
        (directory / f"{20:020}.timeindex").write_bytes(build.time_index([(NOW - HOUR, 4)]))
    for name in (RECOVERY, WATERMARKS):
        (root / name).write_bytes(build.offset_checkpoint([("t", number, 25) for number in (0, 1)]))
    (root / MARK).write_bytes(b"")
    return root


def run(*arguments: object, columns: int = 120, now: int | None = NOW) -> Result:
    times = () if now is None else ("--now", now)
    settings = ("--kafka", "4.3.1", *times)
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(
        cli, ["retain", "--ndjson", *map(str, (*settings, *arguments))]
    )


def rows_of(result: Result) -> list[dict[str, object]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def flat(text: str) -> str:
    return " ".join(text.split())


def deleted(result: Result) -> list[object]:
    return [
        row["segment"] for row in rows_of(result) if row["type"] == "retained_segment" and row["verdict"] == "delete"
    ]


def test_what_is_known_is_shown_and_summed_up_before_an_error(log_dir: Path, tmp_path: Path) -> None:
    """All of the second log directory is later than now, so that it is refused."""
    later = tmp_path / "later" / "t-0"
    later.mkdir(parents=True)
    record = build.Record(offset=0, timestamp_ms=NOW + HOUR, value=b"v")
    (later / f"{0:020}.log").write_bytes(build.batch_v2([record]))
    result = run(log_dir / "t-0", later)
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 3
    assert [row["type"] for row in rows] == ["retention", *["retained_segment"] * 3, "summary"]
    assert (rows[-1]["rows"], rows[-1]["partitions"], rows[-1]["exit_status"]) == (4, 1, 3)


# --- settings ---------------------------------------------------------------------------------------------------------
def test_milliseconds_count_before_minutes_and_those_before_hours(log_dir: Path) -> None:
    one = log_dir / "t-0"
    assert deleted(run("--retention-hours", 2, one)) == NAMES[:1]
    assert deleted(run("--retention-hours", 2, "--retention-minutes", 100, one)) == NAMES[:2]
    both = ("--retention-hours", 2, "--retention-minutes", 100)
    assert deleted(run(*both, "--retention-ms", 50 * HOUR, one)) == []
    assert deleted(run("--retention-hours", -1, "--retention-bytes", 100, one)) == NAMES[:2]


@pytest.mark.parametrize(
    ("policy", "gone", "passes"), [("both", 1, 3), ("delete", 1, 3), ("compact", 0, 1), ("none", 0, 1)]
)
def test_the_cleanup_policy_says_which_rules_run(log_dir: Path, policy: str, gone: int, passes: int) -> None:
    result = run("--cleanup-policy", policy, "--retention-hours", 2, log_dir / "t-0")
    assert len(deleted(result)) == gone
    assert len(str(rows_of(result)[0]["passes"]).split(",")) == passes


def test_what_a_cleaner_has_been_at_is_compacted_where_nobody_says_otherwise(log_dir: Path) -> None:
    (log_dir / "cleaner-offset-checkpoint").write_bytes(build.offset_checkpoint([("t", 1, 5)]))
    one = ("--retention-ms", 1, log_dir / "t-0")
    assert deleted(run(*one)) == []
    assert deleted(run("--set", "cleanup.policy=delete", *one)) == []
    assert deleted(run("--set", "cleanup.policy=delete", "--topic", "t", *one)) == NAMES
    scenario = ("--what-if", "retention.ms=2")
    kept = [row["kept_segments"] for row in rows_of(run(*scenario, *one)) if row["type"] == "retention_what_if"]
    assert kept
    assert set(kept) == {len(NAMES)}


def test_where_a_value_comes_from(log_dir: Path) -> None:
    settings = rows_of(run("--retention-hours", 2, log_dir / "t-0"))[0]["settings"]
    assert settings["retention.ms"] == {"value": str(2 * HOUR), "origin": "--set"}  # type: ignore[index]
    assert settings["retention.bytes"] == {  # type: ignore[index]
        "value": "-1",
        "origin": "default of 4.3.1, assumed: no metadata log of its cluster is among what was named",
    }


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("--retention-bytes", "-5"), 2, "out of range"),
        (("--retention-ms", "soon"), 2, "not a whole number"),
        (("--retention-hours", "-2"), 2, "not in the range"),
        (("--check-interval-ms", "0"), 2, "not in the range"),
        (("--retention-ms", "5", "--set", "retention.ms=6"), 2, "contradict each other"),
        (("--cleanup-policy", "both", "--set", "cleanup.policy=delete"), 2, "contradict each other"),
        (("--what-if", "retention.ms"), 2, "is not key=value"),
        (("--what-if", "retentoin.ms=5"), 2, "is retention.ms"),
        (("--what-if", "retention.ms=5", "--apply"), 2, "only forecast"),
        (("--what-if", "retention.ms=-7"), 2, "retention.ms=-7 is out of range"),
        (("--what-if", "retention.ms=1,retention.ms=2"), 2, "given twice"),
        (("--until", "2001-01-01"), 2, "is before now"),
        (("--set", "cleanup.policy=squash"), 3, "is not one of compact, delete"),
        (("--what-if", "cleanup.policy=squash"), 3, "--what-if cleanup.policy=squash"),
        (("--log-start-offset", "7"), 3, "name one partition directory"),
        (("--policy", "nowhere"), 3, "MODULE:FUNCTION"),
        (("--topic", "nothing"), 3, "nothing"),
    ],
)
def test_nonsense_is_refused_with_a_sentence(
    log_dir: Path, arguments: tuple[str, ...], status: int, words: str
) -> None:
    result = run(*arguments, log_dir)
    assert (result.exit_code, words in result.stderr) == (status, True), result.output


def test_a_time_before_the_data_is_refused(log_dir: Path) -> None:
    result = run("--now", "2001-01-01", log_dir, now=None)
    assert result.exit_code == 3
    assert "is before all of the data" in result.stderr


# --- forms ------------------------------------------------------------------------------------------------------------
def test_rows_come_in_their_order(log_dir: Path) -> None:
    rows = rows_of(run("--retention-hours", 2, "--what-if", "retention.ms=1", "--until", NOW + HOUR, log_dir / "t-0"))
    assert list(dict.fromkeys(row["type"] for row in rows)) == [
        "retention",
        "retained_segment",
        "retention_what_if",
        "retention_event",
        "summary",
    ]
    assert rows[0]["message"] == (
        f"1 segment with {(log_dir / 't-0' / NAMES[0]).stat().st_size} B would be deleted by time; the log start "
        "offset would rise from 0 to 10; the next one becomes due at 2023-11-14T22:13:20.001Z (in 1 ms)"
    )
    totals = [row for row in rows if row["type"] == "retention_what_if" and row["topic"] is None]
    assert [(row["scenario"], row["kept_offsets"]) for row in totals] == [(None, 15), ("retention.ms=1", 0)]
    events = [(row["event"], row["segment"]) for row in rows if row["type"] == "retention_event"]
    assert events == [("renamed", name) for name in NAMES[:2]] + [("removed", name) for name in NAMES[:2]]


def test_columns_of_csv(log_dir: Path) -> None:
    result = run("--output", "csv", log_dir)
    rows = list(csv.DictReader(io.StringIO(result.stdout, newline="")))
    assert [row["type"] for row in rows] == ["retention", *["retained_segment"] * 3] * 2


def test_the_first_line_says_what_and_when(log_dir: Path) -> None:
    out = flat(run(*DELETED, "--retention-hours", 2, "--output", "table", log_dir).stdout)
    assert out.startswith(
        "WOULD DELETE NOW: 2 of 6 segments, 302 B of 826 B, in 2 of 2 partitions. After that the next to be deleted is "
        "t-0/00000000000000000010.log, 161 B, in 1 ms, at 2023-11-14T22:13:20.001Z. partition what how much when why "
        "t-0 delete 1 of 3 segments 151 B now 3 h old, over retention.ms 2 h"
    )
    assert "now is 2023-11-14T22:13:20.000Z; the broker checks 30 s after a start" in out
    nothing = flat(run("--retention-hours", -1, "--output", "table", log_dir).stdout)
    assert nothing.startswith(
        "WOULD DELETE NOTHING NOW: no segment has a time to be deleted. 2 partitions in which nothing is to be "
        "deleted: retention.bytes is unlimited, retention.ms is unlimited"
    )


def test_what_waits_for_an_older_segment_is_said_first(log_dir: Path) -> None:
    """The record that keeps the older one is named by its offset and its time."""
    ahead = NOW + 48 * HOUR
    segments = {0: [(0, 4)], 5: [(5, 9)], 10: [(10, 14)]}
    blocked = write_log(log_dir / "late-0", segments)
    records = [build.Record(offset=at, timestamp_ms=ahead if at == 3 else NOW - HOUR, value=b"v") for at in range(5)]
    (blocked / f"{0:020}.log").write_bytes(build.batch_v2(records))
    for base, time_ms in ((0, ahead), (5, NOW - 9 * HOUR)):
        (blocked / f"{base:020}.timeindex").write_bytes(build.time_index([(time_ms, 4)]))
    out = flat(run(*DELETED, "--retention-hours", 2, "--output", "table", log_dir).stdout)
    size = (blocked / f"{5:020}.log").stat().st_size
    assert f"; 1 segment, {size} B, is due but waits for an older one, in late-0." in out
    assert "late-0 keep for now 3 segments" in out
    assert (
        f"1 segment, {size} B, is due but waits for {0:020}.log, whose record 3 has the time 2023-11-16T22:13:20.000Z: "
        "dated 2 d ahead of now, retention.ms 2 h"
    ) in out


def test_a_person_sees_the_picture_the_segments_and_why(log_dir: Path) -> None:
    out = run("--retention-hours", 2, "--output", "table", log_dir / "t-0").stdout
    assert "░ deleted   █ kept   ▓ active segment" in out
    assert "3 h old, over retention.ms 2 h" in out
    assert "2 h old, within retention.ms 2 h" in out
    assert "exit status 0" in out
    for part in ("retention.ms = 7200000, 2 h (--set)", "rules in their order: start-offset, size, time"):
        assert part not in flat(out)
        assert part in flat(run("--retention-hours", 2, "--output", "table", "--explain", log_dir / "t-0").stdout)


def test_many_partitions_are_a_line_each(log_dir: Path) -> None:
    for number in range(2, 8):
        write_log(log_dir / f"t-{number}", {0: [(0, 4)]})
    out = run("--output", "table", log_dir).stdout
    assert "t-7" in out
    assert "░" not in out


def test_many_segments_are_shown_around_the_border(log_dir: Path) -> None:
    many = write_log(log_dir / "many-0", {base: [(base, base + 4)] for base in range(0, 500, 5)})
    for base in range(0, 495, 5):
        hours = 200 - base // 5
        (many / f"{base:020}.timeindex").write_bytes(build.time_index([(NOW - hours * HOUR, 4)]))
    out = run("--retention-hours", 150, "--output", "table", many).stdout
    assert "and 70 segments further from the first kept one" in out
    assert f"{250:020}.log" in out
    assert f"{495:020}.log" in out


def test_a_matrix_of_settings(log_dir: Path) -> None:
    scenarios = ("--what-if", "retention.ms=1", "--what-if", "retention.bytes=1")
    out = run(*scenarios, "--output", "table", log_dir).stdout
    head = next(line for line in out.splitlines() if line.startswith("what would be kept"))
    assert head.split("  ")[0] == "what would be kept"
    assert all(title in head for title in ("current settings", "retention.ms=1", "retention.bytes=1"))
    lines = out.splitlines()
    cells = lines[lines.index(head) :]
    assert [line.split()[0] for line in cells if line.startswith(("t-0 ", "t-1 ", "all "))] == [
        "t-0",
        "t-1",
        "all",
    ]


def test_played_forward(log_dir: Path) -> None:
    out = run("--retention-hours", 2, "--until", NOW + 90 * 60_000, "--output", "table", log_dir / "t-0").stdout
    assert "would be deleted, the first at 2023-11-14T22:13:50.000Z" in " ".join(out.split())
    assert "new-segment" in out
    assert "removed" in out
    quiet = run("--until", NOW + 1, "--output", "table", log_dir / "t-0").stdout
    assert "nothing would be deleted, if nothing is appended" in quiet


def test_letters_where_there_are_no_blocks(log_dir: Path) -> None:
    runner = CliRunner(env={"COLUMNS": "120"}, charset="ascii")
    result = runner.invoke(cli, ["retain", "--output", "table", "--now", str(NOW), str(log_dir / "t-0")])
    assert "#" in result.stdout
    assert result.stdout.isascii()


def test_the_future_is_called_out(log_dir: Path) -> None:
    (log_dir / "t-0" / f"{0:020}.timeindex").write_bytes(build.time_index([(NOW + 50 * 24 * HOUR, 9)]))
    out = run("--output", "table", log_dir / "t-0").stdout
    assert "retain.future-timestamp" in out
    assert "continues to 2024-01-03" in out


def test_a_policy_of_ones_own(log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_policies.py").write_text(
        "def first_only(segments, now_ms):\n    return [segment.base_offset == 0 for segment in segments]\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    result = run("--policy", "my_policies:first_only", "--retention-ms", -1, log_dir / "t-0")
    assert deleted(result) == NAMES[:1]
    rows = rows_of(result)
    assert (rows[1]["rule"], rows[1]["reason"]) == ("my_policies:first_only", "my_policies:first_only says so")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def f(segments, now_ms):\n    return {}['x']\n", "failed: KeyError: 'x'"),
        ("def f(segments, now_ms):\n    yield True\n    raise ValueError('later')\n", "failed: ValueError: later"),
        ("def f(segments, now_ms):\n    raise SystemExit(5)\n", "failed: SystemExit: 5"),
        ("def f(segments, now_ms):\n    return None\n", "failed: TypeError"),
        ("def f(segments, now_ms):\n    return f(segments, now_ms)\n", "failed: RecursionError"),
        ("def f(segments, now_ms):\n    return [True]\n", "asked about 3 segments and gave only 1 answers"),
        ("def f(segments, now_ms):\n    while True:\n        yield False\n", "gave more answers"),
        ("def f(segments, now_ms):\n    return ['no'] * 3\n", "gave 'no' for the segment at 0, which is neither"),
        ("def f(:\n", "cannot be imported: SyntaxError"),
        ("1 / 0\n", "cannot be imported: ZeroDivisionError"),
        ("import nosuchmodule\n", "cannot be imported: No module named 'nosuchmodule'"),
        ("raise SystemExit(7)\n", "cannot be imported: SystemExit: 7"),
        ("f = 5\n", "is not a function"),
    ],
)
@pytest.mark.parametrize("apply", [(), ("--apply", "--kafka", "4.3.1")])
def test_a_policy_that_does_wrong_changes_nothing(
    log_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    words: str,
    apply: tuple[str, ...],
) -> None:
    (tmp_path / "wrong_policy.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    monkeypatch.delitem(sys.modules, "wrong_policy", raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = {path.name: path.read_bytes() for path in (log_dir / "t-0").iterdir()}
    result = run("--policy", "wrong_policy:f", *apply, log_dir / "t-0")
    assert result.exit_code == 3, result.output
    assert "the policy 'wrong_policy:f'" in result.stderr
    assert words in result.stderr
    assert {path.name: path.read_bytes() for path in (log_dir / "t-0").iterdir() if path.is_file()} == before


def test_what_a_policy_prints_is_no_part_of_the_result(
    log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loud_policy.py").write_text(
        "def f(segments, now_ms):\n    print('aloud')\n    return [False] * len(segments)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    result = run("--policy", "loud_policy:f", log_dir / "t-0")
    assert result.exit_code == 0
    assert "aloud" in result.stderr
    assert "aloud" not in result.stdout


def test_headings_name_directories_and_are_escaped_once(log_dir: Path) -> None:
    moving = f"t-0.{'0123456789abcdef' * 2}-future"
    (log_dir / "t-0").rename(log_dir / moving)
    (log_dir / "t-1").rename(log_dir / "a\x1b[31mb\n-0")
    lines = run("--output", "table", log_dir, columns=200).stdout.splitlines()
    heads = [line.partition(" ")[0] for line in lines if " keep for now 3 segments " in line]
    assert sorted(heads) == ["a\\x1b[31mb\\n-0", moving]
    full = run("--output", "table", "--details", log_dir, columns=200).stdout.splitlines()
    assert sorted(line.partition(": ")[0] for line in full if ": log start " in line) == sorted(heads)


def test_findings_do_not_stop_the_others(log_dir: Path) -> None:
    (log_dir / "empty-0").mkdir()
    result = run(log_dir)
    codes = [row["code"] for row in rows_of(result) if row["type"] == "finding"]
    assert codes == ["retain.not-foreseen"]
    assert run("--output", "table", log_dir / "empty-0").stdout.startswith(
        "NOTHING TO FORECAST: there is no log here whose retention can be predicted."
    )


# --- apply ------------------------------------------------------------------------------------------------------------
def test_what_is_applied_is_taken_back(log_dir: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in log_dir.rglob("*") if path.is_file()}
    plan = tmp_path / "plan.json"
    planned = run(*DELETED, "--retention-hours", 2, "--plan-out", plan, log_dir)
    assert planned.exit_code == 0, planned.output
    assert {path: path.read_bytes() for path in log_dir.rglob("*") if path.is_file()} == before
    assert CliRunner().invoke(cli, ["apply", str(plan)]).exit_code == 0
    assert sorted(path.name for path in (log_dir / "t-1").glob("*.log")) == NAMES[1:]
    assert (log_dir / STARTS).read_bytes() == build.offset_checkpoint([("t", 0, 10), ("t", 1, 10)])
    assert (log_dir / "t-0" / EPOCHS).read_bytes() == build.epoch_checkpoint([(0, 10)])
    assert CliRunner().invoke(cli, ["undo", str(log_dir), "--apply"]).exit_code == 0
    assert CliRunner().invoke(cli, ["undo", str(log_dir), "--prune", "--apply"]).exit_code == 0
    assert {path: path.read_bytes() for path in before} == before


def test_applied_at_once(log_dir: Path) -> None:
    assert run(*DELETED, "--retention-hours", 2, "--apply", log_dir).exit_code == 0
    assert sorted(path.name for path in (log_dir / "t-0").glob("*.log")) == NAMES[1:]
    again = run(*DELETED, "--retention-hours", 2, "--apply", log_dir)
    assert (again.exit_code, json.loads(again.stdout.splitlines()[0])["state"]) == (0, "nothing")


def test_an_active_segment_without_a_whole_batch_stays(log_dir: Path) -> None:
    """The new segment that all others make way for would have its name."""
    torn = log_dir / "t-0" / NAMES[2]
    torn.write_bytes(torn.read_bytes()[:15])
    (log_dir / MARK).unlink()
    command = (*DELETED, "--set", "retention.bytes=0", "--retention-hours", 0, "--assume-defaults", log_dir / "t-0")
    assert deleted(run(*command)) == NAMES[:2]
    done = rows_of(run(*command, "--apply"))[0]
    assert done["state"] == "applied"
    assert sorted(path.name for path in (log_dir / "t-0").glob("*.log")) == NAMES[2:]


# --- the plan ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("way", ["--undo-to", "--no-undo"])
def test_where_a_journal_is_asked_for_the_plan_of_apply_is_shown(log_dir: Path, tmp_path: Path, way: str) -> None:
    where = (way, tmp_path / "elsewhere") if way == "--undo-to" else (way,)
    command = (*DELETED, "--retention-hours", 2, "--assume-defaults", *where, log_dir)
    shown = " ".join(run(*command, "--output", "table").stdout.split())
    planned = rows_of(run(*command))[0]
    assert (planned["type"], planned["state"]) == ("plan", "planned")
    if way == "--undo-to":
        assert f"kafkalog undo can undo it with its journal in {tmp_path / 'elsewhere'}." in shown
        assert "free space at" in shown
    else:
        assert "Nothing has been changed yet. With --no-undo it cannot be undone. To apply it: kafkalog" in shown
    assert not (tmp_path / "elsewhere").exists()
    done = rows_of(run(*command, "--apply"))[0]
    assert done["state"] == "applied"
    same = ("changes", "needed_bytes", "undo_to", "keeps_undo", "root", "assumptions")
    assert {name: planned[name] for name in same} == {name: done[name] for name in same}


@pytest.mark.parametrize("option", [("--undo-to", "elsewhere"), ("--no-undo",), ("--plan-out", "plan.json")])
def test_a_plan_is_no_forecast(log_dir: Path, option: tuple[str, ...]) -> None:
    refused = run("--until", "2026-01-01T00:00:00Z", *option, log_dir)
    assert refused.exit_code == 2
    assert "leave them out" in refused.output


def test_zeros_at_the_end_of_a_time_index_are_called_out(log_dir: Path) -> None:
    """A broker deletes the segments that look like those of 1970; after a crash it builds the last index."""
    one = log_dir / "t-0"
    for base in (0, 20):
        index = one / f"{base:020}.timeindex"
        index.write_bytes(index.read_bytes() + bytes(12 * 100))
    rows = rows_of(run(*DELETED, one))
    assert [row["verdict"] for row in rows if row["type"] == "retained_segment"] == ["delete", "keep", "keep"]
    finding = next(row for row in rows if row["type"] == "finding" and row["code"] != "retain.held-back")
    assert (finding["code"], finding["severity"]) == ("retain.zero-time", "warning")
    assert "of 2 segments is zeros" in str(finding["message"])
    assert str(finding["next_command"]).startswith("kafkalog recover ")
    times = [row["largest_timestamp_ms"] for row in rows if row["type"] == "retained_segment"]
    assert times == [0, NOW - 2 * HOUR, 0]
    (log_dir / MARK).unlink()
    again = [row["largest_timestamp_ms"] for row in rows_of(run(*DELETED, one)) if row["type"] == "retained_segment"]
    assert again == [0, NOW - 2 * HOUR, NOW - HOUR]
