"""The integration tests of the Rust clients rust-rdkafka and rskafka."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING, Final

from tools.judges.compiled import Program, tests_of
from tools.judges.packages import build, copied, fetch

if TYPE_CHECKING:
    from pathlib import Path

    from tools.judges.packages import Cache
    from tools.judges.running import Job, Judged

__all__ = ["RDKAFKA", "RSKAFKA", "rdkafka", "rskafka"]

RDKAFKA: Final = "0.39.0"
RSKAFKA: Final = "0.6.0"
_SKIPS: Final = re.compile(r"(?mi)^test \S+ \.\.\. ignored|(?:^|\.\.\. )skipping .*")
_PANIC: Final = re.compile(
    r"(?m)^thread .* panicked at (\S+):\n?(.*(?:\n(?!note|stack).*){0,3})|^.*(?:SIG\w+|(?i:skipping).*)$"
)


def rdkafka(judged: Judged) -> list[Job]:
    """Return the integration tests of rust-rdkafka."""
    return _tests("rdkafka", RDKAFKA, (), judged)


def rskafka(judged: Judged) -> list[Job]:
    """Return the integration tests of rskafka, with those that read and write with Kafka's Java client too."""
    return _tests("rskafka", RSKAFKA, ("--features", "full"), judged)


def _tests(name: str, version: str, features: tuple[str, ...], judged: Judged) -> list[Job]:
    folder = judged.cache.root / "rust" / f"{name}-{version}"
    if not (folder / ".ready").exists():
        copied(judged.cache.crate(name, version), folder)
        with (folder / "Cargo.toml").open("a", encoding="utf-8") as manifest:
            manifest.write("\n[workspace]\n")
        (folder / "rust-toolchain.toml").unlink(missing_ok=True)
        _adapt(name, folder)
        (folder / ".ready").touch()
    env = {
        "KAFKA_HOST": judged.address,
        "KAFKA_CONNECT": judged.address,
        "KAFKA_VERSION": judged.kafka_version,
        "TEST_INTEGRATION": "1",
        "TEST_JAVA_INTEROPT": "1",
        "TEST_BROKER_IMPL": "kafka",
        "RUST_BACKTRACE": "0",
    }
    programs = _programs(name, folder, features, judged.cache)
    found = []
    for target, path in programs:
        prefix = f"{target}::" if len(programs) > 1 else ""
        program = Program(
            suite=name,
            path=path,
            cwd=folder,
            env=env,
            prefix=prefix,
            command=lambda test, _: ("--exact", test, "--nocapture", "--test-threads=1"),
            has_skipped=lambda text, _: _SKIPS.search(text) is not None,
            why=_why,
        )
        found += tests_of(program, _names(path, folder), judged)
    return found


def _programs(name: str, folder: Path, features: tuple[str, ...], cache: Cache) -> list[tuple[str, Path]]:
    command = ["cargo", "test", "--tests", "--no-run", "--message-format=json", *features]
    lines = build(command, folder, cache.log(f"{name}-build.log")).splitlines()
    targets = [json.loads(line) for line in lines if line.startswith("{")]
    return [
        (each["target"]["name"], folder / each["executable"])
        for each in targets
        if each.get("executable") and "test" in each["target"]["kind"]
    ]


def _names(path: Path, folder: Path) -> list[str]:
    command = [str(path), "--list", "--format", "terse"]
    listing = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    return [line.removesuffix(": test") for line in listing.splitlines() if line.endswith(": test")]


def _why(text: str) -> str:
    """Where and why the test panicked, or why it skipped itself."""
    match = _PANIC.search(text)
    if match is None:
        return ""
    return f"{match[1]} {match[2]}" if match[1] else match[0]


_NODE: Final = "\n// The broker under test.\n#[allow(dead_code)]\npub const NODE: i32 = 1;\n"
_EDITS: Final = {
    "test_admin.rs": ((r"&\[0\]", "&[NODE]"), (r"Broker\(0\)", "Broker(NODE)")),
    "test_high_producers.rs": (
        (r'"bootstrap\.servers", "localhost"\)', '"bootstrap.servers", &get_bootstrap_server())'),
    ),
    "test_metadata.rs": (
        (r"id != 0", "id != NODE"),
        (r"(id\(\)|leader\(\)), 0\)", r"\1, NODE)"),
        (r"&\[0\]", "&[NODE]"),
        (r"port\(\), 9092", 'port().to_string(), get_bootstrap_server().rsplit(":").next().unwrap()'),
    ),
}
"""The tests of rust-rdkafka expect broker 0 at port 9092."""


def _adapt(name: str, folder: Path) -> None:
    if name == "rskafka":
        # rsasl 2.2.0, which the crate's lock file names, is refused by current compilers.
        fetch(["cargo", "update", "-q", "-p", "rsasl", "--precise", "2.3.1"], folder)
        return
    with (folder / "tests" / "utils.rs").open("a", encoding="utf-8") as utilities:
        utilities.write(_NODE)
    for file, edits in _EDITS.items():
        path = folder / "tests" / file
        text = path.read_text(encoding="utf-8")
        for pattern, wanted in edits:
            text = re.sub(pattern, wanted, text)
        path.write_text(text, encoding="utf-8")
