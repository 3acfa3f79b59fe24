"""Replacing the weights behind an endpoint while rollouts run: no model call spans two versions unless the engine allows it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from .errors import RolloutdError, UnavailableError

T = TypeVar("T")

DEFAULT_TRAINER_API = "http://127.0.0.1:7071"


@dataclass(frozen=True)
class Endpoint:
    """The state of an endpoint at one gateway."""

    gateway: str
    paused: bool
    in_flight: int
    queued: int


@dataclass(frozen=True)
class AuditedVersion:
    """The turns of one version of the weights, "" if it has no name. Differences are recorded log probabilities less those that the engine gave again."""

    version: str
    turns: int
    tokens: int
    mean_absolute: float
    k1: float
    k3: float


@dataclass(frozen=True)
class AuditedTurn:
    """A turn that does not fit the weights that it names. `route` is the id of its rollout's route."""

    route: str
    turn: int
    version: str
    mean_absolute: float


@dataclass(frozen=True)
class Audit:
    """What an audit found at one gateway. `skipped` counts turns that were not scored again, by reason."""

    gateway: str
    turns: int
    versions: tuple[AuditedVersion, ...]
    skipped: Mapping[str, int]
    marked: tuple[AuditedTurn, ...]

    @classmethod
    def of(cls, gateway: str, raw: Mapping[str, Any]) -> Audit:
        return cls(
            gateway=gateway,
            turns=raw["turns"],
            versions=tuple(
                AuditedVersion(v.get("version", ""), v["turns"], v["tokens"], v["mean_abs"], v["k1"], v["k3"]) for v in raw.get("versions") or ()
            ),
            skipped=raw.get("skipped") or {},
            marked=tuple(AuditedTurn(t["route"], t["turn"], t.get("version", ""), t["mean_abs"]) for t in raw.get("marked") or ()),
        )


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
        after this process dies. UnavailableError, once the endpoint has resumed, if renewals failed for so long that it may have ended before.
        """
        done, hold = threading.Event(), _Hold(hold_s)
        renewer = threading.Thread(target=self._renew, args=(done, hold), name="rolloutd-pause", daemon=True)
        try:
            self._each("pause", {"for_s": hold_s})
            renewer.start()
            self._each("drain", {"for_s": wait_s + hold_s, "wait_s": wait_s, "abort": abort}, within_s=wait_s + 30.0)
            hold.ended = False  # the drain has paused it anew
            yield
            hold.look()
        except BaseException:
            _end(done, renewer)
            with suppress(RolloutdError):  # the first failure is the one to report; the pause ends by itself
                self._each("resume", None)
            raise
        _end(done, renewer)
        self._each("resume", None if version is None else {"version": version})
        if hold.ended:
            raise UnavailableError(f"the pause of {self.endpoint} was not renewed for {hold_s:g} s: calls may have run while it was drained")

    def status(self) -> list[Endpoint]:
        """The state of the endpoint at each gateway."""
        return [Endpoint(url, raw["paused"], raw["in_flight"], raw["queued"]) for url, raw in self._each("", None, method="GET")]

    def audit(self, *, turns: int = 32, limit: float = 0.1, tokens: int = 4096, drop: bool = False, wait_s: float = 300.0) -> list[Audit]:
        """Has the latest `turns` of each gateway scored again by the engine, at most `tokens` in a request, and says how they differ by version.

        A turn whose mean absolute difference is above `limit` nats is marked, and with `drop` not trained on.
        """
        body = {"turns": turns, "limit": limit, "tokens": tokens, "drop": drop}
        return [Audit.of(url, raw) for url, raw in self._each("audit", body, within_s=wait_s)]

    def latest_audit(self) -> list[Audit]:
        """What the latest audit of each gateway found, also in the background. NotFoundError if one has made none since it began."""
        return [Audit.of(url, raw) for url, raw in self._each("audit", None, method="GET")]

    def _renew(self, done: threading.Event, hold: _Hold) -> None:
        while not done.wait(hold.seconds / 3):
            asked = time.monotonic()
            try:
                self._each("pause", {"for_s": hold.seconds})
            except RolloutdError:
                continue  # the pause still holds for a while; the next renewal may succeed
            hold.renew(asked)

    def _each(self, what: str, body: dict[str, Any] | None, within_s: float = 10.0, method: str = "POST") -> list[tuple[str, dict[str, Any]]]:
        """Sends a request to all gateways at the same time. The first failure is raised once all have answered."""
        with ThreadPoolExecutor(len(self.gateways)) as pool:
            futures = [pool.submit(self._send, url, what, body, within_s, method) for url in self.gateways]
        return [(url, future.result()) for url, future in zip(self.gateways, futures, strict=True)]

    def _send(self, gateway: str, what: str, body: dict[str, Any] | None, within_s: float, method: str) -> dict[str, Any]:
        url = f"{gateway}/upstreams/{quote(self.endpoint, safe='')}" + (f"/{what}" if what else "")
        retry = Retry(self._retry_s)
        while True:
            try:
                response = self._http.mine().request(method, url, json=body, timeout=within_s)
            except httpx.RequestError as err:
                time.sleep(retry.pause(lost(gateway, err)))
                continue
            error = refused(response)
            if error is not None:
                raise error
            answer: dict[str, Any] = decode(response.content)
            return answer


class _Hold:
    """A pause that is renewed. `ended` says whether it may have ended in between."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.ended = seconds, False
        self._since = time.monotonic()

    def renew(self, asked: float) -> None:
        """Notes a renewal that was asked for at a time."""
        self.look()
        self._since = asked

    def look(self) -> None:
        """Notes whether the pause may have ended by now."""
        self.ended = self.ended or time.monotonic() - self._since > self.seconds


def _end(done: threading.Event, renewer: threading.Thread) -> None:
    done.set()
    if renewer.ident is not None:
        renewer.join()
