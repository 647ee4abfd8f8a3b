"""Reads a page as a browser's parser does: elements and attributes, text, and the resources that it would fetch."""

from __future__ import annotations

import re
from html.parser import HTMLParser

# elements without an end tag
_VOID = {"meta", "link", "img", "br", "hr", "input", "wbr"}
# attributes whose value a browser fetches or follows
_ADDRESSES = {"src", "href", "xlink:href", "action", "data", "srcset", "poster", "background", "formaction", "ping"}


class Page(HTMLParser):
    """`elements` with their attributes in order; `text` outside of script and style; `unclosed` and `astray` tags."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.unclosed: list[str] = []
        self.astray: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.unclosed.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if self.unclosed and self.unclosed[-1] == tag:
            self.unclosed.pop()
        else:
            self.astray.append(tag)

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.unclosed):
            self.text += data

    @property
    def words(self) -> str:
        """The text with single blanks."""
        return " ".join(self.text.split())

    def named(self, *tags: str) -> list[dict[str, str | None]]:
        """The attributes of each element with this name."""
        return [attributes for tag, attributes in self.elements if tag in tags]


def fetched(html: str) -> list[str]:
    """Everything that a browser would fetch or follow for this page."""
    page = Page(html)
    linked = [
        f"{tag} {name}"
        for tag, attributes in page.elements
        for name, value in attributes.items()
        # a link within the page itself causes no request
        if name in _ADDRESSES and not (value or "").startswith("#")
    ]
    styles = "".join(re.findall(r"<style>(.*?)</style>", html, re.DOTALL))
    styles += "".join(
        value or "" for _, attributes in page.elements for name, value in attributes.items() if name == "style"
    )
    return linked + re.findall(r"@import|url\(|image-set\(|src\(", styles)


def obeyed(html: str) -> list[str]:
    """Elements and attributes that run something."""
    page = Page(html)
    scripts = [str(attributes) for attributes in page.named("script") if attributes.get("type") != "application/json"]
    frames = [tag for tag, _ in page.elements if tag in ("iframe", "object", "embed", "base", "form", "foreignobject")]
    handlers = [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    return scripts + frames + handlers
