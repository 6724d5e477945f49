"""Sessions: what they are started with, that they are quiet, and that nothing is left of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kafkalog_core.spark.session import session as session_module
from kafkalog_core.spark.session.errors import SparkError
from kafkalog_core.spark.session.session import LOG_CONF, SessionSettings, SparkLog, open_session, spark_session
from tests.spark.exporting import batches, write_log

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
from kafkalog_core.spark.session.session import SessionSettings, spark_session
from kafkalog_core.spark.session.workers import SparkWorkers
from tests.spark.tasks import wait
try:
    print("begun", flush=True)
    with spark_session(SessionSettings(master="local[2]", is_light=True)) as spark:
        if sys.argv[1] == "sql":
            print("session", flush=True)
            spark.range(10**13).selectExpr("sum(id % 7)").collect()
        for number in SparkWorkers(spark).map(wait, ((number, 0.2) for number in range(10**6))):
            print("session", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def start(how: str, directory: Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, how],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(directory)} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def processes_of(group: int) -> list[str]:
    """Command lines of the processes of a session of the operating system, whatever their own groups are."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            fields = entry.joinpath("stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == group and fields[0] != "Z":
                found.append(entry.joinpath("cmdline").read_bytes().decode(errors="replace"))
        except (OSError, IndexError):
            continue
    return found


@pytest.mark.parametrize("how", ["map", "sql"])
def test_ctrl_c_ends_everything(how, tmp_path):
    with start(how, tmp_path) as child:
        assert child.stdout is not None
        while "session" not in child.stdout.readline():
            assert child.poll() is None
        time.sleep(1)
        os.kill(child.pid, signal.SIGINT)
        out, err = child.communicate(timeout=600)
    assert (out[-12:], err, child.returncode) == ("interrupted\n", "", 0)
    assert processes_of(child.pid) == []
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_while_spark_starts(tmp_path):
    with start("map", tmp_path) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "begun\n"
        time.sleep(1.5)
        os.kill(child.pid, signal.SIGINT)
        out, err = child.communicate(timeout=600)
    assert (out, err, child.returncode) == ("interrupted\n", "", 0)
    deadline = time.monotonic() + 30
    while processes_of(child.pid) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert processes_of(child.pid) == []
    assert list(tmp_path.iterdir()) == []


def confs_of(settings: SessionSettings) -> dict[str, str]:
    log = SparkLog(shows=False)
    try:
        return session_module._confs(settings, log)
    finally:
        log.close()


@pytest.mark.parametrize("name", ["kafkalog_core", "pyarrow"])
def test_the_current_directory_is_not_imported_first(name, tmp_path):
    """It may be a checkout without compiled kernels, next to what is installed."""
    here = tmp_path / "here"
    (here / name).mkdir(parents=True)
    (here / name / "__init__.py").write_text("raise SystemExit('the current directory')")
    write_log(tmp_path / "t-0", 0, batches(0, 10))
    done = subprocess.run(
        [sys.executable, "-P", "-m", "kafkalog_cli", "spark", "export", tmp_path / "t-0", "--to", tmp_path / "out"],
        cwd=here,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 0), done.stdout


@pytest.mark.parametrize(
    ("master", "started"),
    [
        ("local", "local[1,3]"),
        ("local[*]", "local[*,3]"),
        ("local[4]", "local[4,3]"),
        ("local[4,1]", "local[4,1]"),
        ("spark://host:7077", "spark://host:7077"),
    ],
)
def test_local_tasks_are_tried_again(master, started):
    assert confs_of(SessionSettings(master=master))["spark.master"] == started


def test_a_cluster_has_to_reach_this_machine():
    assert confs_of(SessionSettings())["spark.driver.host"] == "127.0.0.1"
    assert "spark.driver.host" not in confs_of(SessionSettings(master="spark://host:7077"))


def test_settings_of_the_user_go_before_ours():
    confs = {"spark.ui.enabled": "true", "spark.driver.extraJavaOptions": "-Xss4m", "spark.driver.memory": "3g"}
    result = confs_of(SessionSettings(confs=confs))
    assert result["spark.ui.enabled"] == "true"
    assert result["spark.driver.memory"] == "3g"
    assert result["spark.driver.extraJavaOptions"].startswith("-Dlog4j2.")
    assert result["spark.driver.extraJavaOptions"].endswith(" -Xss4m")


def test_a_light_java_is_left_to_the_users_own_options():
    assert confs_of(SessionSettings(is_light=True))["spark.driver.extraJavaOptions"].endswith("-XX:+UseSerialGC")
    confs = {"spark.driver.extraJavaOptions": "-XX:+UseZGC"}
    options = confs_of(SessionSettings(is_light=True, confs=confs))["spark.driver.extraJavaOptions"]
    assert "UseSerialGC" not in options
    assert options.endswith(" -XX:+UseZGC")


def test_filters_are_never_pushed_down(spark):
    confs = {"spark.sql.python.filterPushdown.enabled": "true"}
    with pytest.raises(SparkError, match="must be false"):
        confs_of(SessionSettings(confs=confs))
    spark.conf.set(*confs.popitem())
    try:
        with pytest.raises(SparkError, match="must be false"):
            open_session()
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")


def test_an_archive_becomes_a_directory_on_the_path(tmp_path):
    archive = tmp_path / "k g.tar.gz"
    archive.touch()
    confs = {"spark.executorEnv.PYTHONPATH": "/shared"}
    result = confs_of(SessionSettings(archives=[str(archive), f"{archive}#env"], confs=confs))
    assert result["spark.archives"] == f"{archive.as_uri()}#kafkalog,{archive.as_uri()}#env"
    assert result["spark.executorEnv.PYTHONPATH"] == "kafkalog:/shared"
    with pytest.raises(SparkError, match="this archive does not exist"):
        confs_of(SessionSettings(archives=["/nowhere.tar.gz"]))


def test_the_session_that_is_there_is_used_and_left(spark):
    with spark_session(SessionSettings(master="local[1]")) as session:
        assert session is spark
    assert open_session() is spark
    assert spark.range(3).count() == 3


def test_errors_of_spark_are_ours(spark):
    with pytest.raises(SparkError, match="nothing_such"), spark_session():
        spark.sql("select * from nothing_such")


def test_a_session_of_ours(spark):
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.master") == "local[2,3]"
    assert Path(conf.get(LOG_CONF)).is_file()
    assert spark.conf.get("spark.sql.parquet.outputTimestampType") == "TIMESTAMP_MICROS"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_a_log_stays_where_somebody_has_to_read_it(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    log = SparkLog(shows=False)
    with log.redirected():
        os.write(2, b"said\n")
        os.write(1, b"printed\n")
    Path(log.directory, "local").mkdir()
    log.is_kept = True
    log.close()
    assert os.listdir(log.directory) == ["spark.log"]
    assert Path(log.path).read_bytes() == b"said\nprinted\n"
    shown = SparkLog(shows=True)
    with shown.redirected():
        assert shown.path is None
    shown.close()
    assert not Path(shown.directory).exists()
