"""The errors of the client. Each class is one kind of failure, so that callers can handle kinds separately."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class RolloutdError(Exception):
    """A request failed. `kind` is the server's name for the failure, `status` the HTTP status; both may be missing."""

    def __init__(self, message: str, *, kind: str = "", status: int = 0) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status


class InvalidError(RolloutdError, ValueError):
    """The request is invalid; repeating it does not help. The message names the argument."""


class UnauthorizedError(RolloutdError):
    """The token is missing or wrong, or has no right to do this."""


class NotFoundError(RolloutdError):
    """There is no such rollout, group or route."""


class ConflictError(RolloutdError):
    """The state of the resource does not allow this: not done yet, taken by another owner, or without training data."""


class ExhaustedError(RolloutdError):
    """A quota or capacity is used up; waiting may help."""


class UnavailableError(RolloutdError):
    """No server answered, or it cannot serve now; trying again may help."""


class DeadlineError(RolloutdError, TimeoutError):
    """A time limit ran out. The operation continues: a request with the same id returns it."""


class ServerError(RolloutdError):
    """The server failed; its log has the error_id that the message names."""


class ProtocolError(RolloutdError):
    """The answer does not come from a rolloutd server."""


class ClosedError(RolloutdError, RuntimeError):
    """The client was closed before the request."""


class UnscoredError(RolloutdError, RuntimeError):
    """A rollout ended without a reward and must not be trained on."""


_BY_KIND: Mapping[str, type[RolloutdError]] = {
    "Invalid": InvalidError,
    "Unauthorized": UnauthorizedError,
    "NotFound": NotFoundError,
    "Conflict": ConflictError,
    "Exhausted": ExhaustedError,
    "Unavailable": UnavailableError,
    "Timeout": DeadlineError,
    "SetupFailed": UnscoredError,
}

_BY_STATUS: Mapping[int, type[RolloutdError]] = {
    400: InvalidError,
    401: UnauthorizedError,
    403: UnauthorizedError,
    404: NotFoundError,
    409: ConflictError,
    413: InvalidError,
    422: InvalidError,
    429: ExhaustedError,
    502: UnavailableError,
    503: UnavailableError,
    504: DeadlineError,
}


def error_of(status: int, body: Any, text: str) -> RolloutdError:
    """The error that an answer describes. `body` is the decoded JSON, or None if the text is not JSON."""
    kind, message = "", ""
    if isinstance(body, dict):
        kind = str(body.get("kind") or "")
        message = _detail(body.get("detail", body.get("message")))
        if body.get("error_id"):
            message += f" (error_id {body['error_id']})"
    if not message:
        message = f"the server answered {status}: {text[:400].strip() or 'no text'}"
    cls = _BY_KIND.get(kind) or _BY_STATUS.get(status) or ServerError
    return cls(message, kind=kind, status=status)


def error_of_kind(kind: str, message: str) -> RolloutdError:
    """The error of a kind that an answer names beside its content."""
    return _BY_KIND.get(kind, ServerError)(message or kind, kind=kind)


def _detail(detail: Any) -> str:
    """The text of `detail`, which is a string or a list of findings about the request."""
    if isinstance(detail, str):
        return detail
    if not isinstance(detail, list):
        return ""
    found = []
    for item in detail:
        if isinstance(item, dict):
            place = ".".join(str(part) for part in item.get("loc") or [] if part != "body")
            found.append(f"{place}: {item.get('msg', '')}" if place else str(item.get("msg", "")))
    return "; ".join(found)
