"""The commit protocol: whatever step a run dies at, its files are all there or none is, and the next run goes on."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import AccessError, LockedError, NotFoundError, RefusedError, StorageError, UnfinishedError
from kafkalog_core.spark.commit.commit import Output, attempt_name, hive_name, roll_forward
from kafkalog_core.spark.commit.manifest import Part, read_manifest
from kafkalog_core.storage.changing.writer import Disk

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

OLD = {"a/1.parquet": b"one", "a/2.parquet": b"two"}
NEW = {"a/2.parquet": b"two", "b/c/3.parquet": b"three", "a/4.parquet": b"four"}


@pytest.fixture(autouse=True)
def _fast_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of steps: what is asked of the disk is in their order, and no power is lost here."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


class KilledError(BaseException):
    """The process is gone: no step happens any more."""


class DyingDisk(Disk):
    """Ends the process before a step; or the system refuses this step, and those after it while it is full."""

    def __init__(self, at: int, number: int | None = None, *, for_ever: bool = True) -> None:
        self.steps: list[str] = []
        self._at = at
        self._number = number
        self._for_ever = for_ever

    def step(self, what: str, path: str) -> None:
        """Count, and die."""
        self.steps.append(f"{what} {path}")
        if len(self.steps) <= self._at or (len(self.steps) > self._at + 1 and not self._for_ever):
            return
        if self._number is None:
            raise KilledError
        if what in {"create", "write", "mkdir"}:
            raise OSError(self._number, os.strerror(self._number))


def stage(directory: str, name: str, data: bytes) -> Part:
    """What a task does."""
    staged = attempt_name(name.replace("/", "-"))
    with open(f"{directory}/{staged}", "xb") as file:
        file.write(data)
    return Part(staged, name, rows=len(data), size_bytes=len(data), info={"of": name})


def first_run(path: Path, disk: Disk | None = None) -> None:
    """Two files."""
    with Output.open(str(path), "export", disk) as output:
        run = output.begin("run-1")
        for name, data in OLD.items():
            run.add(stage(run.staging, name, data))
        run.commit({"next": 2}, now_ms=1)


def second_run(path: Path, disk: Disk | None = None) -> None:
    """Two more, and one of the first goes; an attempt that is in no commit, too. Done already, it does nothing."""
    with Output.open(str(path), "export", disk) as output:
        if output.state == {"next": 4}:
            return
        assert output.state == {"next": 2}
        run = output.begin(f"run-2-{os.urandom(4).hex()}")
        stage(run.staging, "b/c/3.parquet", b"of an attempt that was killed")
        for name in NEW.keys() - OLD.keys():
            run.add(stage(run.staging, name, NEW[name]))
        run.remove("a/1.parquet")
        run.commit({"next": 4}, now_ms=2, facts={"rows": 9})


def data_files(path: Path) -> dict[str, bytes]:
    """What a reader of Parquet finds: names that begin with `_` or `.` are none of its own."""
    found = {}
    for file in path.rglob("*"):
        name = file.relative_to(path)
        if file.is_file() and not any(part[0] in "._" for part in name.parts):
            found[str(name)] = file.read_bytes()
    return found


def everything(path: Path) -> dict[str, tuple[int, int]]:
    """Every file and directory, and when it was last changed."""
    return {str(file): (file.stat().st_mtime_ns, file.stat().st_ino) for file in path.rglob("*")}


def test_files_come_and_go_together(tmp_path: Path) -> None:
    out = tmp_path / "out"
    first_run(out)
    assert data_files(out) == OLD
    assert json.loads((out / "_SUCCESS").read_text()) == {"commit": 1}
    second_run(out)
    assert data_files(out) == NEW
    manifest = read_manifest(str(out))
    assert (manifest.kind, manifest.number, manifest.made_ms, manifest.facts) == ("export", 2, 2, {"rows": 9})
    assert not list((out / "_kafkalog/staging").iterdir())
    with Output.open(str(out), "export") as output:
        assert (output.number, output.made_ms, output.state) == (2, 2, {"next": 4})
        files = output.files()
        assert {name: facts.size_bytes for name, facts in files.items()} == {n: len(d) for n, d in NEW.items()}
        assert {name: facts.commit for name, facts in files.items()} == {
            "a/2.parquet": 1,
            "b/c/3.parquet": 2,
            "a/4.parquet": 2,
        }
        assert files["a/4.parquet"].info == {"of": "a/4.parquet"}


def test_nothing_is_written_where_there_is_nothing_new(tmp_path: Path) -> None:
    first_run(tmp_path / "out")
    second_run(tmp_path / "out")
    before = everything(tmp_path)
    second_run(tmp_path / "out")
    assert everything(tmp_path) == before


def steps_of(run: Callable[[Path, Disk], None], path: Path) -> int:
    disk = DyingDisk(10_000)
    run(path, disk)
    return len(disk.steps)


def assert_goes_on(out: Path) -> None:
    """All files of one commit and none of the other; and the next run makes it the second."""
    try:
        manifest = roll_forward(str(out), "export")
    except NotFoundError:
        assert not data_files(out)
        first_run(out)
        manifest = roll_forward(str(out), "export")
    assert data_files(out) == (OLD if manifest.number == 1 else NEW)
    second_run(out)
    assert data_files(out) == NEW
    assert roll_forward(str(out)).number == 2
    assert json.loads((out / "_SUCCESS").read_text()) == {"commit": 2}
    assert not list((out / "_kafkalog/staging").iterdir())
    assert len(list((out / "_kafkalog/states").iterdir())) == 2


def test_killed_at_any_step_of_the_first_run(tmp_path: Path) -> None:
    total = steps_of(first_run, tmp_path / "whole")
    for at in range(total):
        out = tmp_path / f"out-{at}"
        with pytest.raises(KilledError):
            first_run(out, DyingDisk(at))
        assert_goes_on(out)


def test_killed_at_any_step_of_a_later_run(tmp_path: Path) -> None:
    first_run(tmp_path / "whole")
    total = steps_of(second_run, tmp_path / "whole")
    seen = set()
    for at in range(total):
        out = tmp_path / f"out-{at}"
        first_run(out)
        with pytest.raises(KilledError):
            second_run(out, DyingDisk(at))
        seen.add((read_manifest(str(out)).number, (out / "_SUCCESS").exists()))
        assert_goes_on(out)
    assert seen == {(1, True), (1, False), (2, False), (2, True)}


def test_killed_while_a_death_is_mended(tmp_path: Path) -> None:
    """Twice in a row, at every step of the mending."""
    first_run(tmp_path / "whole")
    total = steps_of(second_run, tmp_path / "whole")
    commit = 0
    for at in range(total):  # the first death behind the commit
        out = tmp_path / f"first-{at}"
        first_run(out)
        with pytest.raises(KilledError):
            second_run(out, DyingDisk(at))
        if read_manifest(str(out)).number == 2:
            commit = at
            break
    for at in range(total):
        out = tmp_path / f"second-{at}"
        first_run(out)
        with pytest.raises(KilledError):
            second_run(out, DyingDisk(commit))
        disk = DyingDisk(at)
        try:
            second_run(out, disk)
        except KilledError:
            assert_goes_on(out)
        else:
            assert len(disk.steps) <= at
            return
    pytest.fail("it never came to an end")


@pytest.mark.parametrize("for_ever", [True, False])
def test_a_full_disk_at_any_step(tmp_path: Path, *, for_ever: bool) -> None:
    first_run(tmp_path / "whole")
    total = steps_of(second_run, tmp_path / "whole")
    for at in range(total):
        out = tmp_path / f"out-{at}"
        first_run(out)
        said = ""
        try:
            second_run(out, DyingDisk(at, errno.ENOSPC, for_ever=for_ever))
        except (UnfinishedError, StorageError) as error:
            said = str(error)
        is_made = read_manifest(str(out)).number == 2
        assert is_made or data_files(out) == OLD
        assert not said or "no space left" in said
        assert not said or is_made == ("no record is lost" in said)
        assert_goes_on(out)


def test_a_run_that_fails_leaves_all_as_it_was(tmp_path: Path) -> None:
    out = tmp_path / "out"
    first_run(out)

    def fail() -> None:
        with Output.open(str(out), "export") as output:
            run = output.begin("run-2")
            run.add(stage(run.staging, "b/c/3.parquet", b"three"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert data_files(out) == OLD
    assert not list((out / "_kafkalog/staging").iterdir())
    second_run(out)
    assert data_files(out) == NEW


def test_a_run_may_commit_often(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with Output.open(str(out), "export") as output:
        run = output.begin("run-1")
        assert run.is_empty
        waiting = stage(run.staging, "a/2.parquet", b"two")
        run.add(stage(run.staging, "a/1.parquet", b"one"))
        assert run.commit({"next": 1}, now_ms=1) == 1
        assert data_files(out) == {"a/1.parquet": b"one"}
        run.add(waiting)
        assert not run.is_empty
        assert run.commit({"next": 2}, now_ms=2) == 2
        assert data_files(out) == OLD
        run.add(stage(run.staging, "b/3.parquet", b"three"))
    second_run(out)
    assert data_files(out) == NEW
    assert read_manifest(str(out)).number == 3


def test_staged_files_are_looked_at(tmp_path: Path) -> None:
    with Output.open(str(tmp_path / "out"), "export") as output:
        run = output.begin("run-1")
        part = stage(run.staging, "a/1.parquet", b"one")
        run.add(part._replace(size_bytes=4))
        with pytest.raises(AccessError, match="wrote 4 bytes into this file, but here it has 3 bytes"):
            run.commit({}, now_ms=1)
    with Output.open(str(tmp_path / "out"), "export") as output:
        run = output.begin("run-2")
        run.add(part)
        with pytest.raises(NotFoundError):
            run.commit({}, now_ms=1)
    assert not data_files(tmp_path / "out")


@pytest.mark.parametrize(
    "name", ["", "/a", "a//b", "../a", "a/../b", "./a", "_SUCCESS", "_kafkalog/lock", "_kafkalog/commits/1.json"]
)
def test_names_that_lead_elsewhere(tmp_path: Path, name: str) -> None:
    with Output.open(str(tmp_path / "out"), "export") as output:
        run = output.begin("run-1")
        with pytest.raises(ValueError, match="not a valid name"):
            run.add(Part("x", name, 0, 0))
        with pytest.raises(ValueError, match="not a valid name"):
            run.add(Part("../x", "a/x", 0, 0))


def test_one_run_at_a_time(tmp_path: Path) -> None:
    out = tmp_path / "out"
    first_run(out)
    code = (
        "import sys; from kafkalog_core.spark.commit.commit import Output\n"
        f"with Output.open({str(out)!r}, 'export'): print('here', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"here\n"
        with pytest.raises(LockedError, match=f"another run is writing into this directory: process {other.pid}"):
            Output.open(str(out), "export")
        assert read_manifest(str(out)).number == 1
        assert roll_forward(str(out)).number == 1, "readers need not wait for a run that has committed nothing"
        other.kill()  # its lock goes with it: there is none that is stale
    second_run(out)
    assert data_files(out) == NEW


def test_one_run_at_a_time_in_one_process(tmp_path: Path) -> None:
    errors: list[Exception] = []

    def open_it() -> None:
        try:
            Output.open(str(tmp_path / "out"), "export").close()
        except LockedError as error:
            errors.append(error)

    with Output.open(str(tmp_path / "out"), "export"):
        thread = threading.Thread(target=open_it)
        thread.start()
        thread.join()
    assert "this process already writes into this directory" in str(errors)
    open_it()
    assert len(errors) == 1


def test_what_goes_is_gone_on_the_disk_before_it_is_said(tmp_path: Path) -> None:
    first_run(tmp_path / "out")
    disk = DyingDisk(10_000)
    second_run(tmp_path / "out", disk)
    after = disk.steps[disk.steps.index(f"unlink {tmp_path}/out/a/1.parquet") :]
    assert after.index(f"fsync {tmp_path}/out/a") < after.index(f"rename {tmp_path}/out/_SUCCESS")


def test_places_that_are_refused(tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    (full / "empty").mkdir()
    (full / "letter.txt").write_text("mine")
    with pytest.raises(RefusedError, match=r"not empty.*'letter.txt'"):
        Output.open(str(full), "export")
    with pytest.raises(RefusedError, match="is a file, not a directory"):
        Output.open(str(full / "letter.txt"), "export")
    with pytest.raises(NotFoundError, match="the directory for the output does not exist"):
        Output.open(str(tmp_path / "nowhere/out"), "export")
    assert sorted(path.name for path in full.iterdir()) == ["empty", "letter.txt"]
    log_dir = tmp_path / "kafka"
    (log_dir / "t-0").mkdir(parents=True)
    (log_dir / "meta.properties").touch()
    (log_dir / "t-0" / f"{0:020}.log").touch()
    (log_dir / "t-0/kept").mkdir()
    for place in (log_dir, log_dir / "out", log_dir / "t-0/out", log_dir / "t-0/kept/out"):
        with pytest.raises(RefusedError, match="within Kafka's own directory"):
            Output.open(str(place), "export")
    (log_dir / "meta.properties").unlink()
    with pytest.raises(RefusedError, match="within Kafka's own directory"):
        Output.open(str(log_dir / "t-0/out"), "export")
    first_run(tmp_path / "out")
    with pytest.raises(RefusedError, match="another job, export, not catalog"):
        Output.open(str(tmp_path / "out"), "catalog")
    with pytest.raises(RefusedError, match="another job, export, not catalog"):
        roll_forward(str(tmp_path / "out"), "catalog")
    with pytest.raises(NotFoundError, match="it has no commits"):
        read_manifest(str(full))


@pytest.mark.parametrize("text", ["", "[]", "{", '{"format": "x"}', '{"format": "kafkalog-commit", "version": 2}'])
def test_commits_that_were_changed(tmp_path: Path, text: str) -> None:
    out = tmp_path / "out"
    first_run(out)
    commit = out / "_kafkalog/commits/00000001.json"
    whole = json.loads(commit.read_text())
    commit.write_text(text)
    with pytest.raises(RefusedError):
        Output.open(str(out), "export")
    for name in whole.keys() - {"format", "version"}:
        commit.write_text(json.dumps({key: value for key, value in whole.items() if key != name}))
        with pytest.raises(RefusedError):
            Output.open(str(out), "export")
    commit.write_text(json.dumps(whole))
    state = out / "_kafkalog/states/00000001.json"
    state.write_text('{"next": 3}')
    with pytest.raises(RefusedError, match="changed since commit 1 wrote it"):
        Output.open(str(out), "export")
    state.unlink()
    with pytest.raises(NotFoundError):
        Output.open(str(out), "export")


def test_a_file_that_somebody_took_away_before_it_was_looked_at(tmp_path: Path) -> None:
    out = tmp_path / "out"
    first_run(out)
    (out / "_SUCCESS").unlink()
    Output.open(str(out), "export").close()
    assert (out / "_SUCCESS").exists()
    (out / "_SUCCESS").unlink()
    (out / "a/1.parquet").unlink()
    with pytest.raises(RefusedError, match="but it is missing"):
        Output.open(str(out), "export")


def test_who_may_read_the_directory_may_read_what_it_says(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    out.chmod(0o750)
    first_run(out)
    for path in (out / "_SUCCESS", *(out / "_kafkalog").rglob("*.json")):
        assert path.stat().st_mode & 0o777 == 0o640


def test_directories_of_partition_columns() -> None:
    assert hive_name("topic", "a.b-c_d") == "topic=a.b-c_d"
    assert hive_name("topic", None) == "topic=__HIVE_DEFAULT_PARTITION__"
    assert hive_name("topic", "a=b/c%d:e\x01[f]") == "topic=a%3Db%2Fc%25d%3Ae%01%5Bf%5D"
    assert hive_name("partition", 0) == "partition=0"


def test_attempts_have_names_of_their_own(spark: SparkSession) -> None:
    assert len({attempt_name("part") for _ in range(10)}) == 10
    assert attempt_name("part", ".x").startswith("part-local")
    names = spark.sparkContext.parallelize(range(4), 4).map(lambda _: attempt_name("part")).collect()
    assert len(set(names)) == 4
    assert all(re.fullmatch(r"part-s\d+-p\d-a0-t\d+-\d+\.parquet", name) for name in names)
