"""A command of the command line whose planner is a fake one, and runs of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click
from click.testing import CliRunner

from kafkalog_cli import main as main_module
from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.commands.repair import repair_options, run_repair
from kafkalog_cli.main import cli
from kafkalog_cli.options import common
from kafkalog_core.findings import found
from kafkalog_core.kafka.rules.releases import Release
from kafkalog_core.kafka.rules.setting_table import Setting
from kafkalog_core.kafka.sim.evidence import ReleaseGuess
from kafkalog_core.ops import planners
from kafkalog_core.ops.repair.loss import Loss
from kafkalog_core.ops.repair.plan import PlanReport
from tests.support import repairs

if TYPE_CHECKING:
    import pytest

    from kafkalog_cli.commands.repair import RepairOptions
    from kafkalog_core.engine.selection import Selection
    from kafkalog_core.ops.repair.plan import PlanRequest
    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.changing.changes import Stage

STATE = {"loses": False, "refuses": False, "is_idle": False}
"""Whether the plan reports a loss, a refusal and no change; every test starts with these values."""


def plan(request: PlanRequest, stage: Stage, progress: Progress) -> PlanReport:
    """The fake planner, with losses, refusals and all else that a plan may say."""
    path = f"{request.target.root}/t-0/{repairs.LOG}"
    if not STATE["is_idle"]:
        repairs.plan(request, stage, progress)
    loss = Loss(
        topic="t",
        partition=0,
        path=path,
        first_offset=7,
        next_offset=17,
        records=10,
        bytes=900,
        committed_records=3,
        cure="Copy the partition from a healthy replica.",
    )
    return PlanReport(
        losses=(loss,) if STATE["loses"] else (),
        refusals=(found("file.not-readable", path, reason="so"),) if STATE["refuses"] else (),
        settings=(Setting("index.interval.bytes", 4096, "default of 4.3"), Setting("preallocate", False, "--set")),
        release=ReleaseGuess(release=Release(4, 3), is_certain=True, candidates=(Release(4, 3),), evidence=("a sign",)),
    )


@click.command(name="mend", cls=Command, examples=(Example("kafkalog mend", "x"),), exit_statuses=tuple(ExitStatus))
@common.targets_argument
@click.option("--narrow", is_flag=True)
@common.selection_options
@repair_options
def mend(paths: tuple[str, ...], narrow: bool, selection: Selection, repair: RepairOptions) -> int:
    return run_repair("reindex", paths, selection, {"is_wide": not narrow}, repair)


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the command `mend`, and put its planner in the place of the one of `reindex`."""
    monkeypatch.setitem(planners.PLANNERS, "reindex", "tests.cli.mend:plan")
    monkeypatch.setitem(main_module.COMMANDS, "mend", ("tests.cli.mend:mend", "Mend."))
    for name in STATE:
        monkeypatch.setitem(STATE, name, False)


class Said:
    """What a run has written, and its exit status."""

    def __init__(self, result) -> None:
        self.status = result.exit_code
        self.out = result.stdout
        self.err = result.stderr

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def rows(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.lines]

    @property
    def plan(self) -> dict[str, object]:
        return self.rows[0]


def run(*arguments: object, output: str = "ndjson") -> Said:
    """Run a command in this process."""
    words = [str(each) for each in arguments]
    return Said(CliRunner(env={"COLUMNS": "1000"}).invoke(cli, [*words, "--output", output]))
