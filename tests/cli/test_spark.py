"""`kafkalog spark`: the group of jobs, without Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kafkalog_cli.command import Command
from kafkalog_cli.commands.spark import JOBS, spark_group
from kafkalog_cli.main import cli

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
        "from kafkalog_core.spark.session import spark_session\n"
        "from kafkalog_core.spark.errors import SparkError\n"
        "try:\n    with spark_session(): pass\n"
        "except SparkError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "pyspark and pyarrow are not installed: pip install 'kafkalog[spark]'\n"
