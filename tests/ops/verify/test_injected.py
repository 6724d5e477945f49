"""Injected damage: what verify finds of it is exactly what can be proven, and the rest is of a documented kind.

Healthy directories in several flavours are damaged at random, from seeds. `injected_truth` says by other means what the
damage gives away; `untraceable` lists what may leave nothing. `KAFKALOG_SEEDS` is the number of seeds for longer runs.
"""

from __future__ import annotations

import os
from random import Random
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.engine.targets import resolve
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from tests.ops.verify import injected_kinds, injected_truth, injection
from tests.ops.verify.injected_files import build
from tests.ops.verify.injected_log import FLAVOURS
from tools.untraceable import ONLY_WARNED, UNTRACEABLE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalog_core.findings import Finding
    from tests.ops.verify.injected_log import Broker
    from tests.ops.verify.injection import Damage

SEEDS = int(os.environ.get("KAFKALOG_SEEDS", "4"))
ROUNDS = 2
NOW_MS = 1_800_000_000_000


def _findings(path: Path) -> list[Finding]:
    request = VerifyRequest(targets=tuple(resolve([str(path)])), now_ms=NOW_MS)
    return [finding for verdict in verify(request) for finding in verdict.findings]


def _worst(findings: list[Finding]) -> str:
    severities = {finding.severity for finding in findings}
    return next((severity for severity in ("error", "warning") if severity in severities), "none")


def _write(path: Path, changes: dict[str, bytes | None]) -> None:
    for name, data in changes.items():
        if data is None:
            (path / name).unlink()
        else:
            (path / name).write_bytes(data)


def _damages(broker: Broker, files: dict[str, bytes], random: Random) -> Iterator[Damage]:
    for kind in list(injection.KINDS) * ROUNDS:
        damage = injection.inject(kind, broker, files, random)
        if damage is not None:
            yield damage


def _is_near(finding: Finding, damage: Damage, path: Path) -> bool:
    """Whether a finding names a damaged file or its partition; what checkpoints say wrong is of some partition."""
    name = finding.path.removeprefix(f"{path}/")
    tops = {changed.partition("/")[0] for changed in damage.changes}
    is_of_checkpoint = finding.topic is not None and any("/" not in changed for changed in damage.changes)
    return is_of_checkpoint or name.partition("/")[0] in tops or f"{finding.topic}-{finding.partition}" in tops


def _of_kinds(broker: Broker, files: dict[str, bytes], damage: Damage, severity: str) -> set[str]:
    """The documented kinds that a damage is of."""
    if severity == "none":
        return injected_kinds.silent_kinds(broker, files, damage)
    return injected_kinds.warned_kinds(broker, files, damage) if "warning" in severity else set()


@pytest.mark.slow
@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_can_be_proven_is_found(tmp_path: Path, flavour: str, seed: int) -> None:
    random = Random(f"{flavour} {seed}")
    broker = build(tmp_path, flavour, random)
    files = injection.contents(broker)
    healthy = _findings(tmp_path)
    assert (_worst(healthy), injected_truth.worst(broker, files)) == ("none", "none"), healthy
    wrong: list[object] = []
    for damage in _damages(broker, files, random):
        after = {name: data for name, data in {**files, **damage.changes}.items() if data is not None}
        provable = injected_truth.worst(broker, after)
        _write(tmp_path, dict(damage.changes))
        found = _findings(tmp_path)
        _write(tmp_path, {name: files.get(name) for name in damage.changes})
        is_near = provable == "none" or any(_is_near(one, damage, tmp_path) for one in found)
        is_known = _of_kinds(broker, files, damage, provable) <= {*UNTRACEABLE, *ONLY_WARNED}
        if _worst(found) not in provable.split(" or ") or not is_near or not is_known:
            said = [(one.severity, one.code, one.path) for one in found if one.severity != "info"]
            wrong.append((damage.words, provable, said))
    assert wrong == []


@pytest.mark.slow
def test_every_documented_kind_is_met(tmp_path: Path) -> None:
    """No kind of the list is a guess: each comes about, judged by what can be proven alone."""
    met: set[str] = set()
    for number, flavour in enumerate(FLAVOURS * 60):
        path = tmp_path / str(number)
        path.mkdir()
        random = Random(f"kinds {number}")
        broker = build(path, flavour, random)
        files = injection.contents(broker)
        for damage in _damages(broker, files, random):
            after = {name: data for name, data in {**files, **damage.changes}.items() if data is not None}
            met |= _of_kinds(broker, files, damage, injected_truth.worst(broker, after))
        if met >= {*UNTRACEABLE, *ONLY_WARNED}:
            break
    assert met == {*UNTRACEABLE, *ONLY_WARNED}
