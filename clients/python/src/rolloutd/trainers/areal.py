"""AReaL 1.0.4: the rows that `RolloutWorkflow.arun_episode` returns as tensors."""

from __future__ import annotations

from typing import TypedDict

from .record import Record
from .rules import token_logprobs, token_versions, trained


class Row(TypedDict):
    """One sequence. All lists have one value for each token."""

    input_ids: list[int]
    loss_mask: list[int]
    logprobs: list[float]
    versions: list[int]
    attention_mask: list[bool]
    rewards: float


def rows(record: Record, unknown_version: int = -1) -> list[Row] | None:
    """A row for each sequence to train on. None without a reward, which the trainer takes as a rejected episode.

    `versions` is -1 for tokens that were not sampled, and `unknown_version` for those whose endpoint names no version.
    """
    if record.reward is None or not (sequences := trained(record)):
        return None
    out = []
    for sequence in sequences:
        versions = [-1] * len(sequence.token_ids)
        known = token_versions(sequence)
        for span in sequence.spans:
            versions[span.start : span.stop] = [unknown_version if v is None else v for v in known[span.start : span.stop]]
        out.append(
            Row(
                input_ids=sequence.token_ids,
                loss_mask=sequence.loss_mask,
                logprobs=token_logprobs(sequence),
                versions=versions,
                attention_mask=[True] * len(sequence.token_ids),
                rewards=record.reward,
            )
        )
    return out
