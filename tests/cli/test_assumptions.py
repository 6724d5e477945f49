"""No assumed value deletes, cuts or cleans anything, and every refusal names the option that settles it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from typing import TYPE_CHECKING, NamedTuple

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.storage.changing import writer
from tests.support import build
from tests.support.clusters import BROKER, TOPIC, config_record, topic_record, write_meta, write_metadata_log
from tests.support.refusing import commands_of
from tests.support.truncating import CLEANED, MARK, RECOVERY, STARTS, WATERMARKS, write_log
from tests.support.znodes import unpacked

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

NOW = 1_700_000_000_000
DAY_MS = 24 * 3_600_000
NAME = "customers"
RETAIN = ("retain", "--kafka", "4.3.1", "--now", str(NOW), "--output", "ndjson")
COMPACT = ("compact", "--kafka", "4.3.1", "--now", str(NOW), "--output", "ndjson")


@pytest.fixture(autouse=True)
def _without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_sync", lambda number: None)


def write_customers(root: Path, *, name: str = NAME) -> Path:
    """A partition of three segments of ten records each, of five keys, all of them 30 days old, in a log directory."""
    batches = {
        base: [
            build.batch_v2(
                [
                    build.Record(offset=base + n, timestamp_ms=NOW - 30 * DAY_MS, key=b"%d" % (n % 5), value=b"v")
                    for n in range(10)
                ]
            )
        ]
        for base in (0, 10, 20)
    }
    partition = write_log(root / f"{name}-0", batches)
    for base in (0, 10, 20):
        (partition / f"{base:020}.timeindex").write_bytes(build.time_index([(NOW - 30 * DAY_MS, 9)]))
    for top in (RECOVERY, WATERMARKS):
        (root / top).write_bytes(build.offset_checkpoint([(name, 0, 30)]))
    (root / STARTS).write_bytes(build.offset_checkpoint([]))
    (root / MARK).write_bytes(b"")
    return root


@pytest.fixture
def second(tmp_path: Path) -> Path:
    """The second log directory of a broker, which has the data."""
    return write_customers(write_meta(tmp_path / "b"))


def first_of(tmp_path: Path, *records: bytes, cluster: str = "c", node: int = 7, damage: bytes = b"") -> Path:
    """The first log directory of a broker, which has the metadata log."""
    root = write_meta(tmp_path / "a", cluster=cluster, node=node)
    write_metadata_log(root, *records, damage=damage)
    (root / MARK).write_bytes(b"")
    return root


def config_of(tmp_path: Path, text: str = "", node: int = 7) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(f"node.id={node}\n{text}")
    return path


def run(command: str, *arguments: object) -> Result:
    """Run a command; its result is rows unless the arguments say otherwise."""
    return CliRunner().invoke(cli, [command, "--ndjson", *map(str, arguments)], prog_name="kafkalog")


def files(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def plan_of(result: Result) -> dict[str, object]:
    return next(row for row in map(json.loads, result.stdout.splitlines()) if row["type"] == "plan")


# --- log directories that belong together -----------------------------------------------------------------------------
def test_the_metadata_log_of_one_log_directory_counts_for_the_other(tmp_path: Path, second: Path) -> None:
    """The compacted topic is in the second one: its records were deleted by the default policy."""
    first = first_of(tmp_path, topic_record(NAME), config_record(TOPIC, NAME, "cleanup.policy", "compact"))
    before = files(second)
    result = run(*RETAIN, "--topic", NAME, "--apply", first, second)
    assert result.exit_code == 0, result.stderr
    assert plan_of(result)["state"] == "nothing"
    assert files(second) == before
    alone = run(*RETAIN, "--apply", second)
    assert alone.exit_code == 3
    assert "cleanup.policy=delete and retention.ms=604800000 of topic customers (no metadata log" in alone.stderr
    assert files(second) == before


def test_where_each_value_comes_from(tmp_path: Path, second: Path) -> None:
    first = first_of(tmp_path, topic_record(NAME), config_record(TOPIC, NAME, "retention.ms", "5"))
    row = json.loads(run(*RETAIN, "--topic", NAME, first, second).stdout.splitlines()[0])
    assert row["settings"]["retention.ms"] == {"value": "5", "origin": f"{first}/__cluster_metadata-0"}
    assert row["settings"]["cleanup.policy"]["origin"] == ("default of 4.3.1, assumed: no server.properties was given")
    config = config_of(tmp_path, "log.cleanup.policy=delete\n")
    stated = json.loads(run(*RETAIN, "--config", config, "--topic", NAME, first, second).stdout.splitlines()[0])
    assert stated["settings"]["cleanup.policy"] == {"value": "delete", "origin": f"{config}: log.cleanup.policy"}
    assert (stated["assumptions"], stated["state"]) == (None, "deletes")


def test_log_directories_of_the_config_belong_together(tmp_path: Path, second: Path) -> None:
    first = first_of(tmp_path, topic_record(NAME), config_record(TOPIC, NAME, "cleanup.policy", "compact"))
    for text in (f"log.dirs={first},{second}\n", f"log.dir={second}\nmetadata.log.dir={first}\n"):
        result = run(*RETAIN, "--config", config_of(tmp_path, text), "--apply", second)
        assert (result.exit_code, plan_of(result)["state"]) == (0, "nothing")


@pytest.mark.parametrize("how", ["cluster", "damage", "unlisted", "no meta.properties"])
def test_what_does_not_settle_it(tmp_path: Path, second: Path, how: str) -> None:
    """Another cluster's metadata log, a damaged one, one without the topic, and one of an unknown cluster."""
    first = first_of(
        tmp_path,
        topic_record("other" if how == "unlisted" else NAME),
        cluster="d" if how == "cluster" else "c",
        damage=b"\xff" * 40 if how == "damage" else b"",
    )
    if how == "no meta.properties":
        (second / "meta.properties").unlink()
    result = run(*RETAIN, "--config", config_of(tmp_path), "--apply", first, second)
    words = {"damage": "cannot be read completely", "unlisted": "does not list the topic"}
    assert result.exit_code == 3
    assert words.get(how, "no metadata log") in result.stderr


