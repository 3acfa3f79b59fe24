"""Records with images, as rolloutd makes them."""

from __future__ import annotations

import hashlib
import io
from dataclasses import replace
from typing import Any

import pytest

from rolloutd import Sequence
from rolloutd.trainers import Record


def described(data: bytes, at: int, **place: int) -> dict[str, Any]:
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    return {"digest": digest, "media_type": "image/png", "at": at, "bytes": len(data), "message": 0, **place}


def seeing(*images: dict[str, Any]) -> Sequence:
    """A sequence of two turns, each with a token of the context and two that are sampled. The second turn sees all images."""
    spans = [
        {"turn": 1, "start": 1, "stop": 3, "train": True, "finish_reason": "stop"},
        {"turn": 2, "start": 6, "stop": 8, "train": True, "finish_reason": "stop", "images": len(images)},
    ]
    return Sequence.of(
        {
            "rollout_id": "r", "token_ids": [1, 2, 3, 4, 5, 6, 7, 8], "loss_mask": [0, 1, 1, 0, 0, 0, 1, 1], "logprobs": [0, -1, -1, 0, 0, 0, -1, -1],
            "spans": spans, "images": list(images),
        }
    )  # fmt: skip


def record_of(*sequences: Sequence) -> Record:
    return Record("r", "", "", "completed", 1.0, sequences)


def png(colour: tuple[int, int, int]) -> bytes:
    pil = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    file = io.BytesIO()
    pil.new("RGB", (2, 1), colour).save(file, "PNG")
    return file.getvalue()


def with_data(*data: bytes) -> Sequence:
    sequence = seeing(*(described(d, 0, turn=2, start=3, stop=6) for d in data))
    return replace(sequence, images=tuple(replace(image, data=d) for image, d in zip(sequence.images, data, strict=True)))
