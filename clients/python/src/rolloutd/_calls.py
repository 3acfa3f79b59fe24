"""The requests of the API without their transport, for both clients."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from .errors import InvalidError, ProtocolError, RolloutdError
from .types import Counts, Group, GroupPage, ListedGroup, Page, Regrade, Result, Sequence, State

T = TypeVar("T")


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request. Each request is safe to repeat: a request that starts an operation has the id of the operation."""

    method: str
    path: str
    parse: Callable[[bytes], T]
    params: Mapping[str, str] = field(default_factory=dict)
    body: Any = None  # sent as JSON
    read_s: float = 0.0  # how long the answer may take, if longer than usual
    content: Callable[[], Iterator[bytes]] | None = None  # a body that is not JSON


def encode(body: Any) -> bytes:
    """The JSON of a body. InvalidError if it has none, for instance because of a NaN."""
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as err:
        raise InvalidError(f"the arguments cannot be sent as JSON: {err}") from err


def decode(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError as err:
        raise ProtocolError(f"the answer is not JSON: {text[:200]!r}") from err


def read(of: Callable[[Mapping[str, Any]], T], raw: Any) -> T:
    try:
        return of(raw)
    except RolloutdError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as err:
        raise ProtocolError(f"the answer lacks members of the API: {str(raw)[:200]}") from err


def object_of(of: Callable[[Mapping[str, Any]], T]) -> Callable[[bytes], T]:
    return lambda text: read(of, decode(text))


def _lines(of: Callable[[Mapping[str, Any]], T]) -> Callable[[bytes], list[T]]:
    one = object_of(of)
    return lambda text: [one(line) for line in text.splitlines() if line]


def _same(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    return raw


def new_id() -> str:
    return uuid.uuid4().hex


def one(kind: str, id: str, what: str = "") -> str:
    """The path of a rollout or a group, or of a resource below it."""
    if not isinstance(id, str) or not id:
        raise InvalidError(f"the id of one of the {kind} must be a text and must not be empty, got {id!r}")
    return f"/{kind}/{quote(id, safe='', errors='replace')}" + (f"/{what}" if what else "")


def chunks(path: str | os.PathLike[str]) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            yield chunk


def digest_of(path: str | os.PathLike[str]) -> str:
    digest = hashlib.sha256()
    for chunk in chunks(path):
        digest.update(chunk)
    return digest.hexdigest()


def uploaded(digest: str) -> Call[str]:
    return Call("GET", one("uploads", digest), object_of(lambda raw: str(raw["sha256"])))


def upload(digest: str, path: str | os.PathLike[str]) -> Call[str]:
    return Call("PUT", one("uploads", digest), object_of(lambda raw: str(raw["sha256"])), content=lambda: chunks(path))


def submit(task: Mapping[str, Any]) -> Call[str]:
    return Call("POST", "/rollouts", object_of(lambda raw: str(raw["rollout_id"])), body={"rollout_id": new_id(), **task})


def again(id: str, new: str) -> Call[str]:
    return Call("POST", one("rollouts", id, "again"), object_of(lambda raw: str(raw["rollout_id"])), body={"rollout_id": new or new_id()})


def state(id: str) -> Call[State]:
    return Call("GET", one("rollouts", id), object_of(State.of))


def state_of(raw: Any) -> State:
    return read(State.of, raw)


def result(id: str) -> Call[Result]:
    return Call("GET", one("rollouts", id, "result"), object_of(Result.of))


def trace(id: str) -> Call[list[Mapping[str, Any]]]:
    return Call("GET", one("rollouts", id, "trace"), _lines(_same))


def images(id: str) -> Call[bytes]:
    return Call("GET", one("rollouts", id, "images"), bytes)


def routed_experts(id: str) -> Call[bytes]:
    return Call("GET", one("rollouts", id, "routed_experts"), bytes)


def messages(id: str) -> Call[Mapping[str, Any]]:
    return Call("GET", one("rollouts", id, "messages"), object_of(_same))


def log(id: str, name: str) -> Call[str]:
    return Call("GET", one("rollouts", id, f"logs/{quote(name, safe='')}"), lambda text: text.decode(errors="replace"))


def trajectory(kind: str, id: str, subagents: str, summaries: str, sequences: str) -> Call[list[Sequence]]:
    return Call("GET", one(kind, id, "trajectory"), _lines(Sequence.of), _selection("jsonl", subagents, summaries, sequences))


def shaped(kind: str, id: str, format: str, subagents: str, summaries: str, sequences: str) -> Call[Mapping[str, Any]]:
    return Call("GET", one(kind, id, "trajectory"), object_of(_same), _selection(format, subagents, summaries, sequences))


def _selection(format: str, subagents: str, summaries: str, sequences: str) -> Mapping[str, str]:
    # An earlier server knows no summaries, and refuses parameters that it does not know.
    trained = None if summaries == "drop" else summaries
    return known({"format": format, "subagents": subagents, "summaries": trained, "sequences": sequences})


def abort(kind: str, id: str, reason: str) -> Call[bool]:
    return Call("POST", one(kind, id, "abort"), object_of(lambda raw: bool(raw["aborted"])), body={"reason": reason})


def regrade(rollout_id: str, task: Mapping[str, Any], apply: bool) -> Call[Regrade]:
    body = {"task": dict(task), "apply": apply, "regrade_id": new_id()[:16]}
    return Call("POST", one("rollouts", rollout_id, "regrade"), object_of(Regrade.of), body=body)


def regraded(before: Regrade) -> Call[Regrade]:
    path = one("rollouts", before.rollout_id, f"regrades/{before.regrade_id}")
    return Call("GET", path, object_of(Regrade.of), params={"wait_s": "20"})


def regrades(rollout_id: str) -> Call[list[Regrade]]:
    return Call("GET", one("rollouts", rollout_id, "regrades"), object_of(lambda raw: [Regrade.of(r) for r in raw["regrades"]]))


def known(params: Mapping[str, Any]) -> Mapping[str, str]:
    return {name: str(value) for name, value in params.items() if value is not None and value != ""}


def rollouts(**params: Any) -> Call[Page]:
    def of(raw: Mapping[str, Any]) -> Page:
        return Page(tuple(State.of(s) for s in raw["rollouts"] or ()), raw.get("next", ""))

    return Call("GET", "/rollouts", object_of(of), known(params))


def counts(**params: Any) -> Call[Counts]:
    return Call("GET", "/counts", object_of(Counts.of), known(params))


def groups(**params: str | int | None) -> Call[GroupPage]:
    def of(raw: Mapping[str, Any]) -> GroupPage:
        return GroupPage(tuple(ListedGroup.of(g) for g in raw["groups"] or ()), raw.get("next", ""))

    return Call("GET", "/groups", object_of(of), known(params))


def submit_group(task: Mapping[str, Any]) -> Call[Group]:
    return Call("POST", "/groups", object_of(Group.of), body={"group_id": new_id(), **task})


def group(id: str) -> Call[Group]:
    return Call("GET", one("groups", id), object_of(Group.of))
