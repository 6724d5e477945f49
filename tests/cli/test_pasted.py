"""Printed commands pasted into a shell, in a directory whose name is as bad as a name can be."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
ROOT = Path(__file__).resolve().parents[2]
NAME = os.fsdecode(b"disk 1\nit's \xff!\x1b[31m -x")
PROGRAM = f'kafkalog() {{ PYTHONPATH={ROOT} {sys.executable} -m kafkalog_cli "$@"; }}\n'
NAMED = re.compile(r"(?:next: |^ +|: )((?:kafkalog|cd) .*)$", re.MULTILINE)
"""A command in a line of its own, or at the end of a sentence."""
CUT = "00000000000000000041.log"


def pasted(command: str, directory: Path, *, columns: int = 60) -> subprocess.CompletedProcess[str]:
    """What bash makes of a line, on a terminal of some columns."""
    environment = {**os.environ, "COLUMNS": str(columns)}
    return subprocess.run(
        ["bash", "-c", PROGRAM + command], cwd=directory, env=environment, capture_output=True, text=True, check=False
    )


def named(text: str) -> list[str]:
    """The commands with a path that a text names, the way somebody would mark them with the mouse."""
    return [command for command in NAMED.findall(text) if "$'" in command]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The directory; below it a log directory, damaged in two places."""
    home = tmp_path / NAME
    home.mkdir()
    shutil.copytree(FIXTURES / "demo", home / "kafka")
    partition = home / "kafka" / "orders-0"
    (partition / "00000000000000000000.index").unlink()
    log = bytearray((partition / CUT).read_bytes())
    log[200] ^= 0xFF
    (partition / CUT).write_bytes(log)
    return home


def test_from_damage_to_a_mended_log_and_back(home: Path) -> None:
    """verify, recover, its apply, undo, then the same of truncate: each command but the first of a verb was printed."""
    partition = "kafka/orders-0"
    found = pasted(f'kafkalog verify --output table "$PWD"/{partition}', home)
    assert found.returncode == 4, found.stderr
    commands = named(found.stdout)
    assert [command.split()[1] for command in commands] == ["recover", "recover"]
    assert NAME not in found.stdout
    before = (home / partition / CUT).read_bytes()
    plan = pasted(f"{commands[0]} --output table", home)
    assert plan.returncode == 4, plan.stderr
    done = pasted(named(plan.stdout)[0], home)
    assert done.returncode == 0, done.stderr
    assert (home / partition / "00000000000000000000.index").exists()
    assert (home / partition / CUT).read_bytes() != before
    undone = pasted(f"{named(done.stdout)[0]} --output table", home)
    assert undone.returncode == 0, undone.stderr
    assert (home / partition / CUT).read_bytes() == before

    planned = pasted(f'kafkalog truncate --at-damage --output table "$PWD"/{partition}', home)
    command, for_impact = named(planned.stdout)
    meant = pasted(for_impact, home)
    assert "for groups of consumers" in planned.stdout
    assert meant.returncode == 4, meant.stderr
    done = pasted(command, home)
    assert done.returncode == 0, done.stderr
    assert (home / partition / CUT).read_bytes() == b""
    (command,) = named(done.stdout)
    undone = pasted(f"{command} --output table", home)
    assert undone.returncode == 0, undone.stderr
    assert (home / partition / CUT).read_bytes() == before


@pytest.mark.slow
def test_a_plan_that_the_disk_no_longer_fits_is_made_again(home: Path, tmp_path: Path) -> None:
    """The plan is made in one directory with relative paths, and applied from another one."""
    planned = pasted("kafkalog truncate --at-damage --plan-out 'plan 1.json' kafka/orders-0 --output table", home)
    assert planned.returncode == 4, planned.stderr
    index = home / "kafka" / "orders-0" / "00000000000000000041.index"
    index.write_bytes(index.read_bytes()[:8])
    plan = home / "plan 1.json"
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(plan, other / "plan.json")
    refused = pasted("kafkalog apply plan.json", other)
    assert refused.returncode == 3
    (command,) = named(refused.stderr)
    again = pasted(command, other)
    assert again.returncode == 4, again.stderr
    assert pasted("kafkalog apply plan.json", other).returncode == 3
    shutil.copy(plan, other / "plan.json")
    assert pasted("kafkalog apply plan.json", other).returncode == 0


@pytest.mark.slow
def test_a_refusal_names_what_settles_it(home: Path) -> None:
    refused = pasted('kafkalog retain --set log.retention.ms=1 --apply --output table "$PWD"/kafka/orders-1', home)
    assert refused.returncode == 3
    command = named(refused.stdout)[-1]
    assert command.endswith("--assume-defaults")
    assert refused.stderr == "kafkalog: refused, as the result shows; nothing has been changed\n"
    assert pasted(command, home).returncode == 0
