"""A short run of Debian's kcat: what people type at a prompt."""

from __future__ import annotations

import re
import secrets
import subprocess
import time
from dataclasses import dataclass
from functools import partial
from json import loads
from typing import TYPE_CHECKING, Final

from tools.judges.packages import need
from tools.judges.results import Result, Status
from tools.judges.running import Job

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tools.judges.running import Judged

__all__ = ["tests_of", "version"]

_SECONDS: Final = 40
_MESSAGES: Final = 1000
_CODECS: Final = ("gzip", "snappy", "lz4", "zstd")
_GROUP_COUNT: Final = 2 * _MESSAGES


def version() -> str:
    """Return the version of kcat and of its librdkafka. Raises UnavailableError."""
    need("kcat", "Debian's package kcat")
    text = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout
    match = re.search(r"(?m)^Version (\S+).*librdkafka (\S+)", text)
    return f"{match[1]}, librdkafka {match[2]}" if match else text.splitlines()[0]


def tests_of(judged: Judged) -> list[Job]:
    """Return the checks, which follow one another: later ones read what earlier ones wrote."""
    need("kcat", "Debian's package kcat")
    lines = judged.cache.log("kcat/in")
    lines.write_text("".join(f"{number}\n" for number in range(1, _MESSAGES + 1)))
    kcat = _Kcat(judged.address, f"k{secrets.token_hex(4)}", lines)
    return [Job((each.__name__,), partial(_checked, each, kcat)) for each in _CHECKS]


def _checked(check: Callable[[_Kcat], None], kcat: _Kcat) -> list[Result]:
    started = time.monotonic()
    status, reason = Status.PASSED, ""
    try:
        check(kcat)
    except _UnexpectedError as error:
        status, reason = Status.FAILED, str(error)
    return [Result("kcat", check.__name__, status, time.monotonic() - started, reason)]


class _UnexpectedError(Exception):
    """kcat failed, or printed something else."""


def _expect(found: object, wanted: object) -> None:
    if found != wanted:
        raise _UnexpectedError(f"expected {str(wanted)[:60]!r}, found {str(found)[:60]!r}")


@dataclass(frozen=True, slots=True)
class _Kcat:
    """kcat with a limit and without a terminal. ident: the beginning of all topics; lines: a file of messages."""

    address: str
    ident: str
    lines: Path

    def topic(self, name: str) -> str:
        return f"{self.ident}-{name}"

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        """Return what kcat printed."""
        command = ["kcat", "-b", self.address, "-q", *arguments]
        try:
            done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise _UnexpectedError(f"kcat {' '.join(arguments)}: over {_SECONDS}s") from error
        if done.returncode:
            last = done.stderr.strip().splitlines()[-2:]
            raise _UnexpectedError(f"kcat {' '.join(arguments)}: exit {done.returncode}: {' '.join(last)}")
        return done.stdout

    def produce(self, name: str, *arguments: str, stdin: str = "") -> None:
        """Produce to partition 0 of a topic: messages of stdin, or those of the file `-l`."""
        self("-P", "-t", self.topic(name), "-p", "0", *arguments, stdin=stdin)

    def read(self, name: str, *arguments: str) -> str:
        """Return all of partition 0 of a topic."""
        return self("-C", "-t", self.topic(name), "-p", "0", "-o", "beginning", "-e", *arguments)

    def produce_lines(self, name: str, *arguments: str) -> None:
        """Produce the file of messages, one a line, to partition 0 of a topic."""
        self.produce(name, *arguments, "-l", str(self.lines))

    def expect_lines(self, name: str, *arguments: str) -> None:
        """Expect that partition 0 of a topic holds the file of messages."""
        _expect(self.read(name, *arguments), self.lines.read_text())

    def count(self, name: str, group: str, *arguments: str) -> int:
        """Return how many messages a group reads of a topic until its end."""
        own = ("-G", self.topic(group), "-X", "auto.offset.reset=earliest", *arguments, "-e", self.topic(name))
        return len(self(*own).splitlines())


def list_brokers(kcat: _Kcat) -> None:
    _expect("broker" in kcat("-L"), True)


def list_json(kcat: _Kcat) -> None:
    _expect(len(loads(kcat("-L", "-J"))["brokers"]), 1)


