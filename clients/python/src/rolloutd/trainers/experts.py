"""Routed experts as arrays, for trainers that replay the router of a mixture of experts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from ..aio import AsyncClient
from ..errors import InvalidError, ProtocolError
from ..types import Sequence
from .record import Record


class Shape(NamedTuple):
    """The router of a model: its layers, and the experts that it chooses in each; 0: as the endpoint names them, which SGLang does not."""

    layers: int = 0
    top_k: int = 0

    def any_row(self) -> Any:
        """A row for a sample that is not trained on: no layer is all zeros."""
        import numpy

        return numpy.tile(numpy.arange(self.top_k, dtype=numpy.int32), (1, self.layers, 1))


def unrouted(sequence: Sequence) -> str:
    """Which tokens of a sequence, but for the last, have no routed experts, and why; "" if all have."""
    experts, wanted = sequence.routed_experts, len(sequence.token_ids) - 1
    if experts is None:
        return "no routed experts were asked for"
    if experts.rows >= wanted:
        return ""
    return f"the tokens {experts.rows} to {wanted} have no routed experts: {experts.missing}"


def routed(record: Record) -> tuple[Record, list[str]]:
    """The record with the sequences of which all tokens have routed experts, and what the others lack."""
    lacks = {sequence.number: why for sequence in record.sequences if (why := unrouted(sequence))}
    kept = tuple(sequence for sequence in record.sequences if sequence.number not in lacks)
    return replace(record, sequences=kept), [f"rollout {record.rollout_id}, sequence {number}: {why}" for number, why in lacks.items()]


def expert_rows(sequence: Sequence, router: Shape = Shape()) -> Any:
    """The routed experts of a sequence, an array of numpy [tokens - 1, layers, top_k] of int32.

    ProtocolError if a token but for the last has none; InvalidError where the router has another shape.
    """
    import numpy

    if why := unrouted(sequence):
        raise ProtocolError(f"rollout {sequence.rollout_id}, sequence {sequence.number}: {why}")
    experts = sequence.routed_experts
    assert experts is not None
    shape = (router.layers or experts.layers, router.top_k or experts.top_k)
    if shape[0] * shape[1] != experts.width or (experts.layers and shape != (experts.layers, experts.top_k)):
        of = f" of {experts.layers} layers" if experts.layers else ""
        raise InvalidError(f"layers, top_k: must be those of the model, whose tokens have {experts.width} experts{of}, got {shape[0]} and {shape[1]}")
    rows = numpy.frombuffer(experts.numbers, dtype=numpy.uint16).astype(numpy.int32)
    return rows.reshape(experts.rows, *shape)[: len(sequence.token_ids) - 1]


def token_rows(sequence: Sequence) -> Any:
    """An array [tokens, layers, top_k] of uint8 or uint16, as verifiers makes it, where each token has a row; None where the sequence lacks rows or a shape.

    No engine has processed the last token, whose row repeats the one before.
    """
    if sequence.routed_experts is None or not sequence.routed_experts.layers or unrouted(sequence):
        return None

    import numpy

    rows = expert_rows(sequence)
    return numpy.concatenate([rows, rows[-1:]]).astype(numpy.uint8 if rows.max() < 256 else numpy.uint16)


async def with_experts(client: AsyncClient, sequences: Iterable[Sequence]) -> list[Sequence]:
    """The sequences with the files of their routed experts and sampling masks, where there are any. Each file is read once."""
    files: dict[str, bytes] = {}
    found = []
    for sequence in sequences:
        experts, id = sequence.routed_experts, sequence.rollout_id
        routed, masked = experts is not None and bool(experts.parts), any(span.sampling_mask and span.sampling_mask.rows for span in sequence.spans)
        if (routed or masked) and id not in files:
            files[id] = await client.rollouts.routed_experts(id)
        if experts is not None and routed:
            sequence = replace(sequence, routed_experts=replace(experts, file=files[id]))
        if masked:
            spans = (span if (mask := span.sampling_mask) is None else replace(span, sampling_mask=replace(mask, file=files[id])) for span in sequence.spans)
            sequence = replace(sequence, spans=tuple(spans))
        found.append(sequence)
    return found
