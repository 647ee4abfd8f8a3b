from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

import proxy
import recorder
from proxy.config import (
    ClusterSettings,
    Format,
    Level,
    LiveSettings,
    LogSettings,
    MappingKind,
    Others,
    ProxyProtocolVersion,
    ProxySettings,
)
from proxy.schema.addresses import Address
from proxy.schema.errors import BadSetting
from proxy.schema.faults import Fault, KeyPath, Setting
from proxy.schema.keys import KeyedField, keys_of
from proxy.schema.toml import dotted, plain, toml
from proxy.settings.load import LoadedSettings, load
from proxy.settings.sources import SourceKind, variable_of
from recorder.capture.keep import Floor
from recorder.capture.record_rules import RecordRule
from recorder.capture.session import CaptureSettings, Fsync, WhenFull
from tests.tables import each_row

BASIC = '[clusters.main]\nupstream = "broker-9:9092"\nlisten = "127.0.0.1:19099"\n'
ALL = """\
metrics = "127.0.0.1:9464"
drain = "3s"
held = "1MiB"
stalled = "4s"
connections = 100
workers = 3
hung = "6s"
busy_polling = false
[log]
level = "debug"
format = "json"
[live]
topics = 10
clients = 20
groups = 30
page_name = "wiretap.example.com"
otlp = "http://collector:4318"
otlp_every = 7
[clusters.main]
upstream = ["a:1", "b:2"]
listen = "127.0.0.1:19092"
advertise = "proxy.example.org"
node_ports = 19200
node_count = 50
state = "nodes.json"
dialect = "kafka"
hide_unknown = true
nodes.1 = "127.0.0.1:9094"
mapping = "ports"
advertise_ports = 31100
advertised.7 = "proxy-7.example.org:443"
limits = { request = "1MiB", response = "2MiB", hold = "3MiB", connections = 50, connections_per_address = 5 }
timeouts = { dial = "1s", half_close = "2s", tls = "3s", idle = "4s", age = "4m", keepalive = "5s", forget_node = "7s" }
proxy_protocol = { accept = true, timeout = "6s", send = "v2", trusted = ["10.0.0.0/8"], others = "plain" }
[capture]
folder = "capture"
queue = "4MiB"
spool = "5MiB"
when_full = "wait"
segment = "6MiB"
segment_age = "7s"
compactor = true
facts = false
encrypt = true
keep.age = "7d"
keep.size = "9GiB"
keep.free = "7%"
records = "drop"
topics."payments-*".records = "keep"
hash_key = "/k"
ship = "s3://bucket/kept/"
ship_endpoint = "https://store.example:9000"
ship_region = "here-1"
fsync = "interval"
fsync_interval = "8s"
share = 0.5
shares.Fetch = 0.1
seed = 3
bodies = "4KiB"
only.apis = ["Produce"]
only.clusters = ["m*"]
only.listeners = ["*:19092"]
only.client_ids = ["a", "b*"]
only.principals = ["!c"]
only.topics = ["d", "e*"]
"""
# other valid values of keys whose example is the default
OTHERS: dict[str, Any] = {
    "drain": "3s",
    "held": "1MiB",
    "level": "debug",
    "node_count": 7,
    "limits.request": "1MiB",
    "limits.response": "1MiB",
    "limits.hold": "1MiB",
    "timeouts.dial": "3s",
    "timeouts.half_close": "3s",
    "timeouts.tls": "3s",
    "queue": "1MiB",
    "fsync_interval": "3s",
    "spool": "1MiB",
    "when_full": "wait",
    "segment": "1MiB",
    "segment_age": "3s",
    "compactor": False,
    "facts": False,
}
# settings without which a key has no meaning
WITH = {
    "trusted": "proxy_protocol.accept = true\n",
    "others": 'proxy_protocol.accept = true\nproxy_protocol.trusted = "10.0.0.0/8"\n',
    "mapping": 'advertise = "broker-{node_id}:9092"\nown_node = 3\n',
    "bootstrap_name": 'advertise = "broker-{node_id}:9092"\nmapping = "sni"\ntls.certificate = "proxy.pem"\n',
    "page": '[live]\ntoken_file = "token"\n',
    "token_file": '[live]\npage = "127.0.0.1:9465"\n',
    "page_certificate": '[live]\npage_key = "page.key"\n',
    "page_key": '[live]\npage_certificate = "page.pem"\n',
    "own_node": 'advertise = "broker-{node_id}:9092"\nmapping = "template"\n',
}
SECTIONS: tuple[tuple[KeyPath, type], ...] = (
    ((), ProxySettings),
    (("log",), LogSettings),
    (("live",), LiveSettings),
    (("clusters", "main"), ClusterSettings),
    (("capture",), CaptureSettings),
)
KEYS = [
    pytest.param((*place, *field.key.place), field, id=dotted((*place, *field.key.place)))
    for place, section in SECTIONS
    for field in keys_of(section).values()
]


