"""The data pipeline on Apache Spark: a census of every disk, exports, checks and forecasts at cluster scale.

For notebooks and scripts there is one object with a method for everything, `Disks`, and `open_session`, `open_catalog`
and `open_export` beside it; `notebook` shows them at work. Names are imported when they are used: to import this
package costs nothing, and nothing in it imports pyspark or pyarrow before it must.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kafkalog_core.spark.notebook import Disks, open_catalog, open_export, open_session
    from kafkalog_core.spark.session.errors import SparkError
    from kafkalog_core.spark.session.parquet import Result
    from kafkalog_core.spark.session.session import SessionSettings

__all__ = ["Disks", "Result", "SessionSettings", "SparkError", "open_catalog", "open_export", "open_session"]

_HOMES: Final = {
    "Disks": "notebook",
    "Result": "result",
    "SessionSettings": "session",
    "SparkError": "errors",
    "open_catalog": "notebook",
    "open_export": "notebook",
    "open_session": "notebook",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
