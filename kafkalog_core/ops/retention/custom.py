"""Policies of somebody's own, by `MODULE:FUNCTION`."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, TypeVar, cast

from kafkalog_core.errors import SettingError
from kafkalog_core.ops.retention.policies import Judgement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kafkalog_core.ops.logdirs.segment_views import SegmentView
    from kafkalog_core.ops.retention.policies import Policy

__all__ = ["load_policies"]

Result = TypeVar("Result")


def load_policies(names: Iterable[str]) -> dict[str, Policy]:
    """The functions by these names, which run behind Kafka's own. Raises SettingError for what is no such function.

    What one of them does wrong when it is called, like an exception or too few answers, is a SettingError too: what
    is deleted may rest on it.
    """
    return {name: _guarded(name, _load(name)) for name in names}


def _load(name: str) -> Policy:
    module_name, separator, function_name = name.partition(":")
    if not separator or not module_name or not function_name or module_name.startswith("."):
        raise SettingError(f"the policy {name!r} is not written as MODULE:FUNCTION")
    module = _called(name, "cannot be imported", lambda: import_module(module_name))
    function = getattr(module, function_name, None)
    if function is None:
        raise SettingError(f"the policy {name!r} is not there: {module_name} has no {function_name}")
    if not callable(function):
        raise SettingError(f"the policy {name!r} is no function")
    return cast("Policy", function)


def _guarded(name: str, function: Policy) -> Policy:
    def policy(segments: Sequence[SegmentView], now_ms: int) -> Sequence[Judgement | bool]:
        count = len(segments)
        answers = _called(name, "failed", lambda: list(islice(function(segments, now_ms), count + 1)))
        if len(answers) != count:
            given = f"only {len(answers)}" if len(answers) < count else "more"
            raise SettingError(f"the policy {name!r} was asked about {count} segments and gave {given} answers")
        for segment, answer in zip(segments, answers, strict=True):
            if not isinstance(answer, bool | Judgement):
                raise SettingError(
                    f"the policy {name!r} says {answer!r} of the segment at {segment.base_offset}, which is neither "
                    "true nor false"
                )
        return answers

    return policy


def _called(name: str, what: str, call: Callable[[], Result]) -> Result:
    """What somebody else's code gives; what it prints goes to stderr, as stdout is the result."""
    try:
        with redirect_stdout(sys.stderr):
            return call()
    except ImportError as error:
        raise SettingError(f"the policy {name!r} {what}: {error}") from error
    except (Exception, SystemExit) as error:
        raise SettingError(f"the policy {name!r} {what}: {type(error).__name__}: {error}") from error
