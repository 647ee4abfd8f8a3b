"""Tests of help, of the version, and of the commands' names."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from proxy import cli


def test_help_lists_all_commands_without_the_recorder():
    result = CliRunner().invoke(cli.main, ["--help"])
    assert result.exit_code == 0
    for name in ("proxy", *cli.LAZY_COMMANDS):
        assert f"  {name} " in result.output


def test_the_commands_that_are_imported_later_are_those_that_help_lists():
    from proxy import checking
    from proxy.settings import commands as settings
    from proxy.tools import commands as tools
    from recorder import commands as recorder

    found = {**recorder.COMMANDS, **checking.COMMANDS, **settings.COMMANDS, **tools.COMMANDS}
    assert set(found) == set(cli.LAZY_COMMANDS)
    context = cli.main.make_context("kafka-wiretap", ["--help"], resilient_parsing=True)
    for name in cli.LAZY_COMMANDS:
        assert cli.main.get_command(context, name) is found[name]
        assert name in cli.main.list_commands(context)


def test_an_unknown_command_is_not_found():
    result = CliRunner().invoke(cli.main, ["bogus"])
    assert result.exit_code == 2
    assert "No such command 'bogus'" in result.output


def test_a_misspelt_command_is_answered_with_the_one_that_is_meant():
    result = CliRunner().invoke(cli.main, ["analyse", "capture"])
    assert result.exit_code == 2
    assert result.output.endswith("Error: No such command 'analyse'. Did you mean 'analyze'?\n")


@pytest.mark.parametrize(
    ("option", "meant"),
    [("--warp", ""), ("--clients", " Did you mean '--client'?"), ("--apis", " Did you mean '--api'?")],
)
def test_an_unknown_option_is_answered_only_with_one_that_is_alike(option, meant):
    result = CliRunner().invoke(cli.main, ["inspect", "exchanges", "capture", option, "x"])
    assert result.exit_code == 2
    assert result.output.endswith(f"Error: No such option '{option}'.{meant}\n")


def test_help_of_the_proxy_names_every_flag():
    output = CliRunner().invoke(cli.main, ["proxy", "--help"]).output
    for param in cli.proxy.params:
        assert param.opts[0] in output


def test_the_version_is_the_distributions():
    result = CliRunner().invoke(cli.main, ["--version"])
    assert result.output.startswith("kafka-wiretap, version ")


def every_command(command: click.Command, names: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yields the words of each command, groups included."""
    yield names
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from every_command(below, (*names, name))


def test_help_has_nothing_but_lines_of_text() -> None:
    for names in every_command(cli.main):
        done = CliRunner().invoke(cli.main, [*names, "--help"])
        assert (done.exit_code, [one for one in done.output if not one.isprintable() and one != "\n"]) == (0, []), names


@pytest.mark.parametrize("names", [(), ("config",), ("wire",)], ids=["main", "config", "wire"])
def test_a_group_without_a_command_shows_its_help(names: tuple[str, ...]) -> None:
    done = CliRunner().invoke(cli.main, names)
    assert done.exit_code == 2
    assert done.output.splitlines() == CliRunner().invoke(cli.main, [*names, "--help"]).output.splitlines()
