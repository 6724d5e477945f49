"""Random checkpoints of offsets: what Kafka's own reader makes of each, and what kafkalog says of the file."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from kafkalog_core.format.names import FileKind
from kafkalog_core.kafka.rules.releases import Release, parse_release
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.kafka.sim.logdir.faults import EntryFile
from kafkalog_core.kafka.sim.logdir.text_files import read_checkpoint
from kafkalog_core.kafka.sim.start.disk import effect_of
from tests.integration.differential import TOPIC, Verdict
from tests.integration.log_harness import HarnessError

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.kafka.rules.rule_table import LoaderRules
    from tests.integration.log_harness import LogHarness
    from tests.integration.workloads import Workload

TEXTS: Final = 40  # of each seed
_NUMBERS: Final = (
    b"0",
    b"5",
    b"-1",
    b"+5",
    b"007",
    b"",
    b"x",
    b"2147483648",
    b"9223372036854775808",
    b"-0",
    b"1.0",
    b"5L",
)
_DIGITS: Final = ("\u0665".encode(), "\uff15".encode())
_GAPS: Final = (b" ", b" ", b" ", b" ", b" ", b" ", b" ", b" ", b"  ", b"\t", b"\x0b", "\u00a0".encode(), b"")
_ENDS: Final = (b"\n", b"\n", b"\n", b"\n", b"\n", b"\n", b"\r\n", b"\r", b"\n\n", b"")
_TOPICS: Final = (b"t", b"a.b", b"a-b", b"", b"\xff", "\u00e9".encode())


def compare_checkpoints(harness: LogHarness, workload: Workload, work_dir: Path) -> Verdict:
    """Write texts, and read each; where Kafka refuses one, its log directory goes offline, or it counts as empty."""
    verdict, rng = Verdict(), random.Random(workload.seed)
    rules = rules_of(Release(*parse_release(harness.version)))
    partition_dir, path = work_dir / f"{TOPIC}-0", work_dir / "recovery-point-offset-checkpoint"
    partition_dir.mkdir(parents=True)
    for number in range(TEXTS):
        text = draw_text(rng)
        path.write_bytes(text)
        try:
            answer = harness.run("checkpoint", partition_dir, workload.stages[-1].now_ms, {}, file=path)["entries"]
        except HarnessError as error:
            answer = str(error)
        ours = _said(str(path), rules)
        found = [] if _is_same(answer, ours) else [f"Kafka: {answer}, ours: {ours}"]
        verdict.add(f"text {number}, {text!r}", found)
        verdict.rounds += 1
    return verdict


def draw_text(rng: random.Random) -> bytes:
    """A file with up to four entries, most of which is right."""
    count = rng.randrange(5)
    lines = [_number(rng, 0.1, b"0"), _number(rng, 0.2, b"%d" % count)]
    for _ in range(count):
        words = [rng.choice(_TOPICS) if rng.random() < 0.2 else b"t", _number(rng, 0.1), _number(rng, 0.1)]
        if rng.random() < 0.1:
            words = rng.choice((words[:2], [*words, b"1"], [b"", *words]))
        line = words[0]
        for word in words[1:]:
            line += (rng.choice(_GAPS) if rng.random() < 0.1 else b" ") + word
        lines.append(line)
    if rng.random() < 0.1:
        lines.insert(rng.randrange(len(lines) + 1), rng.choice((b"", b" ", b"\xef\xbb\xbf", b"0")))
    if rng.random() < 0.1:
        del lines[rng.randrange(len(lines)) :]
    return b"".join(line + (rng.choice(_ENDS) if rng.random() < 0.1 else b"\n") for line in lines)


def _number(rng: random.Random, odds: float, right: bytes = b"") -> bytes:
    if rng.random() < odds:
        return rng.choice((*_NUMBERS, *_DIGITS))
    return right or b"%d" % rng.choice((0, 1, 2, 100, 2**31 - 1))


def _said(path: str, rules: LoaderRules) -> str:
    """The entries; `offline`: the file is refused, and its log directory with it; `refused`: it counts as empty."""
    file = read_checkpoint(path, FileKind.RECOVERY_POINT)
    refusal = file.verdict.refusal
    if refusal is not None:
        finding = EntryFile(path=path, kind=FileKind.RECOVERY_POINT).refused(refusal)
        return effect_of(finding, rules) or "refused"
    rows = ((topic, partition, placed.entry.offset) for (topic, partition), placed in file.entries.items())
    return ",".join(f"{topic} {partition} {offset}" for topic, partition, offset in rows)


def _is_same(answer: str, ours: str) -> bool:
    # CheckpointFile adds the directory to the LogDirFailureChannel before it throws a KafkaStorageException
    if answer.startswith("storage:"):
        return ours == "offline"
    if answer.startswith("other:"):
        return ours == "refused"
    return sorted(answer.split(",")) == sorted(ours.split(","))
