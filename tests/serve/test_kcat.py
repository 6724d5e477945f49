"""kcat, a Debian package, reads from a dead disk and from a broker of old versions, and writes to the live broker."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.live import LiveServer, create_topics, read_all
from tests.support.serving import address, serving, serving_the_floor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.serve.server import ReadOnlyBroker

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("kcat") is None, reason="no kcat on this machine"),
]

DEMO = Path(__file__).resolve().parents[2] / "fixtures" / "demo"
REFUSED_SECONDS = 30  # a producer that tries again does so for 60 s or more


@pytest.fixture(scope="module")
def dead() -> Iterator[ReadOnlyBroker]:
    with serving(DEMO) as broker:
        yield broker


def kcat(server: str, arguments: str, stdin: str = "") -> tuple[str, str]:
    """What it writes to stdout and stderr."""
    command = ["kcat", "-b", server, *arguments.split()]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=60)
    return done.stdout, done.stderr


@pytest.mark.parametrize(
    ("arguments", "offsets"),
    [
        ("-C -t orders -p 1 -e -o beginning", range(108)),
        ("-C -t orders -p 1 -e -o -8", range(100, 108)),
        ("-C -t customers -e -o s@1760000000010 -o e@1760000000020", range(10, 20)),
        (
            "-C -t payments -e -o beginning -X isolation.level=read_uncommitted",
            [*range(5), *range(6, 11), *range(12, 17), 18, 19],
        ),
        ("-C -t payments -e -o beginning -X isolation.level=read_committed", [*range(5), *range(12, 17)]),
        ("-G kcat -e -o beginning -X auto.offset.reset=earliest customers", range(30)),
    ],
)
def test_kcat_reads_a_dead_disk(arguments: str, offsets: list[int], dead: ReadOnlyBroker) -> None:
    out, err = kcat(address(dead), f"-q -f %o\\n {arguments}")
    assert [int(line) for line in out.split()] == [*offsets], err


def test_kcat_lists_topics_and_offsets_of_times(dead: ReadOnlyBroker) -> None:
    found = json.loads(kcat(address(dead), "-L -J")[0])
    counts = {topic["topic"]: len(topic["partitions"]) for topic in found["topics"]}
    assert {name: count for name, count in counts.items() if not name.startswith("__")} == {
        "customers": 1,
        "orders": 2,
        "payments": 1,
    }
    assert kcat(address(dead), "-Q -t customers:0:1760000000010")[0] == "customers [0] offset 10\n"


def test_kcat_is_refused_when_it_produces(dead: ReadOnlyBroker) -> None:
    start_s = time.monotonic()
    _, err = kcat(address(dead), "-P -t orders -p 0", "v\n")
    assert time.monotonic() - start_s < REFUSED_SECONDS
    assert "Topic authorization failed" in err


def test_kcat_reads_from_a_broker_that_knows_old_versions_alone() -> None:
    with serving_the_floor(DEMO) as broker:
        out, err = kcat(address(broker), "-G floor -q -e -f %p -X auto.offset.reset=earliest orders")
        assert (out.count("0"), out.count("1")) == (92, 108), err


def test_kcat_writes_and_reads_on_the_live_broker(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "data") as server:
        create_topics(server.address, ["kcat"])
        wanted = []
        for number, options in enumerate(
            ("acks=0", "acks=1", "acks=all -z zstd", "enable.idempotence=true", "transactional.id=kcat -z lz4")
        ):
            values = [f"{number}-{row}" for row in range(20)]
            _, err = kcat(server.address, f"-P -t kcat -X {options}", "".join(f"{value}\n" for value in values))
            assert "ERROR" not in err
            wanted += values
        rows = read_all(server.address, ["kcat"], "read_committed")
        assert sorted(value for each in rows.values() for _, _, value in each) == sorted(map(str.encode, wanted))
        out, err = kcat(server.address, "-G kcat -q -e -X auto.offset.reset=earliest kcat")
        assert sorted(out.split()) == sorted(wanted), err
        server.stop()
