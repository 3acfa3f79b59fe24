"""TRL 1.16: the return value of a `rollout_func` of GRPOTrainer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypedDict

from ..errors import UnscoredError
from ..types import Sequence
from .record import Record
from .rules import longest, split, trained, untrained


class Batch(TypedDict):
    """The return value of a rollout_func: one element per prompt."""

    prompt_ids: list[list[int]]
    completion_ids: list[list[int]]
    logprobs: list[list[float]]
    env_mask: list[list[int]]
    rewards: list[float | None]
    rollout_ids: list[str]


def batch(records: Iterable[Record], excluded: Callable[[Sequence], bool] = lambda _: False) -> Batch:
    """A row for each record, with its longest sequence: TRL takes one of each prompt.

    A record without training data, or whose sequence is excluded, has the reward None, which TRL leaves out of the group's mean, and a masked row
    of one token, because a row may not be empty. UnscoredError if no record has training data.
    """
    rows = [(record, longest(trained(record))) for record in records]
    filler = next((sequence for _, sequence in rows if sequence is not None), None)
    if filler is None:
        raise UnscoredError(f"no rollout of this batch has a reward and tokens to train on: {'; '.join(untrained(r) for r, _ in rows)}")

    out = Batch(prompt_ids=[], completion_ids=[], logprobs=[], env_mask=[], rewards=[], rollout_ids=[])
    for record, sequence in rows:
        kept = sequence is not None and not excluded(sequence)
        row = split(sequence or filler)
        end = None if kept else 1
        out["prompt_ids"].append(row.prompt_ids)
        out["completion_ids"].append(row.response_ids[:end])
        out["logprobs"].append(row.logprobs[:end])
        out["env_mask"].append(row.mask if kept else [0])
        out["rewards"].append(record.reward if kept else None)
        out["rollout_ids"].append(record.rollout_id)
    return out
