"""Who may ask the page: whoever has shown the token, under a name of this server, from the page itself.

    token    shown once, by POST /signin, or each time as `Authorization: Bearer`; compared in constant time. A browser
             then has a cookie, which is no token, but made of it in one way: it serves as long as the token does
    Host     an IP address, `localhost`, or a name that the user gave: a name of somebody else's that leads here (DNS
             rebinding) is refused
    Origin   if there is one, that of the page itself; likewise `Sec-Fetch-Site`

A request that does not pass gets a status and nothing more. Only what it takes to sign in is for all; it tells nothing.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qsl

from anyio import move_on_after
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from proxy.ips import is_own_name
from proxy.schema.addresses import Address
from proxy.tokens import LONGEST_TOKEN, bearer_of, is_equal

# bytes of a form: a token in percent signs
_LONGEST_FORM = 3 * LONGEST_TOKEN + 100
# how long a form may take to arrive, in seconds
FORM_SECONDS = 10.0
# what every answer says: nothing from elsewhere, no script or style in the page's text, in no frame, kept by nobody
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
# the files that whoever signs in needs
OPEN_FILES = frozenset({"/signin.js", "/signin.css", "/icon.svg"})


class Guard:
    """Lets requests through to an application. ASGI.

    Args:
        app: gets the requests that pass.
        token: what must be shown.
        names: host names by which the server may be asked, besides IP addresses and localhost.
        files: the folder with the page to sign in.
        port: makes the cookie's name another for each server of a machine: browsers know no ports of cookies.
        is_secure: the server speaks TLS, so the cookie is for TLS alone.
        say: gets a sentence when somebody signs in.
    """

    def __init__(
        self,
        app: ASGIApp,
        token: str,
        *,
        names: Collection[str],
        files: Path,
        port: int,
        is_secure: bool,
        say: Callable[[str], None],
    ) -> None:
        self._say = say
        self._app, self._token, self._files, self._is_secure = app, token, files, is_secure
        self._names = frozenset(name.lower() for name in names)
        self._cookie = f"kafka-wiretap-{port}"
        self._ticket = hmac.new(token.encode(), b"kafka-wiretap page", "sha256").hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        answer = await self._answer(Request(scope, receive))
        await (answer or self._app)(scope, receive, send_with_headers)

    async def _answer(self, request: Request) -> Response | None:
        """The answer to a request; None: it passes."""
        # not that of `request.url`, which begins with what the header Host says
        path = request.scope["path"]
        if not is_own_name(request.headers.get("host", ""), self._names):
            return Response("this server has another name\n", 421, media_type="text/plain")
        if not _is_of_page(request):
            return Response(status_code=403)
        if path == "/signin" and request.method == "POST":
            return await self._sign_in(request)
        if self._may(request):
            return None
        if path in OPEN_FILES and request.method == "GET":
            return FileResponse(self._files / path.removeprefix("/"))
        if path == "/" and request.method == "GET":
            return FileResponse(self._files / "signin.html", 401)
        return Response(status_code=401)

    def _may(self, request: HTTPConnection) -> bool:
        """True for a request that shows the token, or the cookie."""
        shown = bearer_of(request.headers.get("authorization", ""))
        if shown is not None:
            return is_equal(shown, self._token)
        return is_equal(request.cookies.get(self._cookie, ""), self._ticket)

    async def _sign_in(self, request: Request) -> Response:
        form = await _form(request)
        if form is None or not is_equal(form.get("token", ""), self._token):
            return FileResponse(self._files / "signin.html", 401)
        host, port = request.client or ("somebody", 0)
        self._say(f"{Address(host, port)} has signed in to the page")
        answer = RedirectResponse("/", 303)
        answer.set_cookie(self._cookie, self._ticket, httponly=True, samesite="strict", secure=self._is_secure)
        return answer


async def _form(request: Request) -> dict[str, str] | None:
    """The form in a request; None if it is too long for one, takes too long, or never comes to its end."""
    body = b""
    with move_on_after(FORM_SECONDS), suppress(ClientDisconnect):
        async for piece in request.stream():
            body += piece
            if len(body) > _LONGEST_FORM:
                return None
        return dict(parse_qsl(body.decode("latin-1")))
    return None


def _is_of_page(request: Request) -> bool:
    """True unless a browser says that another page asks."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    # a link elsewhere may lead to the page itself, which asks nothing before it has signed in
    is_visit = request.headers.get("sec-fetch-mode") == "navigate" and request.method == "GET"
    if site not in (None, "same-origin", "none") and not is_visit:
        return False
    return origin is None or origin == f"{request.url.scheme}://{request.headers.get('host', '')}"
