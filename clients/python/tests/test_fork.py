"""Clients that were used before a fork: the children read their own answers, and the parent keeps its connections."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Generator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from typing import Any

import httpx
import pytest

from rolloutd import AsyncClient, Client, InvalidError, WeightSync

WORKERS, REQUESTS = 4, 20


class Echo(BaseHTTPRequestHandler):
    """Answers with the id that was asked for. The first stream has its last event when two others have resumed after its first one."""

    protocol_version = "HTTP/1.1"
    timeout = 20
    connections: set[int] = set()
    resumed = threading.Semaphore(0)

    def setup(self) -> None:
        super().setup()
        self.connections.add(self.client_address[1])

    def do_GET(self) -> None:
        id = self.path.split("/")[2]
        if self.path.endswith("/events"):
            return self._events(id)
        sequence = {"rollout_id": id, "token_ids": [1], "loss_mask": [1], "logprobs": [0]}
        state = {"rollout_id": id, "group_id": id, "phase": "running", "paused": False, "in_flight": 0, "queued": len(id)}
        self._send(json.dumps(sequence if self.path.endswith("/trajectory") or "/trajectory?" in self.path else state).encode() + b"\n")

    def _send(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _events(self, id: str) -> None:
        after = int(self.headers.get("Last-Event-ID") or 0)
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for number in range(after + 1, 4):
            if number == 3 and not after:
                assert all(self.resumed.acquire(timeout=20) for _ in range(2))
            kind = "done" if number == 3 else "phase"
            data = json.dumps({"rollout_id": id, "phase": "done" if number == 3 else "setup"})
            self.wfile.write(f"id: {number}\nevent: {kind}\ndata: {data}\n\n".encode())
            self.wfile.flush()
        if after:
            self.resumed.release()

    def log_message(self, format: str, *args: Any) -> None:
        return


@pytest.fixture
def echo() -> Iterator[str]:
    Echo.connections.clear()
    Echo.resumed = threading.Semaphore(0)
    http = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    http.daemon_threads = True
    threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{http.server_address[1]}"
    http.shutdown()
    http.server_close()


def await_ended_threads() -> None:
    """Waits until the system has ended the threads that Python has ended: as it ends, a thread may hold a lock of OpenSSL, and nothing
    in the child of a fork would release it."""
    for _ in range(500):
        if len(os.listdir("/proc/self/task")) <= threading.active_count():
            return
        time.sleep(0.01)


def forked(work: Callable[[int], Any], children: int = WORKERS) -> list[Any]:
    """What `work` returns in each of several children of a fork, which run at the same time."""

    def child(number: int, pipe: Connection, start: Any) -> None:
        start.wait(20)
        try:
            pipe.send(work(number))
        except BaseException as err:
            pipe.send(repr(err))

    await_ended_threads()
    of = multiprocessing.get_context("fork")
    start = of.Barrier(children)
    pipes = [of.Pipe(duplex=False) for _ in range(children)]
    started = [of.Process(target=child, args=(n, pipe[1], start)) for n, pipe in enumerate(pipes)]
    for process in started:
        process.start()
    answers = [pipe[0].recv() if pipe[0].poll(60) else "no answer" for pipe in pipes]
    for process in started:
        process.join(60)
        assert process.exitcode == 0
    return answers


def test_a_forked_worker_gets_its_own_answers(echo: str) -> None:
    with Client(echo, retry_s=5) as client:
        assert client.rollouts.get("parent").rollout_id == "parent"

        def work(number: int) -> int:
            ids = [f"r{number}-{i}" for i in range(REQUESTS)]
            wrong = sum(client.rollouts.get(id).rollout_id != id for id in ids)
            wrong += sum(client.groups.get(id).group_id != id for id in ids)
            return wrong + sum(client.groups.trajectory(id)[0].rollout_id != id for id in ids)

        assert forked(work) == [0] * WORKERS
        assert work(WORKERS) == 0


def test_a_forked_worker_of_an_async_client_gets_its_own_answers(echo: str) -> None:
    client = AsyncClient(echo, retry_s=5)

    async def wrong(ids: list[str]) -> int:
        states = await asyncio.gather(*(client.rollouts.get(id) for id in ids))
        return sum(state.rollout_id != id for state, id in zip(states, ids, strict=True))

    def work(number: int) -> int:
        return asyncio.run(wrong([f"r{number}-{i}" for i in range(REQUESTS)]))

    async def main() -> list[Any]:
        assert await wrong(["p1", "p2"]) == 0
        answers = forked(work)
        assert await wrong(["p1", "p2"]) == 0
        await client.close()
        return answers

    assert asyncio.run(main()) == [0] * WORKERS


def test_one_async_client_serves_several_event_loops(echo: str) -> None:
    client = AsyncClient(echo, retry_s=5)

    async def get(id: str) -> str:
        return (await client.rollouts.get(id)).rollout_id

    assert [asyncio.run(get(id)) for id in ("a", "b", "c")] == ["a", "b", "c"]


def test_a_stream_goes_on_in_both_processes(echo: str) -> None:
    with Client(echo, retry_s=5) as client:
        events = client.rollouts.events("r")
        assert next(events).id == "1"

        assert forked(lambda number: [event.id for event in events], 2) == [["2", "3"]] * 2
        assert [event.id for event in events] == ["2", "3"]


def test_a_closed_client_of_a_child_leaves_the_parents_open(echo: str) -> None:
    with Client(echo, retry_s=5) as client:
        events = client.rollouts.events("r")
        assert next(events).id == "1"

        def work(number: int) -> None:
            client.close()
            assert isinstance(events, Generator)
            events.close()

        assert forked(work, 1) == [None]
        Echo.resumed.release(2)
        assert [event.id for event in events] == ["2", "3"]
        assert len(Echo.connections) == 1, "the stream of the parent goes on"


def test_weights_are_synced_by_a_forked_trainer(echo: str) -> None:
    sync = WeightSync("x" * 40, echo, token="t", retry_s=5)
    assert sync.status()[0].queued == 40
    assert forked(lambda number: {sync.status()[0].queued for _ in range(5)}) == [{40}] * WORKERS
    sync.close()


def test_a_transport_of_the_caller_stays_in_its_process(echo: str) -> None:
    with Client(echo, transport=httpx.HTTPTransport()) as client:
        client.rollouts.get("a")

        def work(number: int) -> bool:
            with pytest.raises(InvalidError, match="transport: it belongs to another process"):
                client.rollouts.get("b")
            return os.getpid() > 0

        assert forked(work, 1) == [True]
