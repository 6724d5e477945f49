"""A case for every command of the click tree, and what its output must be like in every form, and without a reader.

`CASES` is keyed by the command's path. A command without a case fails `test_every_command`, a form without a judge
fails here. Paths in arguments are those of `Disk`.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import click

from kafkalog_cli.main import cli
from kafkalog_core.output.tables import RECORD_DECODED, RECORD_V07, TABLES, with_path
from tests.cli.terminals import Ended, run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pytest

    from kafkalog_core.output.schema import Column

__all__ = [
    "CASES",
    "Case",
    "Disk",
    "cases_of",
    "check_on_pipes",
    "check_on_terminals",
    "check_without_reader",
    "commands",
    "piped",
]

FIXTURES: Final = Path(__file__).resolve().parents[2] / "fixtures"
NOW: Final = "2026-11-21T00:00:00Z"
STREAMS: Final = frozenset({"dump", "spark sql"})
"""Commands that write JSON lines to a pipe; all others write text there too."""
NARROW: Final = 80
"""Columns of a terminal; on a pipe no line is broken, whatever it takes."""
TERMINALS: Final[tuple[tuple[int, Mapping[str, str]], ...]] = (
    (200, {}),
    (120, {}),
    (80, {}),
    (20, {}),
    (1, {}),
    (80, {"NO_COLOR": "1"}),
    (80, {"TERM": "dumb"}),
)
"""Columns and environments in which a command is tried."""
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_HUES: Final = re.compile(r"\x1b\[([0-9;]*;)?(3[0-8]|4[0-8]|9[0-7]|10[0-7])[;m]")
"""Colours; NO_COLOR leaves bold, dim and underlined text as it is (no-color.org)."""
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "bool": (bool,),
    "double": (int, float),
    "headers": (list,),
    "map": (dict, list),
    "json": (dict,),
}


@dataclass(frozen=True, slots=True)
class Case:
    """One way to run a command.

    Args:
        arguments: after the command's name; `{kafka}` and the like are places of `Disk`.
        status: the expected exit status.
        first: a command line that comes before, for what needs a plan or a journal.
        last: what the last line of table output must match; None: the end says the exit status.
        prose: whether the command has no rows at all: it writes text only.
    """

    arguments: str
    status: int = 0
    first: str | None = None
    last: str | None = None
    prose: bool = False


CASES: Final[Mapping[str, tuple[Case, ...]]] = {
    "dump": (
        Case("{kafka}", 4),
        Case("--records --path {kafka}", 4),
        Case("--records --bytes hex --newest-first {kafka}/customers-0"),
        Case("--records --decode auto {kafka}/__consumer_offsets-0"),
        Case("--segments {kafka}", 4),
        Case("--files {kafka}/payments-0"),
        Case("--files --segments {kafka}", 4),
        Case("--stats {kafka}", 4),
    ),
    "seek": (
        Case("--offset 41 --explain {kafka}/orders-1"),
        Case("--timestamp 2025-10-09 {kafka}"),
        Case("--latest --read 1KiB {kafka}/customers-0"),
        Case("--before -1 --max 5 {kafka}/customers-0"),
        Case("--offset 4711 {kafka}/customers-0", 3),
    ),
    "cluster": (
        Case("{kafka}"),
        Case("--topic orders {kafka}"),
        Case("--config --acls --users {kafka}"),
        Case("--broker 1 --at 40 {kafka}/__cluster_metadata-0"),
        Case("--history {kafka}"),
        Case("--diff 20 {kafka}"),
        Case("--at 5 --diff {other} {kafka}"),
    ),
    "diff": (
        Case("--jobs 1 --now {now} {kafka} {other}"),
        Case("--jobs 1 --now {now} {kafka} {kafka}"),
        Case("--jobs 1 --now {now} --deep --topic orders {kafka}/orders-0 {other}/orders-0"),
    ),
    "groups": (
        Case("--jobs 1 --now {now} {kafka}"),
        Case("--jobs 1 --now {now} --group billing {kafka}"),
        Case("--jobs 1 --now {now} --history billing {kafka}"),
    ),
    "verify": (Case("--jobs 1 {kafka}", 4), Case("--jobs 1 {kafka}/customers-0")),
    "which-partition": (
        Case("--key customer-17 --key b --partitions 12", last="b$"),
        Case("--group g1", last="__consumer_offsets-42  g1$"),
    ),
    "explain": (
        Case("", last="."),
        Case("segment.gap", last="."),
        Case("--log {brokerlog}", last="."),
    ),
    "roll": (
        Case("--jobs 1 --segment-bytes 1048576 {kafka}/customers-0 {kafka}/payments-0"),
        Case("--jobs 1 --segment-bytes 1048576 --apply --to {new} {kafka}/customers-0"),
    ),
    "reindex": (
        Case("--jobs 1 --all {kafka}/customers-0"),
        Case("--jobs 1 --all --apply {kafka}/customers-0"),
    ),
    "recover": (
        Case("--jobs 1 --kafka 4.3 {kafka}", 4),
        Case("--jobs 1 --kafka 4.3 --only-copy --apply {kafka}"),
        Case("--jobs 1 --kafka 4.3 --as-broker {kafka}", 4),
    ),
    "excise": (
        Case("--jobs 1 --offset 5 {kafka}/customers-0", 4),
        Case("--jobs 1 --offset 5 --healthy {kafka}/customers-0", 4),
        Case("--jobs 1 --offset 5 --healthy --apply {kafka}/customers-0"),
    ),
    "truncate": (
        Case("--jobs 1 --to-offset 5 {kafka}/customers-0", 4),
        Case("--jobs 1 --at-damage {kafka}", 4),
        Case("--jobs 1 --to-offset 5 --apply {kafka}/customers-0"),
    ),
    "preflight": (
        Case("--jobs 1 --now {now} {kafka}", 4),
        Case("--jobs 1 --now {now} --details {kafka}", 4),
        Case("--compat --jobs 1 --now {now} {kafka}", 4),
    ),
    "impact": (
        Case("{kafka}", 4),
        Case("{plan}", 4, first="truncate --jobs 1 --to-offset 5 --plan-out {plan} {kafka}/orders-1"),
        Case("--replica {other} {kafka}"),
    ),
    "checkpoint": (Case("--jobs 1 {kafka}"), Case("--jobs 1 --apply {kafka}")),
    "quorum": (
        Case("{kafka}"),
        Case("{kafka} force-standalone --apply"),
        Case("{kafka} cut --at 20", 4),
        Case("{kafka} change-address --address 1=kafka-1:9093"),
    ),
    "transplant": (
        Case("--jobs 1 --cluster-id bmV3LWNsdXN0ZXItLS0wMQ {kafka}"),
        Case("--jobs 1 --cluster-id ZGVtby1rYWZrYWxvZy0wMQ --topic-ids {other} {kafka}"),
        Case("--jobs 1 --cluster-id bmV3LWNsdXN0ZXItLS0wMQ --apply {other}"),
    ),
    "freeze": (
        Case("--to {new} {kafka}"),
        Case("--all --dry-run --to {new} {kafka}"),
        Case("--all --to {new} {kafka}"),
    ),
    "free": (Case("--jobs 1 --now {now} --need 1 {kafka}"),),
    "retain": (
        Case("--jobs 1 --now {now} {kafka}"),
        Case("--jobs 1 --now {now} --what-if retention.ms=1 --until 2026-12-21 {kafka}"),
    ),
    "usage": (
        Case("--now {now} {kafka}"),
        Case("--by partition --compaction --now {now} {kafka}"),
        Case("--by kind {kafka}"),
    ),
    "compact": (
        Case("--jobs 1 --now {now} {kafka}"),
        Case("--jobs 1 --now {now} --force --biggest 3 {kafka}/customers-0"),
    ),
    "apply": (
        Case("--jobs 1 {plan}", first="reindex --jobs 1 --all --plan-out {plan} {kafka}/customers-0"),
        Case("--jobs 1 --resume {kafka}"),
    ),
    "undo": (
        Case("{kafka}", first="reindex --jobs 1 --all --apply {kafka}/customers-0"),
        Case("--list {kafka}", first="reindex --jobs 1 --all --apply {kafka}/customers-0"),
        Case("--apply {kafka}", first="reindex --jobs 1 --all --apply {kafka}/customers-0"),
        Case("--prune --apply {kafka}", first="reindex --jobs 1 --all --apply {kafka}/customers-0"),
    ),
    "transactions": (
        Case("--jobs 1 --now {now} {kafka}"),
        Case("--jobs 1 --now {now} --all {kafka} {other}"),
        Case("--jobs 1 --now {now} --producer 1 {kafka}/payments-0"),
    ),
    "bench": (Case("{kafka}/customers-0/00000000000000000000.log", last="customers|0000", prose=True),),
    "completion": (
        Case("bash", last=".", prose=True),
        Case("zsh", last=".", prose=True),
        Case("fish", last=".", prose=True),
    ),
    "zookeeper": (
        Case("{ensemble}"),
        Case("--tree --under /kafka/prod/config {ensemble}"),
        Case("--get /kafka/prod/controller {ensemble}"),
        Case("--history /kafka/prod/brokers/topics/gone {ensemble}"),
        Case("--diff 0x1e {ensemble}"),
        Case("--at 0x1e {ensemble} {kafka}", 4),
    ),
    "serve": (Case("--listen 127.0.0.1:0 --for 0.1 {kafka}", last=r"read-only, at 127\.0\.0\.1:\d+$", prose=True),),
    "spark catalog": (
        Case("--to {new} --master local[2] {kafka}", 4),
        Case("--to {new} --master local[2] {kafka}", 4, first="spark catalog --to {new} --master local[2] {kafka}"),
    ),
    "spark compact": (Case("--now {now} --master local[2] {kafka}"),),
    "spark export": (Case("--to {new} --master local[2] {kafka}", 4, last="."),),
    "spark groups": (Case("--now {now} --master local[2] {kafka}"),),
    "spark pack": (Case("--without-pyarrow {new}.tar.gz", last="MB", prose=True),),
    "replicas": (Case("{kafka} {other}", 4),),
    "spark replicas": (Case("--master local[2] {kafka} {other}", 4),),
    "spark retain": (Case("--now {now} --master local[2] {kafka}"),),
    "spark usage": (Case("--now {now} --master local[2] {kafka}"),),
    "spark sql": (
        Case("--master local[2] SELECT_*_FROM_records {kafka}/customers-0", last=r"^\d+ rows?$"),
        Case("--master local[2] SELECT_*_FROM_batches {kafka}/customers-0", last=r"^\d+ rows?$"),
    ),
    "spark transactions": (Case("--now {now} --master local[2] {kafka} {other}"),),
    "spark verify": (Case("--master local[2] {kafka}", 4),),
}


def commands(group: click.Group = cli, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    """Paths of all commands that do something, from the click tree."""
    with click.Context(group) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None, name
            if isinstance(command, click.Group):
                yield from commands(command, f"{prefix}{name} ")
            else:
                yield f"{prefix}{name}", command


def cases_of(*, spark: bool) -> list[tuple[str, Case]]:
    """All cases of the jobs on Spark, or all others."""
    return [(path, case) for path, cases in CASES.items() if path.startswith("spark ") is spark for case in cases]


class Disk:
    """A log directory with every kind of file, and one partition of it damaged; a new one for each run."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._runs = 0

    def places(self) -> dict[str, str]:
        """What arguments may name, as it is before the run."""
        self._runs += 1
        root = self._place / str(self._runs)
        for name in ("kafka", "other"):
            shutil.copytree(FIXTURES / "demo", root / name)
        shutil.rmtree(root / "kafka" / "orders-0")
        shutil.copytree(FIXTURES / "damaged" / "orders-0", root / "kafka" / "orders-0")
        (root / "broker.log").write_text(
            "[2026-11-21 00:00:00,000] WARN [LogLoader partition=orders-0, dir=/kafka] Found 3 files\n"
            "[2026-11-21 00:00:00,000] ERROR Shutdown broker because all log dirs in /kafka have failed "
            "(org.apache.kafka.storage.internals.log.LogManager)\n"
        )
        shutil.copytree(FIXTURES / "ensemble", root / "ensemble")
        names = {
            "ensemble": "ensemble",
            "kafka": "kafka",
            "other": "other",
            "plan": "plan.json",
            "new": "new",
            "brokerlog": "broker.log",
        }
        return {"now": NOW} | {name: str(root / file) for name, file in names.items()}

    def without_run(self, text: str) -> str:
        """A text in which the paths of one run are those of another."""
        return re.sub(rf"{re.escape(str(self._place))}/\d+/", "/", text)

    def forget(self) -> None:
        """Remove what the last run had."""
        shutil.rmtree(self._place / str(self._runs))


