"""A specification -> an SVG for a page, reduced to a fifth of its bytes.

A heat map has thousands of cells in six colours. Neighbours in the markup that differ only in their position become one
path. Coordinates are cut to thousandths of a pixel (with tenths, there are gaps between neighbours). Vega's texts of
single marks for screen readers are removed, because the drawing as a whole has a summary.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

import vl_convert
from markupsafe import Markup, escape

from proxy.terminal import printable
from recorder.report.plots.style import Spec

_SIZE = re.compile(r' (?:width|height)="[\d.]+"')
_TAG = re.compile(r"<[a-z]+ [^<>]*>")
_NEEDLESS = re.compile(r' (?:aria-[a-z]+|role|class|pointer-events|display)="[^"]*"')
_FRACTION = re.compile(r"(\.\d{3})\d+")
_INVISIBLE = re.compile(r'<path d="(?:M0,0h0v0h0Z)?"/>')
# a mark's path, without a transformation of its own
_PATH = re.compile(r'<path d="([^"]*)"((?: [\w-]+="[^"]*")*)/>')
_RUN = re.compile(r'(?:<path d="[^"]*"(?: [\w-]+="[^"]*")*/>){2,}')


def svg(spec: Spec, summary: str) -> Markup:
    """The drawing, which shrinks with its page. `summary`: its content in words, for screen readers."""
    drawn: str = vl_convert.vegalite_to_svg(vl_spec=spec)
    head, rest = drawn[drawn.index("<svg") :].split(">", 1)
    # only a separate file needs the name space; in a page the view box gives the size
    own = _SIZE.sub("", re.sub(r' (?:xmlns(?::\w+)?|version|class)="[^"]*"', "", head))
    size = re.search(r'width="([\d.]+)"', head)
    style = f' style="max-width:{size[1]}px"' if size else ""
    return Markup(f'{own} role="img" aria-label="{escape(printable(summary))}"{style}>{smaller(rest)}')


def smaller(markup: str) -> str:
    """The markup of a drawing without its invisible parts."""
    tags = _TAG.sub(lambda tag: _FRACTION.sub(r"\1", _NEEDLESS.sub("", tag[0])), markup)
    return _RUN.sub(lambda run: "".join(_joined(run[0])), _INVISIBLE.sub("", tags))


def _joined(run: str) -> Iterator[str]:
    for attributes, paths in groupby(_PATH.finditer(run), key=lambda path: path[2]):
        yield f'<path d="{"".join(path[1] for path in paths)}"{attributes}/>'
