"""Changes that record whether they were applied or undone."""

from __future__ import annotations

from functools import partial

from proxy.net.change import Change


class Noted:
    """A change that notes whether it was applied or undone."""

    def __init__(self, fault: str = "") -> None:
        self.said: list[str] = []
        self._fault = fault

    def change(self, name: str = "") -> Change:
        return Change(*(partial(self._note, what, name) for what in ("make", "undo", "drop")))

    def _note(self, what: str, name: str) -> None:
        self.said.append(f"{what} {name}".strip())
        if what == self._fault.partition(" ")[0] and name == self._fault.partition(" ")[2]:
            raise ZeroDivisionError
