"""Files and directories that this user may not read: the sentence names them, and nothing is made up."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from tests.support.rights import as_nobody, open_to_others

if TYPE_CHECKING:
    from collections.abc import Iterator

    from click.testing import Result

FIXTURES: Final = Path(__file__).parents[3] / "fixtures"
METADATA: Final = "__cluster_metadata-0"
LOG: Final = f"{METADATA}/{0:020}.log"
SNAPSHOT: Final = f"{METADATA}/{0:020}-{0:010}.checkpoint"


@pytest.fixture
def place() -> Iterator[Path]:
    with open_to_others() as directory:
        yield directory


def run(*words: str | Path) -> Result:
    runner = CliRunner(env={"COLUMNS": "200"})
    runner.invoke(cli, [*map(str, words)])  # the other user may not read where Python is: everything is imported now
    with as_nobody():
        done = runner.invoke(cli, [*map(str, words)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def closed(root: Path, name: str) -> Path:
    path = root / name
    path.chmod(0)
    return path


@pytest.mark.parametrize("name", [LOG, METADATA])
@pytest.mark.parametrize("words", [(), ("--history",), ("--diff", str(FIXTURES / "demo")), ("--recreate", "shell")])
def test_a_metadata_log(name: str, words: tuple[str, ...], place: Path) -> None:
    disk = Path(shutil.copytree(FIXTURES / "demo", place / "kafka"))
    path = closed(disk, name)
    done = run("cluster", *words, disk)
    path.chmod(0o755)
    assert done.exit_code == 4
    assert f"{path}: user nobody (65534) has no permission to" in done.output
    first = done.stdout.splitlines()[0]
    if not words:
        assert first.startswith("NOTHING IS KNOWN OF CLUSTER")
    elif words[0] != "--recreate":
        assert first.startswith(f"EVERYTHING IS UNKNOWN IN {disk / METADATA}")
    if words[:1] != ("--diff",):
        assert "topic-created" not in done.output
        assert "--topic" not in done.output


def test_files_next_to_it(place: Path) -> None:
    disk = Path(shutil.copytree(FIXTURES / "demo", place / "kafka"))
    for name, first, detail in (
        (
            SNAPSHOT,
            "5 topics, 6 partitions; THE FIRST SNAPSHOT CANNOT BE READ, which may have the only record of the voters",
            "",
        ),
        ("meta.properties", f"CLUSTER: metadata.version 30 (4.3).*; LOOK AT {disk}", "meta.properties"),
        ("orders-0", f"; LOOK AT {disk}", "orders-0/partition.metadata"),
        ("orders-1/partition.metadata", f"; LOOK AT {disk}", "orders-1/partition.metadata"),
    ):
        path = closed(disk, name)
        done = run("cluster", disk)
        rows = [json.loads(line) for line in run("cluster", "--output", "ndjson", disk).stdout.splitlines()]
        path.chmod(0o755)
        assert re.search(re.sub(r"([()])", r"\\\1", first), " ".join(done.stdout.split())), done.stdout
        (row,) = (row for row in rows if row["type"] == "cluster_directory")
        assert detail in (row["detail"] or "")


def test_the_files_of_a_zookeeper_server(place: Path) -> None:
    tree = Path(shutil.copytree(FIXTURES / "ensemble", place / "zk"))
    commands = (("zookeeper",), ("cluster",), ("zookeeper", "--history", "/kafka/prod/controller"))
    for name in ("version-2", "version-2/snapshot.59", "version-2/log.5b", "version-2/log.1"):
        path = closed(tree, name)
        for command in commands if "snapshot" not in name else commands[:2]:  # a history needs no snapshot
            done = run(*command, tree)
            assert done.exit_code == 3, done.output
            said = " ".join(done.output.split())
            assert f"{path}: user nobody (65534) has no permission to" in said or f"{path}\n" in done.output
            if "log" in name and "--history" not in command:
                assert re.search("NOT RESTORABLE|CANNOT BE RESTORED", done.stdout.splitlines()[0]), done.stdout
        path.chmod(0o755)
