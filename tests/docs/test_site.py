"""Tests of the site that `make site` builds: it is whole, every page can be found, and nothing comes from elsewhere."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from proxy.cli import LAZY_COMMANDS
from tests.recorder.report.browser import Browser, Tab

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[2]
LEFT_OVER = re.compile(r"\]\(|\|---|```|\\[<>|]|^- |^\d\. ", re.MULTILINE)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with warnings as errors."""
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(build, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_and_command_is_found_by_the_search(site: Path) -> None:
    found = {each["location"] for each in json.loads((site / "search" / "search_index.json").read_text())["docs"]}
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    wanted = {path.as_posix().replace("README.html", "index.html") for path in pages}
    assert wanted | {f"commands/{name}.html" for name in LAZY_COMMANDS} | {"index.html"} <= found


def test_every_page_stands_in_the_navigation(site: Path) -> None:
    shown = set(re.findall(r'<a href="([^"#]+)" class="md-nav__link', (site / "index.html").read_text()))
    pages = {path.relative_to(site).as_posix() for path in site.rglob("*.html")} - {"404.html"}
    assert pages - shown == set()


def test_a_link_out_of_the_folder_of_pages_leads_to_the_files_text(site: Path) -> None:
    (link,) = re.findall(r'href="([^"]+)">an example<', (site / "proxy" / "nodes.html").read_text())
    assert "own_node" in (site / "proxy" / link).read_text()


def test_no_markdown_is_left_over_in_a_page(site: Path) -> None:
    """As it is where Python-Markdown takes a list or a table for a paragraph."""
    left = {page.name: found for page in site.rglob("*.html") if (found := LEFT_OVER.findall(text_of(page)))}
    assert left == {}


def text_of(page: Path) -> str:
    """What a page says, without its code."""
    said = re.sub(r"<(pre|code|svg|script)\b.*?</\1>", "", page.read_text(), flags=re.DOTALL)
    return html.unescape(re.sub("<[^>]+>", "\0", said))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_page_loads_nothing_from_elsewhere(site: Path, *, dark: bool) -> None:
    with Browser() as browser:
        for page in ("index.html", "commands/proxy.html", "source/dashboards/alerts.yml.html"):
            tab = Tab(browser, site / page, width=400, dark=dark)
            assert [url for url in tab.fetched if not url.startswith(("file:", "data:"))] == []
            assert tab.run("document.documentElement.scrollWidth") <= 400
            assert tab.run("document.body.dataset.mdColorScheme") == ("slate" if dark else "default")