def test_brokers_of_a_cluster_share_topics_but_not_their_own_settings(tmp_path: Path, second: Path) -> None:
    first = first_of(
        tmp_path,
        topic_record(NAME),
        config_record(BROKER, "8", "log.retention.ms", "1"),
        config_record(BROKER, "7", "log.retention.ms", str(60 * DAY_MS)),
        node=8,
    )
    row = json.loads(run(*RETAIN, "--topic", NAME, first, second).stdout.splitlines()[0])
    assert row["settings"]["retention.ms"]["value"] == str(60 * DAY_MS)


def test_a_config_of_another_broker_settles_nothing(tmp_path: Path, second: Path) -> None:
    first = first_of(tmp_path, topic_record(NAME))
    result = run(*RETAIN, "--config", config_of(tmp_path, node=8), "--apply", first, second)
    assert result.exit_code == 3
    assert "is of broker 8, and the log directory of broker 7" in result.stderr


def test_of_metadata_logs_that_contradict_each_other_the_newest_counts(tmp_path: Path, second: Path) -> None:
    older = first_of(tmp_path / "1", topic_record(NAME), config_record(TOPIC, NAME, "cleanup.policy", "delete"), node=8)
    changes = (config_record(TOPIC, NAME, "cleanup.policy", policy) for policy in ("delete", "compact"))
    newer = first_of(tmp_path / "2", topic_record(NAME), *changes, node=9)
    for paths in ((older, newer), (newer, older)):
        row = json.loads(run(*RETAIN, "--topic", NAME, *paths, second).stdout.splitlines()[0])
        assert row["settings"]["cleanup.policy"] == {
            "value": "compact",
            "origin": f"{newer}/__cluster_metadata-0, newer than others: {older}/__cluster_metadata-0 has "
            "cleanup.policy=delete",
        }