def loaded(tmp_path: Path, text: str, flags: dict[str, Any] | None = None, /, **environment: str) -> LoadedSettings:
    path = tmp_path / "wiretap.toml"
    path.write_text(text)
    variables = {"KAFKA_WIRETAP_" + name: value for name, value in environment.items()}
    return load(path, flags, {"HOME": "/home/me"} | variables)


def lines(tmp_path: Path, text: str, flags: dict[str, Any] | None = None, /, **environment: str) -> tuple[str, ...]:
    with pytest.raises(BadSetting) as error:
        loaded(tmp_path, text, flags, **environment)
    return error.value.lines


def test_a_file_says_everything(tmp_path):
    found = loaded(tmp_path, ALL)
    assert found.proxy == ProxySettings(
        (
            ClusterSettings(
                (Address("a", 1), Address("b", 2)),
                Address("127.0.0.1", 19092),
                "proxy.example.org",
                19200,
                50,
                {1: Address("127.0.0.1", 9094)},
                MappingKind.PORTS,
                None,
                None,
                31100,
                {7: Address("proxy-7.example.org", 443)},
                Path("nodes.json"),
                1 << 20,
                2 << 20,
                3 << 20,
                1,
                2,
                3,
                hide_unknown=True,
                idle_seconds=4,
                age_seconds=240,
                keepalive_seconds=5,
                forget_node_seconds=7,
                connection_limit=50,
                address_limit=5,
                accept_proxy=True,
                header_seconds=6,
                send_proxy=ProxyProtocolVersion.TWO,
                trusted=(ip_network("10.0.0.0/8"),),
                others=Others.PLAIN,
            ),
        ),
        Address("127.0.0.1", 9464),
        3,
        1 << 20,
        LogSettings(Level.DEBUG, Format.JSON),
        stalled_seconds=4,
        connection_limit=100,
        workers=3,
        hung_seconds=6,
        busy_polling=False,
        live=LiveSettings(10, 20, 30, page_name="wiretap.example.com", otlp="http://collector:4318", otlp_every=7),
    )
    assert found.capture == CaptureSettings(
        folder=Path("capture"),
        queue=4 << 20,
        spool=5 << 20,
        when_full=WhenFull.WAIT,
        segment=6 << 20,
        segment_seconds=7,
        compactor=True,
        facts=False,
        encrypt=True,
        keep_age=7 * 86400,
        keep_size=9 << 30,
        keep_free=Floor(share=0.07),
        records=RecordRule.DROP,
        topic_records={"payments-*": RecordRule.KEEP},
        hash_key=Path("/k"),
        ship="s3://bucket/kept",
        ship_endpoint="https://store.example:9000",
        ship_region="here-1",
        fsync=Fsync.INTERVAL,
        fsync_interval=8,
        share=0.5,
        shares={"Fetch": 0.1},
        seed=3,
        bodies=4096,
        apis=("Produce",),
        clusters=("m*",),
        listeners=("*:19092",),
        client_ids=("a", "b*"),
        principals=("!c",),
        topics=("d", "e*"),
    )


def test_a_file_of_all_keys_leaves_nothing_to_defaults(tmp_path):
    left = [one.place[-1] for one in loaded(tmp_path, ALL).effective if one.source_kind is not SourceKind.FILE]
    # keys of other mappings, files that would have to be there, and a page that needs one
    files = ["token_file", "page", "page_certificate", "page_key", "otlp_headers"]
    assert left == [*files, "own_node", "bootstrap_name", "ship_credentials"]


def test_a_token_that_cannot_be_used_is_refused_in_a_line(tmp_path: Path) -> None:
    file = tmp_path / "token"
    for content, mode, line in (
        (None, 0, "can't be read"),
        (
            "short",
            0o600,
            "holds no token; right would be a file of yours with one line of 16 letters and digits or more",
        ),
        ("0123456789abcdef", 0o644, "may be read by others than its owner; right would be"),
    ):
        if content is not None:
            file.write_text(content)
            file.chmod(mode)
        with pytest.raises(BadSetting) as refused:
            loaded(tmp_path, f"{BASIC}[live]\ntoken_file = '{file}'\n")
        (told,) = refused.value.lines
        assert line in told
        assert content is None or content not in told


