"""The checks of every request to the page: host, origin, token, kind and size of the body."""

import hmac
import ipaddress
import json
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

Message = MutableMapping[str, Any]
App = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]

LARGEST_BODY = 1 << 20  # bytes
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
IN_ADDRESS = ("/", "/api/picture/", "/api/export")
"""Paths whose token may stand in the address: a browser opens them without headers of a program."""
ANY_HOST = ("0.0.0.0", "::")


class Gate:
    """Refuse requests of other pages, machines and programs, and add the headers of `HEADERS` to every answer.

    Args:
        app: the application behind it.
        token: the secret in the page's address.
        host: the address at which the server listens.
        port: its port.
    """

    def __init__(self, app: App, *, token: str, host: str, port: int) -> None:
        self.app, self.token, self.host, self.port = app, token, host, port

    async def __call__(
        self, scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = [(name, value) for name, value in message.get("headers", []) if name != b"cache-control"]
                message["headers"] = [*known, *((k.lower().encode(), v.encode()) for k, v in HEADERS.items())]
            await send(message)

        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refused = self._refused(scope, headers)
        body = b""
        if refused is None and scope["method"] == "POST":
            body, whole = await _body(receive)
            refused = None if whole else (413, f"the body exceeds {LARGEST_BODY:,} bytes; send fewer answers at a time")
        if refused is not None:
            await _refuse(*refused, send_with_headers)
            return
        await self.app(scope, _replayed(body, receive), send_with_headers)

    def _refused(self, scope: Message, headers: dict[str, str]) -> tuple[int, str] | None:
        """Status and message for a request that is refused before its body is read; None for others."""
        if not self._is_own(headers.get("host", "")):
            return 403, f"this page is at port {self.port} of its own address; open the address shown in the terminal"
        origin = headers.get("origin")
        if origin is not None and origin != f"{scope['scheme']}://{headers['host']}":
            return 403, "requests of other pages are refused"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and scope["path"] != "/":
            return 403, "requests of other pages are refused"
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return 405, "only GET and POST are possible"
        if not scope["path"].startswith("/static/") and not self._has_token(scope, headers):
            return 403, "wrong token; open the address shown in the terminal"
        if scope["method"] == "POST":
            if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                return 415, "the content type must be application/json"
            if not headers.get("content-length", "0").isdecimal():
                return 400, "Content-Length must be a number"
            if int(headers.get("content-length", 0)) > LARGEST_BODY:
                return 413, f"the body exceeds {LARGEST_BODY:,} bytes; send fewer answers at a time"
        return None

    def _has_token(self, scope: Message, headers: dict[str, str]) -> bool:
        given = [headers.get("x-label-token", "")]
        path = scope["path"]
        if path == "/" or path.startswith(IN_ADDRESS[1:]):
            given += parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        return any(hmac.compare_digest(one.encode(), self.token.encode()) for one in given)

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


async def _body(receive: Callable[[], Awaitable[Message]]) -> tuple[bytes, bool]:
    """The body, and whether it is not too large; no more than `LARGEST_BODY` of it is kept."""
    pieces, size = list[bytes](), 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b"", True
        size += len(message.get("body", b""))
        if size > LARGEST_BODY:
            return b"", False
        pieces.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(pieces), True


def _replayed(body: bytes, receive: Callable[[], Awaitable[Message]]) -> Callable[[], Awaitable[Message]]:
    """A `receive` that gives the body, and then what follows it."""
    first = True

    async def replay() -> Message:
        nonlocal first
        if first:
            first = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return replay


async def _refuse(status: int, problem: str, send: Callable[[Message], Awaitable[None]]) -> None:
    body = json.dumps({"error": problem}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
