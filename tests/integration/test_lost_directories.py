"""Preflight next to a real broker with two log directories, of which files or directories were lost.

The metadata log is in the first directory, and new partitions in the emptier one.
"""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

import confluent_kafka
import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient, NewTopic

from kafkalog_cli.main import cli
from tests.integration.broker import TwoLogDirs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.java

_ENDS_WITHIN_S = 90
_RECORDS = 20


@pytest.fixture(scope="module")
def kept(libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoLogDirs]:
    """A broker that was stopped cleanly, with copies of its directories next to them."""
    broker = TwoLogDirs(libs, tmp_path_factory.mktemp("lost"))
    try:
        broker.start()
        for topic in ("one", "two", "three"):  # the third one, or the second, comes into the second directory
            _create(broker, topic)
            _write(broker, topic)
        broker.stop()
        for path in (broker.log_dir, broker.second):
            shutil.copytree(path, path.with_name(f"{path.name}.kept"))
        yield broker
    finally:
        broker.close()


@pytest.fixture
def broker(kept: TwoLogDirs) -> Iterator[TwoLogDirs]:
    """The same broker, not running, on the directories as it left them."""
    for path in (kept.log_dir, kept.second):
        shutil.rmtree(path)
        shutil.copytree(path.with_name(f"{path.name}.kept"), path)
    yield kept
    kept.kill()


