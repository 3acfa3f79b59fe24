"""Images of prompts, for trainers that give them to the model."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ..aio import AsyncClient
from ..errors import NotFoundError, ProtocolError
from ..types import Image, Sequence
from .record import Record
from .rules import Losses, unseen


def pictures(sequence: Sequence) -> list[Any]:
    """The images of a sequence, in order, as those of PIL. ProtocolError if one is lost, or is none that PIL reads."""
    from PIL import Image as Pictures

    if why := unseen(sequence):
        raise ProtocolError(f"rollout {sequence.rollout_id}, sequence {sequence.number}: {why}")
    found = []
    for number, image in enumerate(sequence.images):
        try:
            found.append(Pictures.open(io.BytesIO(image.data)).convert("RGB"))
        except (OSError, ValueError, SyntaxError, Pictures.DecompressionBombError) as err:
            raise ProtocolError(f"rollout {sequence.rollout_id}, sequence {sequence.number}: image {number} cannot be read: {err}") from err
    return found


def pictured(record: Record) -> tuple[Record, Losses, list[str]]:
    """The record with the sequences whose images PIL reads, what leaving out the others costs, and why each was left out."""
    kept, losses, lacks = [], Losses(), []
    for sequence in record.sequences:
        try:
            if any(sequence.loss_mask):
                pictures(sequence)
            kept.append(sequence)
        except ProtocolError as err:
            losses += Losses(dropped=1, trained_tokens=sum(sequence.loss_mask))
            lacks.append(str(err))
    return replace(record, sequences=tuple(kept)), losses, lacks


async def with_images(client: AsyncClient, sequences: Iterable[Sequence]) -> list[Sequence]:
    """The sequences with the bytes of their images. The file of a rollout is read once."""
    files: dict[str, bytes] = {}
    found = []
    for sequence in sequences:
        if sequence.images:
            if (id := sequence.rollout_id) not in files:
                try:
                    files[id] = await client.rollouts.images(id)
                except NotFoundError:
                    files[id] = b""
            sequence = replace(sequence, images=tuple(_read(image, files[id]) for image in sequence.images))
        found.append(sequence)
    return found


def _read(image: Image, file: bytes) -> Image:
    data = file[image.at : image.at + image.size]
    if image.missing or f"sha256:{hashlib.sha256(data).hexdigest()}" == image.digest:
        return image if image.missing else replace(image, data=data)
    return replace(image, missing="the file of the rollout's images does not have it")
