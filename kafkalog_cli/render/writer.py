"""What every form of output has in common, and the choice of one. A form's module is imported when it is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, Self, cast

from kafkalog_core.ops.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalog_core.ops.reading.rows import BytesMode, Chunk
    from kafkalog_core.tables import Table

__all__ = ["Bar", "Settings", "Writer", "open_progress", "open_writer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`tables`: the row types that may come, which CSV makes its header of. `live`: show each chunk at once."""

    tables: tuple[Table, ...]
    bytes_mode: BytesMode = "auto"
    live: bool = False


class Writer(Protocol):
    """Takes a result chunk by chunk, in bounded memory, and its summary last."""

    def write(self, chunk: Chunk) -> None:
        """Show the rows of a chunk."""

    def finish(self, summary: Mapping[str, object]) -> None:
        """Show what is left, then the summary row."""


class Bar(Progress, Protocol):
    """A progress listener with a beginning and an end."""

    def __enter__(self) -> Self:
        """Begin to listen."""

    def __exit__(self, *error: object) -> None:
        """Take the bar away."""


_WRITERS: Final = {
    "ndjson": "kafkalog_cli.render.jsonlines:NdjsonWriter",
    "json": "kafkalog_cli.render.jsonlines:JsonWriter",
    "csv": "kafkalog_cli.render.commas:CsvWriter",
    "table": "kafkalog_cli.render.table:TableWriter",
}


def open_writer(output: str, settings: Settings) -> Writer:
    """The writer of one form (`table`, `json`, `ndjson` or `csv`) onto standard output."""
    module_name, _, class_name = _WRITERS[output].partition(":")
    factory = cast("Callable[[Settings], Writer]", getattr(import_module(module_name), class_name))
    return factory(settings)


def open_progress(*, shares_terminal: bool) -> Bar:
    """The bar on stderr; `shares_terminal`: the rows themselves go to a terminal and show how far things are."""
    factory = cast("Callable[..., Bar]", import_module("kafkalog_cli.render.progress").ProgressBar)
    return factory(shares_terminal=shares_terminal)
