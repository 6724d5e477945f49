"""What commands refuse, each by the command line or the disk that makes them: the exit status, and what to do."""

from __future__ import annotations

import errno
import json
import shlex
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kafkalog_cli import main
from kafkalog_cli.commands import bench as bench_module
from kafkalog_cli.commands import verify as statefile
from kafkalog_cli.main import cli
from tests.support.figures import DEMO
from tests.support.refusing import commands_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kafkalog_core.ops.bench import Recipe, SeededPiece

USAGE, REFUSED = 2, 3


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """The log directory of a broker."""
    shutil.copytree(DEMO, tmp_path / "kafka")
    return tmp_path / "kafka"


def refused(*arguments: object, status: int) -> str:
    """What is said on stderr, in one line."""
    result = CliRunner().invoke(cli, [*map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == status, result.output
    assert "Traceback" not in result.stderr
    return " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("apply plan.json {kafka}", "give one FILE"),
        ("dump --key a --key-hex 00 {kafka}", "--key and --key-hex are two forms of the same filter"),
        ("dump --value a --value-hex 00 {kafka}", "--value and --value-hex are two forms of the same filter"),
        ("dump --invert --offsets 1..2 {kafka}", "--invert needs a filter on keys, values or headers"),
        ("dump --contains a --batches {kafka}", "filters on keys, values and headers need --records, not --batches"),
        ("dump --count --segments {kafka}", "--count needs --records, not --segments"),
        ("dump --max-count 1 --stats {kafka}", "--stats counts whole logs; it cannot be combined with --max-count"),
        (
            "dump --after 1 --follow {kafka}",
            "--follow cannot be combined with --count, --max-count",
        ),
        ("dump --count --before 1 {kafka}", "--count cannot be combined with --before, --after or --files"),
        ("dump --count --files {kafka}", "--count cannot be combined with --before, --after or --files"),
        ("dump --stats --committed {kafka}", "cannot be combined with --committed or filters"),
        ("dump --segments --committed {kafka}", "cannot be combined with --committed or filters"),
        ("reindex --undo-to {new} --no-undo {kafka}", "give only one of them"),
    ],
)
def test_options_that_do_not_go_together(log_dir: Path, tmp_path: Path, line: str, said: str) -> None:
    words = [word.format(kafka=log_dir, new=tmp_path / "new") for word in line.split()]
    assert said in refused(*words, status=USAGE)


def test_what_is_no_log_cannot_be_measured(log_dir: Path) -> None:
    assert "not a log file" in refused("bench", log_dir / "meta.properties", status=REFUSED)
    assert "not a log file" in refused("bench", log_dir, status=REFUSED)


def test_a_seeded_log_for_which_there_is_no_space(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_recipe: Recipe, _size_bytes: int) -> Iterator[SeededPiece]:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(bench_module, "seeded_log", full)
    assert "the generated log cannot be written: No space left on device" in refused("bench", status=REFUSED)


