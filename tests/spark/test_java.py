"""Which Java is taken, and what is said where there is none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kafkalog_core.spark.session import session
from kafkalog_core.spark.session.errors import SparkError

ROOT = Path(__file__).resolve().parents[2]


def make_java(home: Path, *, release: str | None = None, says: str | None = None) -> Path:
    """A directory like one of Java's: its version in a file, or told by the program alone."""
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{says}\" 2025' >&2\n" if says else "#!/bin/sh\nexit 1\n")
    command.chmod(0o755)
    if release is not None:
        (home / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{release}"\n')
    return command.parent


@pytest.fixture
def no_wheel(monkeypatch):
    monkeypatch.setattr(session, "find_spec", lambda name: None)


def test_java_home_goes_first(tmp_path):
    make_java(tmp_path / "home", release="17.0.15")
    assert session.java_environment({"JAVA_HOME": str(tmp_path / "home"), "PATH": ""}) == {}


def test_java_on_the_path(tmp_path):
    path = make_java(tmp_path / "java", says="21.0.2")
    assert session.java_environment({"PATH": str(path)}) == {}


def test_an_old_java_home_gives_way(tmp_path):
    make_java(tmp_path / "old", release="1.8.0_402")
    path = make_java(tmp_path / "new", release="25")
    found = session.java_environment({"JAVA_HOME": str(tmp_path / "old"), "PATH": str(path)})
    assert found == {"JAVA_HOME": str(tmp_path / "new")}


@pytest.mark.usefixtures("no_wheel")
def test_no_java_is_one_sentence(tmp_path):
    hint = "Install it, or install one for this Python only, in kafkalog's sources: pip install '.[spark,jre]'"
    with pytest.raises(SparkError) as none:
        session.java_environment({"PATH": str(tmp_path)})
    assert str(none.value) == f"Spark needs Java 17 or newer. {hint}"
    path = make_java(tmp_path / "old", release="11.0.2")
    with pytest.raises(SparkError) as old:
        session.java_environment({"JAVA_HOME": str(tmp_path / "none"), "PATH": str(path)})
    assert str(old.value) == (
        f"Spark needs Java 17 or newer; JAVA_HOME is {tmp_path}/none, which has no Java, "
        f"and {path}/java is Java 11. {hint}"
    )
    broken = make_java(tmp_path / "broken")
    with pytest.raises(SparkError, match="does not run"):
        session.java_environment({"PATH": str(broken)})


def test_the_launcher_drops_the_one_argument(tmp_path):
    command = tmp_path / "java"
    command.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    command.chmod(0o755)
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "--add-modules=x", "*", ""]
    done = subprocess.run(
        [ROOT / "kafkalog_core/spark/session/launcher/bin/java", *arguments],
        env={"KAFKALOG_JAVA": str(command), "PATH": os.defpath},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split("\n")[:-1] == ["-cp", "a b", "--add-modules=x", "*", ""]


def test_spark_runs_on_the_java_of_the_wheel(tmp_path):
    """On a machine without Java, as far as the variables tell."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "sh", "env", "dirname", "ps", "id", "cat", "uname", "chmod", "ls", "readlink"):
        command = shutil.which(name)
        assert command, name
        tools.joinpath(name).symlink_to(command)
    program = (
        "from kafkalog_core.spark.session.session import SessionSettings, spark_session\n"
        "from kafkalog_core.spark.session.workers import SparkWorkers\n"
        "from tests.spark.tasks import double\n"
        "with spark_session(SessionSettings(master='local[1]', is_light=True)) as spark:\n"
        "    print(sum(SparkWorkers(spark).map(double, [(21,)])))\n"
        "    print('java-runtime' in spark._jvm.java.lang.System.getProperty('java.home'))\n"
        "    frame = spark.range(5); frame.write.parquet('there'); print(spark.read.parquet('there').count())\n"
    )
    environment = {"PATH": str(tools), "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.stderr, done.stdout) == ("", "42\nTrue\n5\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "there"]
