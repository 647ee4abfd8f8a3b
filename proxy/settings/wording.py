"""How a wrong setting is said: in the words of where it was given, with an example that can be copied there.

    --listen 127.0.0.1:x has no port ...; right would be --listen 127.0.0.1:19092
    clusters.main.listen = "127.0.0.1:x" has no port ...; right would be listen = "127.0.0.1:19092"
    KAFKA_WIRETAP_CLUSTERS__MAIN__LISTEN=127.0.0.1:x has no port ...; right would be KAFKA_WIRETAP_...

Constructors and sockets know no file: they speak of flags and their values ("--listen 0.0.0.0:9092 listens on every
interface"), and `retold` says that again in a file's words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from proxy.schema.keys import Key, Place
from proxy.schema.kinds import MOST_SHOWN, Toml, cut, shown
from proxy.settings.sources import CLUSTERS, FLAGS, From, Given, flag_of, variable_of
from proxy.terminal import harmless
from proxy.units import LARGEST_SIZE

# the key is the place below the cluster
_FLAG_OF_KEY = {place[-1]: flag_of(name) for name, place in FLAGS.items() if None in place} | {
    ".".join(str(part) for part in place): flag_of(name) for name, place in FLAGS.items() if None not in place
}
_KEY_OF_FLAG = {flag_of(name): place for name, place in FLAGS.items()}
_SAID = re.compile(r"(--[a-z-]+) (\S+?)(?=[;,:.]?(?:\s|$))")
# characters of a name that are shown of it
MOST_NAMED = 160
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml(value: object) -> str:
    """A right value as TOML has it; anything that can't be one as its text."""
    if isinstance(value, list):
        return "[" + ", ".join(toml(one) for one in value) + "]"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, int):
        return json.dumps(value)
    # JSON's strings are TOML's, but for what may not be seen
    return '"' + harmless(json.dumps(str(value), ensure_ascii=False)[1:-1]) + '"'


def as_written(raw: object) -> str:
    """What somebody has written, whatever it is, as TOML has it, and cut off where it is long."""
    if not isinstance(raw, list):
        return _item(raw)
    return cut("[" + ", ".join(map(_item, raw[:MOST_SHOWN])) + "]")


def _item(raw: object) -> str:
    is_plain = isinstance(raw, str | float) or (isinstance(raw, int) and abs(raw) <= LARGEST_SIZE)
    return cut(toml(raw)) if is_plain or not isinstance(raw, int | list | dict) else shown(raw)


def dotted(place: Place) -> str:
    """A key with its tables, as TOML has it."""
    return ".".join(part if _BARE.fullmatch(part) else toml(part) for part in place)


def named(place: Place) -> str:
    """A name that somebody has written, with its tables, cut off where it is long."""
    return cut(dotted(place), MOST_NAMED)


def plain(value: Toml) -> str:
    """A value as a flag or the environment has it."""
    return ",".join(value) if isinstance(value, list) else value if isinstance(value, str) else toml(value)


def wrong_value(place: Place, key: Key, given: Given, reason: str) -> str:
    """The line for a value that its kind does not read."""
    return f"{_as_given(place, key, given)} {reason}; right would be {_example(place, key, given.by, given.where)}"


def missing(place: Place, key: Key, *, in_file: bool) -> str:
    """The line for a key that must be there and isn't."""
    flag = _flag(place)
    if in_file or flag is None:
        return f"{named(place)} is missing; right would be {_example(place, key, From.FILE, '')}"
    return f"{flag} is missing; right would be {_example(place, key, From.FLAG, flag)}"


def unknown(place: Place, given: Given | None, nearest: Place, key: Key | None) -> str:
    """The line for a name that isn't one. `nearest`: the name that is most like it; `key`: None if it is a table."""
    if given is not None and given.by is From.ENVIRONMENT:
        right = variable_of(nearest) + (f"={plain(key.example)}" if key is not None else "__...")
        return f"{cut(given.where, MOST_NAMED)} is no setting; right would be {right}"
    right = f"{dotted(nearest)} = {toml(key.example)}" if key is not None else f"[{dotted(nearest)}]"
    return f"{named(place)} is no setting; right would be {right}"


def nothing_like(place: Place, given: Given | None, names: Sequence[str]) -> str:
    """The line for a name that isn't one, and not like one either."""
    by_environment = given is not None and given.by is From.ENVIRONMENT
    said = cut(given.where, MOST_NAMED) if given is not None and by_environment else named(place)
    return f"{said} is no setting; right would be one of {', '.join(names)}"


def retold(line: str, cluster: str, *, in_file: bool) -> str:
    """A line that speaks of flags, for somebody who has written a file."""
    if not in_file:
        return line
    head, semicolon, rest = line.partition("; right would be")
    return (
        _SAID.sub(lambda said: _as_key(said, cluster, True), head)
        + semicolon
        + _SAID.sub(lambda said: _as_key(said, cluster, False), rest)
    )


def _as_key(said: re.Match[str], cluster: str, whole: bool) -> str:
    flag, text = said[1], said[2]
    if flag not in _KEY_OF_FLAG:
        return said[0]
    place = tuple(part or cluster for part in _KEY_OF_FLAG[flag])
    if flag == "--node":
        number, _, text = text.partition("=")
        place = (*place, number)
    # in an example the table's name goes without saying
    place = place if whole or None not in _KEY_OF_FLAG[flag] else place[2:]
    return f"{dotted(place)} = {toml(_value(flag, text))}"


def _value(flag: str, text: str) -> Toml:
    if flag == "--upstream":
        return [part for part in text.strip("'").split(",") if part]
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else text


def _as_given(place: Place, key: Key, given: Given) -> str:
    raw = "(hidden)" if key.secret else given.raw
    if given.by is From.FLAG:
        return (
            f"{given.where} {cut(place[-1])}={cut(raw)}" if given.where == "--node" else f"{given.where} {shown(raw)}"
        )
    if given.by is From.ENVIRONMENT:
        return f"{given.where}={shown(raw)}"
    return f"{named(place)} = {as_written(raw)}"


def _example(place: Place, key: Key, by: From, where: str) -> str:
    if by is From.FLAG:
        node = f"{place[-1]}=" if where == "--node" else ""
        return f"{where} {node}{plain(key.example)}"
    if by is From.ENVIRONMENT:
        return f"{where}={plain(key.example)}"
    below = key.place if key.each is None else (*key.place, place[-1])
    return f"{named(below)} = {toml(key.example)}"


def speaks_of(line: str, place: Place) -> bool:
    """Whether a line that a constructor has said names this key: by its place, its flag, or its name and a value."""
    flag = _flag(place)
    own = dotted(place[2:] if place[0] == CLUSTERS else place)
    names = [re.escape(dotted(place)), rf"{re.escape(own)} =", *([flag] if flag is not None else [])]
    return re.search(rf"(?<![\w.-])(?:{'|'.join(names)})(?![\w-])", line) is not None


def _flag(place: Place) -> str | None:
    return _FLAG_OF_KEY.get(place[-1] if place[0] == CLUSTERS else ".".join(place))