WRONG_SHIPPING = {
    'ship = "s3://"': 'capture.ship = "s3://" names no bucket',
    'ship = "bucket/folder"': "names no bucket",
    'ship = "s3://key:secret@bucket"': "names no bucket",
    'ship = "s3://bucket//x"': "has a folder without a name",
    'ship = "s3://bucket"\nship_endpoint = "store:9000"': "is no URL of a store",
    'ship = "s3://bucket"\nship_endpoint = "https://key:secret@store"': "is no URL of a store",
    'ship = "s3://bucket"\ncompactor = false': "capture.ship ships nothing without a compactor",
    'ship = "s3://bucket"\nship_credentials = "gone"': "can't be read (No such file or directory)",
    'ship = "s3://bucket"\nship_credentials = "/dev/null"': "may be read by others than its owner",
}


@pytest.mark.parametrize("keys", WRONG_SHIPPING)
def test_what_can_not_be_shipped_is_refused_in_a_line(keys: str, tmp_path: Path) -> None:
    with pytest.raises(BadSetting) as refused:
        loaded(tmp_path, BASIC + f"[capture]\nfolder = 'first'\n{keys}\n")
    (line,) = refused.value.lines
    assert WRONG_SHIPPING[keys] in line
    assert "right would be" in line


def test_without_the_packages_nothing_is_shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recorder.extras.find_spec", lambda name: None)
    with pytest.raises(
        BadSetting, match=r"capture\.ship needs what is not installed: boto3, botocore; right would be in "
    ):
        loaded(tmp_path, BASIC + "[capture]\nfolder = 'first'\nship = 's3://bucket'\n")


WRONG_TRACING = {
    "otlp = 'collector'": "is no URL of a collector",
    "otlp = 'http://me:secret@collector'": "is no URL of a collector",
    "otlp = 'http://collector'\notlp_headers = 'gone'": "can't be read (No such file or directory)",
    "otlp = 'http://collector'\notlp_headers = '/dev/null'": "may be read by others than its owner",
}


@pytest.mark.parametrize("keys", WRONG_TRACING)
def test_spans_that_can_not_be_sent_are_refused_in_a_line(keys: str, tmp_path: Path) -> None:
    with pytest.raises(BadSetting) as refused:
        loaded(tmp_path, BASIC + f"[live]\n{keys}\n")
    (line,) = refused.value.lines
    assert WRONG_TRACING[keys] in line
    assert "right would be" in line


def test_headers_of_a_collector_are_checked_without_being_shown(tmp_path: Path) -> None:
    (tmp_path / "headers").write_text("Authorization secret")
    (tmp_path / "headers").chmod(0o600)
    with pytest.raises(BadSetting, match="has no header in line 1; right would be Authorization: Bearer") as refused:
        loaded(tmp_path, BASIC + f"[live]\notlp = 'http://collector'\notlp_headers = '{tmp_path / 'headers'}'\n")
    assert "secret" not in str(refused.value.lines)


def test_without_the_packages_no_spans_are_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recorder.extras.find_spec", lambda name: None)
    with pytest.raises(BadSetting, match=r"live\.otlp needs what is not installed: opentelemetry\.sdk, "):
        loaded(tmp_path, BASIC + "[live]\notlp = 'http://collector'\n")


def one_more(place: KeyPath, field: KeyedField) -> tuple[str, Any]:
    """Returns the key's place, and a value that differs from the one without the key."""
    key = field.key
    raw = OTHERS.get(key.name, key.example)
    assert field.is_required or key.name_kind is not None or key.kind.read(raw) != field.default
    return dotted(below(place, field)), raw


def below(place: KeyPath, field: KeyedField) -> KeyPath:
    """Returns the place of a key's value: of an entry if the key is a table."""
    if field.key.name_kind is None:
        return place
    # an API's name is no number, and a pattern's letters would change in a variable
    name = field.key.entry[0] if field.key.entry[0].isalpha() else "1"
    return (*place, name, *field.key.entry[1:])


def without(place: KeyPath) -> str:
    """Returns a file without this key."""
    text = BASIC + ("[capture]\nfolder = 'first'\n" if place[0] == "capture" else WITH.get(place[-1], ""))
    return "\n".join(line for line in text.splitlines() if not line.startswith(place[-1] + " ")) + "\n"


