"""A topic id that is not on the disks that are named: recover names what has it, at last the command that writes it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.support.corpus import walking

if TYPE_CHECKING:
    import pytest

DEMO: Final = Path("fixtures/demo")
_PARTITION: Final = "payments-0"
_ID: Final = "AAAAAAAAAAAAAAAAAAAAZA"
"""The directory id of another log directory of the broker."""
_FILE: Final = f"{_PARTITION}/partition.metadata"


def _refused(*directories: object) -> tuple[int, dict[str, Any]]:
    result = walking.invoke(f"kafkalog recover --kafka 4.3 {' '.join(map(str, directories))}")
    [plan] = [row for row in walking.rows_of(result.stdout) if row["type"] == "plan" and row["state"] == "refused"]
    return result.exit_code, plan


def test_the_log_directory_with_the_metadata_log_is_named_too(tmp_path: Path) -> None:
    """For a copy of a partition alone: the metadata log, or another partition of the topic, has its topic id."""
    shutil.copytree(DEMO / _PARTITION, tmp_path / _PARTITION)
    (tmp_path / _FILE).write_bytes(b"")
    status, plan = _refused(tmp_path / _PARTITION)
    assert status == 4
    command = plan["next_command"]
    assert command == f"kafkalog recover {tmp_path / _PARTITION} OTHER_LOG_DIR"
    result = walking.invoke(command.replace("OTHER_LOG_DIR", f"{DEMO} --kafka 4.3"))
    states = {row["root"]: row["state"] for row in walking.rows_of(result.stdout) if row["type"] == "plan"}
    assert states[str(tmp_path / _PARTITION)] == "planned"


def test_a_topic_id_of_no_disk_is_written_as_the_broker_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all log directories are named and none has it: the id of kafka-topics.sh, in the bytes of the broker."""
    monkeypatch.chdir(tmp_path)
    for name, others in (("A", "*-0"), ("B", "[!p]*-?")):
        ignored = shutil.ignore_patterns(others, "bootstrap.checkpoint")
        shutil.copytree(Path(__file__).parents[3] / DEMO, tmp_path / name, ignore=ignored)
    meta = tmp_path / "A" / "meta.properties"
    meta.write_text(re.sub("(?m)^directory.id=.*", f"directory.id={_ID}", meta.read_text()))
    lost = tmp_path / "B" / _FILE
    old = lost.read_bytes()
    lost.write_bytes(b"")
    status, plan = _refused("A", "B")
    assert status == 4
    topic_id = old.decode().rpartition(" ")[2].strip()
    subprocess.run(plan["next_command"].replace("TOPIC_ID", topic_id), shell=True, check=True)  # noqa: S602
    assert lost.read_bytes() == old


def test_a_directory_that_waits_for_its_deletion_is_moved_out(tmp_path: Path) -> None:
    """4.3.1 does not start with it, and starts after the command: seed 9309 of 08-internal-4.3.1."""
    home = tmp_path / "kafka"
    shutil.copytree(DEMO, home)
    aside = home / f"{_PARTITION}.{'0' * 32}-delete"
    shutil.copytree(home / _PARTITION, aside)
    (aside / "partition.metadata").write_text("version: 0\n")
    result = walking.invoke(f"kafkalog recover --kafka 4.3 {home}")
    found = {row["code"]: row for row in walking.rows_of(result.stdout) if row["type"] == "finding"}
    subprocess.run(found["partition-metadata.too-short"]["next_command"], shell=True, check=True)  # noqa: S602
    assert (tmp_path / aside.name).is_dir()
    assert not aside.exists()
