"""What `log.unreadable` says of a broker, next to one whose reads of one byte of a log fail as those of a bad disk do.

A library that the process loads first makes the reads fail. 3.9.2 and 4.4.0 do in recovery what 4.3.1 does.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from typing import TYPE_CHECKING, Final

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kafkalog_core.findings.broker_actions import START_ACTIONS
from tests.support.compile_c import COMPILER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integration.broker import Broker

pytestmark = pytest.mark.java

SECONDS: Final = 60
BATCHES: Final = 6
FAILING: Final = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
static int fails(int file, off_t from, size_t size) {
    const char *end = getenv("UNREAD_FILE");
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    off_t at = end ? atol(getenv("UNREAD_BYTE")) : 0;
    if (!end || length < (ssize_t)strlen(end) || from > at || from + (off_t)size <= at) return 0;
    path[length] = 0;
    return !strcmp(path + length - strlen(end), end);
}
ssize_t pread64(int file, void *to, size_t size, off_t from) {
    ssize_t (*real)(int, void *, size_t, off_t) = dlsym(RTLD_NEXT, "pread64");
    if (fails(file, from, size)) { errno = EIO; return -1; }
    return real(file, to, size, from);
}
ssize_t sendfile64(int out, int in, off_t *from, size_t size) {
    ssize_t (*real)(int, int, off_t *, size_t) = dlsym(RTLD_NEXT, "sendfile64");
    if (from && fails(in, *from, size)) { errno = EIO; return -1; }
    return real(out, in, from, size);
}
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """The library, where there is a C compiler."""
    if shutil.which(COMPILER[0]) is None:
        pytest.skip("no C compiler on this machine")
    source, built = tmp_path / "failing.c", tmp_path / "failing.so"
    source.write_text(FAILING)
    subprocess.run([*COMPILER, "-shared", "-fPIC", "-o", str(built), str(source), "-ldl"], check=True)
    return built


@pytest.fixture
def filled(own_broker: Broker) -> Iterator[tuple[Broker, Path]]:
    """A broker, and a log of some batches."""
    broker = own_broker
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (created,) = admin.create_topics([NewTopic("unread", 1, 1)]).values()
    created.result()
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
    for _ in range(BATCHES):
        producer.produce("unread", b"x" * 300, partition=0)
        producer.flush()
    return broker, broker.partition_dir("unread") / f"{0:020d}.log"


def _read(broker: Broker) -> list[int]:
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "none", "fetch.message.max.bytes": 1000}
    consumer = confluent_kafka.Consumer({**settings, "enable.auto.commit": False, "log_level": 0})
    consumer.assign([confluent_kafka.TopicPartition("unread", 0, 0)])
    messages = [consumer.poll(1) for _ in range(12)]
    consumer.close()
    return [each.offset() for each in messages if each is not None and each.error() is None]


def test_it_says_what_a_broker_does(
    filled: tuple[Broker, Path], library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert START_ACTIONS["unreadable"].text == (
        "Does not start if it recovers the segment. Else it starts, and closes the connection of each fetch that "
        "reaches this place."
    )
    broker, log = filled
    for name, value in (
        ("LD_PRELOAD", str(library)),
        ("UNREAD_FILE", f"{log.parent.name}/{log.name}"),
        ("UNREAD_BYTE", str(log.stat().st_size - 100)),
    ):
        monkeypatch.setenv(name, value)
    broker.kill()
    broker.start_without_waiting()
    until = time.monotonic() + SECONDS
    while broker.is_running and time.monotonic() < until:
        time.sleep(0.2)
    assert not broker.is_running
    assert "Input/output error" in broker.output
    monkeypatch.delenv("UNREAD_FILE")
    broker.start()
    broker.stop()
    monkeypatch.setenv("UNREAD_FILE", f"{log.parent.name}/{log.name}")
    broker.start()
    offsets = _read(broker)
    assert BATCHES - 1 not in offsets
    assert broker.is_running
    assert "Stopping serving logs in dir" not in broker.output
