"""Text that others wrote, on its way to a terminal: peers' names, captures' columns, paths, errors that quote them.

A terminal obeys what it is sent: an escape sequence moves the cursor, renames the window or answers in the user's name,
and a direction mark shows a text in another order than it has. So whatever is foreign is shown as escapes where it is
more than visible letters:

    what                                                       how it is shown
    controls (C0, DEL, C1)                                     \\n \\r \\t \\u001b
    direction marks, zero width, fillers, variation selectors  \\u202e
    line and paragraph separators, blanks other than " "       \\u2028
    lone surrogates, private use, unassigned                   \\ud800 \\U0010ffff
    marks without a letter, or more than MAX_MARKS on one     \\u0301
    the backslash                                              \\\\

`printable` is for one foreign value that stands among words of our own; its backslashes are doubled, so that two texts
never look alike. `harmless` is for a whole line on its way out, and leaves backslashes alone: what was forgotten
inside can do nothing either. JSON has escapes of its own, which mean the same to whoever reads it: `harmless_json`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from unicodedata import category

# Letters and marks that are drawn as nothing, or change how wide the one before them is. Python calls them printable;
# Unicode's Default_Ignorable_Code_Point (DerivedCoreProperties.txt) has the other ones too. And a Braille blank.
_DRAWN_AS_NOTHING = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
# Hebrew stacks a dot, a vowel and an accent; what stacks more runs over the lines above and below.
MAX_MARKS = 3
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
Escape = Callable[[str], str]


def printable(text: object) -> str:
    """A foreign value's `str` as readable text: no two values are shown alike."""
    return _shown(str(text).replace("\\", "\\\\"), _escape)


def each_printable(texts: Sequence[str]) -> Sequence[str]:
    """`printable` of each text. Most lines have nothing to escape, so all texts are checked together first."""
    together = "".join(texts)
    if together.isascii() and together.isprintable() and "\\" not in together:
        return texts
    return [printable(text) for text in texts]


def quoted(text: str) -> str:
    """`printable` between quotes, for texts that are empty or have blanks at their ends."""
    return "'" + printable(text).replace("'", "\\'") + "'"


def is_visible(text: str, *, but: str = "") -> bool:
    """True if no character needs an escape, apart from backslashes and the characters `but`."""
    plain = text.translate(dict.fromkeys(map(ord, but)))
    return harmless(plain) == plain


def harmless(line: str) -> str:
    """A line of words and of values that were made printable, without what a terminal would obey."""
    return _shown(line, _escape)


def harmless_lines(text: str) -> str:
    """`harmless` of several lines: line feeds stay."""
    return "\n".join(map(harmless, text.split("\n")))


def harmless_json(text: str) -> str:
    """JSON, of which only strings can hold such characters: the same JSON with JSON's escapes in their place."""
    return "\n".join(_shown(line, _json_escape) for line in text.split("\n"))


def echo(line: str = "", *, err: bool = False) -> None:
    """A line of a command's, on standard output or error."""
    import click

    click.echo(harmless(line), err=err)


def _shown(text: str, escape: Escape) -> str:
    if text.isascii() and text.isprintable():
        return text
    pieces = []
    # a mark at the beginning would be drawn on a letter of somebody else's, one behind an escape on its last digit
    marks = MAX_MARKS
    for letter in text:
        kind = _kind(letter)
        marks = {"letter": 0, "mark": marks + 1, "hidden": MAX_MARKS}[kind]
        pieces.append(escape(letter) if kind == "hidden" or marks > MAX_MARKS else letter)
    return "".join(pieces)


# Peers choose the letters, so that not all that were seen are kept: these are more than most alphabets have.
@lru_cache(4096)
def _kind(letter: str) -> str:
    """ "hidden" for what is shown as an escape, "mark" for what is drawn upon the letter before it."""
    if not letter.isprintable() or _DRAWN_AS_NOTHING.match(letter):
        return "hidden"
    return "mark" if category(letter) in ("Mn", "Me") else "letter"


def _escape(letter: str) -> str:
    code = ord(letter)
    return _SHORT.get(letter) or (f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}")


def _json_escape(letter: str) -> str:
    """JSON writes a character beyond 16 bits as the two halves that UTF-16 has for it."""
    code = ord(letter)
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
