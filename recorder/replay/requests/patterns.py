"""Regular expressions under a prefix: one that meets prefix + name where the recorded one meets the name.

Kafka matches whole names (RE2/J since KIP-848; java.util.regex before). So `prefix(?:…)` does it, but for an anchor at
the beginning of an alternative, which would stand behind the prefix and never hold: it is taken out. An anchor at the
end stays true.
"""

from __future__ import annotations

import re

# One step through an expression: quoted text, an escaped sign, a class of signs, a group's beginning, any other sign.
# A class ends at the first bracket that is not escaped, not its first sign, and not of an inner [:class:].
_STEP = re.compile(
    r"\\Q.*?(?:\\E|\Z)|\\.|\[\^?\]?(?:\\.|\[:\^?\w*:\]|[^\]\\])*\]?|\((?:\?(?:P?<\w+>|[A-Za-z-]*[:)]))?|.", re.DOTALL
)
_BEGINNINGS = ("^", "\\A")


def prefixed(pattern: str, prefix: str) -> str:
    """The expression for names with the prefix; unchanged without one."""
    return f"{re.escape(prefix)}(?:{_without_anchors(pattern)})" if prefix else pattern


def _without_anchors(pattern: str) -> str:
    kept, at_beginning = [], True
    for step in _STEP.findall(pattern):
        if at_beginning and step in _BEGINNINGS:
            continue
        kept.append(step)
        opens = step.startswith("(") and not step.endswith(")")
        # flags alone, (?i), stand before an anchor as nothing does
        at_beginning = opens or step == "|" or (at_beginning and step.startswith("(?"))
    return "".join(kept)
