"""How loud an event is logged: a flood of clients that are turned away is a warning once a minute."""

from __future__ import annotations

from logging import DEBUG, WARNING

import trio

# seconds in which an event is not said aloud again
SILENCE = 60.0
# different events said aloud in that time; clients have a say in what they are
MOST = 20


class LogThrottle:
    """Remembers which events were said aloud lately."""

    def __init__(self) -> None:
        self._said: dict[str, float] = {}

    def level(self, what: str) -> int:
        """The level to log an event at: WARNING if it is to be said aloud, else DEBUG."""
        return WARNING if self.lets_through(what) else DEBUG

    def lets_through(self, what: str) -> bool:
        """Whether an event is to be said aloud; then it counts as said."""
        now = trio.current_time()
        self._said = {one: at for one, at in self._said.items() if now - at < SILENCE}
        if what in self._said or len(self._said) >= MOST:
            return False
        self._said[what] = now
        return True
