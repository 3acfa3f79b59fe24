"""The requests about interactive episodes and the tool executor, and the types of the answers."""

from __future__ import annotations

import math
from base64 import b64decode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from ._calls import Call, new_id, object_of, one
from .errors import InvalidError, UnavailableError, error_of_kind
from .types import JSON, Task, TurnReward

# Time limit of a step; the limits of the tools are shorter.
STEP_S = 900.0


@dataclass(frozen=True)
class Episode:
    """An interactive episode that a reset opened. `session` is the id under which its calls are made."""

    session: str
    environment: str
    episode_id: str
    rollout_id: str
    task_id: str
    instruction: str

    @classmethod
    def of(cls, session: str, environment: str, raw: JSON) -> Episode:
        begun = raw["observation"]
        return cls(session, environment, begun["episode_id"] or "", begun["rollout_id"], begun.get("task_id", ""), begun.get("instruction", ""))


@dataclass(frozen=True)
class Step:
    """The result of a step. `error` is the reason why the tool did not run; `failed` is true if it ran and failed, for instance by its exit code."""

    text: str
    failed: bool
    error: str
    data: JSON  # facts such as exit_code
    done: bool
    reward: float | None
    raw: JSON = field(repr=False)

    @classmethod
    def of(cls, raw: JSON) -> Step:
        seen = raw["observation"]
        result, error = seen.get("result") or {}, seen.get("error") or {}
        return cls(
            text=result.get("data") or "",
            failed=result.get("is_error", False),
            error=error.get("message", ""),
            data=result.get("structured_content") or {},
            done=raw.get("done", False),
            reward=raw.get("reward"),
            raw=raw,
        )


@dataclass(frozen=True)
class EpisodeTool:
    """A tool of an environment. `parameters` is the JSON schema of its arguments."""

    name: str
    description: str
    parameters: JSON


@dataclass(frozen=True)
class Execution:
    """The answer of the executor's tool. `success` is false if the tool failed. A failure that is not the tool's is raised."""

    success: bool
    output: str
    error: str
    metadata: JSON

    @classmethod
    def of(cls, raw: JSON) -> Execution:
        metadata, error = raw.get("metadata") or {}, raw.get("error") or ""
        if not raw["success"] and metadata.get("fault"):
            raise error_of_kind(metadata["fault"], error)
        return cls(raw["success"], raw.get("output") or "", error, metadata)


class EpisodeTask(Task, total=False):
    """The arguments of an episode: those of a rollout. `seed` picks a task of the environment's task set."""


def reset(environment: str, session: str, task: Mapping[str, Any]) -> Call[Episode]:
    def of(raw: JSON) -> Episode:
        return Episode.of(session, environment, raw)

    return Call("POST", _path(environment, "reset"), object_of(of), body={**task, "session_id": session}, read_s=STEP_S)


def call(episode: Episode, tool: str, arguments: Mapping[str, Any], request_id: str) -> Call[Step]:
    action = {"type": "call_tool", "tool_name": tool, "arguments": arguments}
    body = {"action": action, "request_id": request_id or new_id(), "session_id": episode.session}
    return Call("POST", _path(episode.environment, "step"), object_of(Step.of), body=body, read_s=STEP_S)


def tools(environment: str) -> Call[list[EpisodeTool]]:
    def of(raw: JSON) -> list[EpisodeTool]:
        return [EpisodeTool(t["name"], t.get("description", ""), t["input_schema"]) for t in raw["observation"]["tools"]]

    return Call("POST", _path(environment, "step"), object_of(of), body={"action": {"type": "list_tools"}})


def score(rollout_id: str, score: float, rewards: Mapping[str, float] | None, turns: Iterable[TurnReward]) -> Call[float]:
    turns = tuple(turns)
    for what, value in [("score", score), *(rewards or {}).items(), *((f"turn {turn.turn}", turn.reward) for turn in turns)]:
        if not math.isfinite(value):
            raise InvalidError(f"{what}: must be a finite number, got {value}")
    body: dict[str, Any] = {"score": score}
    if rewards:
        body["rewards"] = dict(rewards)
    if turns:
        body["turns"] = [{"turn": turn.turn, "reward": turn.reward, **({"name": turn.name} if turn.name else {})} for turn in turns]
    return Call("POST", one("rollouts", rollout_id, "score"), object_of(lambda raw: float(raw["score"])), body=body)


def execute(trajectory_id: str, tool: str, arguments: Mapping[str, Any], uniq_id: str, timeout_s: float | None) -> Call[Execution]:
    body: dict[str, Any] = {"trajectory_id": trajectory_id, "tool": {"name": tool, "arguments": arguments, "uniq_id": uniq_id or new_id()}}
    if timeout_s is not None:
        body["timeout_s"] = timeout_s
    return Call("POST", "/executor/execute", object_of(Execution.of), body=body, read_s=STEP_S)


def archive(trajectory_id: str, path: str, max_bytes: int) -> Call[bytes]:
    def of(raw: JSON) -> bytes:
        if not raw["success"] or raw.get("error"):
            raise UnavailableError(f"archive of {trajectory_id}: {raw.get('error')}")
        return b64decode(raw["content"], validate=True)

    body = {"trajectory_id": trajectory_id, "path": path, "max_bytes": max_bytes}
    return Call("POST", "/executor/artifacts/archive", object_of(of), body=body, read_s=STEP_S)


def release(trajectory_id: str) -> Call[bool]:
    return Call("POST", "/executor/release", object_of(lambda raw: raw["status"] == "ok"), body={"trajectory_id": trajectory_id})


def _path(environment: str, what: str) -> str:
    return f"/env/{quote(environment, safe='')}/{what}"
