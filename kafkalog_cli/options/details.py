"""Options for how much of an answer is shown: --details, --explain."""

from __future__ import annotations

import os
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from kafkalog_cli.options.common import stacked
from kafkalog_core.format.names import parse_directory_name
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalog_core.engine.selection import Selection

__all__ = ["DETAIL_OPTIONS", "Detail", "detail_options"]

Decorated = TypeVar("Decorated", bound="Callable[..., object]")


class Detail(Struct, frozen=True, kw_only=True):
    """How much of an answer is shown. is_asked: --details. explains: --explain."""

    is_asked: bool = False
    explains: bool = False

    def shows(self, paths: Sequence[str], selection: Selection) -> bool:
        """Return whether segments and files are shown: on request, or where a partition is named."""
        if self.is_asked or (selection.topics and selection.partitions):
            return True
        names = (parse_directory_name(os.path.basename(os.path.abspath(path))) for path in paths)
        return any(name.partition is not None for name in names)


DETAIL_OPTIONS: Final = (
    click.option(
        "--details",
        is_flag=True,
        help=(
            "Also show the segments and files of each partition, and findings that are normal.  [default: only where "
            "PATH is a partition, or --topic and --partition name one]"
        ),
    ),
    click.option(
        "--explain",
        is_flag=True,
        help="Also show the rules in their order, the evidence of the release, and where each setting comes from.",
    ),
)


def detail_options(function: Decorated) -> Decorated:
    """Add --details and --explain: the command gets `detail`, a `Detail`."""

    def with_detail(*arguments: object, **given: Any) -> object:
        detail = Detail(is_asked=given.pop("details"), explains=given.pop("explain"))
        return function(*arguments, detail=detail, **given)

    return stacked(*DETAIL_OPTIONS)(cast("Decorated", update_wrapper(with_detail, function)))
