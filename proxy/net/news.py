"""What is worth a line in the log that people read: a flood of clients that are turned away is said once a minute."""

from __future__ import annotations

from logging import DEBUG, WARNING

import trio

# seconds in which the same is not said again
SILENCE = 60.0
# different things said in that time; clients have a say in what they are
MOST = 20


class News:
    """Remembers what has been said lately."""

    def __init__(self) -> None:
        self._said: dict[str, float] = {}

    def level(self, what: str) -> int:
        """Of the log: WARNING where it is news, else DEBUG."""
        return WARNING if self.is_news(what) else DEBUG

    def is_news(self, what: str) -> bool:
        """Whether it is to be said aloud; then it counts as said."""
        now = trio.current_time()
        self._said = {one: at for one, at in self._said.items() if now - at < SILENCE}
        if what in self._said or len(self._said) >= MOST:
            return False
        self._said[what] = now
        return True
