"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs: settings of topics, of share groups and of the broker.

Rules and messages follow `ConfigurationControlManager` and `ConfigHelper` of Kafka 4.3.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from kafkalog_core.format.names import topic_name_problem
from kafkalog_core.livebroker.disks.topic_configs import DEFAULT_CONFIG, TOPIC_CONFIG
from kafkalog_core.livebroker.topics.topic_changes import RefusedChange, answered
from kafkalog_core.serve.network.repeats import distinct_resources
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafkalog_core.livebroker.disks.live_disks import LiveDisks
    from kafkalog_core.livebroker.groups.group_configs import GroupConfigs
    from kafkalog_core.serve.network.answers import Answer
    from kafkalog_core.serve.network.requests import Body, Handler, RequestContext
    from kafkalog_core.serve.topics.broker_configs import BrokerConfig

__all__ = ["ConfigRequests"]

_TOPIC: Final = 2  # ConfigResource.Type
_BROKER: Final = 4
_GROUP: Final = 32
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)  # AlterConfigOp.OpType
_SHOWN: Final = 100
_OF_GROUP: Final = 8  # DescribeConfigsResponse.ConfigSource
_LISTS: Final = frozenset(
    {"cleanup.policy", "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}
)


class ConfigRequests:
    """The handlers of the requests about settings."""

    def __init__(self, disks: LiveDisks, groups: GroupConfigs, of_broker: Callable[[], Iterable[BrokerConfig]]) -> None:
        """Take what has settings. of_broker: returns those of the broker that do not matter for logs."""
        self._disks = disks
        self._of_broker = of_broker
        self._groups = groups

    def handlers(self) -> dict[str, tuple[int, Handler]]:
        """Return the last version that is served and the handler, by the name of the API."""
        return {
            "DescribeConfigs": (4, self.describe_configs),
            "AlterConfigs": (2, self.alter_configs),
            "IncrementalAlterConfigs": (1, self.incremental_alter_configs),
        }

    def describe_configs(self, context: RequestContext) -> Answer:
        """Answer DescribeConfigs: all settings of topics in effect, and those that replace the broker's defaults."""
        has_synonyms = bool(context.body.get("include_synonyms", False))
        asked = distinct_resources(context.body["resources"])
        results = [self._described(each, has_synonyms=has_synonyms) for each in asked]
        return context.reply({"throttle_time_ms": 0, "results": results})

    def _described(self, asked: Body, *, has_synonyms: bool) -> Body:
        kind, name, keys = asked["resource_type"], asked["resource_name"], asked["configuration_keys"]
        answer: Body = {"resource_type": kind, "resource_name": name, "error_message": None, "configs": []}
        if kind == _TOPIC:
            if topic_name_problem(name) is not None:
                return answer | {"error_code": ErrorCode.INVALID_TOPIC_EXCEPTION}
            if name not in self._disks.topics:
                return answer | {"error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            entries = self._disks.configs.entries(name, self._disks.topic_configs(name))
        elif kind == _BROKER and name in {"", str(self._disks.node_id)}:
            entries = self._disks.configs.broker_entries(self._of_broker())
        elif kind == _GROUP and name:
            entries = self._groups.entries(name)
        else:
            message = f"there is no resource {name[:_SHOWN]!r} of type {kind} here"
            return answer | {"error_code": ErrorCode.INVALID_REQUEST, "error_message": message}
        own = _OF_GROUP if kind == _GROUP else TOPIC_CONFIG
        configs = [
            {
                "name": each.name,
                "value": each.value,
                "read_only": kind == _BROKER and not self._disks.configs.is_of_broker(each.name),
                "is_default": (source := each.source(own)) == DEFAULT_CONFIG,
                "config_source": source,
                "is_sensitive": False,
                "synonyms": [synonym._asdict() for synonym in each.synonyms(own)] if has_synonyms else [],
                "config_type": each.type_id,
                "documentation": None,
            }
            for each in entries
            if keys is None or each.name in keys
        ]
        return answer | {"error_code": ErrorCode.NONE, "configs": configs}

    def alter_configs(self, context: RequestContext) -> Answer:
        """Answer AlterConfigs, which states all settings of a topic: those that it leaves out go back to defaults."""

        def changes_of(asked: Body) -> dict[str, str | None]:
            given = {each["name"]: each["value"] for each in asked["configs"]}
            name = asked["resource_name"]
            before: Mapping[str, str] = self._disks.configs.dynamic
            if asked["resource_type"] != _BROKER:
                is_group = asked["resource_type"] == _GROUP
                before = self._disks.group_configs(name) if is_group else self._disks.topic_configs(name)
            # Nothing means the broker's value: what is set now and not named goes back to it.
            return dict.fromkeys(before) | given

        return self._alter(context, changes_of)

    def incremental_alter_configs(self, context: RequestContext) -> Answer:
        """Answer IncrementalAlterConfigs (KIP-339)."""
        return self._alter(context, self._incremental)

    def _incremental(self, asked: Body) -> dict[str, str | None]:
        topic = asked["resource_name"]
        has_lists = asked["resource_type"] == _TOPIC
        entries = () if not has_lists else self._disks.configs.entries(topic, self._disks.topic_configs(topic))
        # The value in effect, also a default: APPEND adds to it (KIP-339).
        in_effect = {each.name: each.value for each in entries}
        changes: dict[str, str | None] = {}
        for each in asked["configs"]:
            name, value, operation = each["name"], each["value"], each["config_operation"]
            # Two operations on one setting have no order in which they count.
            if name in changes:
                raise RefusedChange(ErrorCode.INVALID_REQUEST, f"{name} is there twice")
            if operation == _DELETE:
                changes[name] = None
            elif value is None:
                raise RefusedChange(ErrorCode.INVALID_CONFIG, f"Null value not supported for : {name}")
            elif operation == _SET:
                changes[name] = value
            elif operation in {_APPEND, _SUBTRACT} and name in _LISTS:
                present = [part for part in in_effect.get(name, "").split(",") if part]
                given = value.split(",")
                replaced = frozenset(given)
                # An element that is there already is not added twice.
                kept = [part for part in present if part not in replaced]
                changes[name] = ",".join([*kept, *given] if operation == _APPEND else kept)
            else:
                message = f"Config value append is not allowed for config key: {name}"
                raise RefusedChange(ErrorCode.INVALID_CONFIG, message)
        return changes

    def _alter(self, context: RequestContext, changes_of: Callable[[Body], Mapping[str, str | None]]) -> Answer:
        body, responses = context.body, []
        for each in body["resources"]:
            answer = answered(partial(self._change, each, changes_of, body["validate_only"]))
            responses.append({"resource_type": each["resource_type"], "resource_name": each["resource_name"]} | answer)
        return context.reply({"throttle_time_ms": 0, "responses": responses})

    def _change_broker(self, changes: Mapping[str, str | None], validate_only: bool) -> Body:
        unknown = [name for name in changes if not self._disks.configs.is_of_broker(name)]
        if unknown:
            raise RefusedChange(
                ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: {', '.join(unknown)}"
            )
        if not validate_only:
            self._disks.set_broker_configs(changes)
        return {}

    def _change_group(self, name: str, changes: Mapping[str, str | None], validate_only: bool) -> Body:
        if not name:
            raise RefusedChange(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
        self._groups.check({key: value for key, value in changes.items() if value is not None})
        if not validate_only:
            self._disks.set_group_configs(name, changes)
        return {}

    def _change(self, asked: Body, changes_of: Callable[[Body], Mapping[str, str | None]], validate_only: bool) -> Body:
        name = asked["resource_name"]
        if asked["resource_type"] == _BROKER and name in {"", str(self._disks.node_id)}:
            return self._change_broker(changes_of(asked), validate_only)
        if asked["resource_type"] == _GROUP:
            return self._change_group(name, changes_of(asked), validate_only)
        if asked["resource_type"] != _TOPIC:
            raise RefusedChange(
                ErrorCode.INVALID_REQUEST, "only settings of topics, groups and this broker can be changed"
            )
        if name not in self._disks.topics:
            raise RefusedChange(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        changes = changes_of(asked)
        if validate_only:
            before = self._disks.topic_configs(name)
            after = {key: value for key, value in {**before, **changes}.items() if value is not None}
            self._disks.configs.check(name, after, before)
        else:
            self._disks.set_configs(name, changes)
        return {}
