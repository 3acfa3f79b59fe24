"""ART 0.5: the choices of a trajectory (`art.Trajectory`), which have the ids of their tokens."""

from __future__ import annotations

from typing import Any, TypedDict

from .record import Record
from .rules import Turn, named_rewards, trained, turns, version_range


class Trajectory(TypedDict, total=False):
    """The fields of an `art.Trajectory`, apart from `histories`: a list of choices for each history of the trajectory, as vLLM returns them."""

    histories: list[list[dict[str, Any]]]
    reward: float
    initial_policy_version: int
    final_policy_version: int
    metrics: dict[str, float]
    metadata: dict[str, Any]


def trajectory(record: Record) -> Trajectory | None:
    """A trajectory with a history for each sequence to train on and a choice for each of its replies; None of a record without training data.

    A record has no texts, and so the messages of the choices are empty. The versions of the weights are left out where they are unknown.
    """
    if record.reward is None or not trained(record):
        return None
    fields = Trajectory(
        histories=[[_choice(turn) for turn in turns(sequence)] for sequence in trained(record)],
        reward=record.reward,
        metrics=named_rewards(record),
        metadata={"rollout": record.rollout_id, "outcome": record.outcome, "task": record.task_id},
    )
    if versions := version_range(trained(record)):
        fields["initial_policy_version"], fields["final_policy_version"] = versions
    return fields


def _choice(turn: Turn) -> dict[str, Any]:
    logprobs = [
        {"token": f"token_id:{id}", "logprob": logprob, "top_logprobs": []} for id, logprob in zip(turn.completion_ids, turn.logprobs, strict=True)
    ]
    return {
        "index": 0,
        "finish_reason": "length" if turn.span.truncated else "stop",
        "message": {"role": "assistant", "content": ""},
        "prompt_token_ids": turn.prompt_ids,
        "token_ids": turn.completion_ids,
        "logprobs": {"content": logprobs},
    }
