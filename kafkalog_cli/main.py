"""The `kafkalog` command: a lazy command table, and the one place where errors become exit statuses.

Rules of this file: a command's module is imported when the command runs, not before, so that `kafkalog --help` costs
little more than click; every error of ours ends as one sentence on stderr; a traceback is shown only on request
(KAFKALOG_DEBUG=1).
"""

from __future__ import annotations

import io
import os
import sys
from importlib import import_module
from typing import Final, NoReturn

import click

from kafkalog_cli.command import ExitStatus, LazyGroup, status_of
from kafkalog_core.errors import KafkalogError

__all__ = ["COMMANDS", "cli", "run"]

HELP: Final = """Read, check and repair Apache Kafka's on-disk log.

Works on the files of a dead broker: any file, a partition directory or a whole log directory. Nothing is written
without --apply.

\b
Example:
  kafkalog dump /var/lib/kafka/orders-0
"""
COMMANDS: Final = {
    "dump": (
        "kafkalog_cli.commands.dump:dump_command",
        "Show every batch, record or index entry, damaged places included.",
    ),
    "explain": (
        "kafkalog_cli.commands.explain:explain_command",
        "Explain a code, or what a broker wrote into its log.",
    ),
    "seek": ("kafkalog_cli.commands.seek:seek_command", "Find a record by its offset, time or byte."),
    "verify": ("kafkalog_cli.commands.verify:verify_command", "Say what is wrong with a disk, and what is not."),
    "roll": ("kafkalog_cli.commands.roll:roll_command", "Tell where logs would begin new segments."),
    "reindex": ("kafkalog_cli.commands.reindex:reindex_command", "Build indexes anew from the logs."),
    "truncate": ("kafkalog_cli.commands.truncate:truncate_command", "Cut the end of logs off."),
    "checkpoint": (
        "kafkalog_cli.commands.checkpoint:checkpoint_command",
        "Show and mend checkpoints, leader epochs and ids.",
    ),
    "retain": (
        "kafkalog_cli.commands.retain:retain_command",
        "Say what retention deletes, when, and why not.",
    ),
    "compact": (
        "kafkalog_cli.commands.compact:compact_command",
        "Forecast what the cleaner does to compacted topics, or do it.",
    ),
    "spark": ("kafkalog_cli.commands.spark:spark_group", "Work on the disks of a whole cluster, through Apache Spark."),
    "apply": ("kafkalog_cli.commands.apply:apply_command", "Carry out a plan, or finish what was interrupted."),
    "undo": ("kafkalog_cli.commands.undo:undo_command", "Take back what kafkalog has changed."),
    "bench": ("kafkalog_cli.commands.bench:bench_command", "Measure how fast this machine reads logs."),
    "completion": ("kafkalog_cli.commands.completion:completion", "Print the completion script of a shell."),
}


class MainGroup(LazyGroup):
    """The group that every command is reached by: its end is the end of the process."""

    def invoke(self, ctx: click.Context) -> NoReturn:
        """Run the command; end with its status, or with the one that its error stands for."""
        try:
            status = ExitStatus(super().invoke(ctx) or ExitStatus.CLEAN)
            sys.stdout.flush()
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except BrokenPipeError:
            _forget_stdout()
            status = ExitStatus.CLEAN
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 -- the one place where every error ends
            status = _explain(error)
        ctx.exit(status)


def _explain(error: BaseException) -> ExitStatus:
    """One sentence on stderr, and the exit status."""
    if isinstance(error, KafkalogError):
        sentence, status = str(error), status_of(error)
    elif isinstance(error, KeyboardInterrupt):
        sentence, status = "interrupted", ExitStatus.CRASH
    elif isinstance(error, OSError) and isinstance(error.filename, str):  # of a file that is read: output has no name
        reason = (error.strerror or str(error)).lower()
        sentence = f"{error.filename}: {reason}. If something else works on these files, stop it, and run this again"
        status = ExitStatus.REFUSED
    elif isinstance(error, OSError):
        sentence, status = f"the result could not be written: {error}", ExitStatus.CRASH
        _forget_stdout()
    else:
        sentence = f"internal error, {type(error).__name__}: {error} (KAFKALOG_DEBUG=1 shows where)"
        status = ExitStatus.CRASH
    if os.environ.get("KAFKALOG_DEBUG") == "1" and not isinstance(error, KeyboardInterrupt):
        import_module("traceback").print_exception(error)
    click.echo(f"kafkalog: {_one_line(sentence)}", err=True)
    return status


def _one_line(sentence: str) -> str:
    """A file name in the sentence must neither break the line nor steer the terminal."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in sentence)


def _forget_stdout() -> None:
    """The reader of our output is gone: let the interpreter's last flush go nowhere instead of failing."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # no file behind stdout, so nothing can fail
        return


def _buffer_stdout() -> None:
    """Under PYTHONUNBUFFERED standard output is a bare file, and a signal may end a write to it in the middle."""
    raw = getattr(sys.stdout, "buffer", None)
    if isinstance(raw, io.RawIOBase):
        encoding, errors = sys.stdout.encoding, sys.stdout.errors
        buffered = io.BufferedWriter(raw)
        sys.stdout = io.TextIOWrapper(buffered, encoding=encoding, errors=errors, line_buffering=True)


def _print_version(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    del parameter
    if not value or ctx.resilient_parsing:
        return
    version = import_module("kafkalog_cli.command").version()
    try:
        compiled = import_module("kafkalog_core.format.kernels").COMPILED
    except ImportError as error:  # one that was compiled from another text
        raise click.ClickException(str(error)) from error
    click.echo(f"kafkalog {version} ({'compiled' if compiled else 'interpreted'} kernels)")
    ctx.exit()


@click.group(
    name="kafkalog",
    cls=MainGroup,
    table=COMMANDS,
    help=HELP,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit status: 0 clean, 1 crash, 2 usage, 3 could not operate, 4 damage found.",
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Print the version, and which kernels run: compiled or interpreted.",
)
def cli() -> None:
    """All commands; what it says of itself is HELP."""


def run() -> int:
    """Run the command line of this process; return its exit status once everything is written."""
    if sys.__stdout__ is None:  # the caller has closed it
        click.echo("kafkalog: the result could not be written: standard output is closed", err=True)
        return ExitStatus.CRASH
    _buffer_stdout()
    try:
        cli.main(prog_name="kafkalog")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else ExitStatus.CRASH
    except OSError as error:  # click itself could not write
        return _explain(error)
    try:
        sys.stdout.flush()  # help and versions end without a command
    except BrokenPipeError:
        _forget_stdout()
    except OSError as error:
        return _explain(error)
    return status
