import click
from click.testing import CliRunner

from proxy import cli
from proxy.config import ClusterSettings, LiveSettings, LogSettings, ProxySettings
from proxy.schema.flags import FLAGS, flag_of
from proxy.schema.keys import keys_of
from proxy.settings.options import Flag
from recorder.capture.session import CaptureSettings


def test_every_flag_is_made_of_the_key_that_it_sets() -> None:
    assert [param.name for param in cli.proxy.params if isinstance(param, Flag)] == [*FLAGS]
    output = CliRunner().invoke(cli.main, ["proxy", "--help"]).output.replace("\n      ", " ")
    shown = {line.split()[0]: " ".join(line.split()) for line in output.splitlines() if line.startswith("  --")}
    sections = {"clusters": ClusterSettings, "log": LogSettings, "live": LiveSettings, "capture": CaptureSettings}
    for name, place in FLAGS.items():
        below = tuple(filter(None, place))
        is_in_section = below[0] in sections
        keys = keys_of(sections[below[0]] if is_in_section else ProxySettings)
        field = keys[below[1:] if is_in_section else below]
        assert field.key.text.split(".")[0].split("`")[0] in shown[flag_of(name)]
        has_default = not field.is_required and field.default not in (None, {})
        assert ("[default: " in shown[flag_of(name)]) == has_default


def test_a_path_and_a_choice_are_completed() -> None:
    params = {param.name: param for param in cli.proxy.params}
    context = click.Context(cli.proxy)
    offered = {name: params[name].shell_complete(context, "d") for name in ("state", "record", "record_when_full")}
    assert [item.type for item in offered["state"] + offered["record"]] == ["file", "dir"]
    assert [item.value for item in offered["record_when_full"]] == ["drop"]
