"""What is wrong with settings: with a single value while it is read, and with the settings as a whole."""

from __future__ import annotations

from proxy.schema.faults import Fault, line_of
from proxy.schema.flags import MAIN


class Misread(ValueError):
    """The text is no such value. The message continues a sentence that begins with the value: "is no size"."""


class BadSetting(ValueError):
    """Settings that can't be.

    Args:
        faults: one for each thing that is wrong; a text is a line that the user reads as it is.
        cluster: the cluster that the settings belong to.

    `lines`: the faults in the words of flags.
    """

    def __init__(self, *faults: Fault | str, cluster: str | None = None) -> None:
        self.faults = faults
        self.cluster = cluster
        self.lines = tuple(line_of(fault, cluster or MAIN) for fault in faults)
        super().__init__("\n".join(self.lines))
