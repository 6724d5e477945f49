"""Disks of real brokers next to the releases at which a rule changed: nothing is wrong with them, and nothing is to do.

`fixtures/releases` holds a part of what `tests/integration/release_matrix.py` makes.
"""

from __future__ import annotations

import json
import shlex
import shutil
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.kafka.rules.releases import parse_release
from kafkalog_core.kafka.sim.evidence import infer_release

if TYPE_CHECKING:
    from collections.abc import Callable

ARCHIVES = sorted((Path(__file__).resolve().parents[2] / "fixtures" / "releases").glob("*.tgz"))
VERSIONS = [path.stem for path in ARCHIVES]
INFERRED = {
    "0.11.0.3": ("0.11.0", "1.1"),
    "1.0.2": ("0.11.0", "1.1"),
    "1.1.1": ("0.11.0", "1.1"),
    "2.0.1": ("2.0", "2.3"),
    "2.3.1": ("2.0", "2.3"),
    "2.4.1": ("2.4", "3.9"),
    "2.7.2": ("2.4", "3.9"),
    "2.8.2": ("2.4", "3.9"),
    "4.4.0": ("4.4", "4.4"),
}


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Where the disks of a release are."""
    places: dict[str, Path] = {}

    def lay(version: str) -> Path:
        if version not in places:
            places[version] = tmp_path_factory.mktemp("release")
            archive = next(path for path in ARCHIVES if path.stem == version)
            with tarfile.open(archive) as tar:
                tar.extractall(places[version], filter="data")
        return places[version]

    return lay


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, [*words, "--output", "ndjson"])
    return done.exit_code, done.stdout


@pytest.mark.parametrize("version", VERSIONS)
def test_verify_finds_no_error(disk: Callable[[str], Path], version: str) -> None:
    status, output = run("verify", str(disk(version) / "clean"))
    assert (status, [line for line in output.splitlines() if '"severity":"error"' in line]) == (0, [])


@pytest.mark.parametrize("kafka", [[], ["--kafka"]], ids=["inferred", "named"])
@pytest.mark.parametrize("version", VERSIONS)
def test_reindex_has_nothing_to_do(disk: Callable[[str], Path], version: str, kafka: list[str]) -> None:
    """Snapshots and transaction indexes of earlier releases are right under the rules of every candidate."""
    named = [*kafka, version] if kafka else []
    status, output = run("reindex", str(disk(version) / "clean"), *named)
    assert (status, [line for line in output.splitlines() if '"type":"change"' in line]) == (0, [])


@pytest.mark.parametrize("version", VERSIONS)
def test_the_release_is_among_the_candidates(disk: Callable[[str], Path], version: str) -> None:
    guess = infer_release(str(disk(version) / "clean"))
    assert (str(guess.candidates[0]), str(guess.candidates[-1])) == INFERRED[version]
    release = parse_release(version)
    assert guess.candidates[0][:2] <= release[:2] <= guess.candidates[-1][:2]


def test_a_broker_that_dies_of_its_own_cleaners_batch_is_foreseen(disk: Callable[[str], Path]) -> None:
    """0.11.0.3 and 1.1.1 threw NoSuchElementException on this disk; 2.0.1 looked whether the batch has a record."""
    killed = str(disk("0.11.0.3") / "killed")
    for command in (["verify"], ["truncate", "--as-broker"], ["truncate", "--as-broker", "--kafka", "0.11.0.3"]):
        status, output = run(*command, killed)
        (told,) = (row for row in map(json.loads, output.splitlines()) if row.get("code") == "log.needs-later-release")
        assert (status, told["severity"], told["position"]) == (4, "error", 155)
        assert told["file"] == f"{killed}/compacted-0/{0:020}.log"
        assert told["next_command"] == f"kafkalog checkpoint {killed} --mark-clean --apply"
        assert "--at-damage" not in output
    _, output = run("truncate", "--as-broker", killed, "--kafka", "2.0")
    assert "log.needs-later-release" not in output


def test_the_commands_that_it_names_make_the_old_release_start(disk: Callable[[str], Path], tmp_path: Path) -> None:
    """Done so, a real 1.1.1 started on this disk: it reads the snapshot at the log end, and not the log."""
    killed = Path(shutil.copytree(disk("0.11.0.3") / "killed", tmp_path / "killed"))
    marking = ["checkpoint", str(killed), "--mark-clean", "--kafka", "1.1", "--apply"]
    _, output = run(*marking)
    commands = {row["next_command"] for row in map(json.loads, output.splitlines()) if row.get("next_command")}
    assert commands == {f"kafkalog recover --kafka 1.1 {killed}"}
    assert run(*shlex.split(commands.pop())[1:], "--apply")[0] == 0
    assert (killed / ".kafka_cleanshutdown").exists()
    _, output = run("verify", str(killed))
    assert "log.needs-later-release" not in output
