"""The plot of docs/performance.md on the site: its table of ratios to Kroxylicious, drawn.

The table has the figures; this has none. Colours are the page's own, in light and dark.
"""

from __future__ import annotations

import re
from statistics import median
from typing import Any

import altair
import vl_convert
from mkdocs.structure.pages import Page

PAGE, HEADING = "performance.md", "### Why a lone exchange"
# a row that must reach a ratio to Kroxylicious, with what runs reached, and the range of their rounds
ROW = re.compile(
    r"^\|(?P<work>[^|]+)\|[^|]+\| *(?P<must>[\d.]+) x Kroxylicious *\|[^|]*\| *"
    r"(?P<medians>[\d.]+(?:, [\d.]+)*) \((?P<low>[\d.]+) to (?P<high>[\d.]+)\)",
    re.MULTILINE,
)
# pixels: browsers' letters may be wider than those that the plot was laid out by
PADDING = {"left": 60, "right": 20, "top": 5, "bottom": 5}
# stands for the page's colour of text until the drawing is done
INK = "#010203"


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Puts the plot behind the table."""
    if page.file.src_uri != PAGE:
        return markdown
    before, heading, rest = markdown.partition(HEADING)
    assert heading, f"{PAGE} has no heading {HEADING!r} any more"
    return f"{before}{_figure(before)}\n\n{heading}{rest}"


def _figure(text: str) -> str:
    rows = [
        {"work": row["work"].strip(), "median": median(map(float, row["medians"].split(", ")))}
        | {name: float(row[name]) for name in ("must", "low", "high")}
        for row in ROW.finditer(text)
    ]
    assert rows, f"{PAGE} has no ratios to Kroxylicious any more"
    return f'<figure class="plot">{_drawn(rows)}<figcaption>{_caption(len(rows))}</figcaption></figure>'


def _caption(number: int) -> str:
    return f"The {number} rows with a ratio to Kroxylicious, medians and ranges; a short line is what must be reached."


def _drawn(rows: list[dict[str, Any]]) -> str:
    """The plot as SVG."""
    base = altair.Chart(altair.Data(values=rows)).encode(y=altair.Y("work:N", sort=None, title=None))
    ratio = altair.X("low:Q", title="throughput, as a ratio to Kroxylicious")
    one = altair.Chart(altair.Data(values=[{"x": 1}])).mark_rule(color=INK, strokeDash=[3, 3]).encode(x="x:Q")
    chart = (
        one
        + base.mark_rule(color="#5c6bc0", strokeWidth=3).encode(x=ratio, x2="high:Q")
        + base.mark_point(color="#5c6bc0", filled=True, size=90, opacity=1).encode(x="median:Q")
        + base.mark_tick(color=INK, thickness=2, size=14).encode(x="must:Q")
    )
    styled = chart.properties(width=420, background="transparent", padding=PADDING).configure(font="sans-serif")
    plain = styled.configure_view(stroke=None).configure_axis(
        labelColor=INK, titleColor=INK, tickColor=INK, domainColor=INK, grid=False, labelLimit=260, labelFontSize=12
    )
    return str(vl_convert.vegalite_to_svg(plain.to_json())).replace(INK, "currentColor")
