"""The checks of every request to the page: host, origin, token, kind and size of the body."""

import hmac
import ipaddress
import socket
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST_BODY = 1 << 20  # bytes
TOO_LARGE = f"the body exceeds {LARGEST_BODY:,} bytes; send fewer answers at a time"
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
IN_ADDRESS = ("/api/picture/", "/api/export")
"""Paths whose token may stand in the address, besides the page: a browser opens them without headers of a program."""
ANY_HOST = ("0.0.0.0", "::")


class Gate:
    """Refuse requests of other pages, machines and programs, and add the headers of `HEADERS` to every answer.

    Args:
        app: the application behind it.
        token: the secret in the page's address.
        host: the address at which the server listens.
        port: its port.
    """

    def __init__(self, app: ASGIApp, *, token: str, host: str, port: int) -> None:
        self.app, self.token, self.host, self.port = app, token, host, port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refused, body = self._refused(scope), b""
        if refused is None and scope["method"] == "POST":
            whole = await _body(receive)
            refused, body = (None, whole) if whole is not None else ((413, TOO_LARGE), b"")
        if refused is not None:
            status, problem = refused
            await JSONResponse({"error": problem}, status)(scope, receive, send_with_headers)
            return
        first: Iterator[Message] = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def replay() -> Message:
            """The body, and then what follows it."""
            return next(first, None) or await receive()

        await self.app(scope, replay, send_with_headers)

    def _refused(self, scope: Scope) -> tuple[int, str] | None:
        """Status and message for a request that is refused before its body is read; None for others."""
        headers, path = Headers(scope=scope), scope["path"]
        if not self._is_own(headers.get("host", "")):
            return 403, f"this page is at port {self.port} of its own address; open the address shown in the terminal"
        origin = headers.get("origin")
        other = origin is not None and origin != f"{scope['scheme']}://{headers['host']}"
        if other or (headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and path != "/"):
            return 403, "requests of other pages are refused"
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return 405, "only GET and POST are possible"
        given = [headers.get("x-label-token", "")]
        if path == "/" or path.startswith(IN_ADDRESS):
            given += parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        has_token = any(hmac.compare_digest(one.encode(), self.token.encode()) for one in given)
        if not path.startswith("/static/") and not has_token:
            return 403, "wrong token; open the address shown in the terminal"
        if scope["method"] == "POST":
            if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                return 415, "the content type must be application/json"
            length = headers.get("content-length", "0")
            if not length.isdecimal():
                return 400, "Content-Length must be a number"
            if int(length) > LARGEST_BODY:
                return 413, TOO_LARGE
        return None

    def _is_own(self, host: str) -> bool:
        """Whether the header Host names this server, so that no other name leads a browser here."""
        try:
            parts = urlsplit(f"//{host}")
            name, port = (parts.hostname or "").lower(), parts.port or 80
        except ValueError:
            return False
        if port != self.port or parts.netloc != host or parts.username is not None:
            return False
        if name in ("127.0.0.1", "localhost", "::1", self.host.lower()):
            return True
        return self.host in ANY_HOST and (_is_number(name) or name in (socket.gethostname().lower(), socket.getfqdn()))


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


async def _body(receive: Receive) -> bytes | None:
    """The body; None if it is too large: no more than `LARGEST_BODY` of it is kept."""
    body: bytes = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":  # the client is gone
            return b""
        body += bytes(message.get("body", b""))
        if len(body) > LARGEST_BODY:
            return None
        if not message.get("more_body"):
            return body
