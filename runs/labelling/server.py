"""The HTTP server of a labelling session: the page, its interface in JSON, and what it refuses."""

import contextlib
import functools
import hmac
import secrets
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs, urlsplit

import uvicorn
from fastapi import Body, FastAPI, HTTPException, Query, Request, Response
from fastapi.middleware.trustedhost import TrustedHostMiddleware
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles

from clustering.files.regular import read_text
from clustering.foundation.errors import InputError
from runs.labelling import views
from runs.labelling.journal import Given, NotSaved
from runs.labelling.session import Session
from runs.own_data.pictures import thumbnail
from runs.record.server import LOOPBACK, address
from runs.report.rendering import TEMPLATES

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
EVERYWHERE = ("0.0.0.0", "::")
Client = Annotated[str, Body(min_length=1, max_length=200)]


def page_app(session: Session, *, token: str, host: str) -> FastAPI:
    """The application: the page, its files, and its interface in JSON.

    Args:
        session: the session.
        token: the secret that every request must carry.
        host: the address at which the server listens. No other name may lead a browser here, except to a server that
            listens at all addresses.
    """
    app = FastAPI(openapi_url=None)
    app.mount("/static", StaticFiles(directory=STATIC))
    app.mount("/report", StaticFiles(directory=TEMPLATES))  # the style of all pages
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=["*"] if host in EVERYWHERE else [*LOOPBACK, host])

    @app.middleware("http")
    async def gate(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        refused = _refused(request, token)
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
        conflicts = session.answer(client, answers)
        items = [views.view(session, one.id) for one in answers]
        return {"conflicts": conflicts, "items": items, "state": views.state(session)}

    @app.post("/api/undo")
    def undo(client: Annotated[Client, Body(embed=True)]) -> dict[str, Any]:
        items = session.undo(client)
        return {"items": [views.view(session, item) for item in items], "state": views.state(session)}

    @app.post("/api/classes")
    def classes(name: Annotated[str, Body(embed=True)]) -> dict[str, Any]:
        session.add_class(name)
        return {"state": views.state(session)}

    @app.post("/api/step")
    def step() -> dict[str, Any]:
        session.step()
        return {"state": views.state(session)}

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


def _refused(request: Request, token: str) -> str:
    """Why a request of another page or program is refused, before its body is read; empty for others."""
    path = request.url.path
    if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and path != "/":
        return "requests of other pages are refused"
    given = [request.headers.get("x-label-token", "")]
    if path == "/" or path.startswith(IN_ADDRESS):
        given += request.query_params.getlist("token")
    has_token = any(hmac.compare_digest(one.encode(), token.encode()) for one in given)
    is_public = path.startswith(("/static/", "/report/"))
    return "" if is_public or has_token else "wrong token; open the address shown in the terminal"


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
            opened = socket.create_server((host, tried), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        except OSError as error:
            problem = error
            continue
        page = f"{address(host, opened.getsockname()[1])}/?token={token}"
        (folder / "page").unlink(missing_ok=True)
        (folder / "page").touch(0o600, exist_ok=False)
        (folder / "page").write_text(page)
        return opened, page
    raise InputError(f"cannot listen at {host} port {port}: {problem.strerror}; use another host= or port=")


def serve(session: Session, opened: socket.socket, page: str, host: str) -> None:
    """Serve the page of a session until Ctrl-C."""
    app = page_app(session, token=page.partition("?token=")[2], host=host)
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=3, lifespan="off"
    )
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[opened])
