"""Records with sampling masks, which depend on all tokens so far: a row in a wrong place is another one."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterable
from dataclasses import replace

from rolloutd import SamplingMask, Sequence
from rolloutd.trainers import Record


def kept_by(tokens: list[int]) -> list[int]:
    """The tokens from which the last one was sampled: itself and up to three others."""
    hash = zlib.crc32(repr(tokens).encode())
    return [tokens[-1], *(100_000 + hash % 1000 + n for n in range(hash % 4))]


def with_masks(records: Iterable[Record]) -> list[Record]:
    return [replace(record, sequences=tuple(map(_masked, record.sequences))) for record in records]


def _masked(sequence: Sequence) -> Sequence:
    file, spans = b"\0" * 7, []
    for span in sequence.spans:
        rows = [kept_by(sequence.token_ids[: i + 1]) for i in range(span.start, span.stop)]
        numbers = array("i", [*map(len, rows), *(id for row in rows for id in row)])
        spans.append(replace(span, sampling_mask=SamplingMask(len(rows), sum(map(len, rows)), len(file), "")))
        file += numbers.tobytes() + b"\0" * 3
    return replace(sequence, spans=tuple(replace(s, sampling_mask=replace(s.sampling_mask, file=file)) for s in spans if s.sampling_mask))
