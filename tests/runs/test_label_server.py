"""The HTTP interface of a session of labelling, and what it refuses."""

import io
import os
import re

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from runs.labelling.server import HEADERS, last_page, listen, page_app
from tests.runs.labelling import opened, raise_full, small_pile

TOKEN = "t" * 43
HOST = "127.0.0.1:8765"
RIGHT = b'{"client": "a", "answers": [{"id": "id-1", "version": 0, "action": "label", "label": "cat"}]}'


@pytest.fixture
def session(tmp_path):
    pile = small_pile()
    file = tmp_path / "<img src=x>.png"
    Image.fromarray(np.zeros((300, 200, 3), np.uint8)).save(file)
    (tmp_path / "secret.txt").write_text("secret")
    pile.pictures[0] = str(file)
    made = opened(tmp_path, pile)
    made.step()
    return made


@pytest.fixture
def client(session):
    app = page_app(session, token=TOKEN, host="127.0.0.1")
    return TestClient(app, base_url=f"http://{HOST}", headers={"X-Label-Token": TOKEN})


def answer(client, item, *, version=0, label="cat", who="a", **headers):
    body = {"client": who, "answers": [{"id": item, "version": version, "action": "label", "label": label}]}
    return client.post("/api/answers", json=body, headers=headers)


def test_state_and_answers(client, session):
    state = client.get("/api/state").json()
    assert (state["name"], state["total"], state["labelled"], state["version"]) == ("pile", 60, 0, 0)
    assert state["keys"] == {"cat": "1", "dog": "2", "eel": "3"}
    assert len(state["batch"]) == 10
    assert state["batch"][0]["columns"]["text"].startswith("<b>")  # text, which the page does not read as HTML
    item = state["batch"][0]["id"]
    reply = answer(client, item)
    assert reply.status_code == 200
    assert reply.json()["conflicts"] == []
    assert reply.json()["state"]["labelled"] == 1
    undone = client.post("/api/undo", json={"client": "a"}).json()
    assert [(one["id"], one["state"]) for one in undone["items"]] == [(item, "open")]
    assert undone["state"]["labelled"] == 0
    assert client.post("/api/undo", json={"client": "a"}).json()["items"] == []


def test_an_answer_to_an_old_version_is_refused_with_the_newer_one(client):
    assert answer(client, "id-0", who="a").status_code == 200
    reply = answer(client, "id-0", label="dog", who="b")
    assert reply.json()["conflicts"] == ["id-0"]
    assert [(item["label"], item["version"]) for item in reply.json()["items"]] == [("cat", 1)]
    for _ in range(2):  # an answer sent twice is saved once
        assert answer(client, "id-0", label="dog", who="b", version=1).json()["conflicts"] == []
    assert client.get("/api/state").json()["version"] == 2


def test_new_classes_and_lists_by_class(client, session):
    assert (
        client.post("/api/classes", json={"name": " <b>new</b> "}).json()["state"]["classes"][-1]["name"]
        == "<b>new</b>"
    )
    for name in ("", " ", "x" * 201, "a\nb"):
        assert client.post("/api/classes", json={"name": name}).status_code in (400, 422), name
    for item in list(session.batch):
        answer(client, item, label=("cat", "dog", "eel")[int(item[3:]) % 3])
    found = client.get("/api/items", params={"class": "cat", "limit": 2}).json()
    assert len(found["items"]) == 2 < found["total"]
    assert client.get("/api/items", params={"class": "cow"}).status_code == 400
    assert client.get("/api/items", params={"class": "cat", "order": "other"}).status_code == 422
    wrong = next(f"id-{row}" for row in range(0, 60, 3) if f"id-{row}" not in {*session.batch, *session.versions})
    answer(client, wrong, label="dog")  # a cat
    doubtful = client.get("/api/items", params={"class": "dog", "order": "doubtful"}).json()["items"]
    assert doubtful[0]["id"] == wrong
    assert not client.get("/api/state").json()["stale"]  # the list is of the newest predictions


def test_the_page_finds_its_files(client):
    page = client.get("/", params={"token": TOKEN}).text
    for name in re.findall(r'(?:src|href)="([^"#]+)"', page):
        assert client.get(f"/{name}", headers={"X-Label-Token": ""}).status_code == 200, name
    assert "innerHTML" not in client.get("/static/label.js").text


def test_pictures_are_thumbnails_of_the_pile_alone(client, session):
    reply = client.get("/api/picture/id-0", params={"size": 60})
    assert reply.headers["content-type"] == "image/jpeg"
    assert Image.open(io.BytesIO(reply.content)).size == (40, 60)
    for path in ("id-1", "id-99", "../secret.txt", "%2e%2e%2fsecret.txt", "..%2f..%2fetc%2fpasswd", "secret.txt"):
        assert client.get(f"/api/picture/{path}").status_code in (403, 404), path
    for path in ("../session.py", "%2e%2e%2fserver.py", "..%2fserver.py", "x.html"):
        assert client.get(f"/static/{path}").status_code in (403, 404), path
    assert client.get("/api/picture/id-0", params={"size": 10**6}).status_code == 422
    gone = session.pile.pictures[0]
    os.unlink(gone)
    reply = client.get("/api/picture/id-0", params={"size": 77})
    assert reply.status_code == 400
    assert reply.json()["error"] == f"{gone}: cannot be read (No such file or directory); restore it"


