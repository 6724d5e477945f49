"""librdkafka's own tests, one number a process: `test-runner` with TESTS=NUMBER.

The sources come with the crate rdkafka-sys (2.12.1) and with the npm package @confluentinc/kafka-javascript (2.15.1).
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from tools.judges.packages import Cache, build, copied, fetch, need
from tools.judges.results import Result, Status
from tools.judges.running import Ended, Job, Judged, run

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["Variant", "tests_of"]

_CRATE: Final = ("rdkafka-sys", "4.10.0+2.12.1")
_NPM: Final = "@confluentinc/kafka-javascript@1.10.1"
_STEPS: Final = (
    ("./configure", "--enable-zstd"),
    ("make", "-j2", "libs"),
    ("make", "-C", "tests", "-j2", "test-runner"),
    ("make", "-C", "tests/interceptor_test"),
    ("make", "-C", "tests/plugin_test"),
)
_ONE_REPLICA: Final = """        if (test_getenv("TEST_RF", NULL))
                replication_factor = atoi(test_getenv("TEST_RF", NULL));
"""
"""Some tests create topics with three replicas: this line of C, in `test_admin_create_topic`, makes that one."""
_NEEDS: Final = re.compile(
    r"broker\.rack|SSL_\* env-vars|not configured for SASL|requires SASL|Test requires authorization"
    r"|negative test flags|removed in Apache Kafka 4"
)
"""Reasons of skips: what a single plaintext broker cannot offer, and known issues of librdkafka itself."""
_QUICK: Final = frozenset({"0113"})
"""In full, 0113 wants group.initial.rebalance.delay.ms=3000, and is not done within five minutes."""
_FULL: Final = frozenset(f"{number:04}" for number in range(170, 190))
"""The tests of share groups, which do nothing in quick mode."""
_PATIENCE: Final = {"0119": 2}
"""By what limits of time within a test are multiplied: 0119 takes 18 s of its 20 s in front of any broker, because it
starts Java four times."""
_STATES: Final = {"PASSED": Status.PASSED, "SKIPPED": Status.SKIPPED}
_IDLE_SECONDS: Final = 0.05


class Variant(NamedTuple):
    """How the suite runs.

    protocol: classic or consumer. is_quick: the runner's quick mode, in which tests do less, for all tests but those
    that it leaves out as a whole. scenario: only tests made for it are run; they expect other settings of the broker.
    """

    suite: str
    version: str
    protocol: str = "classic"
    is_quick: bool = False
    scenario: str = "default"

    def runs_quickly(self, number: str) -> bool:
        """Return whether a test runs in the quick mode."""
        return number in _QUICK or (self.is_quick and number not in _FULL)


class _Member(NamedTuple):
    """A test of the runner's table."""

    name: str
    flags: str
    scenarios: str

    def unfit(self, scenario: str) -> str:
        """Why the test is not run in a scenario; empty: it is."""
        if "MANUAL" in self.flags:
            return "manual"
        if "LOCAL" in self.flags:
            return "local only (no broker)"
        return "" if scenario in self.scenarios else f"made for scenario {self.scenarios}"


def tests_of(variant: Variant, judged: Judged) -> list[Job]:
    """Build the suite, and return its tests. Raises UnavailableError."""
    tests = _built(judged.cache, variant.version) / "tests"
    home = judged.cache.kafka_tools()
    for leftover in chain(tests.glob("stats_*.json"), tests.glob("*.offset")):
        leftover.unlink()
    found = []
    for number, members in _table(tests / "test.c").items():
        wanted = [each for each in members if not each.unfit(variant.scenario)]
        unfit = [
            Result(variant.suite, each.name, Status.NOT_APPLICABLE, 0.0, reason)
            for each in members
            if (reason := each.unfit(variant.scenario)) and variant.scenario == "default"
        ]
        if unfit:
            found.append(Job(tuple(each.test for each in unfit), partial(list, unfit)))
        if wanted:
            names = tuple(each.name for each in wanted)
            found.append(Job(names, partial(_run, variant, judged, tests, home, number, names)))
    return found


def _built(cache: Cache, version: str) -> Path:
    folder = cache.root / "librdkafka" / version
    if not (folder / "tests" / "test-runner").exists():
        for program in ("g++", "make"):
            need(program, "a C and C++ compiler, make, and the headers of OpenSSL, zlib, zstd, lz4, curl and rapidjson")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        copied(_sources(cache, version), folder)
        shutil.rmtree(folder / "package", ignore_errors=True)
        path = folder / "tests" / "test.c"
        text = path.read_text(encoding="utf-8")
        start = text.index("\nvoid test_admin_create_topic(")
        place = text.index("        rd_kafka_NewTopic_t *newt[1];", start)
        path.write_text(text[:place] + _ONE_REPLICA + text[place:], encoding="utf-8")
        log = cache.log(f"librdkafka-{version}-build.log")
        for command in _STEPS:
            build(command, folder, log)
    return folder


