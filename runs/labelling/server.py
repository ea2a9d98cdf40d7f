"""The HTTP server of a labelling session: the page, its interface in JSON, and what it refuses."""

import contextlib
import functools
import hmac
import ipaddress
import os
import secrets
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs, urlsplit

import uvicorn
from fastapi import Body, FastAPI, HTTPException, Query, Request, Response
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles

from clustering.files.regular import read_text
from clustering.foundation.errors import InputError
from runs.labelling import views
from runs.labelling.answers import Given
from runs.labelling.journal import NotSaved
from runs.labelling.session import Session
from runs.own_data.pictures import thumbnail
from runs.record.server import address

STATIC = Path(__file__).parent / "static"
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
IN_ADDRESS = ("/api/picture/", "/api/export")
"""Paths whose token may stand in the address, besides the page: a browser opens them without headers of a program."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")


Client = Annotated[str, Body(min_length=1, max_length=200)]


def page_app(session: Session, *, token: str, host: str) -> FastAPI:
    """The application: the page, its files, and its interface in JSON.

    Args:
        session: the session.
        token: the secret that every request must carry.
        host: the address at which the server listens.
    """
    app = FastAPI(openapi_url=None)
    app.mount("/static", StaticFiles(directory=STATIC))

    @app.middleware("http")
    async def gate(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        refused = _refused(request, token, host)
        reply = JSONResponse({"error": refused}, 403) if refused else await call_next(request)
        reply.headers.update(HEADERS)
        return reply

    @app.exception_handler(InputError)
    def input_error(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": str(error)}, status_code=507 if isinstance(error, NotSaved) else 400)

    @app.get("/")
    def page() -> Response:
        return FileResponse(STATIC / "label.html")

    @app.get("/api/state")
    def state() -> dict[str, Any]:
        return views.state(session)

    @app.post("/api/answers")
    def answers(client: Client, answers: Annotated[list[Given], Body(max_length=1000)]) -> dict[str, Any]:
        saved, conflicts = session.answer(client, answers)
        items = [views.view(session, one.id) for one in answers]
        return {"saved": saved, "conflicts": conflicts, "items": items, "state": views.state(session)}

    @app.post("/api/undo")
    def undo(client: Client, count: Annotated[int, Body(ge=1, le=1000)] = 1) -> dict[str, Any]:
        items = session.undo(client, count)
        return {"items": [views.view(session, item) for item in items], "state": views.state(session)}

    @app.post("/api/classes")
    def classes(name: Annotated[str, Body(embed=True)]) -> dict[str, Any]:
        session.add_class(name)
        return views.state(session)

    @app.post("/api/step")
    def step() -> dict[str, Any]:
        session.step()
        return views.state(session)

    @app.get("/api/items")
    def items(
        name: Annotated[str, Query(alias="class")],
        order: Literal["likeliest", "doubtful"] = "likeliest",
        limit: Annotated[int, Query(ge=1, le=500)] = 50,
    ) -> dict[str, Any]:
        session.step()
        total, found = views.members(session, name, order, limit)
        return {"total": total, "items": found, "state": views.state(session)}

    shown = functools.lru_cache(maxsize=1024)(thumbnail)

    @app.get("/api/picture/{item}")
    def picture(item: str, size: Annotated[int, Query(ge=16, le=2000)] = 320) -> Response:
        file = session.pile.pictures[session.rows[item]] if item in session.rows else None
        if file is None:
            raise HTTPException(404, "there is no such picture")
        return Response(shown(file, size), media_type="image/jpeg")

    @app.get("/api/export")
    def download(format: Literal["csv", "parquet"] = "csv") -> Response:
        session.step()
        path = views.export(session, format)
        return FileResponse(path, filename=path.name)

    return app


def _refused(request: Request, token: str, host: str) -> str:
    """Why a request of another page or program is refused, before its body is read; empty for others."""
    headers, path = request.headers, request.url.path
    if not _is_own(headers.get("host", ""), host):
        return "this page has another address; open the one shown in the terminal"
    origin = headers.get("origin")
    other = origin is not None and origin != f"{request.url.scheme}://{headers['host']}"
    if other or (headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and path != "/"):
        return "requests of other pages are refused"
    given = [headers.get("x-label-token", "")]
    if path == "/" or path.startswith(IN_ADDRESS):
        given += parse_qs(request.url.query).get("token", [])
    has_token = any(hmac.compare_digest(one.encode(), token.encode()) for one in given)
    return "" if path.startswith("/static/") or has_token else "wrong token; open the address shown in the terminal"


def _is_own(given: str, host: str) -> bool:
    """Whether the header Host names this server, so that no other name leads a browser here.

    A server that listens at all addresses answers to numbers, which no other page can lead here, and to the name of
    this machine.
    """
    try:
        name = urlsplit(f"//{given}").hostname or ""
    except ValueError:
        return False
    known = name in (*LOOPBACK, host.lower())
    if host in ("0.0.0.0", "::") and not known:
        with contextlib.suppress(ValueError):
            return bool(ipaddress.ip_address(name))
        return name == socket.gethostname().lower()
    return known


def last_page(folder: Path) -> str:
    """The address of a session's last page, with its secret; empty if there is none."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return read_text(folder / "page").strip()
    return ""


def listen(folder: Path, host: str, port: int) -> tuple[socket.socket, str]:
    """An open socket, and the address of the page, which is kept in a file that only its owner can read.

    The secret in the address is made at the first start, so that an open page can go on after a restart.

    Args:
        folder: the folder of the session.
        host: the address to listen on.
        port: the port; 0: that of the session's last page if it is free, else any.

    Raises:
        InputError: the address cannot be used.
    """
    last, problem = urlsplit(last_page(folder)), OSError()
    token = parse_qs(last.query).get("token", [""])[0] or secrets.token_urlsafe(32)
    for tried in (port,) if port else (last.port or 0, 0):
        try:
            family, kind, protocol, _, place = socket.getaddrinfo(host, tried, type=socket.SOCK_STREAM)[0]
            opened = socket.socket(family, kind, protocol)
            try:
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                opened.bind(place)
                opened.listen(128)
            except OSError:
                opened.close()
                raise
            page = f"{address(host, opened.getsockname()[1])}/?token={token}"
            (folder / "page").unlink(missing_ok=True)
            with os.fdopen(os.open(folder / "page", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(page)
            return opened, page
        except OSError as error:
            problem = error
    raise InputError(f"cannot listen at {host} port {port}: {problem.strerror}; use another host= or port=")


def serve(session: Session, opened: socket.socket, page: str, host: str) -> None:
    """Serve the page of a session until Ctrl-C."""
    token = page.partition("?token=")[2]
    app = page_app(session, token=token, host=host)
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=3, lifespan="off"
    )
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[opened])
