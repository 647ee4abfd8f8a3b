"""A bucket of an S3-compatible store: puts files, and asks what it holds. Only this module knows Amazon's SDK.

A file is put with its SHA-256, which the store checks. Afterwards the store is asked for size and digest. The file is
read, too, if the store tells no digest, or has taken a file with a wrong one (such a store tells whatever it was told),
or has not been tried yet.
Calls end: the SDK's timeouts bound the time without a byte, and a file's bytes must keep a pace. The SDK tries nothing
again, because the shipper does. Once a store refuses keys, they are looked for again: there may be new ones. Errors are
a `StoreError`, whose cause is a label of a metric.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

import boto3
import botocore.exceptions as sdk
import botocore.session
from boto3.exceptions import Boto3Error
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.credentials import CredentialResolver, SharedCredentialProvider

from recorder.capture.remote import SCHEME

# seconds that a connection may take, and seconds without a byte in either direction
CONNECT_SECONDS, SILENT_SECONDS = 10.0, 60.0
# bytes of a file that a store takes or gives a second at the least: a segment of 64 MiB takes 18 hours then
SLOWEST = 1 << 10
# larger files go in parts: what breaks off is then a part; but their digest must be read. The SDK holds parts in memory
LARGEST_WHOLE, PART_BYTES = 1 << 28, 1 << 25
# the pace is looked at between two reads
_READ_BYTES = 1 << 12
# the SDK only says that it can't find any
_NO_KEYS = (
    "there are no keys; right would be --credentials FILE (capture.ship_credentials), or the variables "
    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
)
# characters of a store's own words in a line
_MAX_WORDS = 200


class Cause(StrEnum):
    """Why a file could not be shipped."""

    UNREACHABLE = "unreachable"  # no connection, or it was cut
    TIMEOUT = "timeout"  # the store has said nothing for too long, or bytes trickled
    CREDENTIALS = "credentials"  # there are no keys, or none that the store knows
    REFUSED = "refused"  # the keys may not do it
    NO_BUCKET = "no_bucket"
    QUOTA = "quota"  # the store is full, or this bucket is
    BUSY = "busy"  # the store asks to slow down
    STORE = "store"  # the store failed, or answered something else
    WRONG_CONTENT = "wrong_content"  # the bucket does not hold what was put
    LOCAL = "local"  # the file can't be read here


_CODES = {
    **dict.fromkeys(("InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"), Cause.CREDENTIALS),
    **dict.fromkeys(("AccessDenied", "AllAccessDisabled", "AccountProblem"), Cause.REFUSED),
    **dict.fromkeys(("NoSuchBucket", "PermanentRedirect", "InvalidBucketName"), Cause.NO_BUCKET),
    **dict.fromkeys(("QuotaExceeded", "ServiceQuotaExceeded", "XMinioStorageFull", "InsufficientStorage"), Cause.QUOTA),
    **dict.fromkeys(("SlowDown", "TooManyRequests", "RequestLimitExceeded", "ServiceUnavailable"), Cause.BUSY),
    **dict.fromkeys(
        ("BadDigest", "InvalidDigest", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch"), Cause.WRONG_CONTENT
    ),
    **dict.fromkeys(("RequestTimeout",), Cause.TIMEOUT),
}
# of answers without a code that is known
_STATUSES = {
    301: Cause.NO_BUCKET,
    401: Cause.CREDENTIALS,
    403: Cause.REFUSED,
    429: Cause.BUSY,
    503: Cause.BUSY,
    507: Cause.QUOTA,
}


_BAD_REQUEST, _FORBIDDEN, _NOT_FOUND, _NOT_IMPLEMENTED = 400, 403, 404, 501


class StoreError(Exception):
    """A file could not be shipped. The text is one line without secrets. `status`: of the store's answer, if any."""

    def __init__(self, cause: Cause, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.cause, self.status = cause, status


class Store:
    """A folder of a bucket.

    Args:
        url: "s3://bucket/folder".
        endpoint, region, credentials: see `ShipSettings`; None: as the SDK finds them.
        silent_seconds: how long the store may say nothing, and after how long the pace of a file's bytes is judged.
        clock: seconds, from any moment on.
    """

    def __init__(
        self,
        url: str,
        *,
        endpoint: str | None = None,
        region: str | None = None,
        credentials: Path | None = None,
        silent_seconds: float = SILENT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bucket, _, folder = url.removeprefix(SCHEME).partition("/")
        self._before = f"{folder}/" if folder else ""
        config = Config(
            connect_timeout=min(CONNECT_SECONDS, silent_seconds),
            read_timeout=silent_seconds,
            retries={"max_attempts": 0},
            tcp_keepalive=True,
            # digests are told and compared here; not all stores know the SDK's own trailers
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        self._silent_seconds, self._clock = silent_seconds, clock
        # older stores answer 501 to a field of digests
        self._knows_digests = True
        # None: not known yet
        self._checks_digests: bool | None = None

        def connect() -> Any:
            return _session(credentials).client("s3", endpoint_url=endpoint, region_name=region, config=config)

        self._connect, self._were_keys_refused = connect, False
        with _translated():
            self._client = connect()

    def put(self, path: str, file: IO[bytes], size: int, digest: str) -> None:
        """Puts a file of this size and digest ("sha256:…", in hex). Errors: StoreError; OSError of the file.

        The first file is put with a wrong digest before, to learn whether the store refuses it. A store that takes it
        keeps the wrong digest until the file is put again.
        """
        where = {"Bucket": self._bucket, "Key": self._before + path}
        if size <= LARGEST_WHOLE:
            if self._checks_digests is None:
                self._checks_digests = self._refuses_wrong_digest(file, digest, where)
                file.seek(0)
            body = _Paced(file, self._pace())
            self._with_digest("put_object", _of_digest(digest), **where, Body=body)
            return
        parts = TransferConfig(multipart_threshold=LARGEST_WHOLE, multipart_chunksize=PART_BYTES, use_threads=False)
        with self._connected() as client:
            moved = self._pace().moved
            client.upload_fileobj(file, where["Bucket"], where["Key"], Config=parts, Callback=moved)

    def _refuses_wrong_digest(self, file: IO[bytes], digest: str, where: dict[str, str]) -> bool:
        wrong = f"sha256:{hashlib.sha256(digest.encode()).hexdigest()}"
        try:
            with self._connected() as client:
                client.put_object(**where, **_of_digest(wrong), Body=_Paced(file, self._pace()))
        except StoreError as error:
            is_unknown = error.cause is Cause.STORE and error.status in (_BAD_REQUEST, _NOT_IMPLEMENTED)
            if error.cause is not Cause.WRONG_CONTENT and not is_unknown:
                raise
            return error.cause is Cause.WRONG_CONTENT
        return False

    def holds(self, path: str, size: int, digest: str) -> bool:
        """True if the bucket holds a file of this size and digest; False if none, or another. Errors: StoreError.

        The file is read unless the store is known to check digests. A file for which the store tells another digest is
        another one, even if its bytes are right: clients that check the digest could not read it.
        """
        where = {"Bucket": self._bucket, "Key": self._before + path}
        try:
            told = self._told(where, size, digest)
            if told and self._checks_digests:
                return True
            return told is not False and self._read_digest(where) == digest
        except StoreError as error:
            # that there is no bucket is an error of its own
            if error.status == _NOT_FOUND and error.cause is Cause.STORE:
                return False
            raise

    def _told(self, where: dict[str, str], size: int, digest: str) -> bool | None:
        """Whether the store tells that it holds a file of this size and digest; None: only its bytes can tell."""
        try:
            found = self._with_digest("head_object", {"ChecksumMode": "ENABLED"}, **where)
        except StoreError as error:
            if error.status != _FORBIDDEN:
                raise
            # the answer to this request has no text; that to another one says why
            return None
        if found["ContentLength"] != size:
            return False
        told = found.get("ChecksumSHA256")
        # the digest of a file in parts is that of its parts' digests
        if told is None or found.get("ChecksumType", "FULL_OBJECT") != "FULL_OBJECT" or "-" in told:
            return None
        return bool(told == _base64(digest))

    def _with_digest(self, name: str, of_digest: dict[str, str], **request: Any) -> Any:
        """The answer to a request with fields of digests; without them, once a store has said that it knows none."""
        with self._connected() as client:
            ask = getattr(client, name)
            if self._knows_digests:
                try:
                    return ask(**request, **of_digest)
                except sdk.ClientError as error:
                    if _status(error) != _NOT_IMPLEMENTED:
                        raise
                    self._knows_digests = False
                    if body := request.get("Body"):
                        body.seek(0)
            return ask(**request)

    def _read_digest(self, where: dict[str, str]) -> str:
        found = hashlib.sha256()
        with self._connected() as client:
            body = client.get_object(**where)["Body"]
            with body:
                content = _Paced(body, self._pace())
                while block := content.read(_READ_BYTES):
                    found.update(block)
        return f"sha256:{found.hexdigest()}"

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """The SDK's client, which looks for keys anew if the last ones were refused. Errors: StoreError."""
        try:
            with _translated():
                if self._were_keys_refused:
                    self._client, self._were_keys_refused = self._connect(), False
                yield self._client
        except StoreError as error:
            if error.cause in (Cause.CREDENTIALS, Cause.REFUSED):
                self._were_keys_refused = True
            raise

    def _pace(self) -> _Pace:
        return _Pace(self._silent_seconds, self._clock)


class _Pace:
    """Judges how fast a file's bytes go, each time that `seconds` have passed."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds, self._clock = seconds, clock
        self._since, self._bytes = clock(), 0

    def moved(self, count: int) -> None:
        """Notes that so many bytes have gone. Raises TimeoutError."""
        self._bytes += count
        passed = self._clock() - self._since
        if passed >= self._seconds:
            if self._bytes < SLOWEST * passed:
                raise TimeoutError(f"only {self._bytes} bytes went in {passed:.0f} s")
            self._since, self._bytes = self._since + passed, 0


class _Paced:
    """A file whose reader keeps a pace. Errors of `read`: TimeoutError."""

    def __init__(self, file: IO[bytes], pace: _Pace) -> None:
        self._file, self._pace = file, pace
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int = -1) -> bytes:
        block = self._file.read(size)
        self._pace.moved(len(block))
        return block


def _session(credentials: Path | None) -> boto3.session.Session:
    """A session of the SDK; with a file of keys these alone count, whatever the environment says."""
    inner = botocore.session.Session()
    if credentials is not None:
        only = SharedCredentialProvider(str(credentials), "default")
        inner.register_component("credential_provider", CredentialResolver([only]))
    return boto3.session.Session(botocore_session=inner)


def _of_digest(digest: str) -> dict[str, str]:
    """The fields of a request that put a file of this digest."""
    return {"ChecksumAlgorithm": "SHA256", "ChecksumSHA256": _base64(digest)}


def _base64(digest: str) -> str:
    return base64.b64encode(bytes.fromhex(digest.removeprefix("sha256:"))).decode()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (sdk.ClientError, sdk.BotoCoreError, sdk.HTTPClientError, Boto3Error) as error:
        raise _translation(error) from error
    except TimeoutError as error:
        raise StoreError(Cause.TIMEOUT, str(error)) from error
    except ValueError as error:
        # what the SDK says of a wrong endpoint in the environment
        raise StoreError(Cause.STORE, _words(str(error))) from error


def _translation(error: BaseException) -> StoreError:
    if isinstance(error, sdk.ClientError):
        told = error.response.get("Error", {})
        code, status = str(told.get("Code", "")), _status(error)
        cause = _CODES.get(code) or _STATUSES.get(status or 0, Cause.STORE)
        return StoreError(cause, _words(f"{error.operation_name}: {code or status}: {told.get('Message', '')}"), status)
    match error:
        case sdk.NoCredentialsError():
            return StoreError(Cause.CREDENTIALS, _NO_KEYS)
        case sdk.PartialCredentialsError() | sdk.CredentialRetrievalError():
            cause = Cause.CREDENTIALS
        case sdk.TokenRetrievalError() | sdk.UnauthorizedSSOTokenError() | sdk.ProfileNotFound():
            cause = Cause.CREDENTIALS
        case sdk.ReadTimeoutError() | sdk.ConnectTimeoutError():
            cause = Cause.TIMEOUT
        case sdk.HTTPClientError() | sdk.ConnectionError() | sdk.ResponseStreamingError():
            if late := _timeout_behind(error):
                return StoreError(Cause.TIMEOUT, _words(f"while a file was sent: {late}"))
            cause = Cause.UNREACHABLE
        case Boto3Error():
            return _of_parts(error)
        case _:
            cause = Cause.STORE
    return StoreError(cause, _words(str(error)))


def _timeout_behind(error: BaseException | None) -> str:
    """The text of the timeout behind what the SDK calls a broken connection; "": it has another cause."""
    while error is not None and not isinstance(error, TimeoutError):
        error = error.__cause__ or error.__context__
    return str(error or "")


def _status(error: sdk.ClientError) -> int | None:
    found: int | None = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return found


def _of_parts(error: BaseException) -> StoreError:
    """What the SDK's transfer of parts met: it names the first error in its own words."""
    inner = error.__cause__ or error.__context__
    return _translation(inner) if inner is not None else StoreError(Cause.STORE, _words(str(error)))


def _words(text: Any) -> str:
    words = " ".join(str(text).split())
    return words if len(words) <= _MAX_WORDS else words[:_MAX_WORDS] + "…"