@pytest.mark.parametrize(("cluster", "policy"), [("c", "compact"), ("d", "delete")])
def test_a_cleaner_that_was_at_a_partition_of_the_topic_elsewhere_shows_that_it_is_compacted(
    tmp_path: Path, second: Path, cluster: str, policy: str
) -> None:
    first = write_customers(write_meta(tmp_path / "a", cluster=cluster))
    (first / "customers-0").rename(first / "customers-1")
    (first / CLEANED).write_bytes(build.offset_checkpoint([(NAME, 1, 10)]))
    row = json.loads(run(*RETAIN, "--partition", 0, first, second).stdout.splitlines()[0])
    assert row["cleanup_policy"] == policy


def test_with_zookeeper_the_config_does_not_settle_what_topics_have(tmp_path: Path) -> None:
    root = write_customers(write_meta(tmp_path / "zk", key="broker.id"))
    config = tmp_path / "server.properties"
    config.write_text("broker.id=7\nlog.cleanup.policy=delete\nlog.retention.hours=1\n")
    asked = ("retain", "--kafka", "2.8.2", "--now", NOW, "--config", config)
    refused = run(*asked, "--apply", root)
    assert refused.exit_code == 3
    assert "the settings of topics are in ZooKeeper" in refused.stderr
    assert "--config FILE" not in refused.stderr
    stated = (f"--topic-config={NAME}:cleanup.policy=delete", f"--topic-config={NAME}:retention.ms=3600000")
    assert run(*asked, *stated, "--apply", root).exit_code == 0


def test_what_topics_have_is_read_in_zookeeper(tmp_path: Path) -> None:
    """A real ensemble of 2.8.2, in which a topic was created with retention.ms=777000."""
    servers = sorted(path for path in unpacked("ensemble-2.8.2", tmp_path).iterdir() if path.is_dir())
    root = write_customers(write_meta(tmp_path / "zk", cluster="J7uHl5JGSxWCqb4unebxMQ", node=0, key="broker.id"))
    (root / "customers-0").rename(root / "two-0")
    (root / WATERMARKS).write_bytes(build.offset_checkpoint([("two", 0, 30)]))
    asked = ("retain", "--kafka", "2.8.2", "--now", NOW, root, *servers)
    row = json.loads(run(*asked, "--output", "ndjson").stdout.splitlines()[0])
    assert row["settings"]["retention.ms"] == {"value": "777000", "origin": str(servers[0])}
    assert run(*asked, "--apply").exit_code == 3  # whether server.properties has another cleanup.policy
    config = tmp_path / "server.properties"
    config.write_text("broker.id=0\n")
    assert run(*asked, "--config", config, "--apply").exit_code == 0


def test_settings_of_another_cluster_in_zookeeper_are_refused(tmp_path: Path) -> None:
    server = unpacked("ensemble-2.8.2", tmp_path) / "server.1"
    root = write_customers(write_meta(tmp_path / "zk", cluster="other", key="broker.id"))
    refused = run("retain", "--kafka", "2.8.2", "--now", NOW, root, server)
    assert refused.exit_code == 3
    assert "server.1 has 0 Kafka clusters with the cluster id other of the log directory" in refused.stderr
    assert f"kafkalog cluster {server} shows what is there" in refused.stderr


# --- each command that loses data, and each setting that it loses data by -------------------------------------------
class Losing(NamedTuple):
    """A command line, what has to be stated for it, and a server.properties that states what is the broker's."""

    arguments: tuple[str, ...]
    options: tuple[str, ...]
    config: str


def of_topic(*assignments: str) -> tuple[str, ...]:
    return tuple(f"--topic-config={NAME}:{each}" for each in assignments)


