"""What a user gets who may not read a file of a log directory: the sentence, exit status 3, and nothing derived."""

from __future__ import annotations

import codecs
import json
import os
import re
import shlex
import shutil
import stat
import tarfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from tests.support.every_command import commands
from tests.support.refusing import commands_of
from tests.support.rights import IS_ROOT, NOBODY, as_nobody, open_to_others

if TYPE_CHECKING:
    from collections.abc import Iterator

    from click.testing import Result

FIXTURES = Path(__file__).parents[2] / "fixtures"
OWNER: Final = 12345
PLANS = (
    ("truncate", "--at-damage"),
    ("truncate", "--as-broker"),
    ("reindex",),
    ("checkpoint",),
    ("retain",),
    ("compact",),
    ("roll",),
)
Said = set[tuple[str, str, str]]


def give_away(root: Path) -> list[Path]:
    """Make all files those of another user, readable for everybody; return them and the directories."""
    paths = sorted([root, *root.rglob("*")])
    for path in paths:
        if IS_ROOT:
            os.chown(path, OWNER, OWNER)
        path.chmod(0o755 if path.is_dir() else 0o644)
    return paths


@contextmanager
def closed(path: Path) -> Iterator[None]:
    """Take the right to read away from everybody but the owner, and from the owner where that is this user."""
    mode = stat.S_IMODE(path.stat().st_mode)
    path.chmod((0o700 if path.is_dir() else 0o600) if IS_ROOT else 0)
    try:
        yield
    finally:
        path.chmod(mode)


def run(*arguments: str) -> Result:
    with as_nobody():
        return CliRunner().invoke(cli, [*arguments, "--output", "ndjson"], prog_name="kafkalog")