def _sources(cache: Cache, version: str) -> Path:
    if version in _CRATE[1]:
        return cache.crate(*_CRATE) / "librdkafka"
    need("npm", "Node.js")
    folder = cache.root / "librdkafka" / version
    fetch(["npm", "pack", "--silent", _NPM], folder)
    (archive,) = folder.glob("*.tgz")
    shutil.unpack_archive(archive, folder, filter="data")
    archive.unlink()
    return folder / "package" / "deps" / "librdkafka"


def _table(source: Path) -> dict[str, list[_Member]]:
    """The runner's tests, by their numbers."""
    text = source.read_text(encoding="utf-8")
    text = text[text.index("struct test tests[] = {") :]
    found: dict[str, list[_Member]] = {}
    for name, rest in re.findall(r"_TEST\((\w+),\s*((?:[^()]|\([^()]*\))*)\)", text[: text.index("{NULL}")]):
        scenario = re.search(r'\.scenario\s*=\s*"([^"]*)"', rest)
        member = _Member(name, rest.split(",")[0], scenario[1] if scenario else "default")
        found.setdefault(name[:4], []).append(member)
    return found


def _run(
    variant: Variant, judged: Judged, tests: Path, home: Path, number: str, names: tuple[str, ...]
) -> list[Result]:
    log = judged.cache.log(f"{variant.suite}/{number}.log")
    # Topics with a prefix of their own: -D, which deletes a test's topics at its end, then deletes no others.
    conf = log.with_suffix(".conf")
    patience = _PATIENCE.get(number, 1)
    conf.write_text(
        f"metadata.broker.list={judged.address}\ntest.topic.prefix=rdk{number}{secrets.token_hex(3)}\n"
        f"test.timeout.multiplier={patience}\n",
        encoding="utf-8",
    )
    command = ["./test-runner", "-p1", "-D", "-L", *(["-Q"] if variant.runs_quickly(number) else [])]
    ended = run(command, log, judged.limit_seconds, cwd=tests, env=_environment(variant, judged, home, number, conf))
    text = re.sub(r"\x1b\[[0-9;]*m|\x1b\(B", "", ended.text)
    return [_result(variant, name, ended, text, judged.limit_seconds) for name in names]


def _environment(variant: Variant, judged: Judged, home: Path, number: str, conf: Path) -> Mapping[str, str]:
    return {
        "TESTS": number,
        "RDKAFKA_TEST_CONF": str(conf),
        "TEST_KAFKA_VERSION": judged.kafka_version,
        "TEST_SCENARIO": variant.scenario,
        "TEST_RF": "1",
        "TEST_CONSUMER_GROUP_PROTOCOL": variant.protocol,
        "LD_LIBRARY_PATH": os.pathsep.join(("../src", "../src-cpp")),
        "KAFKA_PATH": str(home),
        "BROKERS": judged.address,
        "ZK_ADDRESS": judged.address,
        "CI": "",
    }


def _result(variant: Variant, name: str, ended: Ended, text: str, limit_seconds: float) -> Result:
    """What the runner's summary says of a test; what its last lines say, if it did not come so far."""
    rows = re.findall(rf"(?m)^\| {name} +\| +(\w+) \| +([\d.]+)s \|(.*)$", text)
    done = re.findall(rf"(?m)/ *([\d.]+)s\] =+ Test {name} PASSED =+", text)
    if rows and (rows[-1][0] != "SKIPPED" or rows[-1][2].strip() or ended.status is not None):
        state, seconds, reason = rows[-1]
        status = _STATES.get(state, Status.FAILED)
        if status is Status.PASSED and variant.runs_quickly(name[:4]) and float(seconds) < _IDLE_SECONDS:
            status, reason = Status.SKIPPED, "does nothing in quick mode"
        if status is Status.SKIPPED and _NEEDS.search(reason):
            status = Status.NOT_APPLICABLE
        return Result(variant.suite, name, status, float(seconds), reason.strip())
    if done:
        return Result(variant.suite, name, Status.PASSED, float(done[-1]))
    why = re.search(rf'(?m)^### Test "{name}[^"]*" failed at (\S+):.*###\n(.*)', text)
    reason = f"{why[1]}: {why[2]}" if why else (text.strip().splitlines()[-1:] or [""])[0]
    late = f"over {limit_seconds:g}s: " if ended.status is None else ""
    return Result(variant.suite, name, Status.FAILED, ended.seconds, late + reason)
