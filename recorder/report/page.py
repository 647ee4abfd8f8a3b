"""A template and its values -> one HTML page. All text is foreign: what is no markup of ours is escaped, in two ways.

What HTML would take for markup becomes an entity; what a browser would draw as nothing, or in another order, is shown
as `proxy.terminal` shows it.
"""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from proxy.terminal import printable


def page(template: str, **values: Any) -> str:
    """The page that a template of `templates/` makes of these values; `Markup` among them stands as it is."""
    return _environment().get_template(template).render(**values)


def script(name: str) -> Markup:
    """A script of `templates/`, as it stands there: a page's policy names its hash."""
    loader = _environment().loader
    assert loader is not None
    return Markup(loader.get_source(_environment(), name)[0])


def hashed(script: str) -> str:
    """A script's hash, as a page's policy names it."""
    return f"sha256-{b64encode(sha256(script.encode()).digest()).decode()}"


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("recorder.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _shown(value: object) -> object:
    return value if isinstance(value, Markup) else printable(value)
