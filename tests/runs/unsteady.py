"""A proxy before a server, which breaks where it is told to: what a client sees of a server that dies or hangs."""

import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOP = ("connection", "content-length", "transfer-encoding", "keep-alive", "host")


class Unsteady(ThreadingHTTPServer):
    """Passes requests on until one has `breaks_at` in its line, or body; that one and all later ones fail.

    Args:
        upstream: port of the real server.
        how: "refuse" ends connections without an answer; "hang" takes requests and never answers; "error" answers 500.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, upstream, how, breaks_at):
        super().__init__(("127.0.0.1", 0), Handler)
        self.how, self.breaks_at, self.upstream = how, breaks_at, upstream
        self.broken, self.ended, self.seen = False, threading.Event(), []
        self.address = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def mend(self):
        """As the server that is started again."""
        self.broken, self.breaks_at = False, None

    def close(self):
        self.ended.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, *_):
        """A client that went away is no matter."""


class Handler(BaseHTTPRequestHandler):
    def do(self):
        server, body = self.server, self.rfile.read(int(self.headers.get("Content-Length") or 0))
        server.seen.append((self.command, self.path, self.headers.get("Authorization")))
        server.broken |= bool(server.breaks_at and server.breaks_at in self.path.encode() + body)
        if not server.broken:
            self.passed_on(body)
        elif server.how == "hang":
            server.ended.wait(60)
        elif server.how == "error":
            self.send_error(500)
        self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do

    def passed_on(self, body):
        there = http.client.HTTPConnection("127.0.0.1", self.server.upstream, timeout=60)
        headers = {key: value for key, value in self.headers.items() if key.lower() not in HOP}
        there.request(self.command, self.path, body, headers)
        answer = there.getresponse()
        content = answer.read()
        there.close()
        self.send_response(answer.status)
        for key, value in answer.getheaders():
            if key.lower() not in HOP:
                self.send_header(key, value)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass
