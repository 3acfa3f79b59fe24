"""verl 0.9.1: the outputs of an agent loop (`verl.experimental.agent_loop.AgentLoopOutput`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from ..types import Sequence
from .experts import Shape, expert_rows
from .images import pictures
from .record import Record
from .rules import Limits, split, trained, turns, version_range


class Replayed(TypedDict, total=False):
    """What an output has for the replay of the router."""

    routed_experts: Any  # an array of numpy [tokens - 1, layers, top_k]; the trainer adds a row for the last token


class Pictured(TypedDict, total=False):
    """What an output has for a model that sees images, whose processor the trainer runs."""

    multi_modal_data: dict[str, list[Any]]  # images, of PIL


class Output(Replayed, Pictured):
    """The fields of an AgentLoopOutput, which takes them as keyword arguments."""

    prompt_ids: list[int]
    response_ids: list[int]
    response_mask: list[int]
    response_logprobs: list[float]
    reward_score: float
    num_turns: int
    metrics: dict[str, float]
    extra_fields: dict[str, Any]


def outputs(record: Record, *, replay: Shape | None = None) -> list[Output]:
    """An output for each sequence to train on; none without a reward. The trainer copies the reward of the last one to the others.

    `min_global_steps` and `max_global_steps` are the versions of the weights, where they are known: the trainer's own steps, if it names its
    versions by them. `turn_scores`, where turns have rewards, are those of the turns that are trained on, in order; the trainer's own advantages do not
    read them. Those of sequences with images have `multi_modal_data`. With `replay` the outputs have routed experts, and a sequence without all of them
    is a ProtocolError.
    """
    made = [_output(record, index) for index in range(len(trained(record)))]
    for output, sequence in zip(made, trained(record), strict=True):
        if sequence.images:
            output["multi_modal_data"] = {"images": pictures(sequence)}
    if replay is not None:
        for output, sequence in zip(made, trained(record), strict=True):
            output["routed_experts"] = expert_rows(sequence, replay)
    return made


def evaluated(record: Record, limits: Limits) -> list[Output]:
    """The one output of a rollout that is evaluated; none without a reward. The trainer reads its reward, and logs its tokens.

    They are those of the longest sequence without images, as far as the limits go, and nothing of them is trained on. A rollout whose endpoint names no
    tokens has one of prompt and response each, since neither may be empty.
    """
    if record.reward is None:
        return []
    seen = [sequence for sequence in record.sequences if not any(span.images for span in sequence.spans)]
    longest = max(seen, key=lambda sequence: len(sequence.token_ids), default=None)
    parts = None if longest is None else split(longest)
    prompt, response = ([0], [0]) if parts is None else (parts.prompt_ids[-(limits.prompt or 0) :], parts.response_ids[: limits.response])
    return [
        Output(
            prompt_ids=prompt,
            response_ids=response,
            response_mask=[0] * len(response),
            response_logprobs=[0.0] * len(response),
            reward_score=record.reward,
            num_turns=0 if longest is None else len(longest.spans),
            metrics={},
            extra_fields={"reward_extra_info": {}, "rollout_id": record.rollout_id},
        )
    ]


def version_of(fields: Mapping[str, Any]) -> str:
    """The version of a reply of the trainer's engines, given the fields beside it: the step of its weights, or the first and the last one if they were
    replaced meanwhile."""
    steps = [fields.get(name, fields.get("global_steps")) for name in ("min_global_steps", "max_global_steps")]
    return "..".join(dict.fromkeys(f"step-{step}" for step in steps if step is not None))


def _output(record: Record, index: int) -> Output:
    assert record.reward is not None  # of a record to train on
    sequence = trained(record)[index]
    parts = split(sequence)
    versions = version_range([sequence])
    return Output(
        prompt_ids=parts.prompt_ids,
        response_ids=parts.response_ids,
        response_mask=parts.mask,
        response_logprobs=parts.logprobs,
        reward_score=record.reward,
        num_turns=len(sequence.spans),
        metrics={},
        extra_fields={
            # The trainer reads it of the last output without a default.
            "reward_extra_info": {},
            "rollout_id": record.rollout_id,
            **_turn_scores(sequence),
            **({"min_global_steps": versions[0], "max_global_steps": versions[1]} if versions else {}),
        },
    )


def _turn_scores(sequence: Sequence) -> dict[str, list[float]]:
    scores = [turn.reward for turn in turns(sequence)]
    return {"turn_scores": scores} if any(scores) else {}
