"""Errors and their exit statuses, what the start costs, and pipes that break."""

from __future__ import annotations

import ast
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kafkalog_cli.command import EXIT_STATUS_HELP, ExitStatus
from kafkalog_cli.commands.spark import JOBS, spark_group
from kafkalog_cli.commands.spark import MEANT as SPARK_MEANT
from kafkalog_cli.main import COMMANDS, MEANT, cli
from kafkalog_cli.standard_streams import ReaderGoneError
from kafkalog_core.errors import NotFoundError
from tests.cli.conftest import batch, damage
from tests.support import build
from tests.support.every_command import piped

ROOT = Path(__file__).parent.parent.parent
HELP_MODULES = {
    "kafkalog_cli",
    "kafkalog_cli.command",
    "kafkalog_cli.main",
    "kafkalog_cli.standard_streams",
    "kafkalog_core",
    "kafkalog_core.errors",
}
"""All of our own that `kafkalog --help` may load."""


def python(program, *arguments, **options):
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **options,
    )


def test_help_loads_little():
    program = (
        "import sys, click; before = set(sys.modules)\n"
        "from kafkalog_cli.main import cli\n"
        "try: cli(['--help'])\n"
        "except SystemExit: pass\n"
        "print('\\n' + '\\n'.join(set(sys.modules) - before), file=sys.stderr)"
    )
    loaded = set(python(program).stderr.split())
    ours = {name for name in loaded if name.startswith("kafkalog")}
    foreign = {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names - {"click", *HELP_MODULES}
    assert ours <= HELP_MODULES
    assert foreign == set()


_SEARCHES = """
import atexit, gc, runpy, sys

gc.disable()  # what this program has imported is none of the command's
gc.callbacks.append(lambda phase, about: print(f"search {phase}", file=sys.stderr))


def at_exit():
    gc.callbacks.clear()  # Python searches once more when it ends
    print(f"enabled {gc.isenabled()}, out of it {gc.get_freeze_count() > 10_000}", file=sys.stderr)


atexit.register(at_exit)
runpy.run_module("kafkalog_cli", run_name="__main__", alter_sys=True)
"""


def test_a_start_does_not_search_what_it_imports_for_cycles(tmp_path):
    (tmp_path / f"{0:020d}.log").write_bytes(build.batch_v2([build.Record()]))
    done = python(_SEARCHES, "verify", "--jobs", "1", str(tmp_path))
    lines = [line for line in done.stderr.splitlines() if line.startswith(("search", "enabled"))]
    assert lines == ["enabled True, out of it True"]


def test_help_names_every_command():
    result = CliRunner().invoke(cli, ["--help"])
    assert result.exit_code == 0
    for name, (_, short_help) in COMMANDS.items():
        assert name in result.stdout
        assert short_help.split()[0] in result.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name):
    result = CliRunner().invoke(cli, [name, "--help"])
    assert result.exit_code == 0
    with click.Context(cli) as context:
        command = cli.get_command(context, name)
    assert command.help
    if getattr(command, "lines", ()):  # its help has a line for each option, to fit two screens
        assert f"man kafkalog-{name} has the whole texts, examples, exit statuses." in result.stdout
        return
    assert "Examples:\n" in result.stdout
    assert "Exit status:\n" in result.stdout
    told = " ".join(result.stdout.partition("Exit status:\n")[2].split())
    assert [status for status in EXIT_STATUS_HELP if EXIT_STATUS_HELP[status] in told] == sorted(command.exit_statuses)
    for parameter in command.params:
        assert isinstance(parameter, click.Argument) or parameter.help, parameter.name


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("verfy /data 'a b'", ["kafkalog verify /data 'a b'"]),
        ("Verify", ["kafkalog verify"]),
        ("compare", ["kafkalog diff", "kafkalog replicas"]),
        ("group d", ["kafkalog groups d", "kafkalog serve d"]),
        ("chekpoint d", ["kafkalog checkpoint d"]),
        ("spark verfy d", ["kafkalog spark verify d"]),
        ("spark diff d", ["kafkalog spark replicas d"]),
        ("spark truncate d", ["kafkalog truncate d"]),
        ("xyzzy", []),
    ],
)
def test_a_mistyped_command(line, meant):
    result = CliRunner().invoke(cli, shlex.split(line), prog_name="kafkalog")
    assert result.exit_code == ExitStatus.USAGE
    said = result.stderr.partition("Error: No such command ")[2].splitlines()
    assert [each.removeprefix("  ") for each in said[1:]] == meant
    assert ("Did you mean this?" in said[0]) == bool(meant)


