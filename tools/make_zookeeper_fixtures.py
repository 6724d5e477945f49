"""Make `fixtures/zookeeper/`: `python tools/make_zookeeper_fixtures.py CORPUS RUNS`.

CORPUS is the corpus of old releases, of which the directories of ZooKeeper in `PICKED` are taken, with the trees that
were dumped next to them. RUNS has a directory for each run of a real server (`tests/integration/test_zookeeper.py`
keeps its own with --basetemp): `data`, as the killed server left it, and `live.txt`, what clients were shown just
before. The same directories give the same bytes.
"""

from __future__ import annotations

import gzip
import io
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

PICKED: Final = {
    "groups-0.8.2.2": "zk/live",
    "k07-0.7.2": "zk/live",
    "ensemble-2.8.2": "zk/lagging",
}
_DESTINATION: Final = Path(__file__).resolve().parents[1] / "fixtures" / "zookeeper"


def main() -> None:
    """Write one archive a directory."""
    corpus, runs = map(Path, sys.argv[1:])
    _DESTINATION.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        for case, place in PICKED.items():
            with tarfile.open(corpus / "old" / f"{case}.tar.gz") as tar:
                inside = [member for member in tar.getmembers() if member.name.startswith(f"{case}/{place}")]
                tar.extractall(scratch, members=inside, filter="data")
            _write(Path(scratch, case, place), f"{case}.tgz")
    for run in sorted(path for path in runs.iterdir() if path.is_dir()):
        _write(run, f"{run.name}.tgz")


def _write(directory: Path, name: str) -> None:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(directory.rglob("*")):
            tar.add(path, str(path.relative_to(directory)), recursive=False, filter=_plain)
    (_DESTINATION / name).write_bytes(gzip.compress(content.getvalue(), mtime=0))


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = int(member.mtime)
    return member


if __name__ == "__main__":
    main()
