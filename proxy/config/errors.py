"""What is wrong with settings: the one error that all of them have."""

from __future__ import annotations


class BadSetting(ValueError):
    """Settings that can't be: each argument is a line that the user reads. `cluster`: whose settings they are."""

    def __init__(self, *lines: str, cluster: str | None = None) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines
        self.cluster = cluster
