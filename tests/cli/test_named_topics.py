"""An option for all topics deletes nothing that a known setting of a topic keeps, unless the topic is named."""

from __future__ import annotations

import json
import shlex
import shutil
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from kafkalog_cli.main import cli
from kafkalog_core.storage.changing import writer
from tests.support.known_topics import NOW_MS, write_topics
from tests.support.refusing import commands_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from click.testing import Result

FOR_EVER = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}
OF_COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0", "delete.retention.ms": "1000"}
TOPICS = {"kept": FOR_EVER, "orders": FOR_EVER, "customers": OF_COMPACTED}
RULES = ("--kafka", "4.3.1", "--now", str(NOW_MS), "--output", "ndjson")
POLICY = "def everything(segments, now_ms):\n    return [True] * len(segments)\n"


@pytest.fixture(autouse=True)
def _without_waiting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(writer, "_sync", lambda number: None)
    (tmp_path / "policy_of_all.py").write_text(POLICY)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return write_topics(tmp_path / "data", TOPICS)


def run(*arguments: object) -> Result:
    words = [str(each) for each in arguments]
    return CliRunner().invoke(cli, [words[0], "--ndjson", *RULES, *words[1:]], prog_name="kafkalog")


def logs(root: Path, topic: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (root / f"{topic}-0").glob("*.log")}


def settings_of(result: Result) -> list[tuple[str, str, str]]:
    rows = [row for row in map(json.loads, result.stdout.splitlines()) if row["type"] == "setting"]
    return [(row["name"], row["value"], row["origin"]) for row in rows]


@pytest.mark.parametrize(
    "options",
    [
        ("retain", "--retention-minutes", 5),
        ("retain", "--retention-ms=300000"),
        ("retain", "--set", "retention.ms=300000"),
        ("retain", "--retention-bytes", 0),
        ("retain", "--cleanup-policy", "delete"),
        ("retain", "--policy", "policy_of_all:everything"),
        ("compact", "--min-cleanable-dirty-ratio", "0.1"),
        ("compact", "--set", "cleanup.policy=compact"),
        ("compact", "--delete-retention-ms", 1),
    ],
)
def test_a_run_that_names_no_topic_is_refused(log_dir: Path, options: tuple[object, ...]) -> None:
    """And the commands that it shows can be pasted: the one with the broker's default deletes nothing of these."""
    before = {topic: logs(log_dir, topic) for topic in TOPICS}
    for extra in ((), ("--undo-to", log_dir.parent / "undo")):
        refused = run(*options, *extra, "--apply", log_dir)
        assert refused.exit_code == 3, refused.output
        assert "no topic is named" in refused.stderr
        assert {topic: logs(log_dir, topic) for topic in TOPICS} == before
    (named, other) = commands_of(refused.stderr)
    assert "--topic TOPIC" in named
    words = shlex.split(other)
    assert "--topic" not in words
    again = CliRunner().invoke(cli, words[1:], prog_name="kafkalog")
    assert again.exit_code == 0, again.output
    assert {topic: logs(log_dir, topic) for topic in TOPICS} == before


def test_the_refusal_says_which_setting_it_is_and_where_it_is_from(log_dir: Path) -> None:
    refused = run("retain", "--retention-minutes", 5, "--apply", log_dir)
    origin = f"{log_dir}/__cluster_metadata-0"
    assert f"retention.ms=300000, against retention.ms=-1 of topic kept ({origin})" in refused.stderr
    named, other = map(shlex.split, commands_of(refused.stderr))
    typed = ["kafkalog", "retain", "--ndjson", *RULES]
    assert named == [*typed, "--retention-minutes", "5", "--apply", str(log_dir), "--topic", "TOPIC"]
    assert other == [*typed, "--apply", str(log_dir), "--set", "log.retention.ms=300000"]


@pytest.mark.parametrize("naming", [("--topic", "orders"), ("--topic-regex", "ord.*"), ("--topic", "o*")])
def test_a_topic_that_is_named_is_changed_and_the_plan_shows_what_is_overridden(
    log_dir: Path, naming: tuple[str, str]
) -> None:
    kept = logs(log_dir, "kept")
    changed = run("retain", "--retention-minutes", 5, *naming, "--apply", log_dir)
    assert changed.exit_code == 0, changed.output
    overridden = f"--set, overrides retention.ms=-1 of {log_dir}/__cluster_metadata-0"
    assert ("retention.ms", "300000", overridden) in settings_of(changed)
    assert list(logs(log_dir, "orders")) == [f"{30:020}.log"]
    assert logs(log_dir, "kept") == kept


