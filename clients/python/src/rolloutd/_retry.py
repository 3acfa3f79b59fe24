"""Decides which requests are sent again, and which answers are successes."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

import httpx

from .errors import RolloutdError, UnavailableError, error_of

_BUSY = frozenset({429, 502, 503})
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 5.0


@dataclass
class Retry:
    """Repeats one request with growing pauses until `budget_s` seconds have passed since the first failure.

    The time before it does not count: an answer may take minutes, and a stream may be open for hours.
    """

    budget_s: float
    start: float | None = None  # time of the first failure
    tries: int = 0

    def pause(self, error: Exception, asked_s: float = 0.0) -> float:
        """Seconds until the next attempt. Raises the error once the budget is spent or the error is final."""
        now = time.monotonic()
        self.start = now if self.start is None else self.start
        self.tries += 1
        pause = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(self.tries - 1, 10)) * random.uniform(0.5, 1.0)
        pause = max(pause, asked_s)
        if now + pause - self.start > self.budget_s:
            raise error
        return pause

    def renew(self) -> None:
        """Gives back the whole budget, because the server answers."""
        self.start, self.tries = None, 0


def lost(url: str, error: httpx.RequestError) -> UnavailableError:
    """The error of a request without an answer."""
    failure = UnavailableError(f"no answer from {url}: {type(error).__name__}: {error}".rstrip(": "))
    failure.__cause__ = error
    return failure


def refused(response: httpx.Response) -> RolloutdError | None:
    """The error that a response describes; None if the response is a success. The body must have been read."""
    if response.status_code < 300:
        return None
    try:
        body = response.json()
    except ValueError:
        body = None
    return error_of(response.status_code, body, response.text)


def asked(response: httpx.Response) -> float:
    """Seconds of the header Retry-After, at most 60; 0 without one."""
    try:
        seconds = float(str(response.headers.get("Retry-After", "0")))
    except ValueError:
        return 0.0
    return min(60.0, max(0.0, seconds))


def passing(response: httpx.Response) -> bool:
    """Whether the same request may succeed later."""
    return response.status_code in _BUSY
