"""Foreign text on its way to a terminal: peers' names, captures' columns, paths, and errors that quote them.

A terminal obeys escape sequences: they move the cursor, rename the window or answer in the user's name. A direction
mark shows a text in another order than it has. So the characters of foreign text that are no visible letters are shown
as escapes:

    characters                                                 shown as
    controls (C0, DEL, C1)                                     \\n \\r \\t \\u001b
    direction marks, zero width, fillers, variation selectors  \\u202e
    line and paragraph separators, blanks other than " "       \\u2028
    lone surrogates, private use, unassigned                   \\ud800 \\U0010ffff
    marks without a letter, or more than MAX_MARKS on one     \\u0301
    the backslash                                              \\\\

`printable` is for one foreign value among words of our own; it doubles backslashes, so that two texts never look alike.
`harmless` is for a whole line on its way out, and leaves backslashes alone; it also catches a value that was not made
printable. `harmless_json` is for JSON: it uses JSON's own escapes, so that the values stay the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TextIO
from unicodedata import category

# Letters and marks that are drawn as nothing, or change the width of the letter before them, although Python calls them
# printable: those of Unicode's Default_Ignorable_Code_Point (DerivedCoreProperties.txt), and the Braille blank.
_DRAWN_AS_NOTHING = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
# Hebrew stacks a dot, a vowel and an accent; a higher stack covers the lines above and below.
MAX_MARKS = 3
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
Escape = Callable[[str], str]


def is_terminal(stream: TextIO | None) -> bool:
    """True if a standard stream is a terminal's. A process may be started without one; then it is None."""
    return stream is not None and stream.isatty()


def printable(text: object) -> str:
    """A foreign value's `str` as readable text; two different texts never look alike."""
    return _shown(str(text).replace("\\", "\\\\"), _escape)


def each_printable(texts: Sequence[str]) -> Sequence[str]:
    """`printable` of each text. Most lines have nothing to escape, so all texts are checked together first."""
    together = "".join(texts)
    if together.isascii() and together.isprintable() and "\\" not in together:
        return texts
    return [printable(text) for text in texts]


def quoted(text: str) -> str:
    """`printable` between quotes, for texts that are empty or begin or end with blanks."""
    return "'" + printable(text).replace("'", "\\'") + "'"


def is_visible(text: str, *, but: str = "") -> bool:
    """True if no character needs an escape, apart from backslashes and the characters `but`."""
    plain = text.translate(dict.fromkeys(map(ord, but)))
    return harmless(plain) == plain


def harmless(line: str) -> str:
    """A whole line, with escapes for all characters that a terminal would obey or hide."""
    return _shown(line, _escape)


def harmless_lines(text: str) -> str:
    """`harmless` of several lines; line feeds stay."""
    return "\n".join(map(harmless, text.split("\n")))


def harmless_json(text: str) -> str:
    """The same JSON, with JSON's escapes for characters that a terminal would obey; only strings can hold them."""
    return "\n".join(_shown(line, _json_escape) for line in text.split("\n"))


def echo(line: str = "", *, err: bool = False) -> None:
    """Prints a line of a command's output, made harmless, on standard output or standard error."""
    import click

    click.echo(harmless(line), err=err)


def _shown(text: str, escape: Escape) -> str:
    if text.isascii() and text.isprintable():
        return text
    pieces = []
    # A mark at the beginning would be drawn on a letter before the text, a mark behind an escape on its last digit.
    marks = MAX_MARKS
    for letter in text:
        kind = _kind(letter)
        marks = {"letter": 0, "mark": marks + 1, "hidden": MAX_MARKS}[kind]
        pieces.append(escape(letter) if kind == "hidden" or marks > MAX_MARKS else letter)
    return "".join(pieces)


# Peers choose the letters, so the cache has a bound; it is larger than most alphabets.
@lru_cache(4096)
def _kind(letter: str) -> str:
    """ "hidden" for a character that is shown as an escape, "mark" for one that is drawn on the letter before it."""
    if not letter.isprintable() or _DRAWN_AS_NOTHING.match(letter):
        return "hidden"
    return "mark" if category(letter) in ("Mn", "Me") else "letter"


def _escape(letter: str) -> str:
    code = ord(letter)
    return _SHORT.get(letter) or (f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}")


def _json_escape(letter: str) -> str:
    """JSON's escape; a character beyond 16 bits becomes its UTF-16 surrogate pair."""
    code = ord(letter)
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
