"""OpenRLHF 0.11: what `AgentExecutorBase.execute` returns."""

from __future__ import annotations

from typing import Any, TypedDict

from ..errors import UnscoredError
from .record import Record
from .rules import longest, token_logprobs, trained, turns, untrained


class Execution(TypedDict):
    """One sequence. `action_ranges` are the tokens to train on, first and after the last, in `observation_tokens`."""

    prompt: Any
    label: Any
    reward: float
    scores: float
    observation_tokens: list[int]
    action_ranges: list[tuple[int, int]]
    rollout_log_probs: list[float]
    truncated: bool
    extra_logs: dict[str, float]


def execution(record: Record, prompt: Any, label: Any = None) -> Execution:
    """The longest sequence of a rollout: the trainer takes one of each prompt. UnscoredError without training data, for which it has no form."""
    sequence = longest(trained(record))
    if record.reward is None or sequence is None:
        raise UnscoredError(untrained(record))
    return Execution(
        prompt=prompt,
        label=label,
        reward=record.reward,
        scores=record.reward,
        observation_tokens=sequence.token_ids,
        action_ranges=[(turn.span.start, turn.span.stop) for turn in turns(sequence)],
        rollout_log_probs=token_logprobs(sequence),
        truncated=sequence.spans[-1].truncated,
        extra_logs={},
    )


def evaluated(record: Record, prompt: Any, label: Any = None) -> Execution:
    """An evaluation of a rollout: its reward, and the ids of its longest sequence, without any to train on. UnscoredError without a reward."""
    if record.reward is None:
        raise UnscoredError(untrained(record))
    ids = max((sequence.token_ids for sequence in record.sequences), key=len, default=[0, 0])
    return Execution(
        prompt=prompt,
        label=label,
        reward=record.reward,
        scores=record.reward,
        observation_tokens=ids,
        action_ranges=[],
        rollout_log_probs=[0.0] * len(ids),
        truncated=False,
        extra_logs={},
    )