@pytest.mark.parametrize(("place", "field"), KEYS)
def test_each_key_changes_the_settings_by_a_file_as_by_the_environment(place, field, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # a file that must be there
    Path("token").write_text("0123456789abcdef")
    Path("token").chmod(0o600)
    name, raw = one_more(place, field)
    raw = "token" if place == ("live", "token_file") else raw
    before = loaded(tmp_path, BASIC + ("[capture]\nfolder = 'first'\n" if place[0] == "capture" else ""))
    by_file = loaded(tmp_path, f"{name} = {toml(raw)}\n" + _nested(without(place), place))
    by_environment = loaded(
        tmp_path, without(place), **{variable_of(below(place, field)).removeprefix("KAFKA_WIRETAP_"): plain(raw)}
    )
    assert (by_file.proxy, by_file.capture) == (by_environment.proxy, by_environment.capture)
    assert (by_file.proxy, by_file.capture) != (before.proxy, before.capture)


def _nested(text: str, place: KeyPath) -> str:
    """TOML has a table's keys at one place only, so the table's other keys with dots come here, too."""
    table = ""
    keys = []
    for line in text.splitlines():
        if line.startswith("["):
            table = line.strip("[]")
        else:
            keys.append(f"{table}.{line}")
    return "\n".join(keys) + "\n"


@each_row(("place", "field"), KEYS)
def test_each_key_is_read_by_the_program(place, field):
    """A key that only the settings know would have no effect."""
    attribute = f".{field.name}"
    assert any(attribute in source and field.name in _attributes(source) for source in _outside_of_settings())


@cache
def _outside_of_settings() -> list[str]:
    """Returns the program's modules, without those that only pass settings on."""
    folders = [Path(str(package.__file__)).parent for package in (proxy, recorder)]
    files = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
    return [path.read_text() for path in files if not {"settings", "schema"} & {*path.parts}]


@cache
def _attributes(source: str) -> set[str]:
    """Returns the names of all attributes that a module reads."""
    return {node.attr for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)}


def test_a_flag_wins_over_the_environment_and_that_over_the_file(tmp_path):
    text = "drain = 1\nheld = 1\nmetrics = 'a:1'\n" + BASIC
    found = loaded(tmp_path, text, {"drain": "3"}, DRAIN="2", HELD="2")
    assert (found.proxy.drain_seconds, found.proxy.held_in_all, found.proxy.metrics) == (3, 2, Address("a", 1))
    by = {one.place: (one.source_kind, one.where) for one in found.effective}
    assert by["drain",] == (SourceKind.FLAG, "--drain")
    assert by["held",] == (SourceKind.ENVIRONMENT, "KAFKA_WIRETAP_HELD")
    assert by["metrics",] == (SourceKind.FILE, str(tmp_path / "wiretap.toml"))
    assert by["log", "level"] == (SourceKind.DEFAULT, "")


def test_nothing_is_kept_of_a_cluster_of_0_7(tmp_path):
    found = loaded(tmp_path, BASIC + 'dialect = "kafka-0.7"\n')
    assert found.proxy.clusters[0].state is None
    assert lines(tmp_path, BASIC + 'dialect = "kafka-0.8"\n') == (
        'clusters.main.dialect = "kafka-0.8" is none of kafka, kafka-0.7; right would be dialect = "kafka-0.7"',
    )


def test_several_brokers_of_0_7_are_reported_in_the_files_terms(tmp_path):
    (line,) = lines(tmp_path, '[clusters.main]\nupstream = ["a:1", "b:2"]\nlisten = "c:3"\ndialect = "kafka-0.7"\n')
    assert line == (
        'clusters.main.upstream = ["a:1", "b:2"] names several brokers, and with dialect = "kafka-0.7" a listener '
        'stands for one; right would be upstream = ["a:1"] and another cluster for each other broker'
    )


def test_flags_alone_will_do():
    found = load(None, {"upstream": "a:1", "listen": "127.0.0.1:0"}, {})
    assert [cluster.name for cluster in found.proxy.clusters] == ["main"]
    assert found.capture is None


def test_the_environment_alone_will_do():
    environment = {
        "KAFKA_WIRETAP_CLUSTERS__EAST__UPSTREAM": "a:1",
        "KAFKA_WIRETAP_CLUSTERS__EAST__LISTEN": "127.0.0.1:0",
    }
    assert [cluster.name for cluster in load(None, {}, environment).proxy.clusters] == ["east"]


