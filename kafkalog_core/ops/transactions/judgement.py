"""What becomes of a transaction: who ends it, when, and the command that does so where nobody else will.

KIP-664 calls a transaction of a partition hanging if its coordinator knows no transaction of the producer with this
partition (`TransactionsCommand.FindHangingTransactionsCommand`): no marker will come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from kafkalog_core.command_lines import shell_line
from kafkalog_core.kafka.rules.rule_table import aborts_by_offset
from kafkalog_core.text import count_of, duration, moment
from kafkalog_core.topics.transactions import TransactionPhase

if TYPE_CHECKING:
    from kafkalog_core.kafka.rules.releases import Release
    from kafkalog_core.ops.transactions.coordinator import Coordinators
    from kafkalog_core.ops.transactions.open_transactions import OpenTransaction
    from kafkalog_core.topics.transactions import TransactionValue

__all__ = ["KINDS", "OPEN_KINDS", "Judge", "Kind", "Verdict", "abort_command", "search_command"]

Kind = Literal[
    "hanging", "undecided", "prepared", "timed-out", "ongoing", "lagging", "aborted", "committed", "empty", "dead"
]
"""What a transaction is, for who ends it; `undecided`: the disks do not show whether a coordinator knows it; `lagging`:
another copy of the partition has its marker.
"""

KINDS: Final[tuple[Kind, ...]] = (
    "hanging",
    "undecided",
    "prepared",
    "timed-out",
    "ongoing",
    "lagging",
    "aborted",
    "committed",
    "empty",
    "dead",
)
"""All of them, those first that an operator has to act on."""
OPEN_KINDS: Final = frozenset(KINDS[:6])

_TOOL: Final = ("kafka-transactions.sh", "--bootstrap-server", "localhost:9092")
_KIND_OF_STATE: Final[dict[TransactionPhase, Kind]] = {
    TransactionPhase.EMPTY: "empty",
    TransactionPhase.ONGOING: "ongoing",
    TransactionPhase.PREPARE_COMMIT: "prepared",
    TransactionPhase.PREPARE_ABORT: "prepared",
    TransactionPhase.COMPLETE_COMMIT: "committed",
    TransactionPhase.COMPLETE_ABORT: "aborted",
    TransactionPhase.DEAD: "dead",
}
_MARKERS: Final = {TransactionPhase.PREPARE_COMMIT: "COMMIT", TransactionPhase.PREPARE_ABORT: "ABORT"}


class Verdict(NamedTuple):
    """What becomes of a transaction.

    name: the transactional id; None: unknown. kind: of the transaction. action: what brokers do about it when they are
    started, as a sentence.
    """

    name: str | None
    kind: Kind
    action: str


class Judge:
    """Joins the open transactions of partitions with what coordinators know.

    Args:
        coordinators: what they know.
        now_ms: the time that counts as now, in milliseconds since 1970.
    """

    def __init__(self, coordinators: Coordinators, now_ms: int) -> None:
        self._known = coordinators
        self._now_ms = now_ms
        self._names = coordinators.by_producer()
        self._former = coordinators.by_former_producer()

    def name_of(self, producer_id: int) -> str | None:
        """Return the transactional id that a producer id belongs to, or belonged to; None: unknown."""
        return self._names.get(producer_id) or self._former.get(producer_id)

    def of_open(self, topic: str, partition: int, producer_id: int, *, is_certain: bool = True) -> Verdict:
        """Return what becomes of an open transaction of a partition.

        `is_certain`: whether it is known to be open.
        """
        name = self._names.get(producer_id)
        value = None if name is None else self._known.transactions[name]
        if value is not None and name is not None and (topic, partition) in value.partitions:
            return Verdict(name, self.kind_of(value), self.action(value))
        if not is_certain:
            action = "Unknown: its marker may be in the damaged part of the log, which a broker may truncate or keep"
            return Verdict(name or self._former.get(producer_id), "undecided", f"{action}.")
        if name is None and not self._known.is_whole:
            action = f"Unknown: {self._known.gap()}, so the coordinator may know its transactional id"
            return Verdict(None, "undecided", f"{action} and end it.")
        if name is not None and self._known.partition_of[name] in self._known.problems:
            number = self._known.partition_of[name]
            action = f"Unknown: __transaction_state-{number}, which has its transactional id, is damaged"
            return Verdict(name, "undecided", f"{action}.")
        return Verdict(name or self._former.get(producer_id), "hanging", self._nobody(name, value))

    def _nobody(self, name: str | None, value: TransactionValue | None) -> str:
        if value is None or name is None:
            return "Nothing ends it: no transactional id has this producer id, so no coordinator sends a marker."
        what = f"the transaction of {name} is {value.state.text}"
        if value.partitions:
            what += " and does not include this partition"
        return f"Nothing ends it: {what}, so its coordinator sends no marker here."

    def kind_of(self, value: TransactionValue) -> Kind:
        """Return what the last transaction of a transactional id is, by its state alone."""
        return "timed-out" if value.is_timed_out(self._now_ms) else _KIND_OF_STATE[value.state]

    def action(self, value: TransactionValue) -> str:
        """Return what the coordinator does about the transaction of a transactional id once it is started."""
        if value.state in _MARKERS:
            # TransactionStateManager.loadTransactionsForTxnTopicPartition: it sends the markers of prepared ones
            partitions = count_of(len(value.partitions), "partition")
            return f"The coordinator sends {_MARKERS[value.state]} markers to its {partitions} again, and completes it."
        if value.state is not TransactionPhase.ONGOING:
            return "Nothing is left to do."
        if value.is_two_phase:
            return "The coordinator keeps it open until its producer ends it: it has no timeout (KIP-939)."
        deadline_ms = value.start_ms + value.timeout_ms
        if value.is_timed_out(self._now_ms):
            over = duration(self._now_ms - deadline_ms)
            # transaction.abort.timed.out.transaction.cleanup.interval.ms, 10 seconds by default
            return f"The coordinator aborts it seconds after its start: its timeout was over {over} ago."
        return f"The coordinator keeps it open for its producer until {moment(deadline_ms)}, then it aborts it."


def abort_command(topic: str, partition: int, transaction: OpenTransaction, release: Release) -> str:
    """Return the command line that ends a hanging transaction, for the tool of 3.0 and later.

    Its brokers may be older: then the tool is given the producer (`TransactionsCommand.AbortTransactionCommand`), with
    coordinator epoch 0 where no marker has been seen.
    """
    words = [*_TOOL, "abort", "--topic", topic, "--partition", str(partition)]
    if aborts_by_offset(release):
        words += ["--start-offset", str(transaction.first_offset)]
    else:
        words += ["--producer-id", str(transaction.producer_id), "--producer-epoch", str(transaction.producer_epoch)]
        words += ["--coordinator-epoch", str(max(0, transaction.coordinator_epoch))]
    return shell_line(words)


def search_command(topic: str, partition: int) -> str:
    """Return the command line that asks running brokers whether a partition has a hanging transaction."""
    return shell_line((*_TOOL, "find-hanging", "--topic", topic, "--partition", str(partition)))
