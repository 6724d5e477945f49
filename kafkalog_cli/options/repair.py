"""Options of the commands that repair: what is applied, where plan and undo journal are written."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import reduce, update_wrapper
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from kafkalog_cli.options import common
from kafkalog_cli.running import cores

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["RepairOptions", "repair_options"]

Decorated = TypeVar("Decorated", bound="Callable[..., object]")


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairOptions:
    """How a repair is done.

    apply: whether the plan is applied.
    plan_out: the file that gets the plan; None: none.
    undo_to: the absolute path of the directory of the undo journal; None: next to the changed files.
    keeps_undo: whether an undo journal is kept.
    jobs: number of processes; without --jobs the number of cores.
    asked_jobs: the number of --jobs; None: not given.
    output: the form of the result.
    """

    apply: bool
    plan_out: str | None
    undo_to: str | None
    keeps_undo: bool
    jobs: int
    asked_jobs: int | None
    output: str


def repair_options(function: Decorated) -> Decorated:
    """Add --apply, --plan-out, --undo-to, --no-undo, --jobs and --output: `repair`, a `RepairOptions`."""

    def with_repair(*arguments: object, **given: Any) -> object:
        undo_to, no_undo, asked_jobs = given.pop("undo_to"), given.pop("no_undo"), given.pop("jobs")
        if no_undo and undo_to is not None:
            raise click.UsageError(
                "--undo-to keeps the undo journal in a directory, and --no-undo keeps no journal; give only one of them"
            )
        repair = RepairOptions(
            apply=given.pop("apply"),
            plan_out=given.pop("plan_out"),
            undo_to=None if undo_to is None else os.path.abspath(undo_to),
            keeps_undo=not no_undo,
            jobs=asked_jobs or cores(),
            asked_jobs=asked_jobs,
            output=common.chosen_output(given.pop("output")),
        )
        return function(*arguments, repair=repair, **given)

    wrapped = cast("Decorated", update_wrapper(with_repair, function))
    return reduce(lambda inner, decorator: decorator(inner), reversed(_OPTIONS), wrapped)


_OPTIONS = (
    click.option(
        "--apply",
        is_flag=True,
        help="Apply the plan. Without this option the plan is only shown. The broker must be stopped.",
    ),
    click.option(
        "--plan-out",
        metavar="FILE",
        help="Also write the plan as JSON, for kafkalog apply FILE. FILE must be outside log directories.",
    ),
    click.option(
        "--undo-to",
        metavar="DIR",
        type=click.Path(readable=False),
        help=(
            "Keep the undo journal in this directory, which is created if it is missing. A directory on another file "
            "system also helps if the disk is full: nothing is written to the full disk before space has been freed.  "
            "[default: next to the changed files, where brokers ignore it]"
        ),
    ),
    click.option(
        "--no-undo",
        is_flag=True,
        help=(
            "Keep no undo journal, for a full disk if no other disk is available: the run cannot be undone. A run that "
            "is interrupted can still be finished, with kafkalog apply --resume or, if it was interrupted before its "
            "intent, with the same command again."
        ),
    ),
    common.jobs_option,
    common.output_option,
)
