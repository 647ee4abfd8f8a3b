"""Cuts a stream of bytes into frames."""

from __future__ import annotations

from proxy.wire.errors import WireError

READ = 256 << 10
# the largest accepted answer: the limit of Kafka's own clients
LARGEST = 0x7FFFFFFF


class Frames:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that are complete now. Errors: WireError for a length that no frame has."""
        if self._rest:
            self._rest += data
            if not self._may_end():
                return []
            data = bytes(self._rest)
            self._rest.clear()
        found, at, end = [], 0, len(data)
        while end - at >= 4:
            stop = at + 4 + _size(data, at)
            if stop > end:
                break
            found.append(data[at + 4 : stop])
            at = stop
        if at < end:
            self._rest += data[at:]
        return found

    def _may_end(self) -> bool:
        """True if the first frame is complete: a large one is not looked at again with each piece."""
        return len(self._rest) >= 4 and len(self._rest) - 4 >= _size(self._rest, 0)


def _size(data: bytes | bytearray, at: int) -> int:
    size = int.from_bytes(data[at : at + 4], "big", signed=True)
    if not 0 <= size <= LARGEST:
        raise WireError(f"a frame of {size} bytes")
    return size