def produce(kcat: _Kcat) -> None:
    kcat.produce_lines("a")


def consume(kcat: _Kcat) -> None:
    kcat.expect_lines("a")


def list_topic(kcat: _Kcat) -> None:
    topic = kcat.topic("a")
    _expect(f'topic "{topic}" with' in kcat("-L", "-t", topic), True)


def consume_offset(kcat: _Kcat) -> None:
    for offset, wanted in (("10", "11\n"), ("-1", f"{_MESSAGES}\n")):
        _expect(kcat("-C", "-t", kcat.topic("a"), "-p", "0", "-o", offset, "-c", "1"), wanted)


def query_offsets(kcat: _Kcat) -> None:
    for timestamp, wanted in ((-1, _MESSAGES), (-2, 0), (1000, 0)):
        found = kcat("-Q", "-t", f"{kcat.topic('a')}:0:{timestamp}")
        _expect(f"offset {wanted}\n" in found, True)


def from_timestamp(kcat: _Kcat) -> None:
    between = ("-o", "s@1000", "-o", "e@1900000000000", "-e")
    _expect(len(kcat("-C", "-t", kcat.topic("a"), "-p", "0", *between).splitlines()), _MESSAGES)


def keys(kcat: _Kcat) -> None:
    kcat.produce("k", "-K:", stdin="k1:v1\nk2:v2\n")
    _expect(kcat.read("k", "-K:"), "k1:v1\nk2:v2\n")


def headers(kcat: _Kcat) -> None:
    kcat.produce("h", "-H", "a=1", "-H", "b=two", "-H", "a=3", stdin="v\n")
    _expect(kcat.read("h", "-f", "%h|%s"), "a=1,b=two,a=3|v")


def null_values(kcat: _Kcat) -> None:
    kcat.produce("n", "-K:", "-Z", stdin="k:\n:v\n")
    _expect(kcat.read("n", "-K:", "-Z"), "k:NULL\nNULL:v\n")


def big_message(kcat: _Kcat) -> None:
    big = kcat.lines.with_name("big")
    big.write_text("x" * 900_000)
    kcat.produce("b", str(big))
    _expect(kcat.read("b", "-D", ""), big.read_text())


def compressed(kcat: _Kcat) -> None:
    for codec in _CODECS:
        kcat.produce_lines(codec, "-z", codec)
        kcat.expect_lines(codec)


def acks(kcat: _Kcat) -> None:
    for each in ("0", "1", "all"):
        kcat.produce_lines(f"acks{each}", "-X", f"acks={each}")


def idempotent(kcat: _Kcat) -> None:
    kcat.produce_lines("i", "-X", "enable.idempotence=true")
    kcat.expect_lines("i")


def partitions(kcat: _Kcat) -> None:
    kcat("-P", "-t", kcat.topic("a"), "-l", str(kcat.lines))
    found = kcat("-C", "-t", kcat.topic("a"), "-o", "beginning", "-e")
    _expect(len(found.splitlines()), _GROUP_COUNT)


def transaction(kcat: _Kcat) -> None:
    kcat.produce_lines("t", "-X", f"transactional.id={kcat.ident}")
    kcat.expect_lines("t", "-X", "isolation.level=read_committed")


def group(kcat: _Kcat) -> None:
    """A group reads everything, commits, and finds nothing the second time."""
    _expect(kcat.count("a", "g"), _GROUP_COUNT)
    _expect(kcat.count("a", "g"), 0)


def cooperative(kcat: _Kcat) -> None:
    _expect(kcat.count("a", "c", "-X", "partition.assignment.strategy=cooperative-sticky"), _GROUP_COUNT)


def json(kcat: _Kcat) -> None:
    _expect([loads(line)["key"] for line in kcat.read("k", "-J").splitlines()], ["k1", "k2"])


_CHECKS: Final = (
    list_brokers,
    list_json,
    produce,
    consume,
    list_topic,
    consume_offset,
    query_offsets,
    from_timestamp,
    keys,
    headers,
    null_values,
    big_message,
    compressed,
    acks,
    idempotent,
    partitions,
    transaction,
    group,
    cooperative,
    json,
)
"""By the names of the baseline, in the order that they need."""
