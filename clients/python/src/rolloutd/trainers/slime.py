"""slime and miles, as of August 2026: `slime.utils.types.Sample`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import Any, TypedDict

from ..types import Sequence
from .experts import Shape, expert_rows
from .masks import kept
from .record import Record
from .rules import filled_rewards, named_rewards, split, token_rewards, trained, untrained, version_names


class Replayed(TypedDict, total=False):
    """What a Sample has for the replay of router and sampler."""

    rollout_routed_experts: Any  # an array of numpy [tokens - 1, layers, top_k]
    rollout_top_p_token_ids: list[int]
    rollout_top_p_token_offsets: list[int]  # into the ids: one more than the response has tokens


class Sample(Replayed):
    """The fields of a Sample that a rollout determines. `Sample.from_dict` takes them; index, group and prompt are the trainer's."""

    tokens: list[int]
    response_length: int
    loss_mask: list[int]
    rollout_log_probs: list[float]
    reward: float
    status: str
    weight_versions: list[str]
    remove_sample: bool
    rollout_id: int
    metadata: dict[str, Any]


def samples(group: Iterable[Record], indices: Iterable[int], replay: Shape | None = None, *, masks: bool = False) -> list[list[Sample]]:
    """The samples of a group: a list for each rollout, with a sample for each sequence to train on, all with the reward of the rollout.

    `indices` are the trainer's own numbers of the rollouts (`Sample.index`), by which it knows the samples of one rollout. A rollout without
    training data has one sample that is aborted, removed from the loss, and has the mean reward of the others. Empty if no rollout of the group
    has training data: the trainer needs another group. With `replay` the samples have routed experts, with `masks` sampling masks, and a sequence
    without all of them is a ProtocolError.
    """
    group = list(group)
    rewards = filled_rewards(group)
    if rewards is None:
        return []
    return [samples_of(record, reward, index, replay, masks=masks) for record, reward, index in zip(group, rewards, indices, strict=True)]


def samples_of(record: Record, reward: float, index: int, replay: Shape | None = None, *, masks: bool = False) -> list[Sample]:
    """The samples of one rollout: at least one, which is removed from the loss if the rollout has no training data."""
    made = [_sample(record, sequence, reward, index) for sequence in trained(record)] or [_removed(record, reward, index)]
    if replay is not None:
        # The trainer refuses a layer of zeros, also of a sample that is removed from the loss.
        rows = [expert_rows(sequence, replay) for sequence in trained(record)] or [replay.any_row()]
        for sample, own in zip(made, rows, strict=True):
            sample["rollout_routed_experts"] = own
    if masks:
        of_responses = [_response_mask(sequence) for sequence in trained(record)] or [([], [0, 0])]
        for sample, (ids, offsets) in zip(made, of_responses, strict=True):
            sample["rollout_top_p_token_ids"], sample["rollout_top_p_token_offsets"] = ids, offsets
    return made


def _response_mask(sequence: Sequence) -> tuple[list[int], list[int]]:
    """The ids of the sampling masks of a response, and where those of each of its tokens begin."""
    counts, ids = kept(sequence)
    return ids.tolist(), list(accumulate(counts[sequence.prompt_length :], initial=0))


def _sample(record: Record, sequence: Sequence, reward: float, index: int) -> Sample:
    parts = split(sequence)
    return Sample(
        tokens=sequence.token_ids,
        response_length=len(parts.response_ids),
        loss_mask=parts.mask,
        rollout_log_probs=parts.logprobs,
        reward=reward,
        status="truncated" if sequence.spans[-1].truncated else "completed",
        weight_versions=version_names(sequence),
        remove_sample=False,
        rollout_id=index,
        metadata={"rollout": record.rollout_id, "outcome": record.outcome, "sequence": sequence.number, **_further_rewards(record, sequence)},
    )


def _further_rewards(record: Record, sequence: Sequence) -> dict[str, Any]:
    """Where there are any: `rewards` by name, and `token_rewards`, those of turns for each token of the response, for a reward function of the trainer."""
    of_tokens, named = token_rewards(sequence)[sequence.prompt_length :], named_rewards(record)
    return {**({"rewards": named} if named else {}), **({"token_rewards": of_tokens} if any(of_tokens) else {})}


def _removed(record: Record, reward: float, index: int) -> Sample:
    # A sample needs a response, also if none of it is trained on.
    return Sample(
        tokens=[0, 0],
        response_length=1,
        loss_mask=[0],
        rollout_log_probs=[0.0],
        reward=reward,
        status="aborted",
        weight_versions=[],
        remove_sample=True,
        rollout_id=index,
        metadata={"rollout": record.rollout_id, "outcome": record.outcome, "untrained": untrained(record)},
    )
