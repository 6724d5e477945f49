"""Results of an export on their way out: rows for programs, or a table for people."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from kafkalog_cli.render.writer import Settings, Writer, open_writer
from kafkalog_core import tables

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["open_exports"]


def open_exports(output: str, place: str, commit_of: Callable[[], int]) -> Writer:
    """The writer of one form onto standard output: `table`, `json`, `ndjson` or `csv`.

    Args:
        output: the form.
        place: the directory that is written.
        commit_of: the number of its last commit, asked at the end; 0: there is none.
    """
    if output == "table":
        table = import_module("kafkalog_cli.render.export_table").ExportTable(place, commit_of)
        return cast("Writer", table)
    return open_writer(output, Settings(tables=(tables.EXPORT, tables.FINDING)))
