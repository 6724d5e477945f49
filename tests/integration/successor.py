"""A real broker that goes on with a directory that `kafkalog serve --read-write` has left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.integration.broker import Broker

if TYPE_CHECKING:
    from pathlib import Path

AT_EVERY_START: Final = "Stopped loading records"
"""A coordinator begins to load before its controller has elected leaders for the new start, and then again."""


class Successor(Broker):
    """A real broker over the directory of another one, which it does not format."""

    def __init__(self, libs: Path, work_dir: Path, log_dir: Path) -> None:
        work_dir.mkdir()
        super().__init__(libs, work_dir)
        self.log_dir = log_dir
        self._settings["log.dirs"] = str(log_dir)
        self.configure({})

    def _format(self) -> None:
        """Do nothing: the directory is formatted."""

    def _places(self, controller_port: int) -> dict[str, str]:
        places = super()._places(controller_port)
        del places["controller.quorum.bootstrap.servers"]
        return places | {"controller.quorum.voters": f"1@127.0.0.1:{controller_port}"}