POLICY, BOTH, CLEANER = "cleanup.policy=compact", "cleanup.policy=compact,delete", "--set=log.cleaner.enable=true"
CLEANS = (*of_topic(POLICY, "min.compaction.lag.ms=0", "delete.retention.ms=86400000"), CLEANER)
LOSING = {
    "by time": Losing(RETAIN, of_topic("cleanup.policy=delete", "retention.ms=604800000"), ""),
    "by size": Losing(
        RETAIN,
        of_topic("cleanup.policy=delete", "retention.bytes=1", f"retention.ms={99 * DAY_MS}"),
        f"log.retention.bytes=1\nlog.retention.ms={99 * DAY_MS}\n",
    ),
    "by both policies": Losing(
        RETAIN, (*of_topic(BOTH, "retention.ms=604800000"), CLEANER), "log.cleanup.policy=compact,delete\n"
    ),
    "cleans": Losing(COMPACT, CLEANS, "log.cleanup.policy=compact\n"),
    "cleans where it is told to": Losing((*COMPACT, "--force"), CLEANS, "log.cleanup.policy=compact\n"),
}


def with_apply(case: Losing, root: Path, where: str) -> tuple[object, ...]:
    """The command line that carries it out, in place or into a new directory."""
    to = ("--to", root.parent / "new") if where == "elsewhere" else ()
    return (*case.arguments, "--apply", *to)


PLACES = [(name, "in place") for name in LOSING] + [("cleans", "elsewhere")]


def test_what_finds_the_real_values_is_named_before_what_goes_on_without_them(tmp_path: Path) -> None:
    root = write_customers(write_meta(tmp_path / "data"))
    errors = run("retain", "--topic", NAME, "--apply", root).stderr
    purposes = ("Name the broker's log directory", "give the broker's", "state the real values", "or accept what")
    assert sorted(purposes, key=errors.index) == list(purposes)
    options = ("--config FILE", "--topic-config", "--assume-defaults")
    assert all(option in line for option, line in zip(options, commands_of(errors), strict=True))


@pytest.mark.parametrize(("name", "where"), PLACES)
def test_one_setting_that_is_not_stated_is_enough_to_refuse(tmp_path: Path, name: str, where: str) -> None:
    case = LOSING[name]
    root = write_customers(write_meta(tmp_path / "data"))
    before = files(root)
    for left_out in case.options:
        policy = () if "cleanup.policy=compact" not in left_out else ("--set", "log.cleanup.policy=compact,delete")
        limit = ("--set", "log.retention.bytes=1") if "retention.bytes" in left_out else ()
        stated = [option for option in case.options if option != left_out]
        result = run(*with_apply(case, root, where), *stated, *policy, *limit, root)
        assert result.exit_code == 3, (left_out, result.output)
        missing = left_out.removeprefix(f"--topic-config={NAME}:").removeprefix("--set=").partition("=")[0]
        assert f"{missing}=" in result.stderr.partition("nothing has been changed")[0].partition("assumed values: ")[2]
        assert "--assume-defaults" in result.stderr
        assert files(root) == before
        assert not (tmp_path / "new").exists()
    done = run(*with_apply(case, root, where), *case.options, root)
    assert done.exit_code == 0, done.output
    assert (files(root) != before) == (where == "in place")


@pytest.mark.parametrize(("name", "where"), PLACES)
def test_every_command_that_a_refusal_names_does_it(tmp_path: Path, name: str, where: str) -> None:
    """With and without a metadata log; FILE is the broker's server.properties."""
    case = LOSING[name]
    template = write_customers(write_meta(tmp_path / "template"))
    root = tmp_path / "data"
    first = first_of(tmp_path, topic_record(NAME))
    config = config_of(tmp_path, f"{case.config}log.dirs={first},{root}\n")
    broker = tuple(f"--set={line}" for line in case.config.splitlines())
    for beside in ((), (first,)):
        shutil.copytree(template, root)
        refused = run(*with_apply(case, root, where), "--topic", NAME, *broker, *beside, root)
        shutil.rmtree(root)
        commands = commands_of(refused.stderr)
        assert refused.exit_code == 3, refused.output
        assert len(commands) == 3, refused.stderr
        for command in commands:
            shutil.copytree(template, root)
            words = shlex.split(command.replace("--config FILE", f"--config {config}"))
            done = run(*words[1:])
            assert done.exit_code == 0, (command, done.output)
            assert (files(root) != files(template)) == (where == "in place")
            shutil.rmtree(root)
            shutil.rmtree(tmp_path / "new", ignore_errors=True)


