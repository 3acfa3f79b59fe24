"""verifiers 0.4.0: the fields of a `verifiers.v1.Trace` whose branches are a rollout's sequences."""

from __future__ import annotations

from array import array
from typing import Any, TypedDict

from ..types import Sequence, Span
from .experts import token_rows
from .masks import kept_of
from .record import Record
from .rules import named_rewards, unseen, untrained, version_range


class Replayed(TypedDict, total=False):
    """What a node has for the replay of router and sampler."""

    routed_experts: Any  # an array of numpy [tokens, layers, top_k]
    sampling_mask: dict[str, dict[str, Any]]  # of a reply to train on: ids, and counts for each token, as arrays of int32 in verifiers' own form


class Node(Replayed):
    """A message and the tokens that it adds. `logprobs` has one value for each True of the mask."""

    parent: int | None
    message: dict[str, Any]
    sampled: bool
    token_ids: list[int]
    mask: list[bool]
    logprobs: list[float]


class Trace(TypedDict):
    """The fields of a Trace that a rollout determines; task and agent are the environment's."""

    id: str
    nodes: list[Node]
    calls: list[dict[str, Any]]
    rewards: dict[str, dict[str, float] | None]
    errors: list[dict[str, str]]
    ok: bool
    is_completed: bool
    is_timeout: bool
    stop_condition: str
    info: dict[str, Any]


def trace(record: Record, *, needs_tokens: bool = True) -> Trace:
    """Each sequence is a branch of its own: a node for what comes before a reply, and one for the reply.

    Messages have no text, because the trainer reads tokens. Nodes have routed experts where all tokens of their sequence have them, in a shape that the
    endpoint names, and those of replies to train on have the sampling masks that these have. Without a reward, the trace has the reward None and an error, for which the trainer
    leaves it out; and so without tokens to train on, unless an evaluation does not need them. `info["policy"]` has the oldest and the newest version
    of the weights, where they are known, `info["rewards"]` the rewards by name, and `info["turn_rewards"]` those of turns, by the indices of their nodes.
    """
    nodes: list[Node] = []
    calls: list[dict[str, Any]] = []
    sequences = [sequence for sequence in record.sequences if not unseen(sequence)]
    for sequence in sequences:
        _add(nodes, calls, sequence)

    why = untrained(record) if needs_tokens or record.reward is None else ""
    return Trace(
        id=record.rollout_id,
        nodes=nodes,
        calls=calls,
        rewards={"rolloutd": None if record.reward is None else {"score": record.reward}},
        errors=[{"type": "UnscoredError", "message": why}] if why else [],
        ok=not why,
        is_completed=True,
        is_timeout=record.outcome == "agent_timeout",
        stop_condition="error" if why else "agent_completed" if record.outcome == "completed" else record.outcome,
        info={
            "rollout_id": record.rollout_id,
            "group": record.group,
            "outcome": record.outcome,
            "policy": version_range(record.sequences),
            "rewards": named_rewards(record),
            "turn_rewards": _turn_rewards(sequences, calls),
        },
    )


def _turn_rewards(sequences: list[Sequence], calls: list[dict[str, Any]]) -> dict[str, float]:
    spans = (span for sequence in sequences for span in sequence.spans)
    return {str(call["node"]): span.reward for span, call in zip(spans, calls, strict=True) if span.train and span.reward is not None}


def _add(nodes: list[Node], calls: list[dict[str, Any]], sequence: Sequence) -> None:
    parent, end, first = None, 0, len(nodes)
    for span in sequence.spans:
        before = sequence.token_ids[end : span.start]
        if before:
            role = {"role": "user", "content": ""}
            nodes.append(Node(parent=parent, message=role, sampled=False, token_ids=before, mask=[False] * len(before), logprobs=[]))
            parent = len(nodes) - 1
        nodes.append(_reply(parent, sequence, span))
        parent, end = len(nodes) - 1, span.stop
        calls.append(
            {
                "node": parent,
                "finish_reason": span.finish_reason if span.finish_reason in ("stop", "length", "tool_calls") else None,
                "usage": {"prompt_tokens": span.start, "completion_tokens": span.stop - span.start},
            }
        )

    if (rows := token_rows(sequence)) is not None:
        for node in nodes[first:]:
            node["routed_experts"], rows = rows[: len(node["token_ids"])], rows[len(node["token_ids"]) :]


def _reply(parent: int | None, sequence: Sequence, span: Span) -> Node:
    node = Node(
        parent=parent,
        message={"role": "assistant", "content": ""},
        sampled=True,
        token_ids=sequence.token_ids[span.start : span.stop],
        mask=[span.train] * (span.stop - span.start),
        logprobs=sequence.logprobs[span.start : span.stop] if span.train else [],
    )
    if span.train and span.sampling_mask is not None and not span.sampling_mask.missing:
        counts, ids = kept_of(span)
        node["sampling_mask"] = {"ids": _array(ids), "counts": _array(counts)}
    return node


def _array(numbers: array[int]) -> dict[str, Any]:
    return {"__nd__": True, "dtype": "int32", "shape": [len(numbers)], "data": numbers.tobytes()}
