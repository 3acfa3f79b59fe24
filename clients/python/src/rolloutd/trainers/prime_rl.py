"""prime-rl, as of August 2026: `prime_rl.transport.TrainingSample`, one for each sequence."""

from __future__ import annotations

from typing import Any, TypedDict

from ..types import Sequence
from .experts import token_rows
from .record import Record
from .rules import token_logprobs, trained


class Replayed(TypedDict, total=False):
    """What a sample has for the replay of the router."""

    routed_experts: dict[str, Any]  # data, shape and dtype of an array [tokens, layers, top_k]


class TrainingSample(Replayed):
    """The fields of a TrainingSample that a rollout determines. The lists have one value for each token."""

    token_ids: list[int]
    mask: list[bool]
    logprobs: list[float]
    temperatures: list[float]
    env_name: str


def training_samples(record: Record, env_name: str, temperature: float = 1.0) -> list[TrainingSample]:
    """A sample for each sequence to train on; none without a reward. `temperature` is that of replies whose request named none.

    Samples have routed experts where all tokens have them, in a shape that the endpoint names.
    """
    return [
        TrainingSample(
            token_ids=sequence.token_ids,
            mask=[bool(bit) for bit in sequence.loss_mask],
            logprobs=token_logprobs(sequence),
            temperatures=_temperatures(sequence, temperature),
            env_name=env_name,
            **_replayed(sequence),
        )
        for sequence in trained(record)
    ]


def _replayed(sequence: Sequence) -> Replayed:
    rows = token_rows(sequence)
    return Replayed() if rows is None else Replayed(routed_experts={"data": rows.tobytes(), "shape": list(rows.shape), "dtype": str(rows.dtype)})


def _temperatures(sequence: Sequence, default: float) -> list[float]:
    temperatures = [default] * len(sequence.token_ids)
    for span in sequence.spans:
        if span.temperature is not None:
            temperatures[span.start : span.stop] = [span.temperature] * (span.stop - span.start)
    return temperatures