def test_an_option_for_one_topic_names_it_for_the_others_too(log_dir: Path) -> None:
    options = ("--topic-config", "orders:retention.bytes=-1", "--retention-minutes", 5)
    kept = logs(log_dir, "kept")
    changed = run("retain", *options, "--apply", log_dir)
    assert changed.exit_code == 0, changed.output
    assert list(logs(log_dir, "orders")) == [f"{30:020}.log"]
    assert logs(log_dir, "kept") == kept
    held = f"{log_dir}/__cluster_metadata-0, kept against retention.ms=300000: the topic is not named"
    assert ("retention.ms", "-1", held) in settings_of(changed)


def test_a_forecast_says_the_same_as_the_plan(log_dir: Path) -> None:
    """And the table says next to the verdict that the option does not act."""
    rows = [json.loads(line) for line in run("retain", "--retention-minutes", 5, log_dir).stdout.splitlines()]
    assert {row["verdict"] for row in rows if row["type"] == "retained_segment"} == {"keep"}
    table = CliRunner(env={"COLUMNS": "200"}).invoke(
        cli, ["retain", "--now", str(NOW_MS), "--retention-minutes", "5", "--output", "table", str(log_dir)]
    )
    second = table.stdout.splitlines()[1].strip()
    assert second.startswith("Not applied to topics that are not named: retention.ms=300000, against")
    what_if = run("retain", "--what-if", "retention.ms=300000", log_dir / "orders-0").stdout.splitlines()
    kept = {row["scenario"]: row["kept_offsets"] for row in map(json.loads, what_if) if row["type"][-4:] == "t_if"}
    assert kept == {None: 30, "retention.ms=300000": 0}


def test_a_plan_in_a_file_names_the_same_topics(log_dir: Path, tmp_path: Path) -> None:
    for naming, status in (((), 3), (("--topic", "orders"), 0)):
        file = tmp_path / f"plan-{status}.json"
        planned = run("retain", "--retention-minutes", 5, *naming, "--plan-out", file, log_dir)
        assert planned.exit_code == status, planned.output
        applied = CliRunner().invoke(cli, ["apply", str(file)])
        assert applied.exit_code == status, applied.output
    assert list(logs(log_dir, "orders")) == [f"{30:020}.log"]
    assert len(logs(log_dir, "kept")) == 3


def test_a_copy_in_a_new_directory_is_refused_as_well(log_dir: Path, tmp_path: Path) -> None:
    to = tmp_path / "cleaned"
    options = ("--delete-retention-ms", 1, "--force", "--assume-defaults", "--apply", "--to", to)
    refused = run("compact", *options, log_dir)
    assert refused.exit_code == 3
    assert "delete.retention.ms=1, against delete.retention.ms=1000 of topic customers" in refused.stderr
    assert not to.exists()


def test_a_clean_that_is_forced_keeps_what_the_settings_keep(log_dir: Path) -> None:
    """It decides when a log is cleaned, so it needs no name."""
    before = {topic: logs(log_dir, topic) for topic in TOPICS}
    assert run("compact", "--force", "--assume-defaults", "--apply", log_dir).exit_code == 0
    assert [topic for topic in TOPICS if logs(log_dir, topic) != before[topic]] == ["customers"]


def test_the_brokers_default_counts_as_a_broker_takes_it(tmp_path: Path) -> None:
    """Topics without a setting of their own follow it, named or not; for them an option for all topics is the same."""
    topics = {"kept": FOR_EVER, "plain": {}}
    for options in (("--set", "log.retention.ms=1"), ("--retention-ms", "1", "--topic", "plain")):
        log_dir = write_topics(tmp_path / options[0][2:], topics)
        done = run("retain", *options, "--assume-defaults", "--apply", log_dir)
        assert done.exit_code == 0, done.output
        assert (len(logs(log_dir, "kept")), len(logs(log_dir, "plain"))) == (3, 1)
    config = tmp_path / "server.properties"
    config.write_text("node.id=7\nlog.retention.ms=-1\n")
    for number, options in enumerate((("--assume-defaults",), ("--config", config))):
        plain = write_topics(tmp_path / f"plain{number}", {"plain": {}})
        done = run("retain", "--retention-ms", 1, *options, "--apply", plain)
        assert done.exit_code == 0, done.output
        assert len(logs(plain, "plain")) == 1


LIMITS = {"retention.ms": "60000", "retention.bytes": "0"}


