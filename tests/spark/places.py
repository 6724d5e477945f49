"""Where an output is in an object store: `store` for kafkalog, and a copy of its files for the judge."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from kafkalog_core.spark.lake.store import Store
from tests.spark.judging import data_of, names_of
from tests.support.clouds import Azurite, Cloud, Google
from tests.support.s3 import Server

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CLOUDS: dict[str, Callable[[Path], Cloud | Server]] = {"s3": Server, "azure": Azurite, "google": Google}


class There:
    """A prefix of an object store."""

    number = 0

    def __init__(self, cloud: Cloud | Server, scratch: Path) -> None:
        There.number += 1
        self.prefix = f"out-{There.number}"
        self.uri = cloud.uri(self.prefix)
        self.store = Store.of(self.uri, cloud.options())
        self.hidden = cloud.hidden
        self._cloud, self._scratch = cloud, scratch / "copy"

    @property
    def files(self) -> Path:
        """A directory with the files as they are now."""
        if isinstance(self._cloud, Server):
            return self._cloud.files / self.prefix
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir(parents=True)
        for name in self.store.files():
            (self._scratch / name).parent.mkdir(parents=True, exist_ok=True)
            (self._scratch / name).write_bytes(self.store.read(name))
        return self._scratch

    def assert_tidy(self) -> None:
        """No file is there that no commit knows."""
        files = self.files
        assert data_of(files / "records") == names_of(files / "records")
        names = self.store.files("_kafkalog")
        assert [name.split("/")[1] for name in names] == ["states"], names
