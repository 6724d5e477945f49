"""The walk from kafkalog's advice to a disk that is repaired: nothing is run but the commands that kafkalog prints.

`verify` names a command for a finding, `preflight` for what a start would do, `explain` for the lines of the broker's
own log; a plan names the command that applies it; a refusal names the command or the option that settles it. A walk
follows them one after the other, as somebody would who reads nothing else, until verify, or preflight, names no command
that was not run on this very disk.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import tarfile
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, Literal

from click.testing import CliRunner

from kafkalog_cli.main import cli
from tests.support.corpus import archives, faults
from tests.support.corpus.faults import BEFORE, SHEET, Fault
from tests.support.refusing import commands_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

RELEASE: Final = "4.3"
_METADATA: Final = "{base}-metadata-log-dir.tar.gz"
_MOST: Final = 30
_FOLLOWED: Final = ("kafkalog recover ", "kafkalog preflight ", "kafkalog verify ")
Begin = Literal["verify", "preflight", "explain"]
_ID: Final = re.compile(r"(?<![\w/.-])[\w-]{22}(?![\w/.-])")


@dataclass(slots=True)
class Walk:
    """A walk over the log directories of one broker.

    Args:
        homes: its log directories.
        metadata: the directory of its metadata log; `None`: it is not known.
        known: what only the user knows: the words in capitals that commands name, and what is put in for them.
        steps: the commands that were run, and their exit statuses.
        left: findings of severity error at the end.
    """

    homes: Sequence[Path]
    known: dict[str, str]
    metadata: Path | None = None
    steps: list[tuple[str, int]] = field(default_factory=list)
    left: list[dict[str, Any]] = field(default_factory=list)

    def go(self, begin: Begin = "verify", log: Path | None = None) -> None:
        """Follow what is printed; fail where that goes in circles.

        Args:
            begin: the command that is run first; after explain, preflight judges what is left.
            log: of the broker, for explain.
        """
        tried: set[str] = set()
        heard = [] if log is None else self._heard(log)
        for _ in range(_MOST):
            self.left = [row for row in self._verify() if row["severity"] == "error"]
            named = self._named() if begin == "verify" else [*heard, *self._foreseen(self._preflight())]
            command = next((each for each in named if each not in tried), None)
            if command is None:
                return
            while command is not None and command not in tried:
                tried.add(command)
                command, has_changed = self._run(command)
                if has_changed:  # the disk is another one now; nobody edits a file a second time in the same way
                    tried = {each for each in tried if not each.startswith("kafkalog ")}
        message = f"the advice goes in circles: {self.steps}"
        raise AssertionError(message)

    def starts(self) -> bool:
        """Whether a broker starts by itself now, as preflight foresees it."""
        return all(row["starts"] for row in self._preflight() if row["type"] == "preflight")

    def errors(self) -> set[str]:
        """The codes of severity error that verify finds now."""
        return {str(row["code"]) for row in self._verify() if row["severity"] == "error"}

    def _named(self) -> list[str]:
        return [self.filled(str(row["next_command"]), row) for row in self.left if row["next_command"]]

    def filled(self, command: str, row: dict[str, Any] | None = None) -> str:
        """The command with the words in capitals replaced by what the user knows, or reads in the message."""
        for word, value in self.known.items():
            command = re.sub(rf"\b{word}\b", value, command)
        ids = _ID.findall("" if row is None else str(row["message"]))
        return command.replace("ID_OF_THE_METADATA_LOG", ids[-1]) if ids else command

    def _heard(self, log: Path) -> list[str]:
        """The commands that explain prints for the errors of a broker's log, those of ours that look or plan.

        The corpus has `$LOGDIR` for the log directory, and `$METADIR` for that of the metadata log.
        """
        result = invoke(f"kafkalog explain --log {shlex.quote(str(log))}")
        assert result.exit_code == 0, result.output
        errors = [
            row for row in rows_of(result.stdout) if row["type"] == "broker_message" and row["severity"] == "error"
        ]
        commands = [command for row in errors for command in row["commands"].splitlines()]
        home = str(self.homes[0])
        placed = [re.sub(r"'\$LOGDIR([^']*)'", rf"{home}\1", command) for command in commands]
        placed = [command.replace("'$METADIR'", str(self.metadata)) for command in placed]
        placed = [re.sub(r"\b(?:LOG_DIR|PLACE|DIR)\b", home, command) for command in placed]
        return [self.filled(command) for command in placed if command.startswith(_FOLLOWED)]

    def _preflight(self) -> list[dict[str, Any]]:
        result = invoke(f"kafkalog preflight {self._paths}")
        assert result.exit_code in {0, 4}, result.output
        return rows_of(result.stdout)

    def _foreseen(self, rows: list[dict[str, Any]]) -> list[str]:
        """The commands of a preflight, in the order in which its table prints them: recover repairs the rest."""
        kinds = {"start_event", "partition_start"}
        named = [(str(row["next_command"]), row) for row in rows if row["type"] in kinds and row["next_command"]]
        named.sort(key=lambda each: each[0].startswith("kafkalog recover "))
        return [self.filled(command, {"message": row.get("sentence")}) for command, row in named]

    @property
    def _paths(self) -> str:
        return shlex.join(map(str, [*self.homes, *([] if self.metadata is None else [self.metadata])]))

    def _verify(self) -> list[dict[str, Any]]:
        result = invoke(f"kafkalog verify {self._paths}")
        assert result.exit_code in {0, 4}, result.output
        return [row for row in rows_of(result.stdout) if row["type"] == "finding"]

    def _run(self, command: str) -> tuple[str | None, bool]:
        """Run a command; the one that it names, and whether it has changed the disk."""
        if not command.startswith("kafkalog "):
            done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)  # noqa: S602
            self.steps.append((command, done.returncode))
            assert done.returncode == 0, f"{command}: {done.stderr}"
            return None, True
        result = invoke(command)
        self.steps.append((command, result.exit_code))
        assert result.exit_code in {0, 3, 4}, f"{command}: {result.exit_code}: {result.output}"
        rows = rows_of(result.stdout)
        plans = [row for row in rows if row["type"] == "plan"]
        named = [str(plan["next_command"]) for plan in plans if plan["next_command"]] or self._foreseen(rows)
        if result.exit_code == 3:  # the option that settles it is named with the whole command line
            named += commands_of(result.stderr)
            assert named, f"{command} is refused, and no command is named: {result.stderr}"
        following = self.filled(named[0].replace(" --output ndjson", "")) if named else None
        return following, any(plan["state"] == "applied" for plan in plans)


def lay(corpus: Path, fault: Fault, into: Path) -> Walk:
    """Lay down the log directories of a fault, with the broker's metadata log where it is known: a walk may change all.

    Args:
        corpus: the unpacked corpus.
        fault: what was done to the disk.
        into: an empty directory.
    """
    faults.build(corpus, fault, BEFORE, into / "linked")
    shutil.copytree(into / "linked", into / "disk")
    shutil.rmtree(into / "linked")
    return _begun(corpus, str(PurePosixPath(fault.path).parents[1]), str(fault.sheet["base"]), into)


def lay_base(corpus: Path, case: str, base: str, into: Path) -> Walk:
    """The same of a base, to which nothing was done."""
    shutil.copytree(corpus / case / f"base-{base}", into / "disk")
    return _begun(corpus, case, base, into)


def _begun(corpus: Path, case: str, base: str, into: Path) -> Walk:
    archive = corpus / case / _METADATA.format(base=base)
    if not archive.exists():
        homes = [home for home in (into / "disk" / "A", into / "disk" / "B") if home.exists()]
        return Walk(homes, {"VERSION": RELEASE, "OTHER_LOG_DIR": str(homes[0]), "CLUSTER_ID": _cluster_id(homes[0])})
    with tarfile.open(archive) as tar:
        tar.extractall(into, filter="data")
    metadata = into / f"{base}-meta"
    known = {"VERSION": RELEASE, "OTHER_LOG_DIR": str(metadata), "CLUSTER_ID": _cluster_id(metadata)}
    known["METADATA_LOG_DIR"] = str(metadata)
    return Walk([into / "disk"], known, metadata)


def dying() -> list[Fault]:
    """The faults on which the real broker did not start, and of which the disk shows why, by name."""
    return [fault for fault in all_faults() if not fault.sheet["started"] and not _is_elsewhere(fault)]


def all_faults() -> list[Fault]:
    """All faults of the corpus, by name."""
    texts = archives.contents(archives.source()).texts
    found = [Fault.parse(path.removesuffix(f"/{SHEET}"), text) for path, text in texts.items() if path.endswith(SHEET)]
    return sorted((fault for fault in found if BEFORE in fault.states), key=lambda fault: fault.path)


def _is_elsewhere(fault: Fault) -> bool:
    """Whether the reason is not on the disk: a process that holds the lock, or a directory that is not there."""
    return re.search(r"lock_held|dir_missing|dir_empty", fault.path) is not None


def _cluster_id(home: Path) -> str:
    match = re.search(r"^cluster\.id=(.*)$", (home / "meta.properties").read_text(), re.MULTILINE)
    assert match is not None
    return match[1]


def invoke(command: str) -> Any:
    arguments = [*shlex.split(command)[1:], "--output", "ndjson"]
    return CliRunner().invoke(cli, arguments, catch_exceptions=False)


def rows_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]
