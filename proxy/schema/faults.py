"""What is wrong with settings, as values: the keys that a sentence speaks of stand apart from its words.

    Fault((Setting("listen", address), " listens on every interface"), ("adding ", Setting("advertise", "a.example")))

Constructors and sockets know no file. Whoever shows a fault knows where the settings were given, and `line_of` names
the keys as they are named there:

    --listen 0.0.0.0:9092 listens on every interface; right would be adding --advertise a.example
    clusters.main.listen = "0.0.0.0:9092" listens on every interface; right would be adding advertise = "a.example"
"""

from __future__ import annotations

from dataclasses import dataclass

from proxy.schema.flags import CLUSTERS, MAIN, as_flag, flag_at
from proxy.schema.toml import dotted, toml

# a key's place: ("clusters", "main", "limits", "hold")
KeyPath = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """A key, as a sentence names it.

    Args:
        key: below its cluster, or from the top: "listen", "nodes.3".
        value: what it is set to; None: the key alone is meant.
        of_cluster: True for a cluster's key.
        is_short: True if the text leaves the cluster out; None: only in an example.
    """

    key: str
    value: object = None
    of_cluster: bool = True
    is_short: bool | None = None

    def __str__(self) -> str:
        return self.text(None, in_file=False, is_short=True)

    def place(self, cluster: str) -> KeyPath:
        """The key's path, if it is of this cluster."""
        below = tuple(self.key.split("."))
        return (CLUSTERS, cluster, *below) if self.of_cluster else below

    def text(self, cluster: str | None, *, in_file: bool, is_short: bool) -> str:
        """The key and its value, as a flag where there is one and nobody has written a file."""
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
    """One fault of the settings. `wrong`: the fault and its reason. `right`: an example without it, if there is one."""

    wrong: Sentence
    right: Sentence = ()

    def __str__(self) -> str:
        return line_of(self, None)

    def speaks_of(self, place: KeyPath, cluster: str) -> bool:
        """True if the fault names this key, of this cluster."""
        named = (part for half in (self.wrong, self.right) for part in _parts(half))
        return any(isinstance(part, Setting) and part.place(cluster) == place for part in named)


def line_of(fault: Fault | str, cluster: str | None, *, in_file: bool = False) -> str:
    """The line that a user reads.

    Args:
        fault: a text is such a line already.
        cluster: whose settings are meant; None: not known yet.
        in_file: whether the user has written a file, or flags.
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
