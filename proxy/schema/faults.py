"""A fault of settings as a value: a sentence in which the keys stand apart from the words.

    Fault((Setting("listen", address), " listens on every interface"), ("adding ", Setting("advertise", "a.example")))

The code that finds a fault does not know whether the user wrote flags or a file. The code that shows it does: `line_of`
spells the keys as the user did.

    --listen 0.0.0.0:9092 listens on every interface; right would be adding --advertise a.example
    clusters.main.listen = "0.0.0.0:9092" listens on every interface; right would be adding advertise = "a.example"
"""

from __future__ import annotations

from dataclasses import dataclass

from proxy.schema.flags import CLUSTERS, MAIN, as_flag, flag_at
from proxy.schema.toml import dotted, toml

# the tables and the name of a key: ("clusters", "main", "limits", "hold"). Variables are called `place`
KeyPath = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """A key in a sentence, perhaps with its value.

    Args:
        key: its name below its cluster ("listen", "nodes.3"), or from the top.
        value: its value; None: the sentence names the key alone.
        of_cluster: True for a key of a cluster.
        is_short: True if the text leaves out the cluster; None: only in an example.
    """

    key: str
    value: object = None
    of_cluster: bool = True
    is_short: bool | None = None

    def __str__(self) -> str:
        return self.text(None, in_file=False, is_short=True)

    def place(self, cluster: str) -> KeyPath:
        """The key's path. `cluster`: the cluster that a cluster's key belongs to."""
        below = tuple(self.key.split("."))
        return (CLUSTERS, cluster, *below) if self.of_cluster else below

    def text(self, cluster: str | None, *, in_file: bool, is_short: bool) -> str:
        """The key and its value; as a flag, if there is one, it has a value, and not `in_file`."""
        place = self.place(cluster or MAIN)
        flag = flag_at(place)
        if flag is not None and self.value is not None and not in_file:
            return as_flag(flag, place[-1], self.value)
        is_short = (is_short if self.is_short is None else self.is_short) or cluster is None
        key = self.key if is_short else dotted(place)
        return key if self.value is None else f"{key} = {toml(self.value)}"


Sentence = str | Setting | tuple[str | Setting, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of settings. `wrong`: a sentence that says what is wrong; `right`: an example of how to mend it."""

    wrong: Sentence
    right: Sentence = ()

    def __str__(self) -> str:
        return line_of(self, None)

    def mentions(self, place: KeyPath, cluster: str) -> bool:
        """True if the fault's sentences name this key. `cluster`: the cluster of the settings at fault."""
        named = (part for half in (self.wrong, self.right) for part in _parts(half))
        return any(isinstance(part, Setting) and part.place(cluster) == place for part in named)


def line_of(fault: Fault | str, cluster: str | None, *, in_file: bool = False) -> str:
    """The line that a user reads.

    Args:
        fault: a text is returned as it is.
        cluster: the cluster of the settings at fault; None: not known yet.
        in_file: True if the user has written a file, False for flags.
    """
    if isinstance(fault, str):
        return fault
    wrong, right = (
        "".join(
            part if isinstance(part, str) else part.text(cluster, in_file=in_file, is_short=is_example)
            for part in _parts(half)
        )
        for half, is_example in ((fault.wrong, False), (fault.right, True))
    )
    return f"{wrong}; right would be {right}" if right else wrong


def _parts(sentence: Sentence) -> tuple[str | Setting, ...]:
    return sentence if isinstance(sentence, tuple) else (sentence,)
