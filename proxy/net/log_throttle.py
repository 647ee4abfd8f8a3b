"""Throttles log events that peers can cause at will: an event is a WARNING (or INFO) once a minute, else DEBUG."""

from __future__ import annotations

from logging import DEBUG, WARNING

import trio

# seconds after a warning in which its repetitions are logged as DEBUG
SILENCE = 60.0
# how many different events may be warnings within SILENCE: clients can make up any number
MAX_EVENTS = 20


class LogThrottle:
    """Remembers which events were warnings within SILENCE. Any text identifies an event: a host, a reason."""

    def __init__(self) -> None:
        self._logged_at: dict[str, float] = {}

    def level(self, event: str, level: int = WARNING) -> int:
        """Returns the level at which to log this event now: `level` or DEBUG. Counts the former as logged."""
        now = trio.current_time()
        self._logged_at = {logged: at for logged, at in self._logged_at.items() if now - at < SILENCE}
        if event in self._logged_at or len(self._logged_at) >= MAX_EVENTS:
            return DEBUG
        self._logged_at[event] = now
        return level