@pytest.mark.parametrize("name", ["by time", "cleans"])
def test_a_high_watermark_that_nobody_knows(tmp_path: Path, name: str) -> None:
    case = LOSING[name]
    root = write_customers(write_meta(tmp_path / "data"))
    (root / WATERMARKS).write_bytes(build.offset_checkpoint([]))
    before = files(root)
    refused = run(*case.arguments, "--apply", *case.options, root)
    assert refused.exit_code == 3
    assert "high watermark 30, the log end offset, of customers-0" in refused.stderr
    assert files(root) == before
    (command,) = commands_of(refused.stderr)
    assert run(*shlex.split(command)[1:]).exit_code == 0
    assert files(root) != before


def test_a_log_start_that_is_asked_for_above_a_watermark_that_nobody_knows(tmp_path: Path) -> None:
    root = write_customers(write_meta(tmp_path / "data"))
    asked = (*RETAIN, "--set", "retention.ms=-1", "--log-start-offset", 20, "--apply", root)
    assert run(*asked, "--plan-out", tmp_path / "plan").exit_code == 0
    assert not (root / "customers-0" / f"{0:020}.log").exists()
    root = write_customers(write_meta(tmp_path / "other"))
    (root / WATERMARKS).unlink()
    assert run(*asked[:-1], root).exit_code == 3
    assert run(*asked[:-1], "--assume-defaults", root).exit_code == 0


def test_what_is_below_the_log_start_needs_no_policy(tmp_path: Path) -> None:
    root = write_customers(write_meta(tmp_path / "data"))
    (root / STARTS).write_bytes(build.offset_checkpoint([(NAME, 0, 20)]))
    result = run(*RETAIN, "--set", "retention.ms=-1", "--apply", root)
    assert (result.exit_code, plan_of(result)["assumptions"]) == (0, None)
    assert not (root / "customers-0" / f"{10:020}.log").exists()


def test_a_cut_by_a_limit_that_nobody_states(tmp_path: Path) -> None:
    """Up to 0.10.2 a message above max.message.bytes ends what recovery keeps."""
    partition = tmp_path / "data" / "old-0"
    partition.mkdir(parents=True)
    values = (b"small", b"l" * 2_000_000)
    small, large = (
        build.message_v1(build.Record(offset=offset, timestamp_ms=1, value=value))
        for offset, value in enumerate(values)
    )
    (partition / f"{0:020}.log").write_bytes(small + large)
    for top in (RECOVERY, WATERMARKS):
        (tmp_path / "data" / top).write_bytes(build.offset_checkpoint([("old", 0, 0)]))
    asked = ("truncate", "--as-broker", "--kafka", "0.10.2", "--apply", tmp_path / "data")
    refused = run(*asked)
    assert refused.exit_code == 3
    assert "max.message.bytes=1048588 of topic old" in refused.stderr
    kept = run(*asked, "--topic-config", "old:max.message.bytes=3000000")
    assert (kept.exit_code, (partition / f"{0:020}.log").read_bytes()) == (0, small + large)
    command = commands_of(refused.stderr)[0]
    assert run(*shlex.split(command)[1:]).exit_code == 0
    assert (partition / f"{0:020}.log").read_bytes() == small


# --- plans, forecasts -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("accepts", [True, False])
def test_a_plan_file_keeps_what_was_accepted_and_the_directories_that_were_named(
    tmp_path: Path, second: Path, accepts: bool
) -> None:
    first = first_of(tmp_path, topic_record(NAME), config_record(TOPIC, NAME, "cleanup.policy", "delete"))
    plan, before = tmp_path / "plan.json", files(second)
    given = ("--assume-defaults",) if accepts else ()
    planned = run(*RETAIN, *given, "--topic", NAME, "--plan-out", plan, first, second)
    assert plan_of(planned)["state"] == ("planned" if accepts else "refused")
    assert plan_of(planned)["assumptions"] == (
        "retention.ms=604800000 of topic customers (no server.properties was given)"
    )
    applied = run("apply", plan)
    assert applied.exit_code == (0 if accepts else 3), applied.output
    assert (files(second) == before) == (not accepts)


