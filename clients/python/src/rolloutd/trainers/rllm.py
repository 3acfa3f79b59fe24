"""rLLM: the steps of an `rllm.types.Trajectory`, one for each reply."""

from __future__ import annotations

from typing import Any, TypedDict

from ..staleness import version_number
from .record import Record
from .rules import Turn, trained, turns


class Step(TypedDict):
    """The fields of a Step. `model_output` has those of its ModelOutput. Its reward is the turn's; that of the rollout is the trajectory's."""

    model_output: dict[str, Any]
    reward: float
    done: bool


def steps(record: Record) -> list[Step]:
    """The steps of a rollout, in order; none without a reward. rLLM joins those whose prompt continues the step before."""
    made = [Step(model_output=_output(turn), reward=turn.reward, done=False) for sequence in trained(record) for turn in turns(sequence)]
    if made:
        made[-1]["done"] = True
    return made


def _output(turn: Turn) -> dict[str, Any]:
    known = [v for v in map(version_number, turn.span.versions) if v is not None]
    return {
        "prompt_ids": turn.prompt_ids,
        "completion_ids": turn.completion_ids,
        "logprobs": turn.logprobs,
        "prompt_length": len(turn.prompt_ids),
        "completion_length": len(turn.completion_ids),
        "finish_reason": "length" if turn.span.truncated else "stop",
        "weight_version": min(known, default=None),
    }
