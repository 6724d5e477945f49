"""`kafkalog compact` as its users run it: options, forms of output, exit statuses; most simulations are stand-ins."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kafkalog_cli.commands import compact as compact_module
from kafkalog_cli.main import cli
from kafkalog_core.errors import SettingError
from kafkalog_core.format import skimpy_offset_map
from kafkalog_core.ops.compact import simulation
from kafkalog_core.output import tables
from tests.cli import compact_rows
from tests.support.brokers import Appended, write_segment
from tests.support.build import Record, batch_v2

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from click.testing import Result

    from kafkalog_core.engine.report import Report
    from kafkalog_core.ops.compact.forecast import CompactForecast, CompactRequest
    from kafkalog_core.progress import Progress


class Simulating:
    """Yields forecasts that were given by hand, and keeps the request that was made of the command line."""

    def __init__(self) -> None:
        self.forecasts: list[CompactForecast] = []
        self.request: CompactRequest | None = None
        self.error: Exception | None = None

    def compact(self, request: CompactRequest, report: Report, progress: Progress) -> Iterator[CompactForecast]:
        """In place of the one that reads files."""
        del progress
        self.request = request
        for forecast in self.forecasts:
            report.rows += 1
            yield forecast
        if self.error is not None:
            raise self.error


@pytest.fixture
def simulating(monkeypatch: pytest.MonkeyPatch) -> Simulating:
    stand_in = Simulating()
    monkeypatch.setattr(compact_module, "compact", stand_in.compact)
    return stand_in


@pytest.fixture
def customers(tmp_path: Path) -> Path:
    """A partition of three segments of ten records each, of five keys."""
    directory = tmp_path / "customers-0"
    for base in (0, 10, 20):
        records = [
            Record(offset=base + n, timestamp_ms=1_700_000_000_000 + base + n, key=b"%d" % (n % 5)) for n in range(10)
        ]
        write_segment(directory, base, [Appended(batch_v2(records), base + 9, 1_700_000_000_000 + base + 9)])
    return directory


def run(*arguments: object, columns: int = 120) -> Result:
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(cli, ["compact", "--ndjson", *map(str, arguments)])


def test_rows_have_the_columns_of_their_tables(simulating: Simulating, customers: Path) -> None:
    simulating.forecasts = [compact_rows.CLEANABLE, compact_rows.NOT_COMPACTED]
    result = run(customers)
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 0
    kinds = [row["type"] for row in rows]
    assert kinds == [
        "compaction",
        "cleaning_pass",
        *["cleaned_segment"] * 3,
        *["big_key"] * 2,
        "compaction",
        "summary",
    ]
    for row in rows[:-1]:
        names = [name.removesuffix("_b64") for name in row]
        assert tuple(names) == tables.TABLES[row["type"]].names
    assert rows[0]["dirty_ratio"] == 0.75
    assert rows[0]["dropped_records"] == {"superseded": 580, "null-key": 20}


def test_other_forms(simulating: Simulating, customers: Path) -> None:
    simulating.forecasts = [compact_rows.CLEANABLE]
    rows = list(csv.DictReader(io.StringIO(run("--output", "csv", customers).stdout, newline="")))
    assert [row["type"] for row in rows][:2] == ["compaction", "cleaning_pass"]
    assert rows[0]["dirty_ratio"] == "0.75"
    assert len(json.loads(run("--output", "json", customers).stdout)) == 8
    assert run("--output", "table", customers).stdout.startswith("WOULD CLEAN customers-0 now")


def test_what_is_asked_for(simulating: Simulating, customers: Path) -> None:
    options = ["--memory", "1MiB", "--max-passes", 3, "--biggest", 0, "--force", "--jobs", 2, "--kafka", "4.3.1"]
    run(*options, "--delete-retention-ms", 0, "--now", "2024-01-01", customers)
    asked = simulating.request
    assert asked is not None
    assert (asked.memory_bytes, asked.max_passes, asked.biggest, asked.force, asked.jobs) == (1024**2, 3, 0, True, 2)
    assert (asked.kafka.kafka, asked.kafka.assignments) == ("4.3.1", ("delete.retention.ms=0",))
    assert asked.now_ms == 1_704_067_200_000
    assert [target.path for target in asked.targets] == [str(customers)]


def test_what_is_known_is_shown_before_an_error(simulating: Simulating, customers: Path) -> None:
    simulating.forecasts = [compact_rows.CLEANABLE]
    simulating.error = SettingError("cleanup.policy=x: Kafka knows compact and delete")
    result = run(customers)
    assert result.exit_code == 3
    assert json.loads(result.stdout.splitlines()[-1])["exit_status"] == 3
    assert "Kafka knows compact and delete" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (("--memory", "40"), 2, "too small for an offset map; give at least 64 bytes"),
        (("--memory", "-1"), 2, "is not a size"),
        (("--memory", "2GiB"), 2, "an offset map of Kafka has at most 2147483647 bytes"),
        (("--max-passes", "0"), 2, "x>=1"),
        (("--biggest", "-1"), 2, "0<=x<=250"),
        (("--to", "elsewhere"), 2, "--to is the directory that --apply writes"),
        (("--undo-to", "elsewhere"), 2, "--plan-out, --undo-to and --no-undo are for a clean in place"),
        (("--min-compaction-lag-ms", "-5"), 2, "the minimum is 0"),
        (("--delete-retention-ms", "-1"), 2, "the minimum is 0"),
        (("--min-cleanable-dirty-ratio", "2"), 2, "not a number from 0 to 1"),
        (("--set", "cleanup.policy=compact", "--set", "delete.retention.ms=x"), 3, "a whole number of 64 bits"),
        (
            (
                "--topic-config",
                "customers:cleanup.policy=compact",
                "--min-compaction-lag-ms",
                "9",
                "--max-compaction-lag-ms",
                "5",
            ),
            3,
            "contradict each other",
        ),
        (("--set", "cleanup.policy=compact", "--set", "segment.bytes=-4"), 3, "requires at least"),
        (("--set", "cleanup.policy=compact", "--set", "log.cleaner.io.buffer.size=-1"), 3, "requires at least 0"),
        (("--set", "cleanup.policy=compact", "--now", "1999-01-01"), 3, "is before all of the data"),
        (("--now", "12345"), 2, "is ambiguous"),
    ],
)
def test_nonsense_is_said_in_a_sentence(
    customers: Path, arguments: tuple[str, ...], status: int, sentence: str
) -> None:
    result = run("--kafka", "4.3.1", *arguments, customers)
    assert result.exit_code == status
    assert sentence in " ".join(result.stderr.split())
    assert result.stdout == ""


def test_memory_that_cannot_be_had(customers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        del arguments
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(skimpy_offset_map, "fresh_memory", refuse)
    result = run("--kafka", "4.3.1", "--set", "cleanup.policy=compact", customers)
    assert result.exit_code == 3
    assert "the system cannot allocate 134217728 bytes for an offset map" in result.stderr


def test_a_file_by_itself_is_refused(customers: Path) -> None:
    result = run(customers / "00000000000000000000.log")
    assert result.exit_code == 3
    assert "compaction works on whole partitions" in result.stderr


def test_a_partition_as_it_lies_there(customers: Path) -> None:
    result = run("--kafka", "4.3.1", "--set", "cleanup.policy=compact", customers)
    rows: list[dict[str, Any]] = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 0, result.stderr
    whole = rows[0]
    assert (whole["state"], whole["would_run"], whole["passes"]) == ("cleanable", True, 1)
    assert (whole["records_before"], whole["records_after"], whole["keys"]) == (20, 5, 5)
    assert (whole["first_dirty_offset"], whole["first_uncleanable_offset"], whole["held_back_by"]) == (
        0,
        20,
        "active-segment",
    )
    assert whole["dropped_records"] == {"superseded": 15}
    assert whole["checkpoint_offset"] == 20
    assert [row["state"] for row in rows if row["type"] == "cleaned_segment"] == ["dirty", "dirty", "active"]
    assert sum(row["records"] for row in rows if row["type"] == "big_key") == 20


def test_a_map_that_is_full(customers: Path) -> None:
    settings = ("--kafka", "4.3.1", "--set", "cleanup.policy=compact", "--force", "--memory", 100)
    result = run(*settings, customers)
    rows: list[dict[str, Any]] = [json.loads(line) for line in result.stdout.splitlines()]
    passes = [row for row in rows if row["type"] == "cleaning_pass"]
    assert result.exit_code == 0, result.stderr
    assert rows[0]["passes"] == len(passes) > 1
    assert [one["is_map_full"] for one in passes] == [True] * (len(passes) - 1) + [False]
    assert (rows[0]["records_before"], rows[0]["records_after"]) == (20, 5)
    only = run(*settings, "--max-passes", 1, customers)
    assert json.loads(only.stdout.splitlines()[0])["passes"] == 1


def test_no_room_for_the_cleans_that_follow(customers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "free_bytes", lambda path: 10)
    result = run("--kafka", "4.3.1", "--set", "cleanup.policy=compact", "--force", "--memory", 100, customers)
    rows: list[dict[str, Any]] = [json.loads(line) for line in result.stdout.splitlines()]
    assert (rows[0]["passes"], rows[0]["state"]) == (1, "cleanable")
    findings = [row for row in rows if row["type"] == "finding"]
    assert [row["code"] for row in findings] == ["compaction.no-room", "compaction.no-watermark"]
    assert "only 10 B are free" in findings[0]["message"]


def test_one_that_is_not_compacted(customers: Path) -> None:
    row = json.loads(run("--kafka", "4.3.1", customers).stdout.splitlines()[0])
    assert row["state"] == "not-compacted"
    assert row["reason"].startswith("cleanup.policy is delete (default of 4.3.1, assumed: no metadata log ")
    assert row["reason"].endswith("if the topic is compacted, state it: --topic-config TOPIC:cleanup.policy=compact)")
    off = run("--kafka", "4.3.1", "--set", "cleanup.policy=compact", "--set", "log.cleaner.enable=false", customers)
    assert json.loads(off.stdout.splitlines()[0])["state"] == "cleaner-off"


def test_damage_in_the_dirty_part(customers: Path) -> None:
    log = customers / "00000000000000000010.log"
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    result = run("--kafka", "4.3.1", "--set", "cleanup.policy=compact", customers)
    rows: list[dict[str, Any]] = [json.loads(line) for line in result.stdout.splitlines()]
    assert rows[0]["state"] == "fails"
    assert rows[0]["reason"].endswith("(byte 0 of 00000000000000000010.log)")
    assert rows[0]["reason"].startswith("a broker's cleaner would not detect this damage")
    assert [row["code"] for row in rows if row["type"] == "finding"] == ["compaction.over-damage"]
    assert result.exit_code == 0


def test_a_batch_that_was_not_to_be_read_is_not_said_to_stop_a_cleaner(customers: Path) -> None:
    result = run("--kafka", "4.3.1", "--set", "cleanup.policy=compact", "--max-batch-bytes", "70", customers)
    rows: list[dict[str, Any]] = [json.loads(line) for line in result.stdout.splitlines()]
    (finding,) = (row for row in rows if row["type"] == "finding")
    assert finding["code"] == "compaction.not-foreseen"
    assert "over the limit of 70 (--max-batch-bytes)" in finding["message"]


@pytest.mark.parametrize(("release", "codes"), [("2.1.1", ["compaction.never-ends"]), ("2.8.2", [])])
def test_a_gap_that_old_cleaners_never_pass(customers: Path, release: str, codes: list[str]) -> None:
    for path in customers.glob("00000000000000000010.*"):
        path.unlink()
    result = run("--kafka", release, "--set", "cleanup.policy=compact", customers)
    rows: list[dict[str, Any]] = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["code"] for row in rows if row["type"] == "finding"] == codes
    assert rows[0]["checkpoint_offset"] == (10 if codes else 20)


def test_a_clean_in_place_can_be_taken_back(customers: Path) -> None:
    old = {path.name: path.read_bytes() for path in customers.iterdir()}
    settings = ("--kafka", "4.3.1", "--set", "cleanup.policy=compact", "--assume-defaults")
    result = run(*settings, "--apply", customers)
    rows: list[dict[str, Any]] = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 0, result.stderr
    assert rows[0]["state"] == "applied"
    assert not (customers / "00000000000000000010.log").exists()
    assert (customers / "00000000000000000000.log").stat().st_size < len(old["00000000000000000000.log"])
    again = json.loads(run(*settings, customers).stdout.splitlines()[0])
    assert (again["records_before"], again["records_after"]) == (5, 5)
    undone = CliRunner().invoke(cli, ["undo", str(customers), "--apply"])
    assert undone.exit_code == 0, undone.stderr
    assert {path.name: path.read_bytes() for path in customers.iterdir() if path.is_file()} == old


def test_a_plan_changes_nothing(customers: Path, tmp_path: Path) -> None:
    old = {path.name: path.read_bytes() for path in customers.iterdir()}
    plan = tmp_path / "plan.json"
    result = run(
        "--kafka", "4.3.1", "--set", "cleanup.policy=compact", "--assume-defaults", "--plan-out", plan, customers
    )
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout.splitlines()[0])["state"] == "planned"
    assert plan.exists()
    assert {path.name: path.read_bytes() for path in customers.iterdir()} == old


def test_a_copy_of_the_cleaned_log(customers: Path, tmp_path: Path) -> None:
    old = {path.name: path.read_bytes() for path in customers.iterdir()}
    settings = ("--kafka", "4.3.1", "--set", "cleanup.policy=compact", "--assume-defaults")
    forecast = run(*settings, "--now", "2030-01-01", customers)
    result = run(*settings, "--now", "2030-01-01", "--apply", "--to", tmp_path / "new", customers)
    assert result.exit_code == 0, result.stderr
    assert result.stdout == forecast.stdout
    written = f"kafkalog: written: {tmp_path / 'new'}; logs that were not cleaned are copied unchanged\n"
    assert result.stderr.endswith(written)
    assert {path.name: path.read_bytes() for path in customers.iterdir()} == old
    new = json.loads(run(*settings, tmp_path / "new" / customers.name).stdout.splitlines()[0])
    assert (new["records_before"], new["records_after"], new["dropped_records"]) == (5, 5, {})
    assert run(*settings, "--apply", "--to", tmp_path / "new", customers).exit_code == 3