def forms_of(path: str) -> tuple[str, ...]:
    """The forms that a command offers with --output; empty: it has no such option."""
    command = dict(commands())[path]
    for parameter in command.params:
        if parameter.name == "output" and isinstance(parameter.type, click.Choice):
            return tuple(parameter.type.choices)
    return ()


def check_on_pipes(monkeypatch: pytest.MonkeyPatch, disk: Disk, path: str, case: Case) -> None:
    """Run a case with standard output as a pipe, in every form and in the one that it chooses itself."""
    chosen = "ndjson" if path in STREAMS else "table"
    found: dict[str, str] = {}
    for form in ("", *forms_of(path)):
        ended = _run(monkeypatch, disk, path, case, ["--output", form] if form else [])
        where = f"{path} {case.arguments} --output {form or 'chosen'} on a pipe"
        assert "\x1b" not in ended.stdout, where
        _judge(ended, path, case, form or chosen, where)
        found[form or chosen] = ended.stdout
    if "ndjson" in found and not case.prose:
        _check_unbroken(found["table"], found["ndjson"], disk, f"{path} {case.arguments} as text on a pipe")
    if forms_of(path) and case is CASES[path][0]:
        where = f"{path} {case.arguments} --ndjson"
        _judge(_run(monkeypatch, disk, path, case, ["--ndjson"]), path, case, "ndjson", where)
        _check_file(monkeypatch, disk, path, case, chosen)


