"""`kafkalog compact --apply` over several log directories: all of it is done, or none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from click.testing import CliRunner

from kafkalog_cli.main import cli
from tests.support.compact_dirs import records, write
from tests.support.refusing import commands_of
from tests.support.repairs import snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result


def run(*paths: Path) -> Result:
    rules = ("--kafka", "4.3", "--set", "cleanup.policy=compact", "--now", "1970-01-01T02:00:00Z")
    return CliRunner().invoke(cli, ["compact", "--ndjson", "--apply", "--assume-defaults", *rules, *map(str, paths)])


def test_both(tmp_path: Path) -> None:
    roots = [write(tmp_path / name) for name in ("one", "two")]
    result = run(*roots)
    assert result.exit_code == 0, result.output
    assert [len(records(root / "t-0")) for root in roots] == [7, 7]
    assert " ".join(result.output.split()).count("To undo it: kafkalog undo ") == 2


def test_where_one_cannot_be_cleaned_the_other_is_not(tmp_path: Path) -> None:
    roots = [write(tmp_path / name) for name in ("one", "two")]
    for root in roots:
        (root / ".lock").touch()  # which stays behind every lock
    log = roots[1] / "t-0" / f"{10:020d}.log"
    log.write_bytes(log.read_bytes()[:-9])
    before, names = snapshot(tmp_path), sorted(map(str, tmp_path.rglob("*")))
    result = run(*roots)
    assert result.exit_code == 3
    assert "a clean fails here" in result.output
    assert snapshot(tmp_path) == before
    assert sorted(map(str, tmp_path.rglob("*"))) == names


def test_a_partition_that_is_a_link_is_cleaned_only_if_it_is_named(tmp_path: Path) -> None:
    root, outside = write(tmp_path / "one"), tmp_path / "outside"
    (root / ".lock").touch()
    (root / "t-0").rename(outside)
    (root / "t-0").symlink_to(outside)
    before, names = snapshot(outside), sorted(map(str, tmp_path.rglob("*")))
    result = run(root)
    assert result.exit_code == 3
    assert f"{root}/t-0 is a symbolic link to {outside}" in result.stderr
    (named,) = commands_of(result.stderr)
    assert named.startswith("kafkalog compact --ndjson --apply")
    assert (snapshot(outside), sorted(map(str, tmp_path.rglob("*")))) == (before, names)
    assert run(root, root / "t-0").exit_code == 0
    assert len(records(outside)) == 7
