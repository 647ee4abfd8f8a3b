import pytest

from proxy.settings import risks as risky
from proxy.settings.load import load
from proxy.settings.risks import CAPTURE_RISKS, CLUSTER_RISKS, PROXY_RISKS, notes, risks

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


def test_settings_without_a_risk_give_no_warning(tmp_path):
    assert taken(tmp_path) == []


def test_a_risk_for_each_row_is_tried():
    assert set(TAKEN) == {risk.key for table in (PROXY_RISKS, CLUSTER_RISKS, CAPTURE_RISKS) for risk in table}


@pytest.mark.parametrize("key", TAKEN)
def test_a_risk_is_reported_with_its_key(key, tmp_path):
    (line,) = taken(tmp_path, TAKEN[key])
    assert line.startswith(TAKEN[key].split(" ")[0] + " ")


def test_each_worker_has_its_share_of_the_held_bytes(tmp_path):
    assert taken(tmp_path, "workers = 4") == []
    (line,) = taken(tmp_path, "workers = 5")
    assert line.startswith("held ")


def test_an_admin_page_on_loopback_is_no_risk(tmp_path):
    for host in ("localhost", "localhost.", "127.0.0.5", "[::1]"):
        assert taken(tmp_path, f'metrics = "{host}:9464"') == []


@pytest.mark.parametrize("host", ["localhost.example.com", "127.example.com", "[::1234]"])
def test_a_host_that_only_begins_like_ones_own_machine_is_a_risk(host, tmp_path):
    (line,) = taken(tmp_path, f'metrics = "{host}:9464"')
    assert line.startswith("metrics ")


NOTED = '[clusters.main]\nupstream = "a:1"\nlisten = "127.0.0.1:1"\n'


@pytest.mark.parametrize(
    ("more", "count"),
    [("", 1), ('advertise = "kafka.example.org"\n', 1), ('advertise = "a"\n', 0), ('dialect = "kafka-0.7"\n', 0)],
    ids=["loopback", "another name", "the broker's own name", "no logins"],
)
def test_a_note_names_the_kerberos_key_that_brokers_need_for_the_proxys_name(more, count, tmp_path):
    (tmp_path / "krb5.conf").touch()
    (tmp_path / "wiretap.toml").write_text(NOTED + more)
    loaded = load(tmp_path / "wiretap.toml", None, {})
    for places, found in ((f"/nowhere:{tmp_path}/krb5.conf", count), ("/nowhere", 0)):
        assert len([*notes(loaded, {"KRB5_CONFIG": places})]) == found


def test_kerberos_is_known_where_the_machine_has_its_file(tmp_path, monkeypatch):
    (tmp_path / "wiretap.toml").write_text(NOTED)
    loaded = load(tmp_path / "wiretap.toml", None, {})
    monkeypatch.setattr(risky, "KRB5_CONFIG", str(tmp_path / "krb5.conf"))
    assert [*notes(loaded, {})] == []
    (tmp_path / "krb5.conf").touch()
    (note,) = notes(loaded, {})
    assert note.endswith("brokers need a key for it, kafka/127.0.0.1")


def test_a_kerberos_path_that_can_not_be_checked_is_ignored(tmp_path):
    (tmp_path / "wiretap.toml").write_text(NOTED)
    loaded = load(tmp_path / "wiretap.toml", None, {})
    assert [*notes(loaded, {"KRB5_CONFIG": "x" * 5000})] == []


@pytest.mark.parametrize(
    ("only", "pattern"),
    [
        ('listeners = ["127.0.0.1:80"]', "127.0.0.1:80"),
        ('listeners = ["*:191*", "![::1]:19092"]', "![::1]:19092"),
        ('listeners = ["localhost:19092"]', "localhost:19092"),
        ('client_ids = ["orders", "!orders*"]', "orders"),
        ('client_ids = ["!*"]', "!*"),
        ('apis = ["Fetch", "Produce", "!fetch"]', "Fetch"),
        ('principals = ["worker[1]", "!worker?1?"]', "worker[1]"),
        ('topics = ["orders", "!orders*"]', "orders"),
        ('principals = ["orders", "User:shop"]', "User:shop"),
    ],
)
def test_a_pattern_that_can_match_nothing_is_a_warning(only, pattern, tmp_path):
    (line,) = taken(tmp_path, f"capture.only.{only}")
    assert line.startswith(f"capture.only.{only.split(' ')[0]} has {pattern!r}, which matches no")


@pytest.mark.parametrize(
    ("listen", "pattern"),
    [
        ("127.0.0.1:19092", "127.0.0.1:19092"),
        ("127.0.0.1:19092", "*:1909[3-5]"),
        ("127.0.0.1:19092", "127.0.0.1"),
        ("127.0.0.1:19092", "!127.0.0.1:20092"),
        ("127.0.0.1:0", "*:4711"),
        ("[::1]:19092", "[::1]:19092"),
        ("[::1]:19092", "![0::1]:19100"),
        ("localhost:19092", "127.0.0.1:19092"),
        ("proxy.example.org:19092", "192.0.2.7:19092"),
    ],
)
def test_a_pattern_of_a_listener_that_the_proxy_may_have_is_no_risk(listen, pattern, tmp_path):
    settings = f'upstream = "a:1"\nlisten = "{listen}"\n[capture]\nfolder = "c"\nonly.listeners = ["{pattern}"]'
    (tmp_path / "wiretap.toml").write_text(f"[clusters.main]\n{settings}\n")
    assert not [line for line in risks(load(tmp_path / "wiretap.toml", None, {})) if "only.listeners" in line]