def test_kernels_that_were_compiled_from_another_text(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = main.import_module

    def stale(name: str) -> Any:
        if name.endswith("kernels"):
            raise ImportError("loops was compiled from another text")
        return wanted(name)

    monkeypatch.setattr(main, "import_module", stale)
    assert "compiled from another text" in refused("--version", status=1)


def test_a_state_that_cannot_be_read(log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    state = tmp_path / "state"
    assert CliRunner().invoke(cli, ["verify", "--resume", str(state), str(log_dir)]).exit_code == 0
    monkeypatch.setattr(statefile, "open", broken, raising=False)
    said = refused("verify", "--resume", state, log_dir, status=REFUSED)
    assert "the state of an earlier run cannot be read: input/output error" in said


def test_the_mark_is_of_a_whole_log_directory(log_dir: Path, tmp_path: Path) -> None:
    shutil.move(log_dir / "orders-0", tmp_path / "orders-0")
    said = refused("checkpoint", "--mark-clean", tmp_path / "orders-0", status=REFUSED)
    assert ": this is not a log directory of a broker. Name the directory " in said
    assert said.endswith(f": find {tmp_path} -name recovery-point-offset-checkpoint")


# --- one line, then a whole command a line, once ----------------------------------------------------------------------
RETAIN = ("retain", "--apply", "--topic", "orders", "--now", "2025-10-16T09:09:45")


def test_a_refused_plan_is_explained_once(log_dir: Path, tmp_path: Path) -> None:
    """In the text, whose commands can be pasted; for programs in the row, and on stderr for their users."""
    before = {each: each.read_bytes() for each in log_dir.rglob("*") if each.is_file()}
    text = CliRunner(env={"COLUMNS": "80"}).invoke(cli, [*RETAIN, str(log_dir)], prog_name="kafkalog")
    assert text.exit_code == REFUSED
    assert text.stderr == "kafkalog: refused, as the result shows; nothing has been changed\n"
    lines = text.stdout.splitlines()
    shown = [line.strip() for line in lines if line.startswith("            kafkalog ")]
    options = ("--config FILE", "--topic-config orders:cleanup.policy=delete", "--assume-defaults")
    assert len(shown) == len(options)
    for line, option in zip(shown, options, strict=True):
        assert line.startswith(f"kafkalog {shlex.join(RETAIN)} {log_dir} {option}")
    rows = CliRunner().invoke(cli, [*RETAIN, "--ndjson", str(log_dir)], prog_name="kafkalog")
    plan = json.loads(rows.stdout.splitlines()[0])
    assert plan["ways_out"].splitlines() == commands_of(rows.stderr)
    assert [line.replace(" --ndjson", "") for line in commands_of(rows.stderr)] == shown
    headline = rows.stderr.splitlines()[0]
    assert headline.startswith("kafkalog: this plan would lose records because of assumed values: ")
    assert headline.endswith("or accept what is assumed:")
    into = tmp_path / "result"
    file = CliRunner(env={"COLUMNS": "80"}).invoke(cli, [*RETAIN, str(log_dir), "-o", str(into)], prog_name="kafkalog")
    assert (file.exit_code, file.stdout) == (REFUSED, "")
    assert into.read_text().replace(f" -o {into}", "") == text.stdout
    assert before == {each: each.read_bytes() for each in log_dir.rglob("*") if each.is_file()}


@pytest.mark.parametrize(
    ("line", "commands"),
    [
        ("retain s3://b/disk", ["aws s3 sync s3://b/disk DIR"]),
        ("retain --now 2020-01-01 {kafka}", ["kafkalog retain {kafka} --now TIME"]),
        (
            "checkpoint --mark-clean --topic orders {kafka}",
            ["kafkalog checkpoint --mark-clean {kafka}"],
        ),
        ("undo --run kafkalog-undo-x {kafka}", ["kafkalog undo {kafka} --list"]),
        (
            "retain --log-start-offset 1000 {kafka}/orders-0",
            ["kafkalog retain {kafka}/orders-0 --log-start-offset 92"],
        ),
    ],
)
def test_a_refusal_is_a_line_and_a_whole_command_for_each_way_out(
    log_dir: Path, line: str, commands: list[str]
) -> None:
    words = [word.format(kafka=log_dir) for word in line.split()]
    result = CliRunner().invoke(cli, words, prog_name="kafkalog")
    assert (result.exit_code, result.stdout) == (REFUSED, "")
    said, *below = result.stderr.splitlines()
    assert said.startswith("kafkalog: ")
    assert said.endswith(":")
    assert below == [f"  {command.format(kafka=log_dir)}" for command in commands]


# --- compact --to -----------------------------------------------------------------------------------------------------
def test_a_new_directory_of_two(log_dir: Path, tmp_path: Path) -> None:
    shutil.copytree(log_dir, tmp_path / "other")
    said = refused("compact", "--apply", "--to", tmp_path / "new", log_dir, tmp_path / "other", status=REFUSED)
    assert "name one log directory, or partitions of it" in said
    assert not (tmp_path / "new").exists()


def test_a_new_directory_of_what_a_broker_deletes(log_dir: Path, tmp_path: Path) -> None:
    gone = log_dir / "orders-0.a9f45940341c42a096a96079d1d9b497-delete"
    (log_dir / "orders-0").rename(gone)
    said = refused("compact", "--apply", "--to", tmp_path / "new", gone, status=REFUSED)
    assert "there is no partition to write" in said
    assert not (tmp_path / "new").exists()


def test_a_new_directory_by_the_rules_of_nobody_knows_which_release(log_dir: Path, tmp_path: Path) -> None:
    alone = tmp_path / "customers-0"
    shutil.copytree(log_dir / "customers-0", alone)
    (alone / "00000000000000000030.log").write_bytes(b"")
    topic = ("--topic-config", "customers:cleanup.policy=compact", "--assume-defaults")
    said = refused("compact", *topic, "--apply", "--to", tmp_path / "new", alone, status=REFUSED)
    assert "the release of Kafka is not certain, and cleaners differ" in said
    assert "--kafka VERSION" in said


# --- plans that somebody has changed ----------------------------------------------------------------------------------
def _option(name: str, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda plan: plan["options"].update({name: value})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_option("kafka", {"kafka": 43}), "the option kafka is an object with these members"),
        (_option("mode", "a\0b"), "its options contain a character that no option can have"),
        (lambda plan: plan["command_line"]["arguments"].append("a\0b"), "its command line contains a character"),
        (lambda plan: plan["paths"].append("a\0b"), "its paths cannot be those of files"),
        (lambda plan: plan["paths"].clear(), "it names no paths"),
    ],
)
def test_a_plan_that_was_changed(
    log_dir: Path, tmp_path: Path, change: Callable[[dict[str, Any]], object], said: str
) -> None:
    planned = ["truncate", "--to-offset", "5", str(log_dir / "customers-0")]
    assert said in _changed(log_dir, tmp_path / "plan.json", planned, change)


def test_a_plan_with_an_option_of_another_kind(log_dir: Path, tmp_path: Path) -> None:
    settings = ("cleanup.policy=compact", "min.cleanable.dirty.ratio=0")
    options = [word for setting in settings for word in ("--topic-config", f"orders:{setting}")]
    planned = ["compact", *options, "--assume-defaults", str(log_dir / "orders-0")]
    said = _changed(log_dir, tmp_path / "plan.json", planned, _option("memory_bytes", "much"))
    assert "the plan has options that kafkalog compact does not have" in said


def _changed(log_dir: Path, path: Path, planned: list[str], change: Callable[[dict[str, Any]], object]) -> str:
    """What is said of a plan that was changed; nothing on the disk is."""
    assert CliRunner().invoke(cli, [*planned, "--plan-out", str(path)]).exit_code in {0, 4}
    content = json.loads(path.read_text())
    change(content["plans"][0])
    path.write_text(json.dumps(content))
    before = {each: each.read_bytes() for each in log_dir.rglob("*") if each.is_file()}
    said = refused("apply", path, status=REFUSED)
    assert before == {each: each.read_bytes() for each in log_dir.rglob("*") if each.is_file()}
    return said
