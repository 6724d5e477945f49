"""`kafkalog spark pack`: kafkalog as one file, for executors where it is not installed."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.output_file import OutputFile
from kafkalog_cli.render.progress import open_progress
from kafkalog_core.spark.session.workers import write_archive

if TYPE_CHECKING:
    from kafkalog_core.spark.session.workers import Packed

__all__ = ["pack_command"]

EXAMPLES = (
    Example("kafkalog spark pack kafkalog.tar.gz", "For machines that have Spark but not kafkalog"),
    Example(
        "kafkalog spark verify --master spark://host:7077 --archives kafkalog.tar.gz /mnt/kafka",
        "Send it to the executors of a job",
    ),
    Example("kafkalog spark pack --without-pyarrow small.tar.gz", "For machines that also have pyarrow"),
)
_GZIP = b"\x1f\x8b"


@click.command(
    name="pack",
    cls=Command,
    examples=EXAMPLES,
    exit_statuses=(ExitStatus.CLEAN, ExitStatus.CRASH, ExitStatus.USAGE, ExitStatus.REFUSED),
)
@click.argument("file", metavar="FILE.tar.gz")
@click.option(
    "--without-pyarrow",
    is_flag=True,
    help="Leave out pyarrow, which is most of the archive, if the executors' Python has it.",
)
def pack_command(file: str, without_pyarrow: bool) -> None:
    """Pack kafkalog for the executors of a cluster.

    FILE.tar.gz contains kafkalog with its compiled kernels and the libraries that it needs. The option --archives
    FILE.tar.gz of every job sends it to the executors, which then need only Spark and a Python of the same release.
    """
    packed: list[Packed] = []
    out = OutputFile(file, is_ours=lambda start: start.startswith(_GZIP))
    with open_progress(shares_terminal=False) as progress:

        def write(archive: IO[bytes]) -> None:
            packed.append(write_archive(archive, with_pyarrow=not without_pyarrow, progress=progress))

        out.fill(write)
    for archive in packed:
        click.echo(
            f"{file}: {archive.size_bytes / 1e6:.1f} MB, {archive.files} files, "
            f"for Python {archive.python} on {archive.machine}: "
            f"kafkalog ({'compiled' if archive.compiled else 'interpreted'} kernels), "
            f"{', '.join(archive.distributions)}"
        )
