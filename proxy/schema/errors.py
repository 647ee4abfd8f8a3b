"""What is wrong with settings: with a single value while it is read, and with the settings as a whole."""

from __future__ import annotations


class Misread(ValueError):
    """What was written is no such value. The message goes on behind the value: "is no size"."""


class BadSetting(ValueError):
    """Settings that can't be: each argument is a line that the user reads. `cluster`: whose settings they are."""

    def __init__(self, *lines: str, cluster: str | None = None) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines
        self.cluster = cluster