@pytest.mark.parametrize("own", LIMITS)
@pytest.mark.parametrize("spelled", ["--set", "short"])
def test_a_topic_without_one_limit_is_kept_against_an_option_for_the_other(
    tmp_path: Path, own: str, spelled: str
) -> None:
    """It is kept for ever by its own setting: -1 of one limit is not an invitation to delete by the other one."""
    (other,) = LIMITS.keys() - {own}
    log_dir = write_topics(tmp_path / "data", {"kept": {own: "-1"}, "limited": {own: "999999999999"}, "plain": {}})
    before = {topic: logs(log_dir, topic) for topic in ("kept", "limited", "plain")}
    value = f"{other}={LIMITS[other]}"
    option = ("--set", value) if spelled == "--set" else (f"--{value.replace('.', '-')}",)
    config = tmp_path / "server.properties"
    config.write_text("node.id=7\nlog.retention.ms=-1\nlog.retention.bytes=-1\n")
    given = ("--config", config, *option)
    refused = run("retain", *given, "--apply", log_dir)
    assert refused.exit_code == 3, refused.output
    assert f"{value}, against {own}=-1 of topic kept ({log_dir}/__cluster_metadata-0)" in refused.stderr
    assert "topic limited" not in refused.stderr
    assert "topic plain" not in refused.stderr
    (_, other_way) = commands_of(refused.stderr)
    assert value not in other_way, "the broker's default would act on the topic, which has no value of its own"
    forecast = run("retain", *given, log_dir)
    kept = [json.loads(line) for line in forecast.stdout.splitlines() if '"retained_segment"' in line]
    assert {row["verdict"] for row in kept if row["topic"] == "kept"} == {"keep"}
    assert "delete" in {row["verdict"] for row in kept if row["topic"] == "limited"}
    words = shlex.split(other_way)
    assert CliRunner().invoke(cli, words[1:], prog_name="kafkalog").exit_code == 0
    assert {topic: logs(log_dir, topic) for topic in before} == before
    others = run("retain", *given, "--topic", "plain", "--apply", log_dir)
    assert others.exit_code == 0, others.output
    assert logs(log_dir, "kept") == before["kept"]
    assert len(logs(log_dir, "plain")) == 1
    named = run("retain", *given, "--topic", "kept", "--apply", log_dir)
    assert named.exit_code == 0, named.output
    assert len(logs(log_dir, "kept")) == 1


def test_an_option_that_changes_nothing_is_not_held(tmp_path: Path) -> None:
    log_dir = write_topics(tmp_path / "data", {"kept": {"retention.ms": "-1"}})
    done = run("retain", "--retention-bytes", -1, "--assume-defaults", "--apply", log_dir)
    assert done.exit_code == 0, done.output
    assert len(logs(log_dir, "kept")) == 3


def test_what_a_broker_keeps_of_its_own_topics_is_known(tmp_path: Path) -> None:
    log_dir = write_topics(tmp_path / "data", {"__consumer_offsets": {}})
    shutil.rmtree(log_dir / "__cluster_metadata-0")
    options = ("--cleanup-policy", "delete", "--retention-ms", 1, "--apply")
    refused = run("retain", *options, log_dir)
    assert refused.exit_code == 3
    assert "against cleanup.policy=compact of topic __consumer_offsets" in refused.stderr


# --- any settings, options and targets --------------------------------------------------------------------------------
class Case(NamedTuple):
    """What the metadata log and a server.properties have of three topics, and a command line."""

    topics: Mapping[str, Mapping[str, str]]
    config: Mapping[str, str] | None
    command: str
    options: Mapping[str, str]
    flags: tuple[str, ...]
    naming: tuple[str, ...]
    named: frozenset[str]
    targets: tuple[str, ...]


NAMES = ("a", "b", "c")
VALUES = {
    "retention.ms": ("-1", "0", str(40 * 24 * 3_600_000), "60000"),
    "retention.bytes": ("-1", "0", "200", "1000000"),
    "cleanup.policy": ("delete", "compact", "compact,delete"),
    "min.cleanable.dirty.ratio": ("0.0", "0.5", "1.0"),
    "min.compaction.lag.ms": ("0", str(40 * 24 * 3_600_000)),
    "max.compaction.lag.ms": ("1", str(40 * 24 * 3_600_000)),
    "delete.retention.ms": ("0", "86400000"),
    "segment.bytes": ("1048576", "2000000"),
}
OF_BROKER = {
    "retention.ms": "log.retention.ms",
    "retention.bytes": "log.retention.bytes",
    "cleanup.policy": "log.cleanup.policy",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "segment.bytes": "log.segment.bytes",
}
DEFAULTS = {
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "cleanup.policy": "delete",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": str(2**63 - 1),
    "delete.retention.ms": "86400000",
    "segment.bytes": "1073741824",
}
SOME: st.SearchStrategy[dict[str, str]] = st.fixed_dictionaries(
    {}, optional={name: st.sampled_from(values) for name, values in VALUES.items()}
)
NO_LIMIT = st.sampled_from([{}, {"retention.ms": "-1"}, {"retention.bytes": "-1"}])
ONE_LIMIT = st.sampled_from([{name: "0"} for name in ("retention.ms", "retention.bytes")])
NAMING = {
    (): frozenset[str](),
    ("--topic", "a"): frozenset("a"),
    ("--topic-regex", "[ab]"): frozenset("ab"),
    ("--topic-config", "b:file.delete.delay.ms=1"): frozenset("b"),
    ("--exclude", "c"): frozenset[str](),
    ("--partition", "0"): frozenset[str](),
}


