"""Tests of the logins in a settings file: valid ones, and the error line for each invalid one."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from proxy.schema.errors import BadSetting
from recorder.replay.login.logins import Entry, logins
from recorder.replay.login.sasl import Credentials

SECRET = "hunter2 ü"


def entry(text: str, folder: Path, principal: str | None) -> Entry:
    found = logins(tomllib.loads(text), folder).of(principal)
    assert found is not None
    return found


def test_each_principal_logs_in_as_the_file_says(tmp_path: Path) -> None:
    (tmp_path / "alice.password").write_text(SECRET + "\n", encoding="utf-8")
    (tmp_path / "token").write_text("a.b.c\r\n", encoding="utf-8")
    text = """
        [login."User:alice"]
        mechanism = "SCRAM-SHA-512"
        username = "alice-of-staging"
        password_file = "alice.password"
        [login.bob]
        mechanism = "PLAIN"
        password = "secret"
        [login."*"]
        mechanism = "OAUTHBEARER"
        token_file = "token"
    """
    alice = Credentials("SCRAM-SHA-512", "alice-of-staging", SECRET)
    everybody = Credentials("OAUTHBEARER", token="a.b.c")
    assert entry(text, tmp_path, "alice").credentials() == alice
    assert entry(text, tmp_path, "User:alice").credentials() == alice
    assert entry(text, tmp_path, "User:bob").credentials() == Credentials("PLAIN", "bob", "secret")
    for other in (None, "carol", "User:*", ""):
        assert entry(text, tmp_path, other).credentials() == everybody


def test_a_principal_without_a_login_has_none(tmp_path: Path) -> None:
    assert logins({}, tmp_path).of("alice") is None
    found = logins({"login": {"bob": {"mechanism": "PLAIN", "password": "x"}}}, tmp_path)
    assert found.of("alice") is None
    assert found.of(None) is None


def test_a_token_that_another_program_renews_is_read_anew(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old")
    found = entry('[login."*"]\nmechanism = "OAUTHBEARER"\ntoken_file = "token"', tmp_path, None)
    (tmp_path / "token").write_text("new")
    assert found.credentials().token == "new"
    (tmp_path / "token").unlink()
    with pytest.raises(BadSetting, match="can't be read"):
        found.credentials()


def test_no_secret_is_in_a_repr(tmp_path: Path) -> None:
    found = logins({"login": {"a": {"mechanism": "PLAIN", "password": SECRET}}}, tmp_path)
    assert SECRET not in repr(found)


PLAIN = {"mechanism": "PLAIN", "username": "a"}
WRONG: dict[str, tuple[Any, str]] = {
    "no table": (5, "is no table"),
    "mechanism": ({"mechanism": "GSSAPI"}, "mechanism is none of"),
    "no mechanism": ({"password": SECRET}, "mechanism is none of"),
    "key": (PLAIN | {"pasword": SECRET}, "has no key pasword"),
    "number": (PLAIN | {"password": 5}, "password is no text"),
    "no secret": (PLAIN, "one of password and password_file"),
    "two secrets": (PLAIN | {"password": SECRET, "password_file": "x"}, "one of password and password_file"),
    "token": (PLAIN | {"password": SECRET, "token": SECRET}, "one of password and password_file"),
    "bearer": ({"mechanism": "OAUTHBEARER", "password": SECRET}, "one of token and token_file"),
    "empty": (PLAIN | {"password": ""}, "needs a username and a password"),
    "nul": (PLAIN | {"password": SECRET + "\0"}, "without NUL"),
    "bad token": ({"mechanism": "OAUTHBEARER", "token": SECRET}, "needs a token"),
    "no file": (PLAIN | {"password_file": "missing"}, "can't be read \\(No such file or directory\\)"),
    "folder": (PLAIN | {"password_file": "folder"}, "is no regular file"),
    "pipe": (PLAIN | {"password_file": "pipe"}, "is no regular file"),
    "no path": (PLAIN | {"password_file": "a\0b"}, "can't be read"),
    "binary": (PLAIN | {"password_file": "binary"}, "is no text"),
    "large": (PLAIN | {"password_file": "large"}, "is longer than 1 MiB"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_login_is_a_sentence_that_names_it_and_no_secret(case: str, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "large").write_bytes(b"x" * ((1 << 20) + 1))
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    table, fault = WRONG[case]
    with pytest.raises(BadSetting, match=fault) as caught:
        logins({"login": {"a\x1b": table}}, tmp_path)
    (line,) = caught.value.lines
    assert line.startswith('login."a\\u001b": ')
    assert SECRET not in line


def test_every_wrong_login_is_named(tmp_path: Path) -> None:
    tables = {"login": {"a": {}, "b": {"mechanism": "PLAIN", "password": "x"}, "User:b": PLAIN | {"password": "x"}}}
    with pytest.raises(BadSetting) as caught:
        logins(tables, tmp_path)
    assert [line.partition(":")[0] for line in caught.value.lines] == ['login."a"', 'login."User']
    assert "stands twice" in caught.value.lines[1]


def test_a_login_that_is_no_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="login is no table"):
        logins({"login": "alice"}, tmp_path)
