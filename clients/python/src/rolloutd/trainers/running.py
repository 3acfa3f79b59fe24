"""Runs rollouts for a trainer that awaits them, and returns their records."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .._calls import new_id
from ..aio import AsyncClient
from ..errors import InvalidError, RolloutdError
from ..types import Sequence
from .experts import with_experts
from .images import with_images
from .record import Record, records_of

log = logging.getLogger("rolloutd.trainers")

# Seconds for the answer to an abort, after which a cancelled call ends all the same.
_ABORT_S = 10.0

# Which of a rollout's sequences a trainer may choose, by name.
_SELECTION = {"subagents": ("drop", "separate"), "summaries": ("drop", "train"), "sequences": ("all", "one")}


def sampling_of(params: Mapping[str, Any]) -> dict[str, Any]:
    """The sampling parameters of a trainer that rolloutd pins on every model call. `top_k` of -1 means no limit, which is no parameter."""
    names = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
    return {name: params[name] for name in names if params.get(name) is not None and (name != "top_k" or params[name] > 0)}


def arguments_of(task: Mapping[str, Any], row: Mapping[str, Any] | None) -> dict[str, Any]:
    """The arguments of a rollout: those of the task, which those of a row of the data set override.

    A column of Arrow has the fields of all its rows, and None where a row has none. Such a field is no argument.
    """
    if row is not None and not isinstance(row, Mapping):
        raise TypeError(f"`rolloutd` of a row must be an object with arguments of a rollout, not {type(row).__name__}: {str(row)[:80]}")
    return {**task, **_given(row or {})}


def _given(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _given(inner) for name, inner in value.items() if inner is not None}
    return [_given(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def pinned(arguments: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a rollout with the sampling parameters of a trainer, which those of the arguments override, at top level and in the object.

    Of `sampling` and `eval_sampling` the one of the rollout's purpose is left: the server refuses the other.
    """
    name, other = ("eval_sampling", "sampling") if arguments.get("purpose") == "eval" else ("sampling", "eval_sampling")
    kept = {key: value for key, value in arguments.items() if key != other}
    trainers = {param: value for param, value in sampling_of(params).items() if arguments.get(param) is None}
    return {**kept, name: {**trainers, **(arguments.get(name) or {})}}


def unscaled(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a rollout for a trainer that does not tell its temperature, which is usually 1: so are all calls, unless the arguments name another
    or the rollout is an evaluation.

    An agent may have one of its own, with which the log probabilities would be others than the trainer's.
    """
    named = (arguments.get("react") or {}).get("temperature") is not None
    return pinned(arguments, {} if named or arguments.get("purpose") == "eval" else {"temperature": 1.0})


async def run_rollout(client: AsyncClient, task: Mapping[str, Any], *, images: bool = False) -> Record:
    """Runs a rollout. If the caller is cancelled, the rollout is aborted. With `images` its sequences have the bytes of theirs.

    `trajectory` of the task has the arguments of `client.rollouts.trajectory`: {"subagents": "separate", "summaries": "train"}.
    """
    id = task.get("rollout_id") or new_id()
    arguments, selection = _split(task)
    try:
        result = await client.rollouts.run({**arguments, "rollout_id": id})
    except asyncio.CancelledError:
        await _aborted(client.rollouts.abort, id)
        raise

    # A rollout that ended before its first attempt has no trace.
    if result.reward is None:
        return Record.of(result, ())
    return Record.of(result, await _with_files(client, await client.rollouts.trajectory(id, **selection), images))


@dataclass(frozen=True)
class GroupRun:
    """A group that has ended: a record for each member, in order, and the number of rollouts that rolloutd replaced among them."""

    records: list[Record]
    replaced: int


async def run_group(client: AsyncClient, task: Mapping[str, Any], size: int, *, images: bool = False) -> GroupRun:
    """Runs a group. rolloutd replaces members that fail for infrastructure. If the caller is cancelled, the group is aborted.

    `images`, and `trajectory` of the task, are those of `run_rollout`.
    """
    if not 1 <= size <= 128:
        raise InvalidError(f"group_size: must be from 1 to 128, got {size}")
    id = task.get("group_id") or new_id()
    arguments, selection = _split(task)
    try:
        group = await client.groups.run({**arguments, "group_id": id, "group_size": size})
    except asyncio.CancelledError:
        await _aborted(client.groups.abort, id)
        raise

    # One member after the other: all their sequences may be more than one answer of the server has.
    found: list[Sequence] = []
    for member in group.members:
        if member.reward is not None:
            found += await _with_files(client, await client.rollouts.trajectory(member.rollout_id, **selection), images)
    return GroupRun(records_of(group, found), group.replaced)


def _split(task: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The arguments of a rollout, and those of its trajectory."""
    selection = dict(task.get("trajectory") or {})
    for name, value in selection.items():
        if value not in _SELECTION.get(name, ()):
            raise InvalidError(f"trajectory: must have some of {_SELECTION}, got {name!r}: {value!r}")
    return {name: value for name, value in task.items() if name != "trajectory"}, selection


async def _with_files(client: AsyncClient, sequences: Iterable[Sequence], images: bool) -> list[Sequence]:
    found = await with_experts(client, sequences)
    return await with_images(client, found) if images else found


async def _aborted(abort: Callable[[str, str], Awaitable[bool]], id: str) -> None:
    try:
        await asyncio.wait_for(asyncio.shield(abort(id, "the trainer cancelled it")), _ABORT_S)
    except (RolloutdError, asyncio.TimeoutError) as err:
        log.warning("%s is not aborted; it ends by its own limits: %s", id, err)
