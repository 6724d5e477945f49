"""Nonsense at the jobs' doors: each time one sentence that says what is wrong, no stack trace, and nothing written.

In this process, so that the one session of the tests is used; what a whole process prints says `test_session.py`.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkalog_cli.commands.spark import JOBS
from kafkalog_cli.main import cli
from tests.support.corpus.archives import FIXTURES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEMO = str(FIXTURES / "demo")
USAGE, REFUSED, DAMAGED = 2, 3, 4
_FOREIGN = ("Traceback", "java.", "scala.", "org.apache", "py4j", "Exception", "\tat ", "kafkalog_core", 'File "')

# Arguments, the exit status, and what the sentence must name. {out} is a directory of the test, {file} a file.
CASES = (
    ("verify {out}/none", REFUSED, "none"),
    ("verify s3a://bucket/logs", REFUSED, "s3a"),
    ("verify hdfs://host/logs", REFUSED, "hdfs"),
    ("verify {file}", REFUSED, "{file}"),
    ("verify --level deep {demo}", USAGE, "deep"),
    ("verify --partition x {demo}", USAGE, "x"),
    ("verify --topic nothing-like-it {demo}", REFUSED, "nothing-like-it"),
    ("verify --conf nothing {demo}", USAGE, "nothing"),
    ("verify --archives {out}/none.tgz {demo}", REFUSED, "none.tgz"),
    ("verify", USAGE, "PATH"),
    ("export {demo}", USAGE, "--to"),
    ("export {out}/none --to {out}/new", REFUSED, "none"),
    ("export s3a://bucket/logs --to {out}/new", REFUSED, "s3a"),
    ("export {demo} --to s3a://bucket/out", REFUSED, "s3a"),
    ("export {demo} --to {file}", REFUSED, "{file}"),
    ("export {demo} --to {out}/full", REFUSED, "full"),
    ("export {demo} --to {out}/not/there", REFUSED, "not"),
    ("export {demo} --to /proc/new", REFUSED, "/proc"),
    ("export {log_dir} --to {log_dir}/orders-0/out", REFUSED, "orders-0"),
    ("export {log_dir} --to {log_dir}", REFUSED, "{log_dir}"),
    ("export {demo} --to {out}/new --from-offset -1", USAGE, "from-offset"),
    ("export {demo} --to {out}/new --from-time yesterdayish", USAGE, "yesterdayish"),
    ("export {demo} {log_dir} --to {out}/new", REFUSED, "orders-0"),
    ("catalog {demo}", USAGE, "--to"),
    ("catalog {demo} --to {out}/full", REFUSED, "full"),
    ("catalog {demo} --to {file}", REFUSED, "{file}"),
    ("catalog {out}/none --to {out}/new", REFUSED, "none"),
    ("catalog s3a://bucket/logs --to {out}/new", REFUSED, "s3a"),
    ("retain {out}/none", REFUSED, "none"),
    ("retain s3a://bucket/logs", REFUSED, "s3a"),
    ("retain --what-if nonsense {demo}", USAGE, "nonsense"),
    ("retain --now noonish {demo}", USAGE, "noonish"),
    ("retain --kafka 99 {demo}", USAGE, "99"),
    ("compact {out}/none", REFUSED, "none"),
    ("compact s3a://bucket/logs", REFUSED, "s3a"),
    ("compact --to {out}/full {demo}", REFUSED, "full"),
    ("compact --memory some {demo}", USAGE, "some"),
    ("compact --set segment.bytes=many {demo}", REFUSED, "many"),
    ("replicas {out}/none", REFUSED, "none"),
    ("replicas s3a://bucket/logs", REFUSED, "s3a"),
    ("sql", USAGE, "QUERY"),
    ("sql 'SELEKT 1' {demo}", REFUSED, "SELEKT"),
    ("sql 'SELECT nothing FROM records' {demo}", REFUSED, "nothing"),
    ("sql 'SELECT 1 FROM nowhere' {demo}", REFUSED, "nowhere"),
    ("sql 'SELECT 1 FROM records' {out}/none", REFUSED, "none"),
    ("sql 'SELECT 1 FROM records' s3a://bucket/logs", REFUSED, "s3a"),
    ("sql 'SELECT 1 FROM segments' --catalog {out}/none", REFUSED, "none"),
    ("sql 'SELECT 1 FROM records' --export {out}/full", REFUSED, "full"),
    ("dance", USAGE, "dance"),
)


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    """What the cases name: a directory with something in it, a file, a log dir of one small partition."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("somebody's")
    (tmp_path / "letter.txt").write_text("somebody's")
    partition = tmp_path / "disk" / "orders-0"
    partition.mkdir(parents=True)
    for name in ("00000000000000000000.log", "00000000000000000000.index"):
        (partition / name).write_bytes((FIXTURES / "demo" / "orders-0" / name).read_bytes())
    return {
        "out": str(tmp_path),
        "file": str(tmp_path / "letter.txt"),
        "demo": DEMO,
        "log_dir": str(tmp_path / "disk"),
    }


def _tree(directory: str) -> dict[str, int]:
    return {str(path): path.lstat().st_mtime_ns for path in Path(directory).rglob("*")}


@pytest.mark.parametrize(("arguments", "status", "named"), CASES, ids=[case[0] for case in CASES])
def test_nonsense_is_told_in_a_sentence(
    spark: SparkSession, places: dict[str, str], arguments: str, status: int, named: str
) -> None:
    before = _tree(places["out"])
    result = CliRunner().invoke(cli, ["spark", *(word.format(**places) for word in shlex.split(arguments))])
    told = result.stderr
    assert result.exit_code == status, told or result.stdout
    assert result.stdout == ""
    assert named.format(**places) in told
    assert not [word for word in _FOREIGN if word in told], told
    sentences = [line for line in told.splitlines() if not line.startswith(("Usage:", "Try ", "  kafkalog "))]
    assert len([line for line in sentences if line]) == 1, told
    assert len(told) < 700
    assert _tree(places["out"]) == before


def test_every_job_is_asked_for_nonsense() -> None:
    asked = {case[0].split()[0] for case in CASES}
    assert set(JOBS) - asked <= {"pack"}


@pytest.mark.parametrize("job", ["verify", "export --to {out}/new", "catalog --to {out}/new", "compact", "retain"])
def test_a_log_that_cannot_be_opened_is_told_and_the_rest_is_done(
    spark: SparkSession, places: dict[str, str], job: str
) -> None:
    """A link to itself stands for a disk that does not answer: this may run as root, whom no permissions stop."""
    broken = Path(places["log_dir"]) / "broken-0"
    broken.mkdir()
    (broken / "00000000000000000000.log").symlink_to("00000000000000000000.log")
    words = [word.format(**places) for word in shlex.split(job)]
    result = CliRunner().invoke(cli, ["spark", *words, places["log_dir"], "--output", "ndjson"])
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert not [word for word in _FOREIGN if word in result.output], result.output
    assert result.exit_code in {0, DAMAGED}, result.stderr
    assert {row["topic"] for row in rows if "topic" in row} >= {"orders", "broken"}
    if job.startswith(("verify", "export", "catalog")):
        assert result.exit_code == DAMAGED
        of_broken = [row for row in rows if row.get("topic") == "broken"]
        assert any(row.get("severity") == "error" or row.get("errors") for row in of_broken)
