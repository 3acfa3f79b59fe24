"""Atropos 0.4: the masks and log probabilities of its trainer API, one value for each token."""

from __future__ import annotations

from ..types import Sequence
from .rules import token_logprobs

MASKED_ID = -100
MASKED_LOGPROB = 1.0


def masks_of(sequence: Sequence) -> list[int]:
    """The id of each token to train on, and -100 for every other."""
    return [id if bit else MASKED_ID for id, bit in zip(sequence.token_ids, sequence.loss_mask, strict=True)]


def logprobs_of(sequence: Sequence) -> list[float]:
    """The log probability of each token to train on, and 1.0 for every other."""
    return token_logprobs(sequence, elsewhere=MASKED_LOGPROB)
