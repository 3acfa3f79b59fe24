"""Records with routed experts, which depend on all tokens so far: a row in a wrong place is another one."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterable
from dataclasses import replace

from rolloutd import RoutedExperts, Sequence
from rolloutd.trainers import Record
from rolloutd.types import ExpertPart

LAYERS, TOP_K = 3, 2


def row_of(tokens: list[int]) -> list[list[int]]:
    """The experts of the last token."""
    hash = zlib.crc32(repr(tokens).encode())
    return [[1 + (hash >> (4 * layer + k)) % 200 for k in range(TOP_K)] for layer in range(LAYERS)]


def with_rows(records: Iterable[Record]) -> list[Record]:
    return [replace(record, sequences=tuple(_routed(sequence) for sequence in record.sequences)) for record in records]


def _routed(sequence: Sequence) -> Sequence:
    """Half of the rows are of a byte, and half of two: as an engine's turns may have them. Other rows are before and between them."""
    count = len(sequence.token_ids) - 1
    numbers = [[n for layer in row_of(sequence.token_ids[: i + 1]) for n in layer] for i in range(count)]
    first = bytes(n for row in numbers[: count // 2] for n in row)
    second = array("H", [n for row in numbers[count // 2 :] for n in row]).tobytes()
    parts = (ExpertPart(count // 2, "uint8", 7), ExpertPart(count - count // 2, "uint16", 10 + len(first)))
    file = b"\0" * 7 + first + b"\0" * 3 + second
    return replace(sequence, routed_experts=RoutedExperts(count, LAYERS * TOP_K, 0, 0, parts, "", file))
