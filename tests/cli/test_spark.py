"""`kafkalog spark`: the group of jobs, without Spark."""

from __future__ import annotations

import socket
import subprocess
import sys
import tarfile
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kafkalog_cli.command import Command
from kafkalog_cli.commands.spark import JOBS, spark_group
from kafkalog_cli.commands.spark.job import session_options
from kafkalog_cli.main import cli
from kafkalog_core.spark.session.errors import SparkError, check_master_answers
from kafkalog_core.spark.session.session import SessionSettings

ROOT = Path(__file__).resolve().parents[2]
BLOCKED = "import sys; sys.modules.update(dict.fromkeys(['pyspark', 'py4j', 'pyarrow', 'pandas', 'numpy']))\n"


def test_the_group_names_its_jobs():
    result = CliRunner().invoke(cli, ["spark", "--help"])
    assert result.exit_code == 0
    for name, (_, short_help) in JOBS.items():
        assert f"  {name} " in result.stdout
        assert short_help.split()[0] in result.stdout


@pytest.mark.parametrize("name", JOBS)
def test_every_job_explains_itself(name):
    result = CliRunner().invoke(cli, ["spark", name, "--help"])
    assert result.exit_code == 0
    assert "Examples:\n" in result.stdout
    assert "Exit status:\n" in result.stdout
    with click.Context(cli) as context:
        command = spark_group.get_command(context, name)
    assert isinstance(command, Command)
    assert command.help
    for parameter in command.params:
        assert isinstance(parameter, click.Argument) or parameter.help, parameter.name


def test_an_unknown_job_is_a_usage_error():
    result = CliRunner().invoke(cli, ["spark", "fly"])
    assert result.exit_code == 2
    assert "No such command 'fly'" in result.stderr


def test_the_help_of_all_jobs_needs_no_spark():
    program = BLOCKED + (
        "from kafkalog_cli.main import cli\n"
        "from click.testing import CliRunner\n"
        "for name in sys.argv[1:]: assert CliRunner().invoke(cli, ['spark', name, '--help']).exit_code == 0, name"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *JOBS], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_without_spark_a_job_says_what_to_install():
    program = BLOCKED + (
        "from kafkalog_core.spark.session.session import spark_session\n"
        "from kafkalog_core.spark.session.errors import SparkError\n"
        "try:\n    with spark_session(): pass\n"
        "except SparkError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "pyspark and pyarrow are not installed; run in kafkalog's sources: pip install '.[spark]'\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--master", "nonsense"), "'nonsense' is not a Spark master; name local[*], local[N], spark://HOST:7077, "),
        (("--master", "local[x]"), "'local[x]' is not a Spark master"),
        (("--driver-memory", "lots"), "'lots' is not a size as Java writes it; write 512m or 4g"),
        (("--conf", "executor.memory=1g"), "'executor.memory=1g' is not a setting of Spark; write spark.NAME=VALUE"),
        (("--conf", "spark.executor.memory"), "'spark.executor.memory' is not a setting of Spark"),
    ],
)
def test_options_are_checked_before_anything_is_started(arguments, sentence):
    result = CliRunner().invoke(cli, ["spark", "verify", *arguments, "."])
    assert result.exit_code == 2
    assert sentence in " ".join(result.stderr.split())


def test_a_command_gets_its_session():
    @click.command
    @session_options
    def show(session):
        click.echo(repr(session))

    arguments = ["--master", "spark://h:1", "--conf", "spark.a=b=c", "--conf", "spark.d=", "--archives", "x.tar.gz"]
    result = CliRunner().invoke(show, arguments)
    expected = SessionSettings(
        master="spark://h:1", confs={"spark.a": "b=c", "spark.d": ""}, archives=("x.tar.gz",), is_light=True
    )
    assert result.stdout == f"{expected!r}\n"


@pytest.mark.parametrize("master", ["spark://127.0.0.1:1", "spark://127.0.0.1:1,no-such-host.invalid:7077"])
def test_a_master_that_does_not_answer(master):
    with pytest.raises(SparkError, match=f"no Spark master answers at {master}; --master 'local"):
        check_master_answers(master)


def test_a_master_that_answers():
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_master_answers(f"spark://127.0.0.1:1,127.0.0.1:{server.getsockname()[1]}")
    check_master_answers("local[2]")
    with pytest.raises(SparkError, match="'h:x' is not HOST:PORT of a Spark master"):
        check_master_answers("spark://h:x")


@pytest.mark.slow
def test_pack_writes_an_archive_and_overwrites_nothing_else(tmp_path):
    place = tmp_path / "kafkalog.tar.gz"
    for _ in range(2):
        result = CliRunner().invoke(cli, ["spark", "pack", "--without-pyarrow", str(place)])
        assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(f"{place}: {place.stat().st_size / 1e6:.1f} MB, ")
    with tarfile.open(place) as archive:
        assert "kafkalog_core/spark/session/workers.py" in archive.getnames()
    place.write_text("something else")
    result = CliRunner().invoke(cli, ["spark", "pack", str(place)])
    assert result.exit_code == 3
    assert "not a file of kafkalog" in result.stderr
    assert place.read_text() == "something else"
