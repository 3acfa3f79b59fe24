"""The types of trajectories for an environment's hooks, and of groups for a trainer."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict

from ..types import Sequence

MASKED_ID = -100
MASKED_LOGPROB = 1.0


@dataclass
class ToolCall:
    """A call of a tool."""

    name: str
    arguments: dict[str, Any]
    uniq_id: str = field(default_factory=lambda: str(uuid.uuid4()))


@dataclass
class ToolResult:
    """The answer of a tool."""

    success: bool
    output: str = ""
    error: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    uniq_id: str | None = None


@dataclass
class AgentStep:
    """One reply of the policy and the calls that it made."""

    step_number: int
    assistant_message: str
    tool_calls: list[ToolCall] = field(default_factory=list)
    tool_results: list[ToolResult] = field(default_factory=list)


@dataclass
class AgentResult:
    """The steps of the agent in one trajectory. It succeeded if its last reply calls no tool. `sequence` is set once the rollout is done."""

    success: bool
    final_response: str
    steps: list[AgentStep]
    error: str | None
    rollout_id: str
    sequence: Sequence | None

    @property
    def total_tool_calls(self) -> int:
        return sum(len(step.tool_calls) for step in self.steps)

    @classmethod
    def of(cls, rollout_id: str, error: str, transcript: Mapping[str, Any], sequence: Sequence | None) -> AgentResult:
        steps: list[AgentStep] = []
        for message in transcript.get("messages") or ():
            if message["info"]["role"] == "assistant":
                steps.append(_step(len(steps) + 1, message))
        success = bool(steps) and not steps[-1].tool_calls
        final = steps[-1].assistant_message if success else ""
        return cls(success, final, steps, error or None, rollout_id, sequence)


def _step(number: int, message: Mapping[str, Any]) -> AgentStep:
    step = AgentStep(number, "")
    for part in message.get("parts") or ():
        if part["type"] == "text":
            step.assistant_message += part.get("text", "")
        elif part["type"] == "tool":
            state = part.get("state") or {}
            call = ToolCall(part.get("tool", ""), dict(state.get("input") or {}), part.get("callID", ""))
            step.tool_calls.append(call)
            step.tool_results.append(
                ToolResult(
                    success=state.get("status") == "completed",
                    output=state.get("output", ""),
                    error=state.get("error", ""),
                    metadata=dict(state.get("metadata") or {}),
                    uniq_id=call.uniq_id,
                )
            )
    return step


class ScoredGroup(TypedDict, total=False):
    """A group in the form of Atropos' trainer API (POST /scored_data)."""

    tokens: list[list[int]]
    masks: list[list[int]]
    scores: list[float]
    inference_logprobs: list[list[float]]
    messages: list[list[dict[str, str]]] | None
    generation_params: dict[str, Any]
    overrides: list[dict[str, Any]]
    group_overrides: dict[str, Any]
    env_id: int


def masks_of(s: Sequence) -> list[int]:
    """The id of each token to train on, and -100 for every other."""
    return [id if mask else MASKED_ID for id, mask in zip(s.token_ids, s.loss_mask, strict=True)]


def logprobs_of(s: Sequence) -> list[float]:
    """The log probability of each token to train on, and 1.0 for every other."""
    return [logp if mask else MASKED_LOGPROB for logp, mask in zip(s.logprobs, s.loss_mask, strict=True)]
