"""A server with the answers that a test sets, over real sockets."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


@dataclass
class Seen:
    """One received request."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Answer:
    """The answer to one request. A `body` that can be called is called with the server. `cut` closes the connection after the body, which is sent without a length."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    silent: bool = False  # closes the connection without an answer


@dataclass
class Server:
    """Answers each path with the next of its answers, and repeats the last one."""

    url: str
    answers: dict[str, list[Answer]]
    seen: list[Seen]

    def on(self, request: str, *answers: Answer) -> None:
        self.answers[request] = list(answers)

    def requests(self, request: str) -> list[Seen]:
        return [s for s in self.seen if f"{s.method} {s.path.partition('?')[0]}" == request]


def _handler(get: Callable[[], Server]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def do_PUT(self) -> None:
            self._answer()

        def _answer(self) -> None:
            server = get()
            text = self._body()
            if self.headers.get("Content-Encoding") == "gzip":
                text = gzip.decompress(text)
            server.seen.append(Seen(self.command, self.path, dict(self.headers), text if self.command == "PUT" else json.loads(text) if text else None))
            queue = server.answers.get(f"{self.command} {self.path.partition('?')[0]}") or [Answer(404, {"detail": "Not Found"})]
            answer = queue.pop(0) if len(queue) > 1 else queue[0]
            self.close_connection = answer.cut or answer.silent
            if answer.silent:
                return
            content = answer.body(server) if callable(answer.body) else answer.body
            body = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if not answer.cut:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body

        def log_message(self, format: str, *args: Any) -> None:
            return

    return Handler


@pytest.fixture
def server() -> Iterator[Server]:
    held: list[Server] = []
    http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(lambda: held[0]))
    held.append(Server(f"http://127.0.0.1:{http.server_address[1]}", {}, []))
    thread = threading.Thread(target=http.serve_forever, args=(0.01,))
    thread.start()
    yield held[0]
    http.shutdown()
    thread.join()
    http.server_close()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rolloutd._retry._FIRST_PAUSE_S", 0.001)
