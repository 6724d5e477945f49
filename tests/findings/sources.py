"""Where the sentences about brokers, consumers and producers come from: `sources.txt` names a word for each of them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

KEPT: Final = Path(__file__).with_name("sources.txt")

SOURCES: Final = {
    # simulations of `kafka/`, which tests compare with real brokers and their classes
    "start": "kafkalog_core/kafka/sim/start",
    "logdir": "kafkalog_core/kafka/sim/logdir",
    "cleaner": "kafkalog_core/kafka/sim/cleaner",
    "retention": "kafkalog_core/kafka/sim/retention",
    "append": "kafkalog_core/kafka/rules/append.py",
    "producers": "kafkalog_core/kafka/rules/producers.py",
    "snapshots": "kafkalog_core/kafka/sim/start/snapshots.py",
    "epochs": "kafkalog_core/kafka/sim/logdir/leader_epochs.py",
    "fetch": "kafkalog_core/kafka/sim/fetch.py",
    "cluster": "kafkalog_core/kafka/sim/cluster.py",
    "old consumers": "kafkalog_core/kafka/rules/old_consumers.py",
    # what real brokers and clients did
    "table": "tests/integration/client_table.txt",
    "coordinators": "tests/integration/coordinator_table.txt",
    "walks": "tests/integration/walks.txt",
    "actions": "tests/integration/test_start_actions.py",
    "entries": "tests/integration/test_odd_entries.py",
    "messages": "tests/integration/test_said_of_messages.py",
    "settings": "tests/integration/test_said_of_settings.py",
    "copies": "tests/integration/test_said_of_copies.py",
    "ensemble": "tests/integration/test_zookeeper_ensemble.py",
    "lost": "tests/integration/test_lost_directories.py",
    "unread": "tests/integration/test_unread_disk.py",
    "freeze": "tests/integration/test_freeze.py",
    "full disk": "tests/integration/test_full_disk.py",
    "clients": "tests/serve/test_client_uses.py",
    "live": "tests/integration/test_live_broker.py",
    "corpus": "tests/corpus",
    "groups": "fixtures/README.md",
    "impact": "tests/integration/test_impact.py",
    "excise": "tests/integration/test_excise.py",
    "not served": "tests/integration/test_not_served.py",
    "rolls": "tests/integration/test_live_dump.py",
    "quorum": "tests/integration/test_quorum.py",
    "transplant": "tests/integration/test_transplant.py",
    "tiered": "tests/integration/test_tiered.py",
    "zookeeper": "tests/integration/test_zookeeper.py",
    "recovered": "tests/integration/recovered_starts.txt",
    # what a line of Kafka's own log says by its words, and nothing more
    "wording": "kafkalog_core/findings/broker_messages.py",
    # what the method of Kafka does that the comment above the message names
    "method": "kafkalog_core/findings/messages_tasks.py",
    # what kafkalog itself does: no word about Kafka's behaviour
    "kafkalog": "docs/index.md",
}
"""The words, and what each of them stands for: a file or directory of the project."""


def read() -> dict[str, str]:
    """The word of each sentence."""
    lines = KEPT.read_text(encoding="utf-8").splitlines()
    return {sentence: word for word, _, sentence in (line.partition("\t") for line in lines if line)}
