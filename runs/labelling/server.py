"""The HTTP server of a labelling session."""

import contextlib
import functools
import io
import os
import secrets
import socket
from pathlib import Path
from typing import Annotated, Any, Literal

import uvicorn
from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException as StarletteHTTPException

from clustering.files.regular import read_text
from clustering.foundation.errors import InputError
from fsl.benchmarks.encoded import open_rgb, read_bytes
from runs.labelling import views
from runs.labelling.answers import Given
from runs.labelling.export import KINDS, export
from runs.labelling.gate import Gate
from runs.labelling.journal import NotSaved
from runs.labelling.session import Session

STATIC = Path(__file__).parent / "static"
KINDS_OF_FILES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
FILES = {file.name: KINDS_OF_FILES[file.suffix] for file in STATIC.iterdir() if file.suffix in KINDS_OF_FILES}
"""The files of the page, with their kinds; no other file is served."""
Short = Annotated[str, Field(min_length=1, max_length=200)]
Count = Annotated[int, Query(ge=0)]
Limit = Annotated[int, Query(ge=1, le=500)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    client: Short


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    id: Short
    version: Annotated[int, Field(ge=0)]
    action: Literal["label", "none", "skip", "clear"]
    label: str | None = None


class _Answers(_Body):
    answers: Annotated[list[_Answer], Field(max_length=1000)]


class _NewClass(_Body):
    name: str


def page_app(session: Session, *, token: str, host: str, port: int) -> Gate:
    """The application: the page, its files, and its interface in JSON.

    Args:
        session: the session.
        token: the secret that every request must carry.
        host, port: where the server listens.
    """
    app = FastAPI(openapi_url=None)
    app.add_exception_handler(InputError, _input_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(StarletteHTTPException, _http_error)

    @app.get("/")
    def page() -> Response:
        return _file("label.html")

    @app.get("/static/{name}")
    def static(name: str) -> Response:
        return _file(name)

    @app.get("/api/state")
    def state() -> dict[str, Any]:
        return views.state(session)

    @app.post("/api/answers")
    def answers(body: _Answers) -> Response:
        given = [Given(answer.id, answer.version, answer.action, answer.label) for answer in body.answers]
        saved, refused = session.answer(body.client, given)
        conflicts = [views.view(session, item) for item in refused]
        facts = {"saved": saved, "conflicts": conflicts, "state": views.state(session)}
        return JSONResponse(facts, status_code=409 if conflicts else 200)

    @app.post("/api/undo")
    def undo(body: _Body) -> dict[str, Any]:
        item = session.undo(body.client)
        return {"undone": None if item is None else views.view(session, item), "state": views.state(session)}

    @app.post("/api/classes")
    def classes(body: _NewClass) -> dict[str, Any]:
        session.add_class(body.name)
        return views.state(session)

    @app.get("/api/items")
    def items(
        name: Annotated[str, Query(alias="class")],
        order: Literal["likeliest", "doubtful"] = "likeliest",
        offset: Count = 0,
        limit: Limit = 50,
    ) -> dict[str, Any]:
        total, found = views.members(session, name, order, offset, limit)
        return {"total": total, "items": found}

    @app.get("/api/picture/{item}")
    def picture(item: str, size: Annotated[int, Query(ge=16, le=2000)] = 320) -> Response:
        file = session.picture(item)
        if file is None:
            raise HTTPException(404, "there is no such picture")
        return Response(_thumbnail(file, size), media_type="image/jpeg")

    @app.get("/api/export")
    def download(format: Literal["csv", "parquet"] = "csv") -> Response:
        path = export(session, format)
        return FileResponse(path, media_type=KINDS[format], filename=path.name)

    return Gate(app, token=token, host=host, port=port)


def _file(name: str) -> Response:
    if name not in FILES:
        raise HTTPException(404, "there is no such file")
    return Response((STATIC / name).read_bytes(), media_type=FILES[name])


@functools.lru_cache(maxsize=1024)
def _thumbnail(file: str, size: int) -> bytes:
    """A JPEG of a picture whose longer side has at most `size` pixels.

    Raises:
        InputError: the picture cannot be read or decoded.
    """
    try:
        stored = read_bytes(file)
    except OSError as error:
        raise InputError(f"{os.path.basename(file)}: cannot be read ({error.strerror}); restore it") from error
    picture = open_rgb(stored, os.path.basename(file), least=size, upright=True)
    picture.thumbnail((size, size), Image.Resampling.LANCZOS)
    stream = io.BytesIO()
    picture.save(stream, "JPEG", quality=85)
    return stream.getvalue()


def _input_error(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, status_code=507 if isinstance(error, NotSaved) else 400)


def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"][1:])
    return JSONResponse({"error": f"{place or 'the body'}: {first['msg']}"[:300]}, status_code=422)


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, StarletteHTTPException)
    return JSONResponse({"error": error.detail}, status_code=error.status_code)


def secret_of(folder: Path) -> str:
    """The token of a session, made at its first start, so that an open page can go on after a restart."""
    path = folder / "token"
    with contextlib.suppress(OSError, UnicodeDecodeError):
        token = read_text(path).strip()
        if len(token) >= 32:
            return token
    token = secrets.token_urlsafe(32)
    write_secret(path, token)
    return token


def write_secret(path: Path, text: str) -> None:
    """Write a file that only its owner can read."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


def listen(host: str, port: int, earlier: int | None) -> socket.socket:
    """An open socket.

    Args:
        host: the address.
        port: the port; 0: `earlier` if it is free, else any.
        earlier: the port of the session's last page.

    Raises:
        InputError: the address cannot be used.
    """
    for tried in (earlier, 0) if port == 0 and earlier else (port,):
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
            return opened
        except OSError as error:
            problem = error
    raise InputError(
        f"cannot listen at {host} port {port}: {problem.strerror}; use another host= or port="
    ) from problem


def serve(app: Gate, opened: socket.socket) -> None:
    """Serve until Ctrl-C."""
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=3, lifespan="off"
    )
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[opened])
