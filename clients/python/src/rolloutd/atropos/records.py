"""The types of trajectories for an environment's hooks, and of groups for a trainer."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from atroposlib.envs.base import ScoredDataGroup, ScoredDataItem

from ..trainers.atropos import logprobs_of, masks_of
from ..types import Sequence

__all__ = ["AgentResult", "AgentStep", "ScoredDataGroup", "ScoredDataItem", "SequenceData", "ToolCall", "ToolResult"]

_TAGS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")


@dataclass
class ToolCall:
    """A call of a tool."""

    name: str
    arguments: dict[str, Any]
    raw_text: str = ""
    uniq_id: str = field(default_factory=lambda: str(uuid.uuid4()))


@dataclass
class ToolResult:
    """The answer of a tool."""

    success: bool
    output: str = ""
    error: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    uniq_id: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {"success": self.success, "output": self.output, "error": self.error, "metadata": self.metadata, "uniq_id": self.uniq_id}

    def to_xml(self) -> str:
        """The result as the policy sees it. Tags in it are escaped, so that output cannot end the block."""
        shown: dict[str, Any] = {"success": self.success, "output": self.output}
        shown |= {name: value for name, value in (("uniq_id", self.uniq_id), ("error", self.error), ("metadata", self.metadata)) if value}
        text = json.dumps(shown)
        for tag in _TAGS:
            text = text.replace(tag, "\\u003c" + tag[1:])
        return f"<tool_response>{text}</tool_response>"


@dataclass
class SequenceData:
    """The tokens of a trajectory, and -100 and 1.0 for those that are not trained on."""

    tokens: list[int]
    masked_tokens: list[int]
    logprobs: list[float]


@dataclass
class AgentStep:
    """One reply of the policy and the calls that it made."""

    step_number: int
    assistant_message: str
    tool_calls: list[ToolCall] = field(default_factory=list)
    tool_results: list[ToolResult] = field(default_factory=list)

    @property
    def has_tool_calls(self) -> bool:
        return bool(self.tool_calls)


@dataclass
class AgentResult:
    """The steps of the agent in one trajectory. It succeeded if its last reply calls no tool.

    `opening` has the messages before the first reply. `sequence` is set once the rollout is done.
    """

    success: bool
    final_response: str
    steps: list[AgentStep]
    error: str | None
    rollout_id: str
    sequence: Sequence | None
    opening: list[dict[str, str]] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def trajectory_data(self) -> SequenceData | None:
        s = self.sequence
        return SequenceData(s.token_ids, masks_of(s), logprobs_of(s)) if s else None

    @property
    def total_tokens(self) -> int:
        return len(self.sequence.token_ids) if self.sequence else 0

    @property
    def num_steps(self) -> int:
        return len(self.steps)

    def to_messages(self) -> list[dict[str, str]]:
        """The replies, each followed by the results of its calls, as the policy saw them."""
        messages = []
        for step in self.steps:
            messages.append({"role": "assistant", "content": step.assistant_message})
            if step.tool_results:
                messages.append({"role": "user", "content": "\n".join(result.to_xml() for result in step.tool_results)})
        return messages

    def to_scored_data(self, score: float) -> dict[str, Any] | None:
        """The tokens with a score, as a trainer takes them; None without tokens."""
        data = self.trajectory_data
        if data is None:
            return None
        return {"tokens": data.tokens, "masks": data.masked_tokens, "scores": score, "logprobs": data.logprobs}

    @property
    def total_tool_calls(self) -> int:
        return sum(len(step.tool_calls) for step in self.steps)

    @classmethod
    def of(cls, rollout_id: str, error: str, transcript: Mapping[str, Any], sequence: Sequence | None) -> AgentResult:
        steps: list[AgentStep] = []
        opening: list[dict[str, str]] = []
        for message in transcript.get("messages") or ():
            if message["info"]["role"] == "assistant":
                steps.append(_step(len(steps) + 1, message))
            elif not steps:
                opening += _opening(message)
        success = bool(steps) and not steps[-1].tool_calls
        final = steps[-1].assistant_message if success else ""
        return cls(success, final, steps, error or None, rollout_id, sequence, opening)


def _opening(message: Mapping[str, Any]) -> list[dict[str, str]]:
    """The instruction, and the system prompt before it."""
    info = message["info"]
    before = [{"role": "system", "content": info["system"]}] if info.get("system") else []
    text = "".join(part.get("text", "") for part in message.get("parts") or () if part["type"] == "text")
    return [*before, {"role": info["role"], "content": text}]


def _step(number: int, message: Mapping[str, Any]) -> AgentStep:
    step = AgentStep(number, "")
    for part in message.get("parts") or ():
        if part["type"] == "text":
            step.assistant_message += part.get("text", "")
        elif part["type"] == "tool":
            state = part.get("state") or {}
            call = ToolCall(part.get("tool", ""), dict(state.get("input") or {}), uniq_id=part.get("callID", ""))
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
