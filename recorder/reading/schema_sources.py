"""Where schemas come from: a schema registry over HTTP (Confluent's API), or a folder of files named by their ids.

What is asked is bounded: schemas, bytes and seconds of an answer. A registry that can't be reached is not asked again.
Credentials are the URL's (`https://USER:PASSWORD@HOST`) or those of an environment variable; no sentence has them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import quote, urlsplit

from proxy.files import Folder

if TYPE_CHECKING:
    from requests import Response

    from recorder.http_deadlines import Line

# USER:PASSWORD for a registry
USERINFO = "KAFKA_WIRETAP_SCHEMA_REGISTRY_USERINFO"
AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
# bytes of a schema, or of an answer that holds one; seconds of an answer
MAX_BYTES, MAX_SECONDS = 1 << 20, 10
# other schemas that one schema may need
MAX_REFERENCES = 100
_ENDINGS = {".avsc": AVRO, ".json": JSON, ".proto": PROTOBUF}
_AT_ONCE = 1 << 16


class NoSchema(Exception):
    """A schema that can't be had. The message says why, in one line without credentials."""


class Schema(NamedTuple):
    """A schema as its author wrote it. `references`: the texts of the schemas that it needs, by the name it gives them.

    Those that a schema needs come before it.
    """

    kind: str
    text: str
    references: Mapping[str, str] = {}


class Source(Protocol):
    """Where schemas come from."""

    def schema(self, number: int) -> Schema:
        """The schema with this id. Errors: NoSchema."""


class FolderSource:
    """A folder with a file for each schema: ID.avsc, ID.json or ID.proto. It holds what they import, too."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def schema(self, number: int) -> Schema:
        """The schema of a file. Errors: NoSchema."""
        try:
            with Folder.at(self._folder) as folder:
                found = next((end for end in _ENDINGS if folder.is_file(f"{number}{end}")), None)
                if found is None:
                    raise NoSchema(f"no file {number}.avsc, {number}.json or {number}.proto")
                text = _text(folder.read(f"{number}{found}", MAX_BYTES + 1))
                imported = filter(partial(_may_import, folder), folder.names() if found == ".proto" else ())
                others = {name: _text(folder.read(name, MAX_BYTES)) for name in islice(imported, MAX_REFERENCES)}
        except OSError as error:
            raise NoSchema(error.strerror or str(error)) from error
        return Schema(_ENDINGS[found], text, others)


def _may_import(folder: Folder, name: str) -> bool:
    """True for a file that a schema may import. Other entries, and larger ones, are no schema's fault."""
    return name.endswith(".proto") and folder.is_file(name) and folder.size(name) <= MAX_BYTES


class Registry:
    """A schema registry. `url`: http:// or https://, with credentials or without."""

    def __init__(self, url: str) -> None:
        from recorder.http_deadlines import Session

        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        self._base = parts._replace(netloc=host).geturl().rstrip("/")
        given = f"{parts.username or ''}:{parts.password or ''}" if parts.username else os.environ.get(USERINFO, "")
        user, _, password = given.partition(":")
        self._http = Session()
        if user:
            self._http.auth = (user, password)
        self._is_gone: str | None = None

    def schema(self, number: int) -> Schema:
        """The schema that the registry has. Errors: NoSchema."""
        answer = self._asked(f"/schemas/ids/{number}")
        references: dict[str, str] = {}
        self._add_references(answer, references)
        return Schema(answer.get("schemaType") or AVRO, _schema_of(answer), references)

    def _add_references(self, answer: Mapping[str, Any], found: dict[str, str], depth: int = 0) -> None:
        for each in answer.get("references") or ():
            if len(found) >= MAX_REFERENCES or depth >= MAX_REFERENCES:
                raise NoSchema(f"it needs more than {MAX_REFERENCES} others")
            name = str(each["name"])
            if name not in found:
                subject, version = quote(str(each["subject"]), safe=""), int(each["version"])
                needed = self._asked(f"/subjects/{subject}/versions/{version}")
                self._add_references(needed, found, depth + 1)
                found[name] = _schema_of(needed)

    def _asked(self, path: str) -> dict[str, Any]:
        """What the registry answers. Errors: NoSchema."""
        from recorder.http_deadlines import within

        if self._is_gone:
            raise NoSchema(self._is_gone)
        try:
            body = within(MAX_SECONDS, lambda line: _body(self._http.get(self._base + path, timeout=MAX_SECONDS), line))
        except NoSchema:
            raise
        except TimeoutError:
            raise self._gone(f"the registry's answers take more than {MAX_SECONDS} s") from None
        except OSError as error:
            raise self._gone(f"the registry can't be asked: {type(error).__name__}") from error
        except Exception as error:
            # whatever a library makes of credentials that no header can hold, or of foreign bytes
            raise NoSchema(f"asking the registry fails ({type(error).__name__})") from error
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise NoSchema("the registry's answer is no JSON object")
        return found

    def _gone(self, why: str) -> NoSchema:
        self._is_gone = why
        return NoSchema(why)


def _body(answer: Response, line: Line) -> bytes:
    """The body of an answer. Errors: NoSchema, TimeoutError, RequestException."""
    with answer:
        if answer.status_code != 200:
            raise NoSchema(f"the registry answers {answer.status_code}")
        body = bytearray()
        for chunk in answer.iter_content(_AT_ONCE):
            body += chunk
            if len(body) > MAX_BYTES:
                raise NoSchema(f"the registry's answer has more than {MAX_BYTES >> 20} MiB")
    if line.is_cut:
        # what was cut looks like a short answer
        raise TimeoutError
    return bytes(body)


def _schema_of(answer: Mapping[str, Any]) -> str:
    text = answer.get("schema")
    if not isinstance(text, str):
        raise NoSchema("the registry's answer has no schema")
    return text


def _text(data: bytes) -> str:
    if len(data) > MAX_BYTES:
        raise NoSchema(f"its file has more than {MAX_BYTES >> 20} MiB")
    return data.decode("utf-8", "replace")
