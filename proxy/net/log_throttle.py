"""The level at which an event is logged: a flood of clients that are refused is one warning a minute."""

from __future__ import annotations

from logging import DEBUG, WARNING

import trio

# seconds in which the same event is not a warning again
SILENCE = 60.0
# different events that are warnings in that time; clients may make up any number of different ones
MAX_EVENTS = 20


class LogThrottle:
    """Remembers which events were lately logged as warnings."""

    def __init__(self) -> None:
        self._logged_at: dict[str, float] = {}

    def level(self, event: str) -> int:
        """The level to log an event at: WARNING if it is let through, else DEBUG."""
        return WARNING if self.lets_through(event) else DEBUG

    def lets_through(self, event: str) -> bool:
        """True if an event is to be logged as a warning; it then counts as logged."""
        now = trio.current_time()
        self._logged_at = {one: at for one, at in self._logged_at.items() if now - at < SILENCE}
        if event in self._logged_at or len(self._logged_at) >= MAX_EVENTS:
            return False
        self._logged_at[event] = now
        return True