def _create(broker: TwoLogDirs, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (created,) = admin.create_topics([NewTopic(topic, 1, 1)]).values()
    created.result()


def _write(broker: TwoLogDirs, topic: str) -> None:
    """Half of the records are of an aborted transaction."""
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions()
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        for number in range(_RECORDS // 2):
            producer.produce(topic, str(number).encode(), partition=0)
        producer.flush()
        end()


def _read_committed(broker: TwoLogDirs, topic: str) -> int:
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "none", "enable.partition.eof": True}
    consumer = confluent_kafka.Consumer({**settings, "enable.auto.commit": False})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    count, until = 0, time.monotonic() + _ENDS_WITHIN_S
    while time.monotonic() < until:
        message = consumer.poll(1)
        if message is not None and message.error() is not None:
            if message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
                break
        elif message is not None:
            count += 1
    consumer.close()
    return count


def _home(broker: TwoLogDirs, topic: str) -> Path:
    return next(path / f"{topic}-0" for path in (broker.log_dir, broker.second) if (path / f"{topic}-0").is_dir())


def _verdict(broker: TwoLogDirs, command: str = "preflight") -> str:
    ended = CliRunner().invoke(cli, [command, str(broker.log_dir), str(broker.second)], catch_exceptions=False)
    return " ".join(ended.stdout.split())


def _empty_meta(broker: TwoLogDirs) -> None:
    (broker.second / "meta.properties").write_bytes(b"")


def _empty_directory(broker: TwoLogDirs) -> None:
    shutil.rmtree(broker.second)
    broker.second.mkdir()


def _no_version(broker: TwoLogDirs) -> None:
    meta = broker.second / "meta.properties"
    meta.write_text(meta.read_text().replace("version=1", ""))


def _no_node_id(broker: TwoLogDirs) -> None:
    meta = broker.log_dir / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", ""))


def _bad_epochs(broker: TwoLogDirs) -> None:
    """In the log directory with the metadata log."""
    home = next(path for path in broker.log_dir.iterdir() if path.is_dir() and not path.name.startswith("__cluster"))
    (home / "leader-epoch-checkpoint").write_bytes(bytes(8))


@pytest.mark.parametrize(
    ("lose", "said"),
    [
        (_empty_meta, "node ID not found in"),
        (_no_version, "node ID not found in"),
        (_no_node_id, "Encountered I/O error in metadata log directory"),
        (_empty_directory, "No `meta.properties` found in"),
        (_bad_epochs, "Shutdown broker because the metadata log dir"),
    ],
)
def test_the_broker_ends_where_preflight_says_so(
    broker: TwoLogDirs, lose: Callable[[TwoLogDirs], None], said: str
) -> None:
    lose(broker)
    assert "broker does not start" in _verdict(broker)
    assert "by itself the broker does not start" in _verdict(broker, "recover")
    _ends(broker, said)


def _ends(broker: TwoLogDirs, said: str) -> None:
    """Start it; it ends with a line."""
    broker.start_without_waiting()
    until = time.monotonic() + _ENDS_WITHIN_S
    while broker.is_running and time.monotonic() < until:
        time.sleep(0.2)
    assert not broker.is_running
    assert said in broker.output


def test_of_two_copies_the_one_that_recover_names_makes_way(broker: TwoLogDirs) -> None:
    home = _home(broker, "one")
    other = broker.second if home.parent == broker.log_dir else broker.log_dir
    copied = shutil.copytree(home, other / home.name)
    log = copied / f"{0:020d}.log"
    log.write_bytes(log.read_bytes()[:-100])  # an older copy: without the end of the second transaction
    shown = _verdict(broker, "recover")
    assert f"The partition is also in {home}, which has every record of this copy" in shown
    _ends(broker, "Duplicate log directories for one-0 are found in both")
    assert f"mv -n -- {copied} {other}/.." in _verdict(broker, "recover")
    copied.rename(other.parent / "aside")
    words = ["recover", "--kafka", "4.3.1", "--apply", str(broker.log_dir), str(broker.second)]
    assert CliRunner().invoke(cli, words, catch_exceptions=False).exit_code == 0
    broker.start()
    assert _read_committed(broker, "one") == _RECORDS // 2
    assert "Recovering unflushed" not in "".join(line for line in broker.output.splitlines() if "one-0" in line)


def test_a_directory_that_is_lost_becomes_an_empty_partition(broker: TwoLogDirs) -> None:
    shutil.rmtree(_home(broker, "one"))
    assert "creates empty partitions in the place of directories that are missing" in _verdict(broker)
    broker.start()
    assert (_read_committed(broker, "one"), _read_committed(broker, "two")) == (0, _RECORDS // 2)
    assert not [line for line in broker.output.splitlines() if " WARN " in line and "one-0" in line]


def test_a_replacement_without_its_transaction_index(broker: TwoLogDirs) -> None:
    home = _home(broker, "one")
    log = home / f"{0:020d}.log"
    for path in (log, log.with_suffix(".index"), log.with_suffix(".timeindex")):
        path.rename(f"{path}.swap")
    log.with_suffix(".txnindex").unlink()
    assert "it does not notice what is wrong in one-0" in _verdict(broker)
    broker.start()
    assert _read_committed(broker, "one") == _RECORDS


def test_an_offline_directory_may_have_its_partitions_twice(broker: TwoLogDirs) -> None:
    """Which of them differs from run to run; 3.9.2 and 4.4.0 do the same. The next start then finds them twice."""
    there = {path.name for path in broker.second.iterdir() if path.is_dir()}
    bad = next(name for name in sorted(there) if not name.startswith("__"))
    kept = next(path.name for path in broker.log_dir.iterdir() if path.name.split("-")[0] in {"one", "two", "three"})
    broker.start()
    broker.kill()  # the controller elects every leader again
    (broker.second / bad / "leader-epoch-checkpoint").write_bytes(bytes(8))
    assert f"takes {broker.second} offline" in _verdict(broker)
    broker.start()
    until = time.monotonic() + _ENDS_WITHIN_S
    twice: set[str] = set()
    while not twice and time.monotonic() < until:
        time.sleep(0.2)
        twice = {name for name in there if (broker.log_dir / name / f"{0:020d}.log").exists()}
    assert twice
    assert any(f"Expected partition {name} with topic id" in broker.output for name in twice)
    assert _read_committed(broker, kept.split("-")[0]) == _RECORDS // 2
    broker.kill()
    assert "does not start" in _verdict(broker)
