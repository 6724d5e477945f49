"""The tests of the Go clients franz-go and kafka-go."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import partial
from typing import TYPE_CHECKING, Final

from tools.judges.brokers import SCRAM_USER
from tools.judges.compiled import Program, tests_of
from tools.judges.packages import build, copied
from tools.judges.results import HERE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from tools.judges.running import Job, Judged

__all__ = ["FRANZ_GO", "KAFKA_GO", "franz_go", "kafka_go"]

FRANZ_GO: Final = "v1.22.2"
KAFKA_GO: Final = "v0.4.51"
_RECORDS: Final = 50_000
_GRACE_SECONDS: Final = 30
_NO_BROKER: Final = "needs no broker"
_COMPILE: Final = ("go", "test", "-vet=off", "-ldflags=-s -w", "-c")
_PURE: Final = {"CGO_ENABLED": "0"}
"""Without C the standard library is compiled faster, which takes most of the time of a first build."""
_CHANGED: Final = "-buildvcs=false -mod=mod"
_DIALS: Final = re.compile(
    r"newTestClient|scramSeeds|getSeedBrokers|testClientOpts|adm\(\)|tmpTopic|tmpNamedTopic|testChain|newTestConsumer"
    r"|KGO_SEEDS|newTest\w*ETL|test\w*ETL\(|testGroup|testTxn"
)
"""What the tests of franz-go that use a broker have in their text."""


def franz_go(judged: Judged) -> list[Job]:
    """Return the tests of franz-go's package kgo."""
    folder = judged.cache.go_module("github.com/twmb/franz-go", FRANZ_GO)
    package = folder / "pkg" / "kgo"
    program = folder / "kgo.test"
    if not program.exists():
        log = judged.cache.log("franz-go-build.log")
        build([*_COMPILE, "-o", str(program), "./pkg/kgo"], folder, log, {**_PURE, "GOFLAGS": "-buildvcs=false"})
    env = {
        "KGO_SEEDS": judged.address,
        "KGO_TEST_RF": "1",
        "KGO_TEST_RECORDS": str(_RECORDS // 10 if judged.is_brief else _RECORDS),
        "KGO_LOG_LEVEL": "none",
    }
    if judged.sasl_address is not None:
        env |= {"KGO_TEST_SCRAM_SEEDS": judged.sasl_address, "KGO_TEST_SCRAM": SCRAM_USER}
    unfit = dict.fromkeys(_without_seeds(package), _NO_BROKER)
    return _tests(_program("franz-go", program, package, env, unfit), judged)


def _without_seeds(package: Path) -> frozenset[str]:
    """The tests of franz-go whose text never makes a client that dials KGO_SEEDS."""
    found = set()
    for path in package.glob("*_test.go"):
        for body in re.split(r"(?m)^(?=func )", path.read_text(encoding="utf-8")):
            name = re.match(r"func (Test\w+)\(", body)
            if name and not _DIALS.search(body):
                found.add(name[1])
    return frozenset(found)


def kafka_go(judged: Judged) -> list[Job]:
    """Return the tests of kafka-go, and of its packages that talk to a broker."""
    folder = judged.cache.root / "go" / "kafka-go-run"
    shutil.rmtree(folder, ignore_errors=True)
    copied(judged.cache.go_module("github.com/segmentio/kafka-go", KAFKA_GO), folder)
    _aim(folder, judged)
    skip = "^$"
    if judged.port != "9092":
        skip += "|^TestDialerResolver$/^resolve_domain_to_ip"  # the client fills in port 9092
    names = (HERE / "kafka_go_local.txt").read_text(encoding="utf-8").split()
    unfit = dict.fromkeys(names, _NO_BROKER)
    packages = [".", "topics"]
    if judged.sasl_address is None:
        skip += "|^TestWriter$/SASL"
        unfit["TestUnsupportedSASLMechanism"] = "needs a SASL listener"
    else:
        packages.append("sasl")
    log = judged.cache.log("kafka-go-build.log")
    env = {"KAFKA_SKIP_NETTEST": "1", "KAFKA_VERSION": judged.kafka_version}
    found = []
    for package in packages:
        cwd = folder / package
        path = folder / f"{cwd.name}.test"
        build([*_COMPILE, "-o", str(path), f"./{package}"], folder, log, {**_PURE, "GOFLAGS": _CHANGED})
        program = _program("kafka-go", path, cwd, env, unfit, skip=skip, prefix="" if package == "." else f"{package}/")
        found += _tests(program, judged)
    return found


def _aim(folder: Path, judged: Judged) -> None:
    """Replace the address that kafka-go's tests dial and expect, localhost:9092, with that of the broker."""
    host, port, address = judged.host, judged.port, judged.address
    replaced = (
        (r"(?:localhost|127\.0\.0\.1):9092", address),
        (r"example\.com:9092", f"example.com:{port}"),
        (r'TCP\("localhost"\)', f'TCP("{address}")'),
        (r'Host: "localhost", Port: 9092', f'Host: "{host}", Port: {port}'),
        (r'Host != "localhost"', f'Host != "{host}"'),
        (r"Port != 9092", f"Port != {port}"),
        (r"(?:localhost|127\.0\.0\.1):9093", judged.sasl_address or "127.0.0.1:9093"),
    )
    for path in folder.rglob("*_test.go"):
        text = before = path.read_text(encoding="utf-8")
        if path.name != "address_test.go":
            for pattern, wanted in replaced:
                text = re.sub(pattern, wanted, text)
        if path.name == "reader_test.go":
            # Its helper getOffsets calls a function that it never sets, whatever the broker.
            sets = "\tcg.config.Timeout = 5 * time.Second\n\tcg.config.connect = makeConnect(cg.config)\n"
            start = text.find("\nfunc getOffsets(")
            place = text.find("\tconn, err := cg.coordinator()", start)
            text = text[:place] + sets + text[place:] if 0 <= start < place else text
        if text != before:
            path.write_text(text, encoding="utf-8")


def _program(
    suite: str,
    path: Path,
    cwd: Path,
    env: Mapping[str, str],
    unfit: Mapping[str, str],
    *,
    skip: str = "",
    prefix: str = "",
) -> Program:
    """skip: subtests that are not run, a regular expression."""
    return Program(
        suite=suite,
        path=path,
        cwd=cwd,
        env=env,
        prefix=prefix,
        unfit=unfit,
        command=partial(_command, skip),
        has_skipped=lambda text, name: re.search(rf"--- SKIP: {re.escape(name)} ", text) is not None,
        why=_why,
    )


def _command(skip: str, name: str, limit_seconds: float) -> Iterable[str]:
    yield from ("-test.v", "-test.run", f"^{name}$", "-test.timeout", f"{limit_seconds + _GRACE_SECONDS:.0f}s")
    if skip:
        yield from ("-test.skip", skip)


def _tests(program: Program, judged: Judged) -> list[Job]:
    command = [str(program.path), "-test.list", "^Test"]
    listing = subprocess.run(command, cwd=program.cwd, capture_output=True, text=True, check=True).stdout
    return tests_of(program, listing.split(), judged)


def _why(text: str) -> str:
    """The failed subtests, and the line that best describes why a test failed or skipped itself."""
    subtests = [each.split("/", 1)[1] for each in re.findall(r"--- FAIL: (\S+/\S+)", text)]
    lines = re.findall(r"(?m)^panic: .*|^\s+\S+\.go:\d+: .*", text)
    good = [
        line for line in lines if not re.search(r"deleting|createTopic\(|waitForTopic|retrying|Log\(", line)
    ] or lines
    reason = good[0].strip() if good else ""
    testify = re.search(r"Error:\s+(.*(?:\n\s+(?!Test:|Error).*)?)", text)
    if testify and reason.endswith((":", ")")):
        reason = f"{reason.split(':')[0]}: {testify[1]}"
    return f"[{','.join(subtests[:5])}] {reason}" if subtests else reason
