"""The token that whoever looks at the traffic must show: made, read from its file, and compared."""

from __future__ import annotations

import secrets
from hmac import compare_digest
from pathlib import Path

from proxy.limited_files import UnusableFile, content_of

# bytes of a token: shorter ones could be guessed, longer ones are none
SHORTEST_TOKEN, LONGEST_TOKEN = 16, 4096
RIGHT_TOKEN = f"one line of {SHORTEST_TOKEN} letters and digits or more, such as of openssl rand -hex 32"


def new_token() -> str:
    """A token that nobody can guess."""
    return secrets.token_urlsafe(32)


def token_of(file: Path) -> str:
    """The token in a file, without blanks at its ends. Errors: UnusableFile, with a sentence without the token."""
    try:
        found = content_of(file, 1 << 20).decode("ascii").strip()
    except UnicodeDecodeError:
        found = ""
    if not SHORTEST_TOKEN <= len(found) <= LONGEST_TOKEN or not found.isprintable():
        raise UnusableFile(f"holds no token: right would be {RIGHT_TOKEN}")
    return found


def is_equal(shown: str, token: str) -> bool:
    """True for the token, perhaps between blanks. Takes the same time for all texts of one length."""
    return compare_digest(shown.strip().encode(), token.encode())


def bearer_of(authorization: str) -> str | None:
    """The token in a request's header Authorization (RFC 6750); None: it has none."""
    scheme, _, shown = authorization.partition(" ")
    return shown if scheme.lower() == "bearer" else None