@st.composite
def cases(draw: st.DrawFn) -> Case:
    naming = draw(st.sampled_from(list(NAMING)))
    command = draw(st.sampled_from(["retain", "compact", "roll"]))
    own, options = draw(st.sampled_from([(SOME, SOME), (NO_LIMIT, ONE_LIMIT)]))
    flags = {"retain": ["--policy policy_of_all:everything"], "compact": ["--force"], "roll": []}[command]
    return Case(
        topics={name: draw(own) for name in NAMES},
        config=draw(st.none() | SOME),
        command=command,
        options=draw(options),
        flags=tuple(draw(st.sampled_from([[], flags]))),
        naming=naming,
        named=NAMING[naming],
        targets=draw(st.sampled_from([("",), ("a-0", "b-0"), ("b-0", "a-0", "c-0")])),
    )


def command_line(case: Case, config: Path | None, root: Path) -> list[object]:
    words: list[object] = [case.command, "--apply"]
    words += [] if config is None else ["--config", config]
    words += [word for name, value in case.options.items() for word in ("--set", f"{name}={value}")]
    words += [word for flag in case.flags for word in flag.split()]
    if case.command == "roll":
        words = [word for word in words if str(word).partition("=")[0] not in {"--now", NOW_MS}]
        words += ["--to", root.parent / f"{root.name}-rolled"]
    else:
        words.append("--assume-defaults")
    return [*words, *case.naming, *(root / each if each else root for each in case.targets)]


def without_options(case: Case, topic: str) -> list[str]:
    """The command for one topic whose settings are stated: its own, those of the options, those of the broker."""
    own = case.topics[topic]
    # --force of compact decides when a log is cleaned, not what is kept, so that no setting is against it
    limits = ("retention.ms", "retention.bytes", "cleanup.policy") if case.command == "retain" else ()
    holds = any(name in own for name in limits)
    # a topic without a limit of time or size of its own is kept by it against an option for the other one
    pairs = [("retention.ms", "retention.bytes"), ("retention.bytes", "retention.ms")]
    kept = {name for name, other in pairs if own.get(other) == "-1" and name not in own}
    options = {name: value for name, value in case.options.items() if name not in kept}
    stated = {**DEFAULTS, **(case.config or {}), **options, **own}
    words = [word for name, value in stated.items() for word in ("--topic-config", f"{topic}:{name}={value}")]
    return [*words, *(word for flag in case.flags if not holds for word in flag.split()), "--assume-defaults"]


NUMBERS = count()


@pytest.mark.slow
@hypothesis_settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(case=cases())
def test_no_option_deletes_a_record_of_a_topic_that_is_not_named_against_what_is_known(
    tmp_path: Path, case: Case
) -> None:
    """A topic that is not named is left as by its own settings, and the options are defaults next to them."""
    place = tmp_path / str(next(NUMBERS))
    root = write_topics(place / "data", case.topics)
    config = None
    if case.config is not None:
        config = place / "server.properties"
        lines = [f"{OF_BROKER[name]}={value}\n" for name, value in case.config.items()]
        config.write_text("".join(["node.id=7\n", *lines]))
    original = {topic: logs(root, topic) for topic in NAMES}
    if case.command == "roll":
        words = [str(each) for each in command_line(case, config, root)]
        rolled = CliRunner().invoke(cli, ["roll", "--kafka", "4.3.1", *words[1:]])
        assert rolled.exit_code in {0, 3}, rolled.output
        assert {topic: logs(root, topic) for topic in NAMES} == original
        for topic in NAMES:
            copy = place / "data-rolled" / f"{topic}-0"
            if copy.exists():
                whole = b"".join(data for _, data in sorted(logs(place / "data-rolled", topic).items()))
                assert whole == b"".join(data for _, data in sorted(original[topic].items()))
        return
    done = run(*command_line(case, config, root))
    assert done.exit_code in {0, 3}, done.output
    for topic in NAMES:
        found = logs(root, topic)
        if topic in case.named or found == original[topic]:
            continue
        assert done.exit_code == 0, "a run that is refused changes nothing"
        pinned = write_topics(place / f"pinned-{topic}", case.topics)
        stated = run(case.command, "--apply", *without_options(case, topic), "--topic", topic, pinned)
        assert stated.exit_code == 0, stated.output
        assert found == logs(pinned, topic)
