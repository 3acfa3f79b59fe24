"""Replacing the weights behind an endpoint while rollouts run: no model call spans two versions unless the engine allows it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from ._calls import decode
from ._connections import Connections, process
from ._http import bearer, server_of
from ._retry import Retry, lost, refused
from .errors import RolloutdError

T = TypeVar("T")

DEFAULT_TRAINER_API = "http://127.0.0.1:7071"


@dataclass(frozen=True)
class Endpoint:
    """The state of an endpoint at one gateway."""

    gateway: str
    paused: bool
    in_flight: int
    queued: int


class WeightSync:
    """The trainer API of the gateways of a deployment, for one endpoint.

    `gateways` are the URLs of their trainer APIs (ROLLOUTD_TRAINER_URL), one per host; `token` is a trainer token (ROLLOUTD_TRAINER_TOKEN).
    """

    def __init__(
        self,
        endpoint: str,
        gateways: str | Sequence[str] | None = None,
        *,
        token: str | None = None,
        retry_s: float = 30.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.endpoint = endpoint
        given = gateways or os.environ.get("ROLLOUTD_TRAINER_URL") or DEFAULT_TRAINER_API
        self.gateways = [server_of(url) for url in ([given] if isinstance(given, str) else given)]
        token = os.environ.get("ROLLOUTD_TRAINER_TOKEN", "") if token is None else token
        headers = bearer(token)
        self._retry_s = retry_s
        self._http = Connections(lambda: httpx.Client(headers=headers, timeout=httpx.Timeout(10.0), transport=transport), process, transport)

    def close(self) -> None:
        """Closes the connections. A pause ends by itself."""
        if (http := self._http.close()) is not None:
            http.close()

    def update(self, load: Callable[[], T], *, version: str | None = None, wait_s: float = 300.0, hold_s: float = 60.0, abort: bool = False) -> T:
        """Drains the endpoint, calls `load`, and resumes with the name of the new weights; see `drained`."""
        with self.drained(version=version, wait_s=wait_s, hold_s=hold_s, abort=abort):
            return load()

    @contextmanager
    def drained(self, *, version: str | None = None, wait_s: float = 300.0, hold_s: float = 60.0, abort: bool = False) -> Iterator[None]:
        """While the body runs, no model call is in flight and none begins.

        `version` names the weights that the body loads, such as "step-12". Later turns have this version if the engine itself
        reports none. It stays until the next update.

        Calls in flight have `wait_s` seconds to end. If they take longer, DeadlineError is raised and the endpoint resumes; with `abort`, the
        calls are ended instead and repeated from their start after the pause. The pause is renewed while the body runs, and ends `hold_s` seconds
        after this process dies.
        """
        done = threading.Event()
        renewer = threading.Thread(target=self._renew, args=(done, hold_s), name="rolloutd-pause", daemon=True)
        try:
            self._each("pause", {"for_s": hold_s})
            renewer.start()
            self._each("drain", {"for_s": wait_s + hold_s, "wait_s": wait_s, "abort": abort}, within_s=wait_s + 30.0)
            yield
        except BaseException:
            _end(done, renewer)
            with suppress(RolloutdError):  # the first failure is the one to report; the pause ends by itself
                self._each("resume", None)
            raise
        _end(done, renewer)
        self._each("resume", None if version is None else {"version": version})

    def status(self) -> list[Endpoint]:
        """The state of the endpoint at each gateway."""
        return [Endpoint(url, raw["paused"], raw["in_flight"], raw["queued"]) for url, raw in self._each("", None)]

    def _renew(self, done: threading.Event, hold_s: float) -> None:
        while not done.wait(hold_s / 3):
            try:
                self._each("pause", {"for_s": hold_s})
            except RolloutdError:
                continue  # the pause still holds for a while; the next renewal may succeed

    def _each(self, what: str, body: dict[str, Any] | None, within_s: float = 10.0) -> list[tuple[str, dict[str, Any]]]:
        """Sends a request to all gateways at the same time. The first failure is raised once all have answered."""
        with ThreadPoolExecutor(len(self.gateways)) as pool:
            futures = [pool.submit(self._send, url, what, body, within_s) for url in self.gateways]
        return [(url, future.result()) for url, future in zip(self.gateways, futures, strict=True)]

    def _send(self, gateway: str, what: str, body: dict[str, Any] | None, within_s: float) -> dict[str, Any]:
        url = f"{gateway}/upstreams/{quote(self.endpoint, safe='')}" + (f"/{what}" if what else "")
        retry = Retry(self._retry_s)
        while True:
            try:
                response = self._http.mine().request("POST" if what else "GET", url, json=body, timeout=within_s)
            except httpx.RequestError as err:
                time.sleep(retry.pause(lost(gateway, err)))
                continue
            error = refused(response)
            if error is not None:
                raise error
            answer: dict[str, Any] = decode(response.content)
            return answer


def _end(done: threading.Event, renewer: threading.Thread) -> None:
    done.set()
    if renewer.ident is not None:
        renewer.join()
