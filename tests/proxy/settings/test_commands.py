import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from proxy import cli
from proxy.settings.reference import reference

EXAMPLE = Path(__file__).parents[3] / "examples" / "wiretap.toml"


def config(*arguments: object, **environment: str) -> Result:
    return CliRunner(env=environment).invoke(cli.main, ["config", *map(str, arguments)], catch_exceptions=False)


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    path = tmp_path / "wrong.toml"
    path.write_text('lgo.level = "info"\n' + EXAMPLE.read_text().replace('drain = "10s"', 'drain = "soon"'))
    return path


def test_a_right_settings_file_is_reported_as_right():
    result = config("check", EXAMPLE, KRB5_CONFIG="/nowhere")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [f"{EXAMPLE} is right: orders, billing"]


def test_config_check_notes_the_keys_that_kerberos_needs():
    *notes, last = config("check", EXAMPLE, KRB5_CONFIG=str(EXAMPLE)).stdout.splitlines()
    assert last.endswith(" is right: orders, billing")
    assert [note.split(":")[:2] for note in notes] == [["note", " clusters.orders"], ["note", " clusters.billing"]]


def test_config_check_reports_all_errors_with_exit_code_2(wrong):
    result = config("check", wrong)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines() == [
        'drain = "soon" is no duration; right would be drain = "10s"',
        "lgo is no setting; right would be [log]",
    ]


def test_config_check_reports_all_kinds_of_errors_at_once(tmp_path):
    """The errors are an unknown key, a port of two clusters, and a missing file."""
    text = "".join(
        f'[clusters.{name}]\nupstream = "{name}:1"\nlisten = "127.0.0.1:1100"\n{more}\n'
        for name, more in (("east", f'tls.certificate = "{tmp_path}/east.pem"'), ("west", "node_prots = 2000"))
    )
    (tmp_path / "wrong.toml").write_text(text)
    assert [line.partition(";")[0] for line in config("check", tmp_path / "wrong.toml").stderr.splitlines()] == [
        "clusters.west.node_prots is no setting",
        "clusters.west and clusters.east both want port 1100 of 127.0.0.1",
        f'clusters.east.tls.certificate = "{tmp_path}/east.pem" can\'t be used (No such file or directory)',
    ]


def test_missing_tls_files_are_reported_for_every_cluster(tmp_path):
    secured = "".join(
        f'[clusters.{name}]\nupstream = "{name}:1"\nlisten = "127.0.0.1:{port}"\nnode_count = 9\n'
        f'[clusters.{name}.tls]\ncertificate = "{tmp_path}/{name}.pem"\n'
        for name, port in (("east", 1100), ("west", 1200))
    )
    (tmp_path / "secured.toml").write_text(secured)
    result = config("check", tmp_path / "secured.toml")
    assert (result.exit_code, result.stdout) == (2, "")
    assert [line.partition(" = ")[0] for line in result.stderr.splitlines()] == [
        "clusters.east.tls.certificate",
        "clusters.west.tls.certificate",
    ]


def test_clusters_that_would_share_one_tls_port_are_both_named(tmp_path):
    one_port = "".join(
        f'[clusters.{name}]\nupstream = "{name}:1"\nlisten = "127.0.0.1:9443"\nmapping = "sni"\n'
        f'advertise = "broker-{{node_id}}.{name}.test"\nbootstrap_name = "{name}.test"\n'
        f'tls.certificate = "proxy.pem"\nstate = "{name}.json"\n'
        for name in ("east", "west")
    )
    (tmp_path / "one-port.toml").write_text(one_port)
    result = config("check", tmp_path / "one-port.toml")
    assert (result.exit_code, result.stdout) == (2, "")
    port, *files = result.stderr.splitlines()
    assert port == (
        "clusters.west and clusters.east both want port 9443 of 127.0.0.1; one TLS port is one cluster's, and names "
        "don't tell two apart; right would be another port for each: "
        'clusters.west.listen = "127.0.0.1:9444"'
    )
    assert [line.split(" = ")[0] for line in files] == [f"clusters.{name}.tls.certificate" for name in ("east", "west")]


def test_config_check_warns_of_risky_settings(tmp_path):
    (tmp_path / "risky.toml").write_text("drain = 0\n" + EXAMPLE.read_text().replace("drain", "# drain"))
    result = config("check", tmp_path / "risky.toml")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == "warning: drain cuts exchanges in flight off at every stop"


def test_the_environment_may_name_the_file_and_is_checked_too():
    result = config("check", KAFKA_WIRETAP_CONFIG=str(EXAMPLE), KAFKA_WIRETAP_DRIAN="3")
    assert result.exit_code == 2
    assert result.stderr == "KAFKA_WIRETAP_DRIAN is no setting; right would be KAFKA_WIRETAP_DRAIN=10s\n"


def test_the_variable_of_another_command_is_no_wrong_setting():
    result = config("check", EXAMPLE, KRB5_CONFIG="/nowhere", KAFKA_WIRETAP_ENGINE="spark")
    assert (result.exit_code, result.stderr) == (0, "")


def test_without_a_file_the_environment_is_checked():
    environment = {"KAFKA_WIRETAP_CLUSTERS__A__UPSTREAM": "a:1", "KAFKA_WIRETAP_CLUSTERS__A__LISTEN": "127.0.0.1:1"}
    assert config("check", KRB5_CONFIG="/nowhere", **environment).stdout == "the environment is right: a\n"


@pytest.mark.parametrize("command", ["check", "show"])
def test_without_a_file_a_line_says_that_only_the_environment_was_read(command: str):
    result = config(command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines() == [
        f"only the environment was read; for a file: kafka-wiretap config {command} wiretap.toml",
        "clusters names no cluster; right would be [clusters.main] with upstream and listen",
    ]


def test_config_show_lists_each_setting_with_its_source():
    lines = config("show", EXAMPLE, KAFKA_WIRETAP_DRAIN="3").stdout.splitlines()
    found = dict(line.split("  ", 1) for line in lines)
    assert found['drain = "3s"'].strip() == "environment KAFKA_WIRETAP_DRAIN"
    assert found['log.format = "json"'].strip() == f"file {EXAMPLE}"
    assert found['held = "256MiB"'].strip() == "default"


def test_config_show_prints_the_settings_as_toml():
    shown = tomllib.loads(config("show", "--toml", EXAMPLE).stdout)
    assert shown["clusters"]["billing"]["nodes"] == {"7": "0.0.0.0:29500"}
    assert shown["capture"]["queue"] == "64MiB"


def test_config_show_refuses_wrong_settings(wrong):
    assert config("show", wrong).exit_code == 2


def test_the_reference_page_can_be_printed():
    assert config("reference").stdout == reference()
