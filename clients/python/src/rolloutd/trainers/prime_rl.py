"""prime-rl, as of August 2026: `prime_rl.transport.TrainingSample`, one for each sequence."""

from __future__ import annotations

from typing import Any, TypedDict

from ..types import Sequence
from .experts import token_rows
from .masks import kept, unmasked
from .record import Record
from .rules import token_logprobs, trained


class Replayed(TypedDict, total=False):
    """What a sample has for the replay of router and sampler."""

    routed_experts: dict[str, Any]  # data, shape and dtype of an array [tokens, layers, top_k]
    sampling_mask: dict[str, bytes]  # ids, and counts for each token, of int32


class TrainingSample(Replayed):
    """The fields of a TrainingSample that a rollout determines. The lists have one value for each token."""

    token_ids: list[int]
    mask: list[bool]
    logprobs: list[float]
    temperatures: list[float]
    env_name: str


def training_samples(record: Record, env_name: str, temperature: float = 1.0) -> list[TrainingSample]:
    """A sample for each sequence to train on; none without a reward. `temperature` is that of replies whose request named none.

    Samples have routed experts where all tokens have them, in a shape that the endpoint names, and a sampling mask where all replies to train on have one.
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
    made = Replayed()
    if (rows := token_rows(sequence)) is not None:
        made["routed_experts"] = {"data": rows.tobytes(), "shape": list(rows.shape), "dtype": str(rows.dtype)}
    if not unmasked(sequence):
        counts, ids = kept(sequence)
        made["sampling_mask"] = {"ids": ids.tobytes(), "counts": counts.tobytes()}
    return made


def _temperatures(sequence: Sequence, default: float) -> list[float]:
    temperatures = [default] * len(sequence.token_ids)
    for span in sequence.spans:
        if span.temperature is not None:
            temperatures[span.start : span.stop] = [span.temperature] * (span.stop - span.start)
    return temperatures
