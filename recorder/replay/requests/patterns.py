"""Regular expressions under `--prefix`: `prefix(?:…)` matches the prefix with any name that the recorded one matches.

Kafka matches whole names (RE2/J since KIP-848; java.util.regex before). An anchor at the beginning of an alternative
would stand behind the prefix and never match, so it is removed. An anchor at the end stays true. Text that is quoted up
to the end of the expression (`\\Q` without `\\E`) gets an end.
"""

from __future__ import annotations

import re

from proxy.terminal import printable
from recorder.replay.names import BeyondPrefix

# One step through an expression: quoted text, an escaped character, a character class, the beginning of a group, or any
# other character. A class ends at the first bracket that is not escaped, not its first character, and not of an inner
# [:class:].
_STEP = re.compile(
    r"\\Q.*?(?:\\E|\Z)|\\.|\[\^?\]?(?:\\.|\[:\^?\w*:\]|[^\]\\])*\]?|\((?:\?(?:P?<\w+>|[A-Za-z-]*[:)]))?|.", re.DOTALL
)
_BEGINNINGS = ("^", "\\A")


def prefixed(pattern: str, prefix: str) -> str:
    """The expression for names with the prefix. Without a prefix, the recorded one.

    Errors:
        BeyondPrefix: a bracket too many would close the group behind the prefix, so that `a)|(b` matched `b` alone.
    """
    return f"{re.escape(prefix)}(?:{_without_anchors(pattern)})" if prefix else pattern


def _without_anchors(pattern: str) -> str:
    kept, at_beginning, depth = [], True, 0
    for step in _STEP.findall(pattern):
        if at_beginning and step in _BEGINNINGS:
            continue
        kept.append(step if not step.startswith("\\Q") or step.endswith("\\E") else f"{step}\\E")
        opens = step.startswith("(") and not step.endswith(")")
        depth += opens - (step == ")")
        if depth < 0:
            raise BeyondPrefix(f"the expression {printable(pattern)}")
        # flags alone, such as (?i), may stand before an anchor
        at_beginning = opens or step == "|" or (at_beginning and step.startswith("(?"))
    return "".join(kept)