def _check_unbroken(text: str, rows: str, disk: Disk, where: str) -> None:
    """A sentence of the rows that the text shows is on one line of it, and no column is left out."""
    assert "the line is too short" not in text, where
    text, rows = disk.without_run(text), disk.without_run(rows)
    words = " ".join(text.split())
    values = [value for line in rows.splitlines() for value in json.loads(line).values() if isinstance(value, str)]
    for sentence in (line for value in values for line in value.split("\n")):
        assert sentence in text or sentence not in words, (where, sentence)


def _check_file(monkeypatch: pytest.MonkeyPatch, disk: Disk, path: str, case: Case, form: str) -> None:
    """The FILE of -o has what a pipe gets, and nothing is written next to it; a run that fails leaves none."""
    with TemporaryDirectory() as around:
        file = Path(around, "result")
        file.write_text("of an earlier run")
        ended = _run(monkeypatch, disk, path, case, ["-o", str(file)])
        where = f"{path} {case.arguments} -o FILE"
        assert ended.stdout == "", where
        assert os.listdir(around) == ["result"], where
        _judge(ended._replace(stdout=file.read_text()), path, case, form, where)
        file.unlink()
        wrong = ["--log"] if path == "explain" else []
        failed = run(monkeypatch, [*path.split(), "-o", str(file), *wrong, f"{around}/nothing"])
        assert failed.status in {2, 3}, (where, failed)
        assert os.listdir(around) == [], where


