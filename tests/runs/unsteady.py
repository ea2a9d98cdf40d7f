"""A proxy before a server, which breaks where it is told to: what a client sees of a server that dies or hangs."""

import contextlib
import http.client
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Unsteady:
    """Passes requests on until one has `breaks_at` in its line, or body; that one and all later ones fail.

    Args:
        upstream: port of the real server.
        how: "refuse" ends the connection and listens no more; "hang" takes requests and never answers; "error" answers
            500.
    """

    def __init__(self, upstream, how, breaks_at):
        self.how, self.breaks_at, self.upstream = how, breaks_at, upstream
        self.broken = False
        self.ended = threading.Event()
        self.seen = []
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._listen()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}"

    def mend(self):
        """As the server that is started again."""
        self.broken, self.breaks_at = False, None
        if self.how == "refuse":
            self._listen()

    def close(self):
        self.ended.set()
        with contextlib.suppress(OSError):
            self._server.shutdown()
        self._server.server_close()

    def _listen(self):
        unsteady = self

        class Handler(BaseHTTPRequestHandler):
            def do(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                unsteady.seen.append((self.command, self.path, self.headers.get("Authorization")))
                if unsteady.breaks_at and unsteady.breaks_at in self.path.encode() + body:
                    unsteady.broken = True
                    if unsteady.how == "refuse":
                        unsteady._server.server_close()
                if not unsteady.broken:
                    self.passed_on(body)
                elif unsteady.how == "hang":
                    unsteady.ended.wait(60)
                elif unsteady.how == "error":
                    self.send_error(500)
                self.close_connection = True

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do

            def passed_on(self, body):
                there = http.client.HTTPConnection("127.0.0.1", unsteady.upstream, timeout=60)
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

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False
            handle_error = lambda *_: None  # noqa: E731

        self._server = Server(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self._serve, args=(self._server,), daemon=True).start()

    @staticmethod
    def _serve(server):
        with contextlib.suppress(OSError, ValueError):  # its socket is closed when it breaks
            server.serve_forever(0.05)


HOP = ("connection", "content-length", "transfer-encoding", "keep-alive", "host")
