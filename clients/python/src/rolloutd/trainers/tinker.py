"""Tinker cookbook 0.6.1: the transitions of a `tinker_cookbook.rl.types.Trajectory`, one for each reply."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from .record import Record
from .rules import trained, turns, untrained


class Transition(TypedDict):
    """A Transition: the observation, and tokens, log probabilities and stop reason of the action. Its reward is the turn's, that of a rollout the group's."""

    ob: list[int]
    tokens: list[int]
    logprobs: list[float]
    reward: float
    stop_reason: str
    episode_done: bool


class Group(TypedDict):
    """A TrajectoryGroup: trajectories and their rewards, and why other rollouts are missing."""

    trajectories: list[list[Transition]]
    final_rewards: list[float]
    rollout_errors: list[str]


def transitions(record: Record) -> list[Transition]:
    """The transitions of a rollout; none without a reward. The cookbook joins those whose observation continues the one before."""
    rows = [
        Transition(
            ob=turn.prompt_ids,
            tokens=turn.completion_ids,
            logprobs=turn.logprobs,
            reward=turn.reward,
            stop_reason="length" if turn.span.truncated else "stop",
            episode_done=False,
        )
        for sequence in trained(record)
        for turn in turns(sequence)
    ]
    if rows:
        rows[-1]["episode_done"] = True
    return rows


def group(records: Iterable[Record]) -> Group:
    """A group. Rollouts without training data are left out, with the reason among the errors."""
    out = Group(trajectories=[], final_rewards=[], rollout_errors=[])
    for record in records:
        if record.reward is None or not trained(record):
            out["rollout_errors"].append(untrained(record))
            continue
        out["trajectories"].append(transitions(record))
        out["final_rewards"].append(record.reward)
    return out