def check_without_reader(disk: Disk, path: str, case: Case) -> None:
    """Run a case as a process whose reader goes at once, or after a line: its exit status is that of its work.

    A stream of rows ends with its reader, and knows nothing of damage after that.
    """
    expected = {case.status} | ({0} if path in STREAMS else set())
    has_rows = forms_of(path) and not path.startswith("spark ")  # each run of those starts a JVM
    for form in ("", *(["--ndjson"] if has_rows else [])):
        for lines in (0, 1):
            places = disk.places()
            if case.first is not None:
                assert piped(_words(case.first, places), lines=None) in {0, 4}, case
            arguments = [*path.split(), *([form] if form else []), *_words(case.arguments, places)]
            assert piped(arguments, lines=lines) in expected, (arguments, lines)
            disk.forget()


def piped(arguments: Sequence[str], *, lines: int | None, both: bool = False) -> int:
    """Exit status of a command whose reader closes the pipe after so many lines; None: it reads all of it.

    both: whether standard error goes into the same pipe, else it is not looked at.
    """
    errors = subprocess.STDOUT if both else subprocess.DEVNULL
    command = [sys.executable, "-m", "kafkalog_cli", *arguments]
    with subprocess.Popen(
        command, cwd=FIXTURES.parent, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
    ) as process:
        assert process.stdout is not None
        if lines is None:
            process.stdout.read()
        elif lines:
            process.stdout.readline()
        process.stdout.close()
        return process.wait(timeout=300)


def check_on_terminals(monkeypatch: pytest.MonkeyPatch, disk: Disk, path: str, case: Case) -> None:
    """Run a case on terminals: the form that it chooses itself on all of them, every form on one.

    All of a command's cases run on one terminal, its first case on the others too.
    """
    is_first = case is CASES[path][0]
    for width, environment in TERMINALS if is_first else TERMINALS[:1]:
        ended = _run(monkeypatch, disk, path, case, [], width=width, **environment)
        where = f"{path} {case.arguments} on a terminal of {width} columns, {dict(environment)}"
        assert "TERM" not in environment or "\x1b" not in ended.stdout, where
        assert "NO_COLOR" not in environment or not _HUES.search(ended.stdout), where
        assert not _CONTROLS.search(_COLOURS.sub("", ended.stdout).replace("\r\n", "\n")), where
        _judge(ended, path, case, "table", where)
    for form in forms_of(path) if is_first else ():
        ended = _run(monkeypatch, disk, path, case, ["--output", form], width=NARROW)
        _judge(ended, path, case, form, f"{path} {case.arguments} --output {form} on a terminal")


