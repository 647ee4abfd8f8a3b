"""Looks whether a server has closed a connection. The socket has a time limit."""

from __future__ import annotations

import socket


def has_ended(sock: socket.socket) -> bool:
    """True if the server has closed the connection, to which nothing was said."""
    try:
        return sock.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def is_closed_on(sock: socket.socket) -> bool:
    """True if the server has closed the connection, one byte later."""
    try:
        sock.sendall(b"a")
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return has_ended(sock)