def test_missing_settings_are_named_as_flags():
    with pytest.raises(BadSetting) as error:
        load(None, {"record_queue": "1MiB"}, {})
    assert [line.split(";")[0] for line in error.value.lines] == [
        "--upstream is missing",
        "--listen is missing",
        "--record is missing",
    ]


def test_errors_of_all_sources_are_reported_at_once(tmp_path):
    text = (
        "drian = 1\n[clusters.east]\nlisten = 'a'\n[clusters.west]\nupstream = 'a:1'\nlisten = '0.0.0.0:1'\n[capture]\n"
    )
    heads = [line.split(" ")[0] for line in lines(tmp_path, text, {"drain": "x"}, LOG__LEVEL="loud")]
    assert heads == [
        "--drain",
        "KAFKA_WIRETAP_LOG__LEVEL='loud'",
        "clusters.east.upstream",
        "clusters.east.listen",
        "clusters.west.listen",
        "capture.folder",
        "drian",
    ]


def test_clusters_that_clash_are_reported_with_the_other_errors(tmp_path):
    two = BASIC + "[clusters.west]\nupstream = 'a:1'\nlisten = '127.0.0.1:19100'\n"
    (line,) = lines(tmp_path, two)
    assert line.startswith("clusters.west and clusters.main both want port 19100")
    assert len(lines(tmp_path, "drian = 1\n" + two)) == 2


def test_a_file_of_nothing_names_no_cluster(tmp_path):
    (line,) = lines(tmp_path, "")
    assert line.startswith("clusters names no cluster")


def test_each_cluster_has_a_state_file_beside_the_capture_or_in_the_users_folder(tmp_path):
    two = BASIC + "[clusters.west]\nupstream = 'a:1'\nlisten = '127.0.0.2:19100'\n"
    with_capture = loaded(tmp_path, two + "[capture]\nfolder = 'cap'\n")
    assert [str(one.state) for one in with_capture.proxy.clusters] == ["cap/_nodes.json", "cap/_nodes-west.json"]
    without = loaded(tmp_path, two)
    folder = "/home/me/.local/state/kafka-wiretap"
    assert [str(one.state) for one in without.proxy.clusters] == [
        f"{folder}/nodes-127.0.0.1-19099.json",
        f"{folder}/nodes-127.0.0.2-19100.json",
    ]
    shown = {one.place: one.value for one in without.effective}
    assert shown["clusters", "main", "state"] == without.proxy.clusters[0].state


def test_a_later_fault_is_worded_as_the_clusters_setting(tmp_path):
    error = BadSetting(Fault((Setting("listen", "a:1"), " can't be had")), cluster="west")
    assert loaded(tmp_path, BASIC).lines_of(error) == ['clusters.west.listen = "a:1" can\'t be had']
    assert load(None, {"upstream": "a:1", "listen": "a:0"}, {}).lines_of(error) == ["--listen a:1 can't be had"]


def test_the_recorder_is_left_alone_unless_something_is_to_be_recorded(tmp_path):
    (tmp_path / "wiretap.toml").write_text(BASIC)
    script = (
        "import sys; from pathlib import Path; from proxy.settings.load import load; load(Path(sys.argv[1]))\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('recorder', 'trio', 'click')])"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "wiretap.toml")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_wrong_value_is_reported_even_where_another_source_wins(tmp_path):
    said = lines(tmp_path, "drain = 'soon'\n" + BASIC, {"drain": "3"}, DRAIN="later")
    assert [line.split(" is ")[0] for line in said] == ['drain = "soon"', "KAFKA_WIRETAP_DRAIN='later'"]


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (
            'only.clusters = ["eest"]',
            "capture.only.clusters has 'eest', which is no cluster of these; "
            'right would be capture.only.clusters = ["main"]',
        ),
        (
            'only.apis = ["Metadta"]',
            "capture.only.apis = [\"Metadta\"] has 'Metadta', which is no API, but Metadata is; "
            'right would be only.apis = ["Produce", "*Offset*", "!ListOffsets"]',
        ),
        (
            'only.topics = ["a b"]',
            "capture.only.topics = [\"a b\"] has 'a b', which can match no topic, whose names have up to 249 letters, "
            "digits, '.', '_' and '-'; right would be only.topics = [\"payments-*\", \"!payments-test\"]",
        ),
        (
            'bodies = "none"',
            'capture.bodies = "none" is neither "full" nor "head" nor a size; right would be bodies = "head"',
        ),
    ],
)
def test_an_impossible_selection_is_reported_with_a_correction(tmp_path, said, line):
    text = '[clusters.main]\nupstream = "a:1"\nlisten = "127.0.0.1:19092"\n[capture]\nfolder = "c"\n' + said + "\n"
    assert lines(tmp_path, text) == (line,)