def rows(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def said(result: Result) -> Said:
    return {(row["code"], row["file"], row["message"]) for row in rows(result) if row["type"] == "finding"}


@pytest.fixture(scope="module")
def demo() -> Iterator[Path]:
    """A log directory with all kinds of files, which belongs to another user."""
    with open_to_others() as place:
        home = place / "d"
        shutil.copytree(FIXTURES / "demo", home)
        shutil.copytree(FIXTURES / "demo", place / "other")
        tables = ("dump", "--stats", "--output", "table")
        for command in (
            ("verify",),
            ("dump", "--files"),
            tables,
            ("seek", "--earliest"),
            *PLANS,
        ):  # import it all as ourselves
            CliRunner().invoke(cli, [*command, str(home)])
        codecs.lookup("ascii")  # Python's own files may be out of reach for others
        give_away(home)
        yield home


def assert_denied(result: Result, path: Path, before: Said) -> None:
    """Exit status 3, the sentence about this path, and no finding more than without it."""
    assert result.exit_code == 3, result.output
    new = said(result) - before
    told = [message for code, _, message in new if code == "file.permission-denied"]
    assert {code for code, _, _ in new} <= {"file.permission-denied"}
    sentence = " ".join(told) if told else result.stderr
    assert "has no permission to" in sentence
    assert f"user {OWNER}, group {OWNER}, and has mode 0{'7' if path.is_dir() else '6'}00" in sentence or not IS_ROOT
    assert any(name.startswith(str(path)) for _, name, _ in new) or str(path) in result.stderr


def test_verify_derives_nothing_from_what_it_may_not_read(demo: Path) -> None:
    before = run("verify", "--jobs", "1", str(demo))
    assert before.exit_code == 0
    for path in sorted([demo, *demo.rglob("*")]):
        with closed(path):
            assert_denied(run("verify", "--jobs", "1", str(demo)), path, said(before))


def test_verify_derives_nothing_of_transactions_from_a_log_that_it_may_not_read() -> None:
    with open_to_others() as place, tarfile.open(FIXTURES / "modern" / "03-transactions-4.3.1.tar.gz") as archive:
        archive.extractall(place, filter="data")
        home = next(place.rglob("meta.properties")).parent
        give_away(place)
        before = run("verify", "--jobs", "1", str(home))
        assert before.exit_code == 0
        for path in sorted(home.rglob("tx.*/*.log")):
            with closed(path):
                assert_denied(run("verify", "--jobs", "1", str(home)), path, said(before))


def test_of_a_log_that_was_not_read_no_figures_are_told(demo: Path) -> None:
    path = demo / "orders-1" / f"{39:020d}.log"
    with closed(path):
        result = rows(run("verify", "--jobs", "1", str(demo)))
    row = next(row for row in result if row["type"] == "partition" and row["path"].endswith("orders-1"))
    assert (row["state"], row["log_end_offset"]) == ("unread", None)
    summary = result[-1]
    assert summary["files_total"] - summary["files"] == 1
    assert summary["bytes_total"] - summary["bytes"] == path.stat().st_size


def test_the_figures_of_dump_are_of_what_was_read(demo: Path) -> None:
    """Not zeros, where no segment could be read; and how many could not."""
    first, second = (demo / "orders-1" / f"{base:020d}.log" for base in (0, 39))

    def shown() -> str:
        with as_nobody():
            result = CliRunner().invoke(cli, ["dump", "--stats", "--output", "table", str(demo / "orders-1")])
        return " ".join(result.stdout.partition("Findings")[0].split())

    with closed(second):
        (row,) = (row for row in rows(run("dump", "--stats", str(demo / "orders-1"))) if row["type"] == "stats")
        text = shown()
    assert (row["segments"], row["unread_segments"], row["bytes"]) == (2, 1, first.stat().st_size)
    assert "1 of 2 segments could not be read; the figures are of the rest" in text
    with closed(first), closed(second):
        (row,) = (row for row in rows(run("dump", "--stats", str(demo / "orders-1"))) if row["type"] == "stats")
        text = shown()
    known = {"type": "stats", "topic": "orders", "partition": 1, "segments": 2, "unread_segments": 2}
    assert {name: value for name, value in row.items() if value is not None} == known
    assert "2 of 2 segments could not be read" in text
    assert "record" not in text


@pytest.mark.parametrize("command", [("dump",), ("dump", "--committed"), ("dump", "--files"), ("seek", "--earliest")])
def test_what_reads_logs_says_what_it_may_not_read(demo: Path, command: tuple[str, ...]) -> None:
    before = run(*command, str(demo))
    assert before.exit_code == 0
    for path in sorted(demo.rglob("0*.log")):
        with closed(path):
            result = run(*command, str(demo))
        assert result.exit_code == 3 or command[0] == "seek"
        if result.exit_code == 3:
            new = [row for row in said(result) - said(before) if row[0] not in {"txn.undecided", "txn.marker-alone"}]
            assert [(code, name) for code, name, _ in new] == [("file.permission-denied", str(path))]


@pytest.mark.parametrize("command", PLANS, ids=" ".join)
def test_no_plan_is_made_from_a_part_of_the_files(demo: Path, command: tuple[str, ...]) -> None:
    paths = [*demo.glob("*-checkpoint"), *demo.glob("*-0/*"), demo / "meta.properties", demo / "orders-0"]
    for path in paths:
        with closed(path):
            result = run(*command, str(demo))
        assert result.exit_code == 3
        assert not [row for row in rows(result) if row["type"] != "summary"]
        assert str(path) in result.stderr
        assert "kafkalog plans and forecasts nothing from a part of the files" in result.stderr


# --- every command ----------------------------------------------------------------------------------------------------
READING: Final = {
    "dump": ("--records", "--committed --records", "--batches", "--segments", "--stats", "--newest-first --records"),
    "seek": ("--earliest --read 1KiB", "--latest", "--offset 41", "--timestamp 2025-10-09"),
    "verify": ("--jobs 1", "--jobs 1 --level headers", "--jobs 1 --level records"),
    "roll": ("--jobs 1",),
    "reindex": ("--jobs 1", "--jobs 1 --all", "--jobs 1 --apply"),
    "truncate": (
        "--jobs 1 --at-damage",
        "--jobs 1 --as-broker",
        "--jobs 1 --to-offset 5",
        "--jobs 1 --at-damage --apply",
    ),
    "checkpoint": ("--jobs 1", "--jobs 1 --mark-clean"),
    "retain": ("--jobs 1", "--jobs 1 --apply", "--jobs 1 --now 2026-11-21 --what-if retention.ms=1 --until 2026-12-21"),
    "compact": ("--jobs 1", "--jobs 1 --force"),
    "diff": ("--jobs 1 {demo}",),
    "groups": ("--jobs 1",),
    "transactions": ("--jobs 1",),
    "impact": ("",),
    "usage": ("--by topic",),
    "free": ("--need 900GiB",),
    "replicas": ("--jobs 1 {other}",),
    "preflight": ("--jobs 1",),
    "recover": ("--jobs 1 --only-copy", "--jobs 1 --only-copy --apply"),
    "excise": ("--offset 41",),
    "transplant": ("--jobs 1 --cluster-id ZGVtby1rYWZrYWxvZy0wMQ --topic-ids {demo}",),
}
"""What reads logs, and how."""
NOT_READING: Final = {
    "apply": "works from a plan; the lock of the directory refuses another user than its owner first",
    "bench": "times one file that is named: an error of its own",
    "cluster": "reads the metadata log, and of partitions their topic ids",
    "completion": "reads no file",
    "explain": "reads no log directory",
    "freeze": "links files: the system refuses a link to a file of another user, and freeze with it",
    "quorum": "reads the metadata log alone",
    "serve": "a partition that it may not read has no leader, and clients get its error",
    "undo": "reads its journal alone",
    "which-partition": "reads no file",
    "zookeeper": "reads the files of a ZooKeeper server",
}


def test_every_command_is_known_to_read_logs_or_not() -> None:
    names = {path for path, _ in commands() if not path.startswith("spark ")}  # jobs run in the processes of Spark
    assert {*READING, *NOT_READING} == names


@pytest.mark.parametrize(("command", "options"), [(name, each) for name, all_of in READING.items() for each in all_of])
def test_no_command_derives_anything_from_logs_that_it_may_not_read(demo: Path, command: str, options: str) -> None:
    """All logs of a partition are closed: one sentence names user and owner, no row is about what is in them."""
    logs = sorted((demo / "orders-1").glob("*.log"))
    with ExitStack() as stack:
        for log in logs:
            stack.enter_context(closed(log))
        result = run(
            command,
            *options.replace("{demo}", str(demo)).replace("{other}", str(demo.parent / "other")).split(),
            str(demo),
        )
    assert result.exit_code == 3, result.output
    found = rows(result)
    told = [row["message"] for row in found if row.get("code") == "file.permission-denied"]
    sentence = " ".join([*told, result.stderr])
    assert "has no permission to read it" in sentence
    assert f"user {OWNER}, group {OWNER}, and has mode 0600" in sentence or not IS_ROOT
    of_it = [row for row in found if (row.get("topic"), row.get("partition")) == ("orders", 1)]
    # Of a group, what it has committed: that is in another log.
    assert {row["type"] for row in of_it} <= {"finding", "partition", "stats", "group_offset"}
    assert {row["code"] for row in of_it if row["type"] == "finding"} <= {"file.permission-denied"}
    figures = [row[name] for row in of_it for name in ("records", "last_offset", "log_end_offset") if name in row]
    assert not any(figures)


@pytest.mark.parametrize("command", ["retain", "retain --apply", "compact", "roll", "reindex", "truncate --as-broker"])
def test_settings_that_may_not_be_read_are_not_replaced_by_defaults(command: str) -> None:
    """The metadata log is in another log directory, which only `log.dirs` of --config names."""
    with open_to_others() as place:
        first, second = place / "a", place / "b"
        shutil.copytree(FIXTURES / "demo", first)
        second.mkdir()
        shutil.move(first / "customers-0", second)
        for name in ("meta.properties", ".lock"):
            (second / name).write_bytes((first / name).read_bytes() if (first / name).exists() else b"")
        config = place / "server.properties"
        config.write_text(f"node.id=1\nlog.dirs={first},{second}\n")
        give_away(place)
        if IS_ROOT:
            for path in (second, *second.rglob("*")):
                os.chown(path, NOBODY, NOBODY)
        arguments = (*command.split(), "--jobs", "1", "--config", str(config), str(second))
        metadata_log = first / "__cluster_metadata-0"
        log = next(metadata_log.glob("*.log"))
        before = {path: path.read_bytes() for path in second.rglob("*") if path.is_file()}
        for path in (log, metadata_log, first / "meta.properties", first):
            with closed(path):
                result = run(*arguments)
            assert result.exit_code == 3, (path, result.output)
            assert f"kafkalog: {path}: " in result.stderr
            assert "nothing is planned or forecast without the settings of the cluster" in result.stderr
        assert {path: path.read_bytes() for path in before} == before
        assert run(*[each for each in arguments if each != "--apply"]).exit_code in {0, 4}


def test_what_a_plan_does_not_need_may_be_unreadable(demo: Path) -> None:
    others = [demo / ".lock", demo / "note.txt"]
    for path in others:
        path.touch()
        if IS_ROOT:
            os.chown(path, OWNER, OWNER)
    try:
        for path in others:
            with closed(path):
                result = run("truncate", "--at-damage", str(demo))
                assert result.exit_code == 0, result.output
                assert run("verify", "--jobs", "1", str(demo)).exit_code == 0 or path.name != ".lock"
    finally:
        for path in others:
            path.unlink()


def test_a_path_that_this_user_may_not_reach(demo: Path) -> None:
    with closed(demo):
        result = run("verify", str(demo / "orders-0"))
    assert result.exit_code == 3
    assert f"has no permission to enter its directory: it belongs to user {OWNER}" in result.stderr or not IS_ROOT
    owner = rf"'#{OWNER}'" if IS_ROOT else r"\S+"
    assert result.stderr.splitlines()[0].endswith(". Run the command as root, or as its owner:")
    (command,) = commands_of(result.stderr)
    assert re.match(rf"sudo -u {owner} kafkalog verify {re.escape(str(demo))}/orders-0 ", command)


def test_of_several_paths_it_is_told_in_the_same_way(demo: Path) -> None:
    """The other one is verified, and the command for all of them is on a line of its own."""
    with open_to_others() as place:
        other = place / "orders-0"
        shutil.copytree(demo / "orders-0", other)
        with closed(demo):
            result = run("verify", str(other), str(demo / "orders-0"))
    assert result.exit_code == 3
    (command,) = commands_of(result.stderr)
    assert command.startswith("sudo -u ")
    assert f"kafkalog verify {other} {demo}/orders-0 " in command


@pytest.mark.parametrize("command", [("truncate", "--at-damage"), ("retain", "--set", "retention.ms=1")])
def test_the_command_as_the_owner_is_ready_to_paste(command: tuple[str, ...], demo: Path) -> None:
    """It has a line of its own, and every word of it is quoted."""
    with open_to_others() as place:
        partition = place / "it's a disk" / "orders-0"
        shutil.copytree(demo / "orders-0", partition)
        give_away(partition.parent)
        with closed(partition / f"{0:020}.log"):
            result = run(*command, str(partition))
    assert result.exit_code == 3
    (line,) = commands_of(result.stderr)
    assert "; kafkalog plans and forecasts nothing from a part of the files. Run the command as root" in result.stderr
    sudo, option, owner, *rest = shlex.split(line)
    assert (sudo, option) == ("sudo", "-u")
    assert owner == f"#{OWNER}" or not IS_ROOT
    assert rest == ["kafkalog", *command, str(partition), "--output", "ndjson"]