def test_downloads(client):
    reply = client.get("/api/export", params={"token": TOKEN})
    assert reply.text.startswith("id,state,label,predicted,probability")
    assert "attachment" in reply.headers["content-disposition"]
    assert client.get("/api/export", params={"format": "parquet"}).content[:4] == b"PAR1"
    assert client.get("/api/export", params={"format": "exe"}).status_code == 422
    for item, name in (("id-0", "cat"), ("id-1", "dog")):
        answer(client, item, label=name)
    assert ",p(cat),p(dog)" in client.get("/api/export").text  # of the newest answers, also within a batch


@pytest.mark.parametrize("token", ["", "x", "T" * 43, "t" * 42, "é" * 43])
@pytest.mark.parametrize("path", ["/", "/api/state", "/api/picture/id-0", "/api/export", "/nothing"])
def test_every_request_needs_the_token(client, token, path):
    reply = client.get(path, headers={"X-Label-Token": token.encode("latin-1")}, params={"token": token})
    assert reply.status_code == 403
    assert "token" in reply.json()["error"]


def test_the_token_in_the_address_opens_the_page_but_answers_nothing(client):
    def status(method, path, **more):
        return client.request(method, path, params={"token": TOKEN}, headers={"X-Label-Token": "x"}, **more).status_code

    assert status("GET", "/") == 200
    assert status("GET", "/api/picture/id-0") == 200
    assert status("GET", "/api/state") == 403
    assert status("POST", "/api/undo", json={"client": "a"}) == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_requests_of_other_pages_are_refused(client, session, site):
    assert client.get("/api/state", headers={"Sec-Fetch-Site": site}).status_code == 403
    assert answer(client, "id-0", **{"Sec-Fetch-Site": site}).status_code == 403
    assert session.number == 0


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 422),
        (b"[]", 422),
        (b'{"client": "a", "answers": [{"id": "id-0"}]}', 422),
        (b'{"client": "a", "answers": [{"id": "id-0", "version": "0", "action": "skip"}]}', 422),
        (b'{"client": "a", "answers": [{"id": "id-0", "version": 0, "action": "delete"}]}', 422),
        (b'{"client": "a", "answers": [{"id": "id-0", "version": 0, "action": "label", "label": "cow"}]}', 400),
        (b'{"client": "a", "answers": [{"id": "id-99", "version": 0, "action": "skip"}]}', 400),
        (b'{"client": "a", "answers": [{"id": "id-0", "version": 0, "action": "label"}]}', 422),
        (
            RIGHT[:-2] + b', {"id": "id-0", "version": 0, "action": "label", "label": "cow"}]}',
            400,
        ),  # one wrong saves none
        (b'{"client": "", "answers": []}', 422),
    ],
)
def test_wrong_bodies(client, session, body, status):
    reply = client.post("/api/answers", content=body, headers={"Content-Type": "application/json"})
    assert reply.status_code == status
    assert session.number == 0


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_full_disk_refuses_the_answer_and_loses_nothing(client, session, monkeypatch, call):
    whole = (session.folder / "journal.jsonl").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, call, raise_full)
        reply = answer(client, "id-0")
    assert reply.status_code == 507
    assert "the disk is full, so nothing was saved" in reply.json()["error"]
    assert (session.folder / "journal.jsonl").read_bytes() == whole
    assert session.answer_to("id-0").action == "clear"
    assert answer(client, "id-0").status_code == 200


def test_every_reply_has_the_headers(client):
    for path in ("/", "/api/state", "/static/label.html", "/nothing", "/api/picture/id-0"):
        reply = client.get(path, params={"token": TOKEN})
        assert {name: reply.headers[name] for name in HEADERS} == HEADERS, path
        assert not [name for name in reply.headers if name.startswith("access-control")]
    assert client.request("OPTIONS", "/api/answers").status_code == 405


def test_the_secret_is_kept_in_a_file_of_its_owner(tmp_path):
    pages = []
    for _ in range(2):
        opened, page = listen(tmp_path, "127.0.0.1", 0)
        opened.close()
        pages.append(page)
    assert pages[0] == pages[1] == last_page(tmp_path)
    assert len(pages[0].partition("?token=")[2]) >= 43
    assert (tmp_path / "page").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("host", "known", "others"),
    [
        ("127.0.0.1", ["localhost:8765", "127.0.0.1:8765", "[::1]:8765"], ["evil.example:8765", "[::1", ""]),
        ("192.168.1.5", ["192.168.1.5:8765", "localhost:8765"], ["192.168.1.5.evil.example:8765", "192.168.1.6"]),
        ("0.0.0.0", ["192.168.1.6:8765", "[::1]:8765"], []),
    ],
)
def test_only_names_of_this_server_are_answered(session, host, known, others):
    client = TestClient(page_app(session, token=TOKEN, host=host), headers={"X-Label-Token": TOKEN})
    for names, status in ((known, 200), (others, 400)):
        for name in names:
            headers = {"Host": name, "Origin": f"http://{name}"}
            assert client.get("/api/state", headers=headers).status_code == status, name
