"""The errors of settings: of a single value while it is read, and of settings as a whole."""

from __future__ import annotations

from proxy.schema.faults import Fault, line_of
from proxy.schema.flags import MAIN


class InvalidValue(ValueError):
    """A value that is not of its kind. The message continues a sentence that begins with the value: "is no size"."""


class BadSetting(ValueError):
    """Settings that are wrong.

    Args:
        faults: the faults; a text is a line that the user reads as it is.
        cluster: the name of the cluster to which the settings belong; None: not known.

    `lines`: a line for each fault, with keys named as flags if there are such flags.
    """

    def __init__(self, *faults: Fault | str, cluster: str | None = None) -> None:
        self.faults = faults
        self.cluster = cluster
        self.lines = tuple(line_of(fault, cluster or MAIN) for fault in faults)
        super().__init__("\n".join(self.lines))
