"""A template and its values -> one HTML page. All text counts as foreign: everything but our own markup is escaped.

Characters that are markup in HTML become entities. Characters that a browser would not draw, or would draw in another
order, are escaped as in `proxy.terminal`.
"""

from __future__ import annotations

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from proxy.terminal import printable

# Where a part of a name begins: behind a small letter or digit a capital one, or any letter behind "_" or ".".
_BREAK = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[_.])(?=[A-Za-z])")


def page(template: str, **values: Any) -> str:
    """The page from a template of `templates/` and these values. Values that are `Markup` are not escaped."""
    return _environment().get_template(template).render(**values)


def script(name: str) -> Markup:
    """A script of `templates/`, unchanged, because the page's content security policy has its hash."""
    loader = _environment().loader
    assert loader is not None
    return Markup(loader.get_source(_environment(), name)[0])


def hashed(script: str) -> str:
    """A script's hash for the page's content security policy."""
    return f"sha256-{b64encode(sha256(script.encode()).digest()).decode()}"


def breakable(name: str) -> Markup:
    """The name as text that a narrow column breaks between its parts: `FindCoordinator`, `hot_partition`."""
    return Markup("<wbr>").join(_BREAK.split(printable(name)))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("recorder.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = breakable
    return environment


def _shown(value: object) -> object:
    return value if isinstance(value, Markup) else printable(value)