def test_what_was_accepted_is_shown(second: Path) -> None:
    out = " ".join(run(*RETAIN[:-1], "table", "--assume-defaults", "--apply", second).stdout.split())
    assert (
        "assumed (--assume-defaults): cleanup.policy=delete and retention.ms=604800000 of topic customers (no metadata "
        "log"
    ) in out


@pytest.mark.parametrize("name", ["by time", "cleans"])
def test_a_forecast_says_last_what_it_rests_on(tmp_path: Path, name: str) -> None:
    case = LOSING[name]
    root = write_customers(write_meta(tmp_path / "data"))
    broker = tuple(f"--set={line}" for line in case.config.splitlines())
    out = run(*case.arguments[:-1], "table", *broker, root).stdout
    assert out.startswith("WOULD ")
    assert "assumed: " not in out.partition("\n\n")[0]
    assert "\nassumed: cleanup.policy=" in out
    assert "--apply uses assumed values only if" in out
    assert "assumed: " not in run(*case.arguments[:-1], "table", *case.options, root).stdout


# --- topics that are not there --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "command",
    [
        ("retain",),
        ("retain", "--apply"),
        ("compact",),
        ("compact", "--apply"),
        ("compact", "--apply", "--to", "new"),
        ("truncate", "--as-broker"),
        ("reindex",),
        ("checkpoint",),
        ("roll",),
    ],
    ids=" ".join,
)
def test_settings_of_a_topic_that_is_not_there(second: Path, command: tuple[str, ...]) -> None:
    before = files(second)
    result = run(*command, "--kafka", "4.3.1", "--topic-config", "custmers:cleanup.policy=compact", second)
    assert result.exit_code == 3
    assert "--topic-config custmers: no partition of this topic is among the targets; is customers meant?" in (
        result.stderr
    )
    assert files(second) == before
    far = run(*command, "--kafka", "4.3.1", "--topic-config", "xyz:cleanup.policy=compact", second)
    assert "there are customers (0)" in far.stderr


def test_topics_with_the_same_assumed_values_are_named_together(tmp_path: Path) -> None:
    root = write_meta(tmp_path / "data")
    names = [f"topic{number}" for number in range(6)]
    for name in names:
        write_customers(root, name=name)
    (root / WATERMARKS).write_bytes(build.offset_checkpoint([(name, 0, 30) for name in names]))
    refused = run(*RETAIN, "--apply", root)
    assert refused.exit_code == 3
    assert "of topic topic0, topic topic1, topic topic2, topic topic3 and 2 more (no metadata log" in refused.stderr
    accepted = commands_of(refused.stderr)[-1]
    assert run(*shlex.split(accepted)[1:]).exit_code == 0


@pytest.mark.parametrize(("release", "is_asked"), [("0.10.0", False), ("0.10.2", True)])
def test_a_setting_that_a_release_does_not_have_is_not_asked_for(
    tmp_path: Path, release: str, *, is_asked: bool
) -> None:
    partition = tmp_path / "data" / f"{NAME}-0"
    partition.mkdir(parents=True)
    for base in (0, 10, 20):
        records = [build.Record(offset=base + at, timestamp_ms=1, key=b"k", value=b"v") for at in range(10)]
        (partition / f"{base:020}.log").write_bytes(b"".join(map(build.message_v1, records)))
        (partition / f"{base:020}.index").write_bytes(b"")
        os.utime(partition / f"{base:020}.log", (1, 1))  # before 0.10.1 a segment is as old as its file
    for top in (RECOVERY, WATERMARKS):
        (tmp_path / "data" / top).write_bytes(build.offset_checkpoint([(NAME, 0, 30)]))
    asked = ("compact", "--kafka", release, "--now", NOW, *of_topic(POLICY), "--force", "--apply", tmp_path / "data")
    refused = run(*asked)
    assert refused.exit_code == 3
    assert "delete.retention.ms=86400000" in refused.stderr
    assert ("min.compaction.lag.ms=0" in refused.stderr) == is_asked