@pytest.mark.parametrize(("group", "meant"), [(cli, MEANT), (spark_group, SPARK_MEANT)])
def test_words_of_other_tools_are_no_commands_and_lead_to_some(group, meant):
    assert not meant.keys() & group.table.keys()
    for lines in meant.values():
        for line in lines:
            words = shlex.split(line)
            path = words[:2] if words[0] == "spark" else words[:1]
            assert " ".join(path) in [*COMMANDS, *(f"spark {job}" for job in JOBS), "--help", "spark --help"], line
            assert CliRunner().invoke(cli, [*words, "--help"]).exit_code == 0, line


_OLD = """
import runpy, sys
sys.version_info = {version}
runpy.run_module("kafkalog_cli", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("version", [(3, 10, 12), (3, 6, 15)])
def test_an_older_python_is_one_sentence(version):
    ended = python(_OLD.format(version=version), "verify", ".")
    line = f"kafkalog needs Python 3.11 or newer; this is Python {version[0]}.{version[1]}\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (ExitStatus.REFUSED, "", line)


@pytest.mark.parametrize("name", ["__init__.py", "__main__.py"])
def test_an_older_python_can_read_the_entry_point(name):
    source = (ROOT / "kafkalog_cli" / name).read_text()
    ast.parse(source, feature_version=(3, 6))
    assert "from __future__" not in source  # annotations came with 3.7


def test_version_says_which_kernels_run():
    result = CliRunner().invoke(cli, ["--version"])
    assert result.exit_code == 0
    assert result.stdout.startswith("kafkalog ")
    assert result.stdout.endswith(("(compiled kernels)\n", "(interpreted kernels)\n"))


@pytest.mark.parametrize(
    ("error", "status", "sentence"),
    [
        (NotFoundError("no such file", path="x\ny"), ExitStatus.REFUSED, "kafkalog: x\\ny: no such file\n"),
        (KeyboardInterrupt(), ExitStatus.CRASH, "kafkalog: interrupted\n"),
        (
            OSError(28, "No space left on device"),
            ExitStatus.CRASH,
            "kafkalog: the result could not be written: [Errno 28] No space left on device\n",
        ),
        (
            ZeroDivisionError("oh"),
            ExitStatus.CRASH,
            "kafkalog: internal error, ZeroDivisionError: oh (KAFKALOG_DEBUG=1 shows where)\n",
        ),
    ],
    ids=["ours", "interrupt", "full disk", "bug"],
)
def test_an_error_is_one_sentence_and_a_status(dumping, monkeypatch, error, status, sentence):
    monkeypatch.delenv("KAFKALOG_DEBUG", raising=False)

    class Failing:
        def __iter__(self):
            raise error

    dumping.chunks = Failing()
    result = dumping.run()
    assert (result.exit_code, result.stderr) == (status, sentence)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["dump", "verify"])
def test_a_full_disk_is_one_sentence_to_the_end(command, unbuffered):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kafkalog_cli", command, "--output", "ndjson", "fixtures/demo/orders-0"],
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == ExitStatus.CRASH
    lines = [line for line in done.stderr.splitlines() if "no compiled kernels" not in line]
    assert lines == ["kafkalog: the result could not be written: [Errno 28] No space left on device"]


def test_a_traceback_is_shown_on_request(dumping, monkeypatch):
    monkeypatch.setenv("KAFKALOG_DEBUG", "1")
    dumping.chunks = None
    result = dumping.run()
    assert result.exit_code == 1
    assert "Traceback (most recent call last)" in result.stderr


def test_a_reader_that_has_gone_is_no_error(dumping):
    class Broken:
        def __iter__(self):
            raise ReaderGoneError

    dumping.chunks = Broken()
    result = dumping.run()
    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["dump"],
        ["dump", "--nonsense", "."],
        ["nonsense"],
        ["dump", "--offsets", "9..3", "."],
        ["dump", "--key-regex", "(", "."],
        ["dump", "--max-batch-bytes", "big", "."],
        ["dump", "--limit", "-1", "."],
        ["dump", "--key", "a", "--key-hex", "61", "."],
        ["dump", "--batches", "--key", "a", "."],
        ["dump", "--follow", "--stats", "."],
        ["dump", "--follow", "--newest-first", "."],
        ["dump", "--follow", "--segments", "."],
        ["dump", "--follow", "--committed", "."],
        ["dump", "--times", "2025..", "."],
        ["dump", "--output", "xml", "."],
        ["dump", "--committed=sometimes", "."],
        ["completion", "tcsh"],
    ],
    ids=" ".join,
)
def test_wrong_usage(arguments):
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2
    assert "Error: " in result.stderr
    assert result.stdout == ""


def test_a_missing_path_is_3(tmp_path):
    result = CliRunner().invoke(cli, ["dump", str(tmp_path / "absent")])
    assert result.exit_code == 3
    assert result.stderr.startswith("kafkalog: ")
    assert result.stderr.count("\n") == 1


def test_interpreted_kernels_are_said_once(dumping, monkeypatch):
    monkeypatch.setattr("kafkalog_cli.commands.running.kernels.COMPILED", False)
    result = dumping.batches(batch()).batches(batch()).run()
    assert result.stderr.count("kafkalog: ") == 1
    assert "interpreted" in result.stderr


@pytest.mark.parametrize("command", ["dump", "verify", "compact"])
@pytest.mark.parametrize("is_compiled", [True, False])
def test_every_command_that_reads_records_says_that_its_kernels_are_slow(command, is_compiled, tmp_path, monkeypatch):
    monkeypatch.setattr("kafkalog_cli.commands.running.kernels.COMPILED", is_compiled)
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020d}.log").write_bytes(build.batch_v2([build.Record()]))
    options = ["--kafka", "4.3"] if command == "compact" else []
    result = CliRunner().invoke(cli, [command, *options, "--output", "ndjson", str(tmp_path / "t-0")])
    assert result.exit_code == 0
    assert result.stderr.count("the interpreted ones are about 100 times slower") == (not is_compiled)


FLOOD = """
import sys
sys.argv[0] = "kafkalog"
from kafkalog_cli.commands import dump as module
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import RowChunk
module.warn_of_interpreted = lambda: None  # the warning about interpreted kernels has a test of its own
rows = [{"topic": "t", "partition": 0, "segment": "s", "position": n} for n in range(1000)]
module.dump = lambda *ignored: (RowChunk(tables.BATCH, rows) for _ in range(3000))
from kafkalog_cli.__main__ import main
main()
"""


@pytest.mark.live
@pytest.mark.skipif(os.name != "posix", reason="pipes of another kind")
@pytest.mark.parametrize("output", ["ndjson", "json", "csv", "table"])
def test_a_reader_that_leaves_ends_it_quietly(tmp_path, output):
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(b"")
    with subprocess.Popen(
        [sys.executable, "-c", FLOOD, "dump", "--jobs", "1", "--output", output, str(log)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


@pytest.mark.live
@pytest.mark.skipif(os.name != "posix", reason="signals of another kind")
def test_control_c_is_one_word(tmp_path):
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(b"")
    with subprocess.Popen(
        [sys.executable, "-c", FLOOD, "dump", "--jobs", "1", str(log)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.stderr.read() == b"kafkalog: interrupted\n"
        assert process.wait(60) == 1


@pytest.mark.live
@pytest.mark.skipif(os.name != "posix", reason="signals of another kind")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("output", ["ndjson", "json", "csv", "table"])
def test_what_was_written_before_control_c_is_whole(tmp_path, output, unbuffered):
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(b"")
    with subprocess.Popen(
        [sys.executable, "-c", FLOOD, "dump", "--jobs", "1", "--output", output, str(log)],
        cwd=ROOT,
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        text = (first + process.stdout.read()).decode()
        errors = process.stderr.read().decode()
        assert process.wait(60) == 1
    assert errors.endswith("kafkalog: interrupted\n")
    if output in {"json", "ndjson"}:
        rows = json.loads(text) if output == "json" else [json.loads(line) for line in text.splitlines()]
        assert [row["type"] for row in rows[-2:]] == ["batch", "summary"]
        assert (rows[-1]["interrupted"], rows[-1]["exit_status"]) == (True, 1)
    else:
        assert "interrupted | nothing is finished" in (text if output == "table" else errors)
        assert text.endswith("\n")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell):
    result = CliRunner().invoke(cli, ["completion", shell])
    assert result.exit_code == 0
    assert f"_KAFKALOG_COMPLETE={shell}_complete" in result.stdout


def test_completion_knows_the_options():
    result = CliRunner(
        env={"_KAFKALOG_COMPLETE": "bash_complete", "COMP_WORDS": "kafkalog dump --comm", "COMP_CWORD": "2"}
    ).invoke(cli, [], prog_name="kafkalog")
    assert "plain,--committed" in result.stdout


def test_following_ends_with_control_c_and_a_summary(dumping, monkeypatch):
    def interrupted(_, seconds):
        assert seconds == 0.25
        return True

    monkeypatch.setattr("kafkalog_cli.commands.dump.Interruption.wait", interrupted)
    result = dumping.batches(batch()).damaged(damage()).run("--follow", "--poll-ms", "250")
    assert result.exit_code == 4
    assert [json.loads(line)["type"] for line in result.stdout.splitlines()] == ["batch", "damage", "summary"]


@pytest.mark.live
@pytest.mark.parametrize("form", [(), ("--output", "table"), ("--output", "csv"), ("--jobs", "1")], ids=str)
@pytest.mark.parametrize("lines", [0, 1])
def test_a_dump_ends_with_its_reader_and_has_the_status_of_what_it_read(tmp_path, lines, form):
    """The log with damage in its first bytes, and the one without, are larger than all that a pipe holds."""
    batches = b"".join(build.batch_v2([build.Record(offset=offset, value=bytes(100))]) for offset in range(20_000))
    for name, status in (("whole", 0), ("hurt", 4)):
        log = tmp_path / f"{name}-0" / f"{0:020d}.log"
        log.parent.mkdir()
        log.write_bytes(b"\xff" * (status and 100) + batches)
        for _ in range(3):
            assert piped(["dump", "--resync", *form, str(log)], lines=lines) == status


@pytest.mark.live
@pytest.mark.parametrize("arguments", [("--help",), ("verify", "--help"), ("--version",), ("completion", "bash")])
def test_help_without_a_reader(arguments):
    assert piped(arguments, lines=0) == 0


@pytest.mark.live
@pytest.mark.parametrize("lines", [0, 1])
def test_a_refused_change_without_a_reader_of_either_stream(tmp_path, lines):
    shutil.copytree(ROOT / "fixtures" / "demo", tmp_path / "kafka")
    words = ["retain", "--apply", "--now", "2025-10-16T09:09:45", "--topic", "orders", str(tmp_path / "kafka")]
    for both in (False, True, False, True):
        assert piped(words, lines=lines, both=both) == ExitStatus.REFUSED


@pytest.mark.parametrize("arguments", [("dump", "nothing.log"), ("--version",), ("--help",)])
def test_standard_output_that_is_closed(arguments):
    program = f"exec {shlex.quote(sys.executable)} -m kafkalog_cli {shlex.join(arguments)} >&-"
    result = subprocess.run(["sh", "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 1
    assert result.stderr == "kafkalog: the result could not be written: standard output is closed\n"


def test_standard_error_that_is_closed(tmp_path):
    (tmp_path / "00000000000000000000.log").write_bytes(b"")
    program = f"exec {shlex.quote(sys.executable)} -m kafkalog_cli dump {shlex.quote(str(tmp_path))}/*.log 2>&-"
    result = subprocess.run(["sh", "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0
    assert result.stdout.startswith('{"type":"summary"')
