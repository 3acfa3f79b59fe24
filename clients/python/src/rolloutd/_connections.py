"""HTTP connections. They belong to the process that opened them, and with asyncio to its event loop.

Two processes that read one connection get each other's answers. So a child of a fork, such as a worker of PyTorch's data loader, opens its own. It leaves
those of its parent as they are: to close them could end them for the parent, too.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Generic, TypeVar

import httpx

from .errors import ClosedError, InvalidError

C = TypeVar("C", httpx.Client, httpx.AsyncClient)

Owner = tuple[int, Hashable]  # a process and its event loop

# Streams and connections that this process inherited. Their end could close what the parent still uses.
_inherited: list[object] = []


def process() -> Owner:
    """The owner of the connections of a synchronous client."""
    return os.getpid(), None


def process_and_loop() -> Owner:
    """The owner of the connections of an asynchronous client."""
    return os.getpid(), asyncio.get_running_loop()


class Connections(Generic[C]):
    """One HTTP client for each owner, opened by its first request. Any thread may use it.

    `transport` is a caller's own transport, if there is one. It has connections that cannot be opened anew, so it stays in its process.
    """

    def __init__(self, open: Callable[[], C], owner: Callable[[], Owner], transport: object = None) -> None:
        self.owner = process if transport else owner
        self._open: Callable[[], C] = open
        self._only = os.getpid() if transport else None  # the only process that may use it
        self._held: dict[Owner, C] = {}
        self._closed = False

    def mine(self) -> C:
        """The client of the caller's process and loop. ClosedError after `close`."""
        if self._closed:
            raise ClosedError("the client is closed")
        owner = self.owner()
        held = self._held.get(owner)
        if held is not None:
            return held
        if self._only not in (None, owner[0]):
            raise InvalidError("transport: it belongs to another process; make a client in this one")
        self._leave(owner[0])
        return self._held.setdefault(owner, self._open())  # of two threads, one gets the other's

    def _leave(self, pid: int) -> None:
        """Forgets the clients of closed event loops, and keeps those of other processes as they are."""
        for other in list(self._held):
            of, loop = other
            if of != pid:
                _inherited.append(self._held.pop(other, None))
            elif isinstance(loop, asyncio.AbstractEventLoop) and loop.is_closed():
                self._held.pop(other, None)

    def close(self) -> C | None:
        """Refuses further requests, and returns the client of the caller for it to close."""
        self._closed = True
        return self._held.pop(self.owner(), None)


@contextmanager
def streamed(http: Connections[httpx.Client], url: str, headers: Mapping[str, str], timeout: httpx.Timeout) -> Iterator[tuple[httpx.Response, Iterator[bytes]]]:
    """A streamed answer and the bytes of its body. Another process than the one that opened it leaves it open."""
    client, owner = http.mine(), http.owner()
    response = client.send(client.build_request("GET", url, headers=headers, timeout=timeout), stream=True)
    body = response.iter_bytes()
    try:
        yield response, body
    finally:
        if http.owner() == owner:
            response.close()
        else:
            _inherited.append(body)


@asynccontextmanager
async def async_streamed(
    http: Connections[httpx.AsyncClient], url: str, headers: Mapping[str, str], timeout: httpx.Timeout
) -> AsyncIterator[tuple[httpx.Response, AsyncIterator[bytes]]]:
    """As `streamed`, for asyncio."""
    client, owner = http.mine(), http.owner()
    response = await client.send(client.build_request("GET", url, headers=headers, timeout=timeout), stream=True)
    body = response.aiter_bytes()
    try:
        yield response, body
    finally:
        if http.owner() == owner:
            await response.aclose()
        else:
            _inherited.append(body)
