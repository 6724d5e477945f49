"""Paths in what `spark verify` reports are those that were typed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kafkalog_cli.commands.spark.typed_paths import TypedPaths
from kafkalog_core.engine.targets import resolve
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from kafkalog_core.spark.session.errors import local_paths
from tests.spark.exporting import NOW_MS, damage

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("typed", ["disk", "./disk", "disk/t-0", "../{here}/disk", "disk/[tu]-0", "d*", "."])
def test_as_verify_has_them(disk: Path, monkeypatch: pytest.MonkeyPatch, typed: str) -> None:
    damage(disk / "t-0" / f"{0:020}.log")
    monkeypatch.chdir(disk if typed == "." else disk.parent)
    path = typed.format(here=disk.parent.name)
    plain, theirs = (
        [*verify(VerifyRequest(targets=tuple(resolve(paths)), now_ms=NOW_MS))]
        for paths in ([path], local_paths([path]))
    )
    mine = [*TypedPaths([path]).verdicts(theirs)]
    assert [verdict.path for verdict in mine] == [verdict.path for verdict in plain]
    assert [finding.row() for verdict in mine for finding in verdict.findings] == [
        finding.row() for verdict in plain for finding in verdict.findings
    ]


def test_what_is_typed_as_it_is_stays(disk: Path) -> None:
    cwd = os.getcwd()
    assert TypedPaths([str(disk), "s3://bucket/a"]).text(f"in {disk}/t-0: {cwd}/a") == f"in {disk}/t-0: {cwd}/a"
    paths = TypedPaths(["a"])
    assert paths.text(f"{cwd}/a/b and {cwd}/a, not {cwd}/ab or /x{cwd}/a") == f"a/b and a, not {cwd}/ab or /x{cwd}/a"
