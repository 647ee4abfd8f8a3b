"""Logins of the settings file: who logs in to the target for each recorded principal.

    [login."User:alice"]
    mechanism = "SCRAM-SHA-512"         # PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER
    username = "alice-of-staging"       # unset: the principal's own name
    password_file = "alice.password"    # or password = "..."; OAUTHBEARER: token_file or token

    [login."*"]                         # everybody else, connections without a principal, the replay's own
    ...

A principal may be written with or without `User:`. Paths count from the settings file's folder. Secrets' files are read
anew for each login, so that a token that another program renews there is used. No error, repr or report has a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proxy.limited_files import UnusableFile, content_of
from proxy.schema.errors import BadSetting
from proxy.terminal import printable
from recorder.replay.login.sasl import MECHANISMS, OAUTHBEARER, Credentials

EVERYBODY = "*"
TYPE = "User:"
SECRETS = ("password", "token")
KEYS = ("mechanism", "username", "password", "password_file", "token", "token_file")
# bytes of a secret's file: a large token has some kilobytes
MOST_BYTES = 1 << 20
EXAMPLE = 'right would be [login."User:alice"] with mechanism, username and password_file'


@dataclass(frozen=True, slots=True)
class Entry:
    """A login of the file. `secret`: the secret itself, or the path of the file with it."""

    name: str
    mechanism: str
    username: str
    secret: str | Path = field(repr=False)

    def credentials(self) -> Credentials:
        """Reads the secret's file. Blocks. Errors: BadSetting."""
        secret = self.secret if isinstance(self.secret, str) else _read(self.name, self.secret)
        try:
            if self.mechanism == OAUTHBEARER:
                return Credentials(self.mechanism, token=secret)
            return Credentials(self.mechanism, self.username, secret)
        except ValueError as error:
            raise _bad(self.name, str(error)) from None


@dataclass(frozen=True, slots=True)
class Logins:
    """All logins of the file. `entries`: by principal, without its type."""

    entries: Mapping[str, Entry]

    def of(self, principal: str | None) -> Entry | None:
        """The login for a recorded principal; None: nobody logs in, and its requests are withheld."""
        return self.entries.get(_bare(principal or EVERYBODY)) or self.entries.get(EVERYBODY)


def logins(tables: Mapping[str, Any], folder: Path) -> Logins:
    """The logins of a settings file's tables. Each secret is read once, so that a wrong file is found at the start.

    Args:
        folder: of the settings file.

    Blocks. Errors: BadSetting, with a sentence for each wrong login.
    """
    found = tables.get("login", {})
    if not isinstance(found, Mapping):
        raise BadSetting(f"login is no table; {EXAMPLE}")
    entries: dict[str, Entry] = {}
    faults: list[str] = []
    for name, table in found.items():
        try:
            entry = _entry(name, table, folder)
            entry.credentials()
            if _bare(name) in entries:
                raise _bad(name, "stands twice")
            entries[_bare(name)] = entry
        except BadSetting as error:
            faults += error.lines
    if faults:
        raise BadSetting(*faults)
    return Logins(entries)


def has_login(tables: Mapping[str, Any]) -> Callable[[str | None], bool]:
    """A function that tells for which principals a settings file's tables have a login.

    Without any table nobody logs in, and requests of all principals are played.
    """
    names = {_bare(name) for name in tables}
    return lambda principal: not names or EVERYBODY in names or _bare(principal or EVERYBODY) in names


def _bare(principal: str) -> str:
    return principal.removeprefix(TYPE)


def _entry(name: str, table: Any, folder: Path) -> Entry:
    if not isinstance(table, Mapping):
        raise _bad(name, "is no table")
    for key, value in table.items():
        if key not in KEYS or not isinstance(value, str):
            raise _bad(name, f"{printable(key)} is no text" if key in KEYS else f"has no key {printable(key)}")
    mechanism = table.get("mechanism", "")
    if mechanism not in MECHANISMS:
        raise _bad(name, f"mechanism is none of {', '.join(MECHANISMS)}")
    return Entry(name, mechanism, table.get("username", _own_name(name)), _secret(name, mechanism, table, folder))


def _own_name(name: str) -> str:
    return "" if name == EVERYBODY else _bare(name)


def _secret(name: str, mechanism: str, table: Mapping[str, str], folder: Path) -> str | Path:
    wanted, other = SECRETS if mechanism != OAUTHBEARER else SECRETS[::-1]
    given = {key for key in table if key.startswith(SECRETS)}
    if given not in ({wanted}, {f"{wanted}_file"}) or other in given:
        raise _bad(name, f"{mechanism} takes one of {wanted} and {wanted}_file")
    return table[wanted] if wanted in table else folder / table[f"{wanted}_file"]


def _read(name: str, path: Path) -> str:
    """The contents of a secret's file, without the line feed at the end."""
    try:
        # no pipes: they can't be read a second time
        content = content_of(path, MOST_BYTES, refusal="is no regular file")
    except UnusableFile as error:
        raise _bad(name, f"{printable(path)} {error}") from None
    except ValueError:
        raise _bad(name, f"{printable(path)} can't be read (it is no path)") from None
    try:
        return re.sub(r"\r?\n\Z", "", content.decode())
    except UnicodeDecodeError:
        raise _bad(name, f"{printable(path)} is no text") from None


def _bad(name: str, fault: str) -> BadSetting:
    return BadSetting(f'login."{printable(name)}": {fault}; {EXAMPLE}')
