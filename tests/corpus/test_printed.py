"""Every command that verify, reindex and truncate print for a fault has something to do, or names a way out.

Each of them runs as a plan, without --apply, on the disk for which it was printed; what it prints is run in turn. A
plan with nothing to do, and a refusal that names no other command, leave somebody who pastes commands where he was.
"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.corpus import walking
from tests.support.refusing import commands_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.corpus.faults import Fault
    from tests.support.corpus.walking import Walk

pytestmark = pytest.mark.corpus

_FAULTS: Final = [fault for fault in walking.all_faults() if not fault.path.endswith("dir_empty")]
_PARTITION: Final = re.compile(r"-\d+$")
_FIRST: Final = ("reindex {}", "truncate {} --as-broker", "truncate {} --at-damage")


@pytest.mark.parametrize("fault", _FAULTS, ids=lambda fault: fault.path.split("/", 1)[1])
def test_a_printed_command_has_something_to_do(corpus: Path, tmp_path: Path, fault: Fault) -> None:
    walk = walking.lay(corpus, fault, tmp_path)
    homes = [str(home) for home in walk.homes]
    named = [*homes, *([] if walk.metadata is None else [str(walk.metadata)])]
    first = [f"kafkalog verify {shlex.join(named)}"]
    first += [f"kafkalog {line.format(shlex.quote(home))}" for home in homes for line in _FIRST]
    for partition in _touched(fault):  # and a copy of it that is in no log directory
        if (tmp_path / "disk" / partition).is_dir():
            copy = tmp_path / "elsewhere" / PurePosixPath(partition).name
            shutil.copytree(tmp_path / "disk" / partition, copy, dirs_exist_ok=True)
            first += [f"kafkalog {line.format(shlex.quote(str(copy)))}" for line in ("verify {}", *_FIRST)]
    assert not [*_idle(walk, first)]


def _touched(fault: Fault) -> set[str]:
    """The partitions to which the fault was done, by their paths on the disk."""
    around = {str(PurePosixPath(name).parent) for name in (*fault.brought("before"), *fault.removed("before"))}
    return {path for path in around if _PARTITION.search(path)}


def _idle(walk: Walk, first: list[str]) -> Iterator[str]:
    """Run commands, and what they print; yield each that was printed and has nothing to do, or no way out."""
    seen: set[str] = set()
    todo = [(command, "") for command in first]
    while todo:
        command, source = todo.pop(0)
        command = _planned(walk.filled(command))
        if command in seen or not command.startswith("kafkalog "):
            continue
        seen.add(command)
        result = walking.invoke(command)
        rows = walking.rows_of(result.stdout)
        states = {row["state"] for row in rows if row["type"] == "plan"}
        printed = [*_printed(rows, result.stderr, command)]
        if source and states == {"nothing"}:
            yield f"{source}: {command}: nothing to do"
        if (
            source
            and ("refused" in states or result.exit_code == 3)
            and not {_planned(each) for each, _ in printed} - seen
        ):
            yield f"{source}: {command}: refused without a way out: {result.output}"
        todo += printed


def _planned(command: str) -> str:
    return command.replace(" --apply", "")


def _printed(rows: list[dict[str, Any]], stderr: str, command: str) -> Iterator[tuple[str, str]]:
    """Commands that a run prints, each with what prints it; not those that apply the plan itself."""
    for row in rows:
        if row["type"] == "finding" and row["next_command"]:
            yield str(row["next_command"]), str(row["code"])
        if row["type"] == "plan" and row["ways_out"]:
            yield from ((line, f"{row['command']} is refused") for line in str(row["ways_out"]).splitlines())
    yield from ((line.replace(" --output ndjson", ""), f"stderr of {command}") for line in commands_of(stderr))
