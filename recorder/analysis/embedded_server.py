"""The child process in which the embedded engine runs: `python -m recorder.analysis.embedded_server SOCKET MODULE …`.

Whoever reaches Sail's port may run code as this user, and Sail asks for no password. So the process leaves the
machine's network: its loopback is its own. The parent reaches it by a Unix socket in a folder that only this user may
enter, whose bytes go on to Sail. The process ends when its standard input does, also if its parent is killed.

It prints one line once it serves: whether its loopback is its own. Then it imports the modules, which the first
question would import otherwise.
"""

from __future__ import annotations

import ctypes
import fcntl
import importlib
import os
import shutil
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread

OWN, SHARED = "own", "shared"
# linux/sched.h, linux/sockios.h, linux/if.h
_NEW_USER, _NEW_NET = 0x10000000, 0x40000000
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1
_CHUNK = 1 << 18
# linux/prctl.h
_DISABLE_HUGE_PAGES = 41


def main(place: str, needed: Sequence[str]) -> None:
    """Serves until standard input ends. `place`: where the Unix socket will be; `needed`: modules to import."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _use_small_pages()
    network = SHARED
    if can_leave_network():
        _leave_network()
        network = OWN
    from pysail.spark import SparkConnectServer  # type: ignore[import-untyped]

    server = SparkConnectServer("127.0.0.1", 0)
    server.start(background=True)
    listener = socket.socket(socket.AF_UNIX)
    # a socket's whole path may be too long to be bound
    os.chdir(Path(place).parent)
    listener.bind(Path(place).name)
    listener.listen()
    Thread(target=_serve, args=(listener, server.listening_address), daemon=True).start()
    # a parent that was killed meanwhile reads nothing, and leaves the folder to this process
    with suppress(BrokenPipeError):
        print(network, flush=True)
    # nobody reads more of this process's output
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    Thread(target=_import, args=(needed,), daemon=True).start()
    sys.stdin.read()
    # a killed parent removes nothing
    shutil.rmtree(Path(place).parent, ignore_errors=True)
    # without the interpreter's own end: threads of Sail may run Python then, which aborts the process
    os._exit(0)


def _use_small_pages() -> None:
    """Keeps the kernel from clearing two megabytes for each small block of memory that a thread of Sail asks for first:
    that took a tenth of a report's processor time.
    """
    with suppress(AttributeError):
        ctypes.CDLL(None).prctl(_DISABLE_HUGE_PAGES, 1, 0, 0, 0)


def _import(modules: Sequence[str]) -> None:
    for name in modules:
        importlib.import_module(name)


def can_leave_network() -> bool:
    """True if a process of this user may have a network of its own: another process tries it."""
    tries = os.fork()
    if not tries:
        try:
            _leave_network()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitpid(tries, 0)[1] == 0


def _leave_network() -> None:
    """Gives this process a network of its own, with nothing but loopback. Errors: OSError, AttributeError."""
    uid, gid = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    # root needs no namespace of users
    if libc.unshare(_NEW_NET):
        if libc.unshare(_NEW_USER | _NEW_NET):
            raise OSError(ctypes.get_errno(), "no namespace")
        for name, mapped in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            Path("/proc/self", name).write_text(mapped)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack_from("h", fcntl.ioctl(any_socket, _GET_FLAGS, asked), 16)[0]
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh14x", b"lo", flags | _UP))


def _serve(listener: socket.socket, engine: tuple[str, int]) -> None:
    while True:
        client, _ = listener.accept()
        try:
            server = socket.create_connection(engine)
        except OSError:
            client.close()
            continue
        for source, target in ((client, server), (server, client)):
            Thread(target=_relay, args=(source, target), daemon=True).start()


def _relay(source: socket.socket, target: socket.socket) -> None:
    try:
        while chunk := source.recv(_CHUNK):
            target.sendall(chunk)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        # one side broke: so does the other, also for the thread that waits for it
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
