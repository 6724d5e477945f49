"""`--kafka` on every command: one list of releases, and what a directory of a later release is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.kafka.rules.releases import LATEST, NEWEST_LEVEL, describe_known
from tests.support import build

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS = ("seek", "truncate", "checkpoint", "reindex", "retain", "roll", "compact")


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_lists_the_known_releases_and_refuses_others(tmp_path: Path, name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    [option] = [each for each in command.params if each.name == "kafka"]
    assert isinstance(option, click.Option)
    assert describe_known() in (option.help or "")
    done = CliRunner().invoke(cli, [name, "--kafka", "9.9", str(tmp_path)])
    assert done.exit_code == 2
    said = " ".join(done.stderr.split())
    assert f"Kafka 9.9 is newer than this kafkalog knows ({LATEST}); the nearest: {LATEST}" in said
    assert describe_known() in said


def test_a_plan_for_a_directory_of_a_later_release_asks_for_the_release(tmp_path: Path) -> None:
    name = b"metadata.version"
    level = (NEWEST_LEVEL + 1).to_bytes(2, "big")
    value = b"\1\x0c\0" + bytes([len(name) + 1]) + name + level + b"\0"
    (tmp_path / "bootstrap.checkpoint").write_bytes(build.batch_v2([build.Record(offset=0, value=value)]))
    (tmp_path / "meta.properties").write_bytes(build.meta_properties({"version": "1", "node.id": "1"}))
    (tmp_path / "t-0").mkdir()
    log = tmp_path / "t-0" / f"{0:020d}.log"
    log.write_bytes(build.batch_v2([build.Record(offset=0, value=b"v")]))
    arguments = ["reindex", "--output", "table", "--apply", str(tmp_path)]
    refused = CliRunner().invoke(cli, arguments)
    said = " ".join(refused.output.split())
    assert refused.exit_code == 3
    assert f"asks for metadata.version {NEWEST_LEVEL + 1}: newer than this kafkalog knows ({LATEST})" in said
    assert f"--kafka {LATEST}" in said
    assert not log.with_suffix(".index").exists()
    done = CliRunner().invoke(cli, [*arguments, "--kafka", str(LATEST)])
    assert done.exit_code == 0
    assert log.with_suffix(".index").exists()
