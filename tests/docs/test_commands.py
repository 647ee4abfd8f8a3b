"""Every command of the program that a page shows is one: its name, its subcommand, and its options exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click

from proxy.cli import main
from tests.docs.shown import PAGES, fences
from tests.tables import each_row

SHELL = {"", "bash", "sh"}
# what ends a command in a shell
ENDS = {"|", "||", "&", "&&", ";", ">", "2>", "<"}


def shown(text: str) -> Iterator[list[str]]:
    """The words behind the program's name, of each of its commands in the text's fences, and between its backquotes."""
    spans = re.findall(r"`(kafka-wiretap [^`]+)`", re.sub(r"^ *```.*?```$", "", text, flags=re.MULTILINE | re.DOTALL))
    for fence in (*fences(text, SHELL), *(" ".join(span.split()) for span in spans)):
        lines = iter(fence.replace("\\\n", " ").splitlines())
        for line in lines:
            if found := re.match(r" *(?:\S+=\S+ )*(?:\S*/)?kafka-wiretap (?P<words>.*)", line):
                yield list(until_the_end(words(found["words"], lines)))


def words(line: str, following: Iterator[str]) -> list[str]:
    """The line's words; a text in quotes may go on in the lines that follow."""
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return words(f"{line} {next(following)}", following)


def until_the_end(line: list[str]) -> Iterator[str]:
    for word in line:
        if word in ENDS:
            return
        yield word


def unknown(line: list[str]) -> list[str]:
    """What of a command's words the program does not know."""
    context = click.Context(main, info_name="kafka-wiretap")
    command: click.Command = main
    options = set[str]()
    for word in line:
        if isinstance(command, click.Group) and (found := command.get_command(context, word)):
            command = found
        options |= {name for option in command.get_params(context) for name in (*option.opts, *option.secondary_opts)}
    if command is main and not line[0].startswith("-"):
        return line[:1]
    if isinstance(command, click.Group):
        # it has a command that need not be named
        options |= {name for inner in command.commands.values() for option in inner.params for name in option.opts}
    return [word for word in line if word.startswith("--") and word.partition("=")[0] not in options]


@each_row("page", PAGES, ids=str)
def test_each_command_that_a_page_shows_is_one(page: Path) -> None:
    assert {" ".join(line): wrong for line in shown(page.read_text()) if (wrong := unknown(line))} == {}


def test_commands_are_found_in_all_their_spellings() -> None:
    text = """
```
kafka-wiretap wire show metadata 12     # a comment
A=1 .venv/bin/kafka-wiretap sql capture "select 1,
    2" --engine embedded | less
   kafka-wiretap inspect exchanges capture \\
     --errrors && echo
```
"""
    found = list(shown(text))
    assert found[0] == ["wire", "show", "metadata", "12"]
    assert found[1][-2:] == ["--engine", "embedded"]
    assert [unknown(line) for line in found] == [[], [], ["--errrors"]]
    assert unknown(["inspekt", "capture"]) == ["inspekt"]
