"""Sampling masks, for trainers that sample with top-p or top-k and renormalize over the tokens that these left."""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import NamedTuple

from ..errors import ProtocolError
from ..types import Sequence, Span
from .record import Record


class Kept(NamedTuple):
    """For each token the number of tokens from which it was sampled, 0 where it is not trained on; and these tokens, one row after another."""

    counts: array[int]
    ids: array[int]


def unmasked(sequence: Sequence) -> str:
    """Which reply to train on has no sampling mask, and why; "" if all have."""
    for span in sequence.spans:
        if span.train and (span.sampling_mask is None or span.sampling_mask.missing):
            why = "it was not asked for" if span.sampling_mask is None else span.sampling_mask.missing
            return f"turn {span.turn} has no sampling mask: {why}"
    return ""


def masked(record: Record) -> tuple[Record, list[str]]:
    """The record with the sequences of which all replies to train on have sampling masks, and what the others lack."""
    lacks = {sequence.number: why for sequence in record.sequences if (why := unmasked(sequence))}
    kept = tuple(sequence for sequence in record.sequences if sequence.number not in lacks)
    return replace(record, sequences=kept), [f"rollout {record.rollout_id}, sequence {number}: {why}" for number, why in lacks.items()]


def kept_of(span: Span) -> Kept:
    """The sampling mask of a reply, which may be cut, with a row for each of its tokens. ProtocolError if it has none."""
    if span.sampling_mask is None or span.sampling_mask.missing:
        raise ProtocolError(f"turn {span.turn} has no sampling mask")
    counts, ids = span.sampling_mask.numbers
    if len(counts) < span.stop - span.start or sum(counts) != len(ids) or min(counts, default=1) < 1:
        raise ProtocolError(f"turn {span.turn}: its sampling mask is not one of {span.stop - span.start} tokens")
    counts = counts[: span.stop - span.start]
    return Kept(counts, ids[: sum(counts)])


def kept(sequence: Sequence) -> Kept:
    """The sampling masks of a sequence, with a count for each of its tokens. ProtocolError if a reply to train on has none."""
    counts, ids = array("i", [0]) * len(sequence.token_ids), array("i")
    for span in sequence.spans:
        if span.train:
            own = kept_of(span)
            counts[span.start : span.stop] = own.counts
            ids.extend(own.ids)
    return Kept(counts, ids)
