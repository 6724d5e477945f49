"""A line to a server on loopback on which much fails, in a process of its own.

Not in a thread: some clients wait for an answer and let no other thread of their process run.
"""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def bad_line(port: int, seed: int) -> Iterator[int]:
    """A line to a server of which some connections are slow, are reset, or get an answer that it is busy (503)."""
    command = [sys.executable, "-m", "tests.support.bad_line", str(port), str(seed)]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def _main(port: int, seed: int) -> None:
    dice = random.Random(seed)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        sys.stdout.write(f"{listening.getsockname()[1]}\n")
        sys.stdout.flush()
        while True:
            client, _ = listening.accept()
            what = dice.choices(["good", "slow", "reset", "cut", "busy"], [6, 1, 1, 1, 1])[0]
            threading.Thread(target=_serve, args=(client, port, what, dice.randrange(20_000)), daemon=True).start()


def _serve(client: socket.socket, port: int, what: str, after: int) -> None:
    with client, suppress(OSError):
        if what == "reset":
            reset(client)
            return
        if what == "busy":
            client.settimeout(2)
            client.recv(1 << 16)
            client.sendall(b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        if what == "slow":
            time.sleep(0.3)
        with socket.create_connection(("127.0.0.1", port), 5) as server:
            server.settimeout(30)
            client.settimeout(30)
            back = threading.Thread(target=copy, args=(server, client, None), daemon=True)
            back.start()
            copy(client, server, after if what == "cut" else None)
            if what == "cut":
                reset(client)
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            back.join(5)


def copy(source: socket.socket, target: socket.socket, most: int | None) -> None:
    """Pass bytes on until one side ends; or as many, and the line breaks in the middle of a request."""
    passed = 0
    with suppress(OSError):
        while (most is None or passed < most) and (data := source.recv(1 << 16)):
            target.sendall(data if most is None else data[: most - passed])
            passed += len(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def reset(client: socket.socket) -> None:
    """Close a connection as a peer that has crashed."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    client.close()


if __name__ == "__main__":
    _main(*map(int, sys.argv[1:]))
