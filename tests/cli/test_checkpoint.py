"""`kafkalog checkpoint` as its users run it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from tests.support.checkpoint_dirs import write_log_dir

RECOVERY = "recovery-point-offset-checkpoint"
BAD = b"0\n3\norders 0 12\npayments 0\norders 1 7\n"


@pytest.fixture
def log_dir(tmp_path):
    path = write_log_dir(tmp_path / "disk")
    (path / RECOVERY).write_bytes(BAD)
    return path


def run(*arguments, columns=120):
    environment = {"COLUMNS": str(columns)}
    return CliRunner(env=environment).invoke(cli, ["checkpoint", *map(str, arguments)])


def rows(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_show_names_the_line_and_what_a_broker_does(log_dir):
    result = run(log_dir, "--output", "table", "--details")
    assert result.exit_code == 4
    assert f"mended   {RECOVERY}" in result.stdout
    assert "payments 0 50" in result.stdout
    assert "a broker: Takes it for empty" in result.stdout
    assert "This plan repairs it." in result.stdout
    assert (log_dir / RECOVERY).read_bytes() == BAD


def test_files_are_counted_and_lines_are_for_those_who_ask(log_dir):
    text = run(log_dir, "--output", "table").stdout
    assert text.startswith(f"PLAN: checkpoint would replace 1 file in {log_dir}.\n")
    assert f"\n{RECOVERY}  replace 1 file" in text
    assert "1 repaired by this plan, " in text
    assert "text file  " not in text


def test_rows(log_dir):
    result = run(log_dir, "--output", "ndjson")
    found = rows(result)
    assert found[0]["type"] == "plan"
    files = [row for row in found if row["type"] == "text_file"]
    assert files[0]["verdict"] == "mended"
    assert files[0]["lines"] == 1
    assert files[0]["broker_action"].startswith("Takes it for empty")
    (line,) = [row for row in found if row["type"] == "text_line"]
    assert (line["line"], line["old"], line["new"]) == (4, "payments 0", "payments 0 50")
    assert found[-1]["exit_status"] == 4


def test_apply_then_nothing_to_do_then_undo(log_dir):
    applied = run(log_dir, "--apply", "--output", "ndjson")
    assert applied.exit_code == 0
    told = [row for row in rows(applied) if row["type"] == "finding" and row["file"].endswith(RECOVERY)]
    assert [(row["severity"], row["cure"], row["broker_action"]) for row in told] == [
        ("info", "This run has repaired it.", None)
    ]
    assert told[0]["message"].startswith("Before this run: ")
    assert (log_dir / RECOVERY).read_bytes() == BAD.replace(b"payments 0\n", b"payments 0 50\n")
    again = run(log_dir, "--apply", "--output", "table")
    assert again.exit_code == 0
    assert "NOTHING TO DO" in again.stdout
    undone = CliRunner().invoke(cli, ["undo", str(log_dir), "--apply"])
    assert undone.exit_code == 0
    assert (log_dir / RECOVERY).read_bytes() == BAD


def test_a_plan_in_a_file_is_applied(log_dir, tmp_path):
    plan = tmp_path / "plan.json"
    assert run(log_dir, "--plan-out", plan, "--output", "ndjson").exit_code == 4
    assert CliRunner().invoke(cli, ["apply", str(plan)]).exit_code == 0
    assert (log_dir / RECOVERY).read_bytes() != BAD


def test_two_log_directories_know_each_others_ids(log_dir, tmp_path):
    other = write_log_dir(tmp_path / "other")
    (log_dir / "payments-0" / "partition.metadata").unlink()
    assert run(log_dir, "--apply", "--output", "ndjson").exit_code == 4
    assert run(log_dir, other, "--apply", "--output", "ndjson").exit_code == 0
    assert (log_dir / "payments-0" / "partition.metadata").exists()


def test_the_mark_is_refused_with_the_next_command(log_dir):
    result = run(log_dir, "--mark-clean", "--output", "table")
    assert result.exit_code == 4
    assert "snapshot.missing" in result.stdout
    assert "kafkalog reindex" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--kafka", "new"], "'new' is not a release that kafkalog knows"),
        (["--set", "log.rol.ms=5"], "is log.roll.ms"),
        (["--set", "preallocate"], "is not key=value"),
        (["--topic-config", "preallocate=true"], "is not TOPIC:key=value"),
    ],
)
def test_wrong_options(log_dir, arguments, problem):
    result = run(log_dir, *arguments)
    assert result.exit_code == 2
    assert problem in " ".join(result.stderr.split())


def test_a_value_that_kafka_does_not_take_is_refused(log_dir, tmp_path):
    config = tmp_path / "server.properties"
    config.write_text("\\u00zz=1\n")
    (log_dir / "meta.properties").unlink()
    result = run(log_dir, "--config", config)
    assert result.exit_code == 3
    assert "no broker reads this file" in result.stderr
