"""Policies of somebody's own, by `MODULE:FUNCTION`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from kafkalog_core.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_core.ops.retention.policies import Policy

__all__ = ["load_policies"]


def load_policies(names: Iterable[str]) -> dict[str, Policy]:
    """The functions by these names, which run behind Kafka's own. Raises SettingError for what is no such function."""
    return {name: _load(name) for name in names}


def _load(name: str) -> Policy:
    module_name, separator, function_name = name.partition(":")
    if not separator or not module_name or not function_name:
        raise SettingError(f"the policy {name!r} is not written as MODULE:FUNCTION")
    try:
        function = getattr(import_module(module_name), function_name)
    except ImportError as error:
        raise SettingError(f"the policy {name!r} cannot be imported: {error}") from error
    except AttributeError as error:
        raise SettingError(f"the policy {name!r} is not there: {module_name} has no {function_name}") from error
    if not callable(function):
        raise SettingError(f"the policy {name!r} is no function")
    return cast("Policy", function)
