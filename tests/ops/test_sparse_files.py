"""Each file of a real log directory as a sparse one of 256 GiB: no command reads the hole, verify names the file."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.storage.changing import commit

DEMO = Path(__file__).resolve().parents[2] / "fixtures" / "demo"
HUGE = 256 << 30
META, PAYMENTS = "__cluster_metadata-0/00000000000000000000", "payments-0/00000000000000000"
FILES = {
    f"{META}.log": "log.zero-tail",
    f"{META}.index": "index.oversize",
    f"{META}.timeindex": "timeindex.oversize",
    f"{META}-0000000000.checkpoint": "log.zero-tail",
    "__cluster_metadata-0/00000000000000000053.snapshot": "file.too-large",
    "__cluster_metadata-0/quorum-state": "file.too-large",
    "meta.properties": "file.too-large",
    "recovery-point-offset-checkpoint": "file.too-large",
    "replication-offset-checkpoint": "file.too-large",
    "log-start-offset-checkpoint": "file.too-large",
    "cleaner-offset-checkpoint": "file.too-large",
    "__consumer_offsets-0/00000000000000000000.log": "log.zero-tail",
    "__transaction_state-0/00000000000000000000.log": "log.zero-tail",
    "customers-0/00000000000000000000.log": "log.zero-tail",
    f"{PAYMENTS}000.log": "log.zero-tail",
    f"{PAYMENTS}005.log": "log.zero-tail",
    f"{PAYMENTS}000.index": "index.oversize",
    f"{PAYMENTS}005.index": "index.oversize",
    f"{PAYMENTS}000.timeindex": "timeindex.oversize",
    f"{PAYMENTS}005.timeindex": "timeindex.oversize",
    f"{PAYMENTS}005.txnindex": "file.too-large",
    f"{PAYMENTS}020.snapshot": "file.too-large",
    "payments-0/leader-epoch-checkpoint": "file.too-large",
    "payments-0/partition.metadata": "file.too-large",
}
ONE_OF_A_KIND = [f"{META}.log", f"{PAYMENTS}005.index", f"{PAYMENTS}005.txnindex", "recovery-point-offset-checkpoint"]
PLANS = [
    ["reindex"],
    ["truncate", "--at-damage"],
    ["truncate", "--as-broker"],
    ["checkpoint"],
    ["retain"],
    ["compact"],
    ["roll"],
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DEMO, tmp_path / "demo"))


def grow(path: Path, *, again: bool = False) -> None:
    """Append a hole; `again`: and its content once more, in the middle of it."""
    data = path.read_bytes()
    os.truncate(path, HUGE)
    if again:
        with path.open("r+b") as file:
            file.seek(HUGE // 2)
            file.write(data)
    assert path.stat().st_blocks < 1024, "this file system has no holes"


def run(*arguments: str | Path) -> list[dict[str, object]]:
    """Rows that a command prints; it must not fail."""
    result = CliRunner().invoke(cli, [*map(str, arguments), "--output", "ndjson"])
    assert result.exit_code in {0, 4}, result.output + str(result.stderr)
    assert "internal error" not in result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize("name", ONE_OF_A_KIND)
def test_verify_names_a_file_that_nobody_could_read(root: Path, name: str) -> None:
    grow(root / name)
    found = {(row["code"], row["size_bytes"]) for row in run("verify", root) if row.get("file") == str(root / name)}
    assert FILES[name] in {code for code, _ in found}
    assert max(size for _, size in found if isinstance(size, int)) > HUGE - (1 << 20)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("again", [False, True], ids=["tail", "middle"])
def test_no_command_reads_a_hole(root: Path, name: str, again: bool) -> None:
    grow(root / name, again=again)
    codes = {row["code"] for row in run("verify", root) if row.get("file") == str(root / name)}
    assert (FILES[name].replace("zero-tail", "zero-filled") if again else FILES[name]) in codes
    run("dump", "--files", root)
    run("dump", "--resync", root)
    run("seek", "--timestamp", "1700000000000", root)
    for arguments in PLANS:
        run(*arguments, root)


@pytest.mark.parametrize("name", [f"{PAYMENTS}005.index", f"{PAYMENTS}005.timeindex", f"{PAYMENTS}005.txnindex"])
def test_reindex_rebuilds_an_index_of_256_gib(root: Path, name: str) -> None:
    size_bytes = (root / name).stat().st_size
    grow(root / name)
    run("reindex", root / "payments-0", "--apply")
    assert (root / name).stat().st_size <= size_bytes
    assert not [row for row in run("verify", root) if row.get("file") == str(root / name)]


def test_dump_says_why_it_does_not_read_a_file(root: Path) -> None:
    names = [f"{META}.index", f"{PAYMENTS}005.txnindex", "payments-0/leader-epoch-checkpoint", "meta.properties"]
    for name in names:
        grow(root / name)
    rows = [row for row in run("dump", "--files", root) if row["type"] == "damage"]
    assert {row["segment"] for row in rows} == {os.path.basename(name) for name in names}
    assert {(row["reason"], row["size_bytes"]) for row in rows} == {("too-large", HUGE)}


# --- repairs ----------------------------------------------------------------------------------------------------------
@pytest.fixture
def torn(root: Path) -> Path:
    """A log that ends in a part of a batch and a hole."""
    path = root / "customers-0" / "00000000000000000000.log"
    path.write_bytes(path.read_bytes() + path.read_bytes()[:50])
    os.truncate(path, HUGE)
    return path


def undone(torn: Path, before: os.stat_result, start: bytes) -> None:
    now = torn.stat()
    assert (now.st_size, now.st_mtime_ns, now.st_blocks) == (HUGE, before.st_mtime_ns, before.st_blocks)
    with torn.open("rb") as file:
        assert file.read(len(start)) == start


def test_a_truncated_hole_is_neither_saved_nor_written_again(torn: Path) -> None:
    before = torn.stat()
    with torn.open("rb") as file:
        start = file.read(1 << 20)
    end = len(start.rstrip(b"\0"))
    plan, *_ = run("truncate", "--at-damage", "--kafka", "4.3", torn.parent, "--apply")
    assert plan["needed_bytes"] == 3 * 4096  # the tail, the intent and the directory of the journal
    (tail,) = torn.parent.glob("kafkalog-undo-*/tail-*")
    assert torn.stat().st_size + tail.stat().st_size >= end
    assert tail.stat().st_size <= 4096
    plan, *_ = run("undo", torn.parent)
    assert plan["needed_bytes"] == 4096
    run("undo", torn.parent, "--apply")
    undone(torn, before, start)


def test_an_undo_that_was_interrupted_before_the_hole_is_finished(torn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = torn.stat()
    with torn.open("rb") as file:
        start = file.read(1 << 20)
    run("truncate", "--at-damage", "--kafka", "4.3", torn.parent, "--apply")

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(commit, "_make_hole", dies)
        assert CliRunner().invoke(cli, ["undo", str(torn.parent), "--apply"]).exit_code != 0
    assert torn.stat().st_size < HUGE
    run("undo", torn.parent, "--apply")
    undone(torn, before, start)


def test_an_undo_whose_hole_is_there_already_is_finished(torn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a loss of power: the file has its old size, and the tail is zeros yet."""
    before = torn.stat()
    with torn.open("rb") as file:
        start = file.read(1 << 20)
    run("truncate", "--at-damage", "--kafka", "4.3", torn.parent, "--apply")

    def dies(*_: object) -> None:
        os.truncate(torn, HUGE - 4096)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(commit, "_make_hole", dies)
        assert CliRunner().invoke(cli, ["undo", str(torn.parent), "--apply"]).exit_code != 0
    run("undo", torn.parent, "--apply")
    undone(torn, before, start)
