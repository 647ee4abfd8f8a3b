import pytest

from proxy.settings.load import load
from proxy.settings.risks import OF_A_CLUSTER, OF_ALL, OF_THE_CAPTURE, notes, risks

SAFE = """\
metrics = "127.0.0.1:9464"
[clusters.main]
upstream = "a:1"
listen = "127.0.0.1:19092"
[capture]
folder = "capture"
"""
TAKEN = {
    "metrics": 'metrics = "0.0.0.0:9464"',
    "drain": "drain = 0",
    "held": 'held = "1MiB"',
    "listen": 'clusters.main.listen = "127.0.0.1:0"',
    "proxy_protocol.accept": "clusters.main.proxy_protocol.accept = true",
    "limits.request": 'clusters.main.limits.request = "99MiB"',
    "limits.response": 'clusters.main.limits.response = "50MiB"',
    "timeouts.half_close": "clusters.main.timeouts.half_close = 29",
    "capture.when_full": 'capture.when_full = "wait"',
    "capture.compactor": "capture.compactor = false",
}


def taken(tmp_path, line: str = "") -> list[str]:
    tables = {"clusters.main": "clusters.main.", "capture": "capture."}
    prefix = ""
    lines = []
    for one in SAFE.splitlines():
        if one.startswith("["):
            prefix = tables[one.strip("[]")]
        elif line.split(" ")[0] != prefix + one.split(" ")[0]:
            lines.append(prefix + one)
    (tmp_path / "wiretap.toml").write_text("\n".join([*lines, line]))
    return list(risks(load(tmp_path / "wiretap.toml", None, {})))


def test_settings_that_take_no_risk_are_passed_over(tmp_path):
    assert taken(tmp_path) == []


def test_a_risk_for_each_row_is_tried():
    assert set(TAKEN) == {risk.key for table in (OF_ALL, OF_A_CLUSTER, OF_THE_CAPTURE) for risk in table}


@pytest.mark.parametrize("key", TAKEN)
def test_a_risk_is_said_with_its_key(key, tmp_path):
    (line,) = taken(tmp_path, TAKEN[key])
    assert line.startswith(TAKEN[key].split(" ")[0] + " ")


def test_each_worker_has_only_its_part_of_what_may_be_held(tmp_path):
    assert taken(tmp_path, "workers = 4") == []
    (line,) = taken(tmp_path, "workers = 5")
    assert line.startswith("held ")


def test_an_admin_page_on_ones_own_machine_is_no_risk(tmp_path):
    for host in ("localhost", "127.0.0.5", "[::1]"):
        assert taken(tmp_path, f'metrics = "{host}:9464"') == []


def test_a_cluster_of_0_7_has_no_logins_to_be_told_of(tmp_path):
    said = 'dialect = "kafka-0.7"\n'
    for line, count in (("", 1), (said, 0)):
        (tmp_path / "wiretap.toml").write_text(f'[clusters.main]\nupstream = "a:1"\nlisten = "127.0.0.1:1"\n{line}')
        assert len(list(notes(load(tmp_path / "wiretap.toml", None, {})))) == count
