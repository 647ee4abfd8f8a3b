"""A dict with limited room, for what peers choose: it forgets the key that was set longest ago, and counts that."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
# of a key with its value, on average: a topic has 249 at most
LETTERS = 256


def letters(named: object) -> int:
    """The letters of a text, or of those in a tuple."""
    if isinstance(named, tuple):
        return sum(map(letters, named))
    return len(named) if isinstance(named, str) else 0


class Bounded(OrderedDict[Key, Value], Generic[Key, Value]):
    """A dict that forgets the key that was set or used longest ago once it has too many keys, or they take too much.

    Args:
        most: how many keys there are at most.
        size: what a key and its value take, as a pair; asked whenever the key is set. By default their letters: peers
            choose names of up to 32 KiB.
        room: what all of them take at most, as `size` counts. By default LETTERS for each key, on average.

    `forgotten`: how many keys.
    """

    def __init__(
        self, most: int, *, size: Callable[[tuple[Key, Value]], int] = letters, room: int | None = None
    ) -> None:
        super().__init__()
        self._most, self._size, self._room = most, size, most * LETTERS if room is None else room
        # a value may have grown when its key is set again
        self._sizes: dict[Key, int] = {}
        self._taken = self.forgotten = 0

    def __setitem__(self, key: Key, value: Value) -> None:
        size = self._size((key, value))
        if size > self._room:
            # all others would make room, and in vain
            self.take(key)
            self.forgotten += 1
            return
        super().__setitem__(key, value)
        self.move_to_end(key)
        self._taken += size - self._sizes.get(key, 0)
        self._sizes[key] = size
        while len(self) > self._most or self._taken > self._room:
            self.take(next(iter(self)))
            self.forgotten += 1

    def use(self, key: Key, made: Callable[[], Value]) -> Value:
        """The value of a key, which is the newest now; a new one if there is none."""
        found = self.get(key)
        if found is None:
            found = self[key] = made()
        else:
            self.move_to_end(key)
        return found

    def take(self, key: Key) -> Value | None:
        """Removes a key. Returns its value; None if there is none."""
        self._taken -= self._sizes.pop(key, 0)
        return self.pop(key, None)

    def copy_of_items(self) -> list[tuple[Key, Value]]:
        """All keys and values, while another thread may change them."""
        while True:
            with suppress(RuntimeError):
                return [*self.items()]
