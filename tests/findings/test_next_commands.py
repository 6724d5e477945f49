"""Every finding of severity error names its next command, and every command that is named can be typed."""

from __future__ import annotations

import shlex
from typing import Final

import click

from kafkalog_cli.main import cli
from kafkalog_core.findings import FINDING_TYPES, found
from kafkalog_core.findings.kinds import AS_BROKER, RECOVER, Finding
from tests.support.for_each import for_each

NEXT_COMMANDS: Final = {code: kind.next_step for code, kind in FINDING_TYPES.items() if kind.next_step}
TEMPLATES: Final = sorted({*NEXT_COMMANDS.values(), AS_BROKER, RECOVER})
SHELL: Final = frozenset({"mv", "sed", "chown", "chmod", "findmnt", "printf"})
PATH: Final = "/disk 1/orders-0/00000000000000000000.log"

NO_COMMAND: Final = {
    "compaction.replacement": "a broker has to decide: it puts the file in its place or removes it",
    "excise.replacement": "a broker has to decide: it puts the file in its place or removes it",
    "truncate.replacement": "a broker has to decide: it puts the file in its place or removes it",
    "dir.no-directory": "what has the name of a partition has to be replaced by the partition",
    "segment.log-unreadable": "what has the name of a log has to be replaced by the log",
    "dir.unreadable": "its message names the right that is missing",
    "file.not-readable": "its message names the right that is missing",
    "roll.unreadable": "its message names the right that is missing",
    "reindex.unread": "the disk comes first",
    "log.unreadable": "the disk comes first",
    "object.replaced": "the same command",
    "file.replaced-since": "the same command, once the broker is stopped",
    "file.too-large": "only a copy of the file helps",
    "segment.oversize": "only a copy of the file helps",
    "segment.gap-v07": "only a copy of the file helps",
    "metadata-log.empty-batch": "what other controllers have is not on the disk",
    "metadata-log.no-snapshot": "only a snapshot of another node helps",
    "quorum-state.bad-value": "the votes of a node are not to be made up",
    "quorum-state.empty": "the votes of a node are not to be made up",
    "quorum-state.malformed-line": "the votes of a node are not to be made up",
    "quorum-state.missing-key": "the votes of a node are not to be made up",
    "quorum-state.other-cluster": "the votes of a node are not to be made up",
    "quorum-state.unsupported-version": "the votes of a node are not to be made up",
    "meta.other-node-of-config": "which of the two files is the right one is the user's choice",
    "dir.metadata-elsewhere": "whether disks or the settings are wrong is the user's choice",
    "epochs.remote-unknown": "the file is on other replicas, or its content in another topic",
    "epochs.cut": "a refusal about a file that another finding is about",
    "reindex.index-full": "the value of the setting is the user's choice",
    "reindex.over-limit": "the value of the option is the user's choice",
    "start.limit": "the limits of the machine are the user's choice",
    "snapshot.beyond-end": "the records after the end of the log are in no file here",
    "excise.healthy": "to lose readable records is the user's choice",
    "excise.others": "the text has the options to add to the command",
    "truncate.beyond-end": "the offset is the user's choice",
    "truncate.outside": "the offset is the user's choice",
    "txn.undecided": "dump's own options, which its text names",
}
"""Codes of severity error without a command, and why."""
NO_COMMAND_KINDS: Final = {
    "export.": "a choice between the options that the text names",
    "replicas.": "about several copies: which of them is kept is the user's choice",
    "transplant.": "what the new cluster has is changed with Kafka's own tools",
}


def explained(code: str) -> bool:
    return code in NO_COMMAND or any(code.startswith(kind) for kind in NO_COMMAND_KINDS)


@for_each([code for code, kind in FINDING_TYPES.items() if kind.severity == "error"])
def test_an_error_names_a_command_or_there_is_a_reason(code: str) -> None:
    assert (code in NEXT_COMMANDS) != explained(code), "both a command and a reason, or neither"


def test_no_reason_is_stale() -> None:
    assert set(NO_COMMAND) <= set(FINDING_TYPES)


@for_each(TEMPLATES)
def test_of_an_object_store_it_is_a_command_that_takes_its_path(template: str) -> None:
    path = "s3://bucket/logs/orders-0/00000000000000000000.log"
    line = Finding(code="x", severity="error", path=path, message="", next_step=template).next_command
    assert (
        line is None
        or line == "aws s3 sync s3://bucket/logs/orders-0 DIR"
        or line.startswith(("kafkalog verify s3://bucket/logs", "kafkalog dump s3://bucket/logs/orders-0"))
    )
    assert line is not None or template.startswith("sudo")


def test_of_a_bucket_it_names_the_bucket() -> None:
    finding = Finding(code="x", severity="error", path="s3://bucket", message="", next_step=AS_BROKER)
    assert finding.next_command == "aws s3 sync s3://bucket DIR"


@for_each(TEMPLATES)
def test_it_can_be_pasted(template: str) -> None:
    """Paths with spaces are quoted, and the options of our own commands exist."""
    finding = Finding(code="x", severity="error", path=PATH, message="", next_step=template)
    words = shlex.split((finding.next_command or "").replace("BYTES", "7"))
    assert any(word.startswith("/disk 1") for word in words)
    words = words[1:] if words[0] == "sudo" else words
    if words[0] in SHELL:
        return
    assert words[0] == "kafkalog"
    context = click.Context(cli, info_name="kafkalog")
    command = cli.get_command(context, words[1])
    assert command is not None
    command.make_parser(click.Context(command, parent=context, info_name=words[1])).parse_args(words[2:])


def test_paths_are_relative_where_the_user_s_are() -> None:
    finding = found("segment.index-missing", "orders-0/00000000000000000000.log", offset=0)
    assert Finding(code="x", severity="error", path="a.log", message="", next_step=RECOVER).next_command == (
        "kafkalog recover ."
    )
    assert finding.next_command == "kafkalog recover orders-0"


def test_a_path_that_begins_with_a_dash_is_no_option() -> None:
    command = Finding(code="x", severity="error", path="-d/t-0/a.log", message="", next_step=RECOVER).next_command
    assert command == "kafkalog recover ./-d/t-0"


def test_what_needs_nothing_names_nothing() -> None:
    assert Finding(code="x", severity="info", path=PATH, message="", next_step=RECOVER).next_command is None