def test_the_environment_says_what_is_recorded(tmp_path):
    text = '[clusters.main]\nupstream = "a:1"\nlisten = "127.0.0.1:19092"\n[capture]\nfolder = "c"\n'
    said = {"CAPTURE__ONLY__APIS": "Produce,!fetch", "CAPTURE__BODIES": "4KiB"}
    capture = loaded(tmp_path, text, **said).capture
    assert capture is not None
    assert (capture.apis, capture.bodies) == (("Produce", "!fetch"), 4096)


RULED = BASIC + "[capture]\nfolder = 'first'\n"


def test_records_have_a_rule_for_each_pattern_of_topics(tmp_path):
    capture = loaded(
        tmp_path, RULED + "topics.\"a.b-*\".records = 'drop'\n[capture.topics.c]\nrecords = 'keep'\n"
    ).capture
    assert capture is not None
    assert capture.topic_records == {"a.b-*": RecordRule.DROP, "c": RecordRule.KEEP}


def test_a_flag_sets_the_rule_of_a_pattern(tmp_path):
    flags = {"record": "capture", "records": "drop", "topic_records": ("a.b-*=keep", "c = drop")}
    capture = loaded(tmp_path, BASIC, flags).capture
    assert capture is not None
    assert capture.records is RecordRule.DROP
    assert capture.topic_records == {"a.b-*": RecordRule.KEEP, "c": RecordRule.DROP}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("topics.'pay ments'.records = 'drop'", "can match no topic"),
        ("topics.pay.records = 'hide'", "is none of keep, hash, drop"),
        ("topics.pay = 'drop'", "stands where a table belongs"),
        ("topics.pay.bodies = 'head'", "is no setting"),
        ("records = 'hash'", 'capture.records = "hash" needs a key'),
        ("topics.pay.records = 'hash'", 'capture.topics.pay.records = "hash" needs a key'),
        ("records = 'hash'\nhash_key = '/nowhere/key'", "can't be read (No such file"),
        ("records = 'hash'\nhash_key = '/nowhere/key'\ncompactor = false", "needs a compactor"),
        (
            "encrypt = true\ncompactor = false",
            "capture.encrypt = true needs a compactor; right would be capture.compactor = true",
        ),
    ],
)
def test_a_rule_that_can_not_be_followed_is_refused(line, reason, tmp_path):
    with pytest.raises(BadSetting) as wrong:
        loaded(tmp_path, RULED + line + "\n")
    assert any(reason in one for one in str(wrong.value).splitlines())


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("keep.age = 7", 'capture.keep.age = 7 is shorter than 3600s; right would be keep.age = "7d"'),
        (
            "keep.free = 5",
            'capture.keep.free = 5 would keep no more than 5 bytes free; right would be keep.free = "10%"',
        ),
        (
            "keep.size = 200",
            'capture.keep.size = 200 would keep no more than 200 bytes; right would be keep.size = "200GiB"',
        ),
        ("keep.free = '8000TiB'", "is more than the whole volume of "),
    ],
)
def test_a_bound_that_keeps_nothing_is_refused(line, reason, tmp_path):
    with pytest.raises(BadSetting) as wrong:
        loaded(tmp_path, RULED + line + "\n")
    assert any(reason in one for one in str(wrong.value).splitlines())


@pytest.mark.parametrize("asks", ["encrypt = true", "records = 'hash'\nhash_key = '/nowhere/key'"])
def test_encryption_without_its_package_is_refused(asks, monkeypatch, tmp_path):
    monkeypatch.setattr("proxy.settings.load.find_spec", lambda name: None)
    with pytest.raises(BadSetting, match=r"needs the package cryptography.*; right would be .*'\.\[hash\]'"):
        loaded(tmp_path, RULED + asks + "\n")


def test_a_world_readable_key_of_hashes_is_refused(tmp_path):
    key = tmp_path / "hash.key"
    key.write_bytes(bytes(32))
    key.chmod(0o644)
    with pytest.raises(BadSetting, match="can be read by others than its owner"):
        loaded(tmp_path, RULED + f"records = 'hash'\nhash_key = '{key}'\n")
    key.chmod(0o600)
    capture = loaded(tmp_path, RULED + f"records = 'hash'\nhash_key = '{key}'\n").capture
    assert capture is not None
    assert capture.hash_key == key
