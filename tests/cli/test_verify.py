"""`kafkalog verify` as its users run it: exit statuses, outputs, selections, a run that is stopped and goes on."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkalog_cli.commands import verify as statefile
from kafkalog_cli.main import cli
from kafkalog_cli.output_file import OutputFile
from kafkalog_core.errors import AccessError
from tests.support.build import txn_index
from tests.support.log_dirs import write_log_dir
from tests.support.partitions import PartitionWriter

ROOT = Path(__file__).parents[2]
SECONDS = 300
"""After which what does not come is given up."""


def run(*arguments, columns=160):
    result = CliRunner(env={"COLUMNS": str(columns)}).invoke(cli, ["verify", "--ndjson", *map(str, arguments)])
    result.stderr_bytes = without_notice(result.stderr).encode()
    return result


def without_notice(text):
    """What was said on stderr, but for what the interpreted twin says of itself."""
    return "".join(line for line in text.splitlines(keepends=True) if "no compiled kernels" not in line)


def rows(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def summary(result):
    return rows(result)[-1]


def write(path, segments=2, **options):
    writer = PartitionWriter(path, **options)
    writer.begin()
    for _ in range(segments):
        writer.segment()
    return writer


def damage(path, position=70):
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


@pytest.fixture
def healthy(tmp_path):
    write(tmp_path / "t-0")
    return tmp_path / "t-0"


@pytest.fixture
def damaged(tmp_path):
    writer = write(tmp_path / "t-1")
    damage(tmp_path / "t-1" / f"{writer.bases[0]:020d}.log")
    return tmp_path / "t-1"


@pytest.fixture
def suspicious(tmp_path):
    """A gap in a log that may have been compacted: no more than a warning."""
    writer = write(tmp_path / "t-2", segments=3)
    for file in (tmp_path / "t-2").glob(f"{writer.bases[1]:020d}.*"):
        file.unlink()
    return tmp_path / "t-2"


# --- exit statuses ----------------------------------------------------------------------------------------------------
def test_what_is_healthy_ends_with_0(healthy):
    result = run("--output", "ndjson", healthy)
    assert (result.exit_code, result.stderr) == (0, "")
    assert [row["type"] for row in rows(result)] == ["partition", "summary"]
    assert rows(result)[0]["state"] == "clean"
    assert summary(result)["rows"] == 1


def test_damage_ends_with_4(healthy, damaged):
    result = run("--output", "ndjson", healthy, damaged)
    assert result.exit_code == summary(result)["exit_status"] == 4
    assert "batch.crc-mismatch" in summary(result)["codes"]
    assert [row["state"] for row in rows(result) if row["type"] == "partition"] == ["clean", "damaged"]


def test_more_partitions_than_are_shown_are_counted(healthy, damaged, tmp_path, monkeypatch):
    monkeypatch.setattr("kafkalog_cli.render.verdict_table.KEPT_PARTITIONS", 1)
    copies = [shutil.copytree(damaged, tmp_path / f"copy-{number}") for number in range(2)]
    assert "more partition" not in run("--output", "table", healthy, damaged).stdout
    text = run("--output", "table", healthy, damaged, *copies).stdout
    assert "... and 2 more partitions: --output ndjson has them all" in text


def test_damaged_logs_are_shown_before_anything_else(suspicious, damaged, monkeypatch):
    monkeypatch.setattr("kafkalog_cli.render.verdict_table.KEPT_PARTITIONS", 1)
    text = run("--output", "table", suspicious, damaged).stdout
    assert text.splitlines()[1].startswith(f"{damaged.name} ")
    assert "... and 1 more partition: --output ndjson has them all" in text


def test_a_warning_ends_with_4_where_it_is_to(suspicious):
    result = run("--output", "ndjson", suspicious)
    assert result.exit_code == 0
    assert "error" not in summary(result)["severities"]
    assert summary(result)["severities"]["warning"]
    assert run("--fail-on", "warning", suspicious).exit_code == 4


@pytest.mark.parametrize("options", [["--level", "deep"], ["--fail-on", "info"], ["--jobs", "0"], ["--jobs", "x"], []])
def test_wrong_options_end_with_2(healthy, options):
    assert run(*options, *([healthy] if options else [])).exit_code == 2


def test_what_cannot_be_had_ends_with_3(tmp_path, healthy):
    (tmp_path / "empty").mkdir()
    for arguments in ([tmp_path / "nowhere"], [healthy, tmp_path / "empty"], ["--topic", "u*", healthy]):
        result = run(*arguments)
        assert result.exit_code == 3
        assert result.stderr.startswith("kafkalog: ")
        assert len(result.stderr.splitlines()) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_what_may_not_be_read_ends_with_3_where_it_was_named(healthy):
    healthy.chmod(0)
    try:
        assert run(healthy).exit_code == 3
    finally:
        healthy.chmod(0o755)


# --- outputs ----------------------------------------------------------------------------------------------------------
def test_the_table_names_what_is_damaged_and_counts_the_rest(healthy, damaged):
    result = run("--output", "table", healthy, damaged)
    assert "t-1" in result.stdout
    assert "batch.crc-mismatch" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("DAMAGED: 1 of 2 partitions | ")
    assert " t-0 " not in result.stdout


def test_json_is_one_array_and_csv_has_a_table_for_each_kind_of_row(damaged):
    array = json.loads(run("--output", "json", damaged).stdout)
    assert array == rows(run("--output", "ndjson", damaged))
    lines = list(csv.reader(io.StringIO(run("--output", "csv", damaged).stdout)))
    assert {"finding", "partition"} <= {line[0] for line in lines if line}


def test_quiet_is_one_line_on_stderr(healthy, damaged):
    result = run("--quiet", healthy)
    assert result.stdout == ""
    assert result.stderr.startswith("clean: 1 partition without damage | ")
    result = run("--quiet", "--output", "ndjson", damaged)
    assert (result.exit_code, result.stdout) == (4, "")
    assert result.stderr.startswith("DAMAGED: 1 of 1 partition")


# --- levels and selections --------------------------------------------------------------------------------------------
def test_levels_look_deeper_and_deeper(damaged):
    assert run("--level", "headers", damaged).exit_code == 0
    assert run("--level", "checksums", damaged).exit_code == 4
    assert run("--level", "records", damaged).exit_code == 4


def test_selected_partitions_alone_are_checked(tmp_path):
    write_log_dir(tmp_path / "kafka", ["s-0", "s-1", "u-0"])
    for options, names in (
        (["--topic", "s"], ["s-0", "s-1"]),
        (["--topic", "s", "--partition", "1"], ["s-1"]),
        (["--topic-regex", "[su]", "--exclude", "s"], ["u-0"]),
    ):
        checked = [row for row in rows(run(*options, tmp_path / "kafka")) if row["type"] == "partition"]
        assert [Path(row["path"]).name for row in checked] == names


def test_a_limit_on_batches(tmp_path):
    write(tmp_path / "t-0", segments=1, value_bytes=2000)
    assert "batch.over-limit" in summary(run("--max-batch-bytes", "1000", tmp_path / "t-0"))["codes"]


def test_jobs_make_no_difference(tmp_path):
    writer = write(tmp_path / "t-0", segments=4, value_bytes=3_000_000)
    damage(tmp_path / "t-0" / f"{writer.bases[2]:020d}.log")
    alone, many = (run("--jobs", jobs, "--output", "ndjson", tmp_path / "t-0") for jobs in (1, 3))
    assert alone.stdout == many.stdout
    assert alone.exit_code == many.exit_code == 4


# --- --resume ---------------------------------------------------------------------------------------------------------
@pytest.fixture
def state(tmp_path):
    return tmp_path / "state"


def test_a_second_run_says_the_same_and_reads_nothing(damaged, state):
    first = rows(run("--resume", state, damaged))
    second = rows(run("--resume", state, damaged))
    assert first[:-1] == second[:-1]
    assert (first[-1]["unchanged_bytes"], second[-1]["unchanged_bytes"]) == (0, first[-1]["bytes"])
    assert second[-1] | {"unchanged_bytes": 0} == first[-1]
    assert " of it unchanged and not read again | exit status 4" in run("--quiet", "--resume", state, damaged).stderr


def test_a_second_run_has_the_exit_status_of_the_first(healthy, state):
    (healthy / f"{0:020}.txnindex").write_bytes(txn_index([(1, 0, 3, 4)]))
    first, second = run("--resume", state, healthy), run("--resume", state, healthy)
    assert summary(first)["codes"] == summary(second)["codes"]
    assert summary(first)["codes"]["txnindex.unknown-entry"] == 1
    assert first.exit_code == second.exit_code == 4
    assert summary(second)["unchanged_bytes"] == summary(second)["bytes"] > 0


def test_one_state_for_several_disks(tmp_path, healthy, damaged, state):
    run("--resume", state, healthy)
    run("--resume", state, damaged)
    result = run("--resume", state, healthy, damaged)
    assert summary(result)["unchanged_bytes"] == summary(result)["bytes"]
    shutil.rmtree(healthy)
    write(tmp_path / "t-0", segments=3)
    result = run("--resume", state, healthy, damaged)
    assert 0 < summary(result)["unchanged_bytes"] < summary(result)["bytes"]


def test_another_level_is_not_used_and_that_is_said(healthy, state):
    run("--resume", state, "--level", "headers", healthy)
    result = run("--resume", state, healthy)
    assert result.exit_code == 0
    assert f"{state} is not used, it was made with --level headers, this run has --level records" in result.stderr
    assert summary(run("--resume", state, healthy))["unchanged_bytes"] > 0


def _cut(text):
    return text[: len(text) // 2]


@pytest.mark.parametrize(
    "change",
    [
        lambda _: "",
        lambda _: "junk\n",
        lambda text: text + "{}\n",
        _cut,
        lambda text: text[:-1],
        lambda text: "".join(reversed(text.splitlines(keepends=True))),
        lambda text: "".join([*text.splitlines(keepends=True)[:1], *text.splitlines(keepends=True)[2:]]),
        lambda text: text.replace('"index":1', '"index":-1'),
        lambda text: text.replace("create", "") + "\udcff",
    ],
)
def test_what_is_no_state_is_refused_in_one_sentence(healthy, state, change):
    run("--resume", state, healthy)
    text = change(state.read_text())
    state.write_text(text, errors="surrogateescape")
    result = run("--resume", state, healthy)
    assert (result.exit_code, result.stdout) == (3, "")
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith(f"kafkalog: {state}: ")
    assert state.read_text(errors="surrogateescape") == text


def test_a_state_is_not_kept_among_the_files_of_a_broker(healthy):
    for place in (healthy / "state", healthy.parent / "no" / "state", healthy.parent):
        result = run("--resume", place, healthy)
        assert result.exit_code == 3
        assert len(result.stderr.splitlines()) == 1
    assert not (healthy / "state").exists()


def test_a_full_disk_does_not_end_the_check(damaged, state, monkeypatch):
    def full(self, pieces):
        del self, pieces
        raise AccessError("cannot be written: no space left on device", path=str(state))

    monkeypatch.setattr(OutputFile, "write", full)
    monkeypatch.setattr(statefile, "SAVE_SECONDS", 0.0)
    result = run("--resume", state, damaged)
    assert result.exit_code == 4
    assert result.stderr.count("no space left on device; the check continues") == 1


def test_it_is_saved_now_and_then(tmp_path, state, monkeypatch):
    write(tmp_path / "t-0", segments=5)
    saved = []
    write_whole = OutputFile.write
    monkeypatch.setattr(OutputFile, "write", lambda self, pieces: saved.append(1) or write_whole(self, pieces))
    monkeypatch.setattr(statefile, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(statefile, "_SAVE_SHARE", 0)
    run("--resume", state, tmp_path / "t-0")
    assert len(saved) >= 5
    assert len(state.read_text().splitlines()) == 6


# --- the end in the middle --------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Some seconds of work: one segment, and as many names of it as there are partitions."""
    home = tmp_path_factory.mktemp("large")
    write(home / "t-0", segments=2, value_bytes=8_000_000)
    for number in range(1, 150):
        (home / f"t-{number}").mkdir()
        for file in (home / "t-0").iterdir():
            (home / f"t-{number}" / file.name).hardlink_to(file)
    return home