def _run(
    monkeypatch: pytest.MonkeyPatch,
    disk: Disk,
    path: str,
    case: Case,
    options: Sequence[str],
    *,
    width: int | None = None,
    **environment: str,
) -> Ended:
    places = disk.places()
    if case.first is not None:
        before = run(monkeypatch, _words(case.first, places))
        assert before.status in {0, 4}, before.stderr
    arguments = [*path.split(), *options, *_words(case.arguments, places)]
    ended = run(monkeypatch, arguments, width=width, **environment)
    disk.forget()
    return ended


def _words(line: str, places: Mapping[str, str]) -> list[str]:
    """Arguments of a line; an underscore next to a capital letter is a blank, so that a query is one argument."""
    words = [word.format_map(places) for word in line.split()]
    return [word.replace("_", " ") if word.startswith("SELECT_") else word for word in words]


def _judge(ended: Ended, path: str, case: Case, form: str, where: str) -> None:
    heard = f"{where}\n{ended.stdout[-2000:]}\n{ended.stderr[-2000:]}"
    assert ended.status == case.status, heard
    for sign in ("Traceback", "internal error"):
        assert sign not in ended.stderr, heard
        assert path.startswith("explain") or sign not in ended.stdout, heard
    if form == "table":
        assert ended.stdout.endswith("\n"), heard
        last = _COLOURS.sub("", ended.stdout).rstrip().rpartition("\n")[2]
        assert re.search(case.last or rf"exit status {case.status}$", last), heard
    elif case.prose:
        figures = json.loads(ended.stdout) if form == "json" else _rows(ended, form)
        assert {figure["type"] for figure in figures} == {"figure"}, heard
    else:
        _judge_rows(_rows(ended, form), path, case, form, heard)


def _rows(ended: Ended, form: str) -> list[Any]:
    if form == "ndjson":
        return [json.loads(line) for line in ended.stdout.split("\n")[:-1]]
    if form == "json":
        rows: list[Any] = json.loads(ended.stdout)
        return rows
    assert form == "csv"
    header, *lines = csv.reader(io.StringIO(ended.stdout, newline=""))
    assert len(set(header)) == len(header)
    assert all(len(line) == len(header) for line in lines)
    return [dict(zip(header, line, strict=True)) for line in lines]


def _judge_rows(rows: Sequence[dict[str, Any]], path: str, case: Case, form: str, heard: str) -> None:
    if form == "csv":
        assert re.search(rf"exit status {case.status}$", heard.rstrip()), heard
        assert all(_conforms_in_csv(row) for row in rows), heard
        return
    kinds = [row["type"] for row in rows]
    assert kinds.index("summary") == len(rows) - 1, heard
    assert rows[-1]["exit_status"] == case.status, heard
    assert rows[-1]["rows"] == len(rows) - 1, heard
    for row in rows:
        if row["type"] == "row" and path == "spark sql":  # its columns are those of the query
            continue
        assert any(_conforms(row, columns) for columns in _declared(row["type"])), (heard, row)


def _declared(name: str) -> list[tuple[Column, ...]]:
    tables = [TABLES[name], with_path(TABLES[name])]
    if name == "record":
        tables += [each for one in (RECORD_V07, RECORD_DECODED) for each in (one, with_path(one))]
    return [table.columns for table in tables]


def _conforms(row: Mapping[str, object], columns: Sequence[Column]) -> bool:
    """Whether a row has these columns in their order, and values of their kinds."""
    if len(row) != len(columns):
        return False
    for (name, value), column in zip(row.items(), columns, strict=True):
        names = {column.name}
        if column.kind == "bytes":
            names |= {f"{column.name}_b64", f"{column.name}_hex"}
        types = _TYPES.get(column.kind, (str,) if column.kind == "bytes" else (int,))
        fits = value is None or (isinstance(value, types) and (isinstance(value, bool) <= (bool in types)))
        if name not in names or not fits:
            return False
    return True


def _conforms_in_csv(row: Mapping[str, str]) -> bool:
    """Whether only columns of the row's own table have something in them."""
    if row["type"] == "row":
        return True
    known = {column.name for columns in _declared(row["type"]) for column in columns}
    known |= {f"{name}{end}" for name in ("key", "value") for end in ("_b64", "_hex")}
    return all(value == "" or name in known for name, value in row.items())
