"""What real servers of one ensemble do whose data directories went different ways."""

from __future__ import annotations

import shutil
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from kafkalog_core.kafka.sim.zookeeper.data_dir import read_data_dir
from kafkalog_core.kafka.sim.zookeeper.ensemble import best_of, differences, end_of
from tests.integration.broker import free_ports
from tests.integration.zookeeper_server import ZooKeeperServer, libs_of
from tests.support import jars

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.java, pytest.mark.slow]

VERSION: Final = "3.9.3"
SERVERS: Final = (1, 2, 3)
_CLIENT: Final = Path(__file__).parent / "java" / "ZooKeeperNodes.java"


class Ensemble:
    """Three data directories, and servers on them."""

    def __init__(self, work_dir: Path) -> None:
        self._work_dir = work_dir
        ports = {number: free_ports() for number in SERVERS}
        members = "".join(f"server.{n}=127.0.0.1:{first}:{second}\n" for n, (first, second) in ports.items())
        for number in SERVERS:
            self.data_dir(number).mkdir()
            (self.data_dir(number) / "myid").write_text(f"{number}\n")
            client, _ = free_ports()
            settings = f"dataDir={self.data_dir(number)}\nclientPort={client}\n{members}"
            self._config(number).write_text("tickTime=500\ninitLimit=60\nsyncLimit=60\n" + settings)

    def data_dir(self, number: int) -> Path:
        """The data directory of a server."""
        return self._work_dir / f"data-{number}"

    def _config(self, number: int) -> Path:
        return self._work_dir / f"zoo-{number}.cfg"

    @contextmanager
    def running(self, *numbers: int) -> Iterator[dict[int, ZooKeeperServer]]:
        """Servers that run until the end of the block, by their numbers; then they are killed."""
        with ExitStack() as stack:
            yield {
                number: stack.enter_context(
                    ZooKeeperServer(VERSION, self.data_dir(number), config=self._config(number))
                )
                for number in numbers
            }

    def alone(self, number: int, *names: str) -> None:
        """Run one server by itself, outside of the ensemble, and create nodes."""
        with ZooKeeperServer(VERSION, self.data_dir(number)) as server:
            create(server, *names)

    def codes(self) -> set[str]:
        """What kafkalog finds in the directories."""
        ends = [end_of(read_data_dir(str(self.data_dir(number)))) for number in SERVERS]
        return {finding.code for finding in differences(ends, best_of(ends))}


def create(server: ZooKeeperServer, *names: str) -> set[str]:
    """Create nodes, and return the names of all nodes."""
    (line,) = server.client(*names, program=_CLIENT)
    return set(line.split())


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Ensemble:
    """Three servers that were killed when each of them had the same nodes."""
    try:
        libs_of(VERSION)
    except jars.MissingError as missing:
        pytest.skip(str(missing))
    ensemble = Ensemble(tmp_path_factory.mktemp("ensemble"))
    with ensemble.running(*SERVERS) as servers:
        create(servers[1], "a", "b")
        for server in servers.values():
            assert {"a", "b"} <= create(server)
    return ensemble


@pytest.fixture
def ensemble(killed: Ensemble, tmp_path: Path) -> Ensemble:
    """The same, of one test alone."""
    ensemble = Ensemble(tmp_path)
    for number in SERVERS:
        shutil.copytree(killed.data_dir(number), ensemble.data_dir(number), dirs_exist_ok=True)
    return ensemble


def test_a_server_gives_up_what_the_others_never_had(ensemble: Ensemble) -> None:
    """Its transaction is gone when it follows the leader that the others have elected."""
    ensemble.alone(1, "extra")
    with ensemble.running(2, 3) as servers:
        create(servers[2], "c")
    assert ensemble.codes() == {"zookeeper.diverges"}
    with ensemble.running(*SERVERS) as servers:
        for server in servers.values():
            assert create(server) == {"a", "b", "c", "zookeeper"}


def test_servers_with_different_transactions_of_one_zxid_keep_different_trees(ensemble: Ensemble) -> None:
    """None of them notices, until the directory of one is moved away: then it takes the tree of the leader."""
    ensemble.alone(1, "one")
    ensemble.alone(2, "two")
    assert "zookeeper.same-zxid" in ensemble.codes()
    with ensemble.running(*SERVERS) as servers:
        assert "one" in create(servers[1])
        assert "two" in create(servers[2])
        create(servers[3], "after")
        trees = [create(servers[number]) for number in (1, 2)]
    assert [each & {"one", "two"} for each in trees] == [{"one"}, {"two"}]
    shutil.rmtree(ensemble.data_dir(1) / "version-2")
    with ensemble.running(2, 3) as servers:
        kept = [create(servers[number]) for number in (2, 3)]
        with ensemble.running(1) as others:
            assert create(others[1]) in kept