def start(*arguments):
    """Start verify in a session of its own; below a long temporary path its workers would not have a fork server."""
    environment = os.environ | {"TMPDIR": "/tmp"}  # noqa: S108 - nothing is written there but sockets
    command = [sys.executable, "-m", "kafkalog_cli", "verify", *map(str, arguments)]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for(is_so):
    end = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def others_of(process):
    """Processes of its session that are still at work."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        if fields[2] == str(process.pid) and fields[0] != "Z":
            found.append(stat.parent.name)
    return found


@pytest.mark.live
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="no /proc")
@pytest.mark.parametrize("jobs", [1, 3])
def test_ctrl_c_ends_it_with_what_is_known(large, state, jobs):
    process = start("--jobs", jobs, "--resume", state, "--output", "ndjson", large)
    with process:
        assert process.stdout is not None
        first = process.stdout.readline()
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate()
    assert (process.returncode, without_notice(err)) == (1, "kafkalog: interrupted\n")
    last = json.loads(out.splitlines()[-1])
    assert (last["interrupted"], last["exit_status"]) == (True, 1)
    assert json.loads(first)["type"] in {"finding", "partition"}
    wait_for(lambda: not others_of(process))
    result = run("--jobs", "1", "--resume", state, "--topic", "t", "--partition", "0", large)
    assert summary(result)["unchanged_bytes"] == summary(result)["bytes"]


@pytest.mark.live
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="no /proc")
def test_a_kill_leaves_what_was_saved(large, state):
    environment = (
        "import sys; from kafkalog_cli.commands import verify as statefile; from kafkalog_cli.__main__ import main;"
        "statefile.SAVE_SECONDS = 0.0; statefile._SAVE_SHARE = 0; sys.argv[0] = 'kafkalog'; main()"
    )
    command = [
        sys.executable,
        "-c",
        environment,
        "verify",
        "--quiet",
        "--jobs",
        "1",
        "--resume",
        str(state),
        str(large),
    ]
    with subprocess.Popen(command, cwd=ROOT) as process:
        wait_for(state.exists)
        process.kill()
    assert summary(run("--resume", state, "--topic", "t", "--partition", "0", large))["unchanged_bytes"] > 0


@pytest.mark.live
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="no /proc")
def test_a_process_that_is_killed_ends_it_with_1(large):
    process = start("--jobs", 2, "--output", "ndjson", large)
    with process:
        workers: list[str] = []

        def has_workers():
            workers[:] = [pid for pid in others_of(process) if "resource_tracker" not in _command(pid)]
            return len(workers) > 3

        wait_for(has_workers)
        os.kill(max(map(int, workers)), signal.SIGKILL)
        out, err = process.communicate()
    assert process.returncode == 1
    sentence = (
        "kafkalog: a worker process was killed, perhaps by the out-of-memory killer; --jobs 1 needs the least memory\n"
    )
    assert without_notice(err) == sentence
    assert not out or json.loads(out.splitlines()[-1])["exit_status"] == 1
    wait_for(lambda: not others_of(process))


def _command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_a_reader_that_goes_away_and_a_full_disk(damaged):
    line = f"{sys.executable} -m kafkalog_cli verify --output ndjson {damaged}"
    piped = subprocess.run(f"{line} | true", shell=True, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S602
    assert without_notice(piped.stderr) == ""
    if Path("/dev/full").exists():
        full = subprocess.run(f"{line} > /dev/full", shell=True, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S602
        assert full.returncode == 1
        said = without_notice(full.stderr)
        assert said.startswith("kafkalog: the result could not be written")
        assert len(said.splitlines()) == 1


def test_help_names_every_option():
    text = run("--help").stdout
    for option in ("--level", "--fail-on", "--quiet", "--jobs", "--resume", "--report", "--topic", "--output"):
        assert option in text
    assert "64 KiB at both ends" in " ".join(text.split())


def test_a_state_file_that_somebody_has_changed(tmp_path):
    """Any value at any place of its lines: used, not used, or refused in one sentence."""
    write(tmp_path / "orders-0")
    state = tmp_path / "state"
    assert run(tmp_path / "orders-0", "--resume", state, "--jobs", 1).exit_code == 0
    good, chance = state.read_text().splitlines(), random.Random(11)
    values = [float("inf"), -1, 10**400, None, [], {}, "\0", "\ud800", True, 1.5, "x", 2**63]
    for _ in range(15):
        lines = [json.loads(line) for line in good]
        target = chance.choice(lines)
        while True:
            key = chance.choice(list(target) if isinstance(target, dict) else range(len(target)))
            if not isinstance(target[key], dict | list) or not target[key] or chance.random() < 0.2:
                break
            target = target[key]
        target[key] = chance.choice(values)
        state.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        result = run(tmp_path / "orders-0", "--resume", state, "--jobs", 1)
        assert result.exit_code in {0, 3, 4}
        assert "internal error" not in result.stderr
        assert result.stderr.count("\n") <= 1
