"""What MkDocs does not do by itself for the site of docs/ (`mkdocs.yml`).

docs/ is written for code hosts first. So the site takes in what the pages link to outside docs/: README.md is its first
page, other Markdown files are pages, and any other file is a page that shows its text. Lists and nested blocks are
indented as Python-Markdown wants them, which reads lists otherwise than code hosts do. Pages of commands are made from
the commands themselves.
"""

from __future__ import annotations

import inspect
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import mdformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from proxy.cli import main

ROOT = Path(__file__).parents[1]
# files of the repository that are pages of their own, in the top folder of the site
TOP = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
PROGRAM = "kafka-wiretap"
LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?(?=\))")
LANGUAGES = {".toml": "toml", ".yml": "yaml", ".yaml": "yaml", ".json": "json", ".py": "python", ".service": "ini"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the commands' page, the files in TOP, and each file that a page links to."""
    pages = [_repository_path(file.src_uri) for file in files.documentation_pages()]
    wanted = [*TOP, *(target for path in pages for target in _targets(path))]
    added = set[str]()
    while wanted:
        path = wanted.pop()
        if path not in added and not path.startswith("docs/") and (ROOT / path).exists():
            added.add(path)
            files.append(File.generated(config, _site_path(path), content=_shown(path)))
            wanted += _targets(path)
    for name, text in _commands():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Makes links lead to pages of the site, and lists ones of Python-Markdown."""
    source = _repository_path(page.file.src_uri)
    here = posixpath.dirname(page.file.src_uri)

    def as_page(link: re.Match[str]) -> str:
        target = _site_path(_joined(source, link[1]))
        return posixpath.relpath(target, here) + (link[2] or "")

    formatted = mdformat.text(LINK.sub(as_page, markdown), extensions={"mkdocs", "gfm"})
    # mdformat's way to write these is none of Python-Markdown's
    return formatted.replace("\\<", "&lt;").replace("\\>", "&gt;")


def _commands() -> Iterator[tuple[str, str]]:
    """The pages of the commands, each with its name: the program's own, and one a command."""
    with click.Context(main, info_name=PROGRAM) as context:
        yield "commands/index.md", "\n".join(["# Commands", *_command(main, context)])
        for name in main.list_commands(context):
            command = main.get_command(context, name)
            assert command
            yield f"commands/{name}.md", "\n".join(_section(command, context, name, "#"))


def _section(command: click.Command, parent: click.Context, name: str, level: str) -> Iterator[str]:
    """A command and its own commands, under headings."""
    with click.Context(command, info_name=name, parent=parent) as context:
        yield f"{level} {context.command_path}"
        yield from _command(command, context)
        if isinstance(command, click.Group):
            for inner in command.list_commands(context):
                found = command.get_command(context, inner)
                assert found
                yield from _section(found, context, inner, level + "#")


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    """What `--help` says, its examples as code and its options as a table."""
    yield f"```\n{command.get_usage(context)}\n```\n"
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        first, _, rest = paragraph.partition("\n")
        yield f"```\n{rest}\n```\n" if first.strip() == "\b" else f"{paragraph}\n"
    yield "| option | what it does |\n|---|---|"
    for record in filter(None, (option.get_help_record(context) for option in command.get_params(context))):
        names, text = (part.replace("|", "\\|").replace("<", "&lt;") for part in record)
        if text:
            yield f"| `{names}` | {text} |"
    yield ""


def _shown(path: str) -> str:
    """A Markdown file as it is; another file's text, or the names in a folder, as a page."""
    if (ROOT / path).is_dir():
        names = sorted(each.name for each in (ROOT / path).iterdir() if not each.name.startswith(("__", ".")))
        return f"# {path}\n\n" + "".join(f"- `{name}`\n" for name in names)
    text = (ROOT / path).read_text()
    if path.endswith(".md"):
        return text
    return f"# {path}\n\n```{LANGUAGES.get(Path(path).suffix, 'text')}\n{text.rstrip()}\n```\n"


def _targets(path: str) -> list[str]:
    """The files that a page of the repository links to."""
    text = (ROOT / path).read_text() if path.endswith(".md") else ""
    return [_joined(path, link[1]) for link in LINK.finditer(text)]


def _joined(path: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), link))


def _site_path(path: str) -> str:
    """Where a file of the repository stands in the site's sources."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path in TOP:
        return TOP[path]
    return f"source/{path}" if path.endswith(".md") else f"source/{path}.md"


def _repository_path(source: str) -> str:
    """The file of the repository that a file of the site's sources comes from."""
    if source.startswith("source/"):
        return source.removeprefix("source/")
    of_top = {page: path for path, page in TOP.items()}
    return of_top.get(source, f"docs/{source}")
