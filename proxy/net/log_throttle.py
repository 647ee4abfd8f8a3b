"""The level at which an event is logged: one warning a minute, and DEBUG for its repetitions."""

from __future__ import annotations

from logging import DEBUG, WARNING

import trio

# seconds after a warning in which its repetitions are no warnings
SILENCE = 60.0
# different events that may be warnings in that time: clients can make up any number of them
MAX_EVENTS = 20


class LogThrottle:
    """Remembers which events were lately warnings. An event is any text that tells it apart: a host, a reason."""

    def __init__(self) -> None:
        self._logged_at: dict[str, float] = {}

    def level(self, event: str) -> int:
        """WARNING for an event that was no warning lately, which is then remembered; else DEBUG."""
        now = trio.current_time()
        self._logged_at = {logged: at for logged, at in self._logged_at.items() if now - at < SILENCE}
        if event in self._logged_at or len(self._logged_at) >= MAX_EVENTS:
            return DEBUG
        self._logged_at[event] = now
        return WARNING
