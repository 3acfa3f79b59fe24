"""Sampling masks of records: what is read of a file, what is missing, and the shapes of trainers."""

from __future__ import annotations

import asyncio
from array import array
from dataclasses import replace
from typing import Any

import pytest
from conftest import Answer, Server
from masked import kept_by, with_masks
from recorded import recorded

from rolloutd import ProtocolError, SamplingMask, Sequence
from rolloutd.aio import AsyncClient
from rolloutd.trainers import Limits, Record, fit, prime_rl, slime, trained
from rolloutd.trainers.experts import with_experts
from rolloutd.trainers.masks import kept, masked, unmasked


def sequences() -> list[Sequence]:
    return [sequence for record in with_masks(recorded()) for sequence in trained(record)]


def rows_of(sequence: Sequence) -> list[list[int]]:
    """The row of each token, which is empty where the token is not trained on."""
    return [kept_by(sequence.token_ids[: i + 1]) if bit else [] for i, bit in enumerate(sequence.loss_mask)]


def joined(rows: list[list[int]]) -> list[int]:
    return [id for row in rows for id in row]


def test_each_token_to_train_on_has_its_row() -> None:
    for sequence in sequences():
        rows = rows_of(sequence)
        counts, ids = kept(sequence)
        assert (counts.tolist(), ids.tolist()) == (list(map(len, rows)), joined(rows))


def test_a_sequence_that_is_cut_has_the_rows_of_its_tokens() -> None:
    cut = [s for record in with_masks(recorded()) for s in fit(record, Limits(total=12))[0].sequences if s.end == "cut"]
    assert cut
    for sequence in cut:
        assert kept(sequence).ids.tolist() == joined(rows_of(sequence))


def with_mask(sequence: Sequence, **change: Any) -> Sequence:
    """The sequence with a change of the mask of its first reply to train on."""
    n = next(n for n, span in enumerate(sequence.spans) if span.train)
    spans = list(sequence.spans)
    mask = spans[n].sampling_mask
    assert mask is not None
    spans[n] = replace(spans[n], sampling_mask=replace(mask, **change))
    return replace(sequence, spans=tuple(spans))


def test_masks_that_are_missing_are_said() -> None:
    record = next(r for r in with_masks(recorded()) if len(trained(r)) > 1)
    lacking = with_mask(record.sequences[0], missing="the endpoint gave none")
    turn = next(span.turn for span in lacking.spans if span.train)
    why = f"turn {turn} has no sampling mask: the endpoint gave none"
    assert unmasked(lacking) == why

    left, lacks = masked(replace(record, sequences=(lacking, *record.sequences[1:])))
    assert left.sequences == record.sequences[1:]
    assert lacks == [f"rollout {record.rollout_id}, sequence 0: {why}"]

    assert unmasked(trained(recorded()[0])[0]).endswith("has no sampling mask: it was not asked for")


@pytest.mark.parametrize(("change", "error"), [({"at": 1 << 20}, "has no sampling mask"), ({"rows": 0}, "is not one of"), ({"missing": "x"}, "no sampling mask")])
def test_a_file_that_lacks_a_mask_is_refused(change: dict[str, Any], error: str) -> None:
    with pytest.raises(ProtocolError, match=error):
        kept(with_mask(sequences()[0], **change))


def test_the_file_is_read_once(server: Server) -> None:
    file = array("i", [2, 1, 7, 300, 8]).tobytes()
    server.on("GET /rollouts/r/routed_experts", Answer(body=b"\0" + file))
    span = {"turn": 1, "start": 1, "stop": 3, "train": True, "sampling_mask": {"rows": 2, "ids": 3, "at": 1}}
    raw = {"rollout_id": "r", "token_ids": [1, 7, 8], "loss_mask": [0, 1, 1], "logprobs": [0, -1, 0], "spans": [span]}

    async def read() -> list[Sequence]:
        async with AsyncClient(server.url) as client:
            return await with_experts(client, [Sequence.of(raw), Sequence.of(raw)])

    for sequence in asyncio.run(read()):
        counts, ids = kept(sequence)
        assert (counts.tolist(), ids.tolist()) == ([0, 2, 1], [7, 300, 8])
    assert Sequence.of(raw).spans[0].sampling_mask == SamplingMask(2, 3, 1, "")


def ints(data: bytes) -> list[int]:
    return array("i", data).tolist()


def test_the_shapes_of_trainers() -> None:
    for record in with_masks(recorded()):
        for sample, sequence in zip(prime_rl.training_samples(record, "env"), trained(record), strict=True):
            rows, mask = rows_of(sequence), sample["sampling_mask"]
            assert (ints(mask["counts"]), ints(mask["ids"])) == (list(map(len, rows)), joined(rows))

        for made, sequence in zip(slime.samples_of(record, 1.0, 0, masks=True) if trained(record) else (), trained(record), strict=True):
            ids, offsets = made["rollout_top_p_token_ids"], made["rollout_top_p_token_offsets"]
            assert [ids[a:b] for a, b in zip(offsets, offsets[1:], strict=False)] == rows_of(sequence)[sequence.prompt_length :]

    lacking = Record("r", "", "", "completed", 1.0, trained(recorded()[0]))
    assert "sampling_mask" not in prime_rl.training_samples(lacking, "env")[0]
    assert "rollout_top_p_token_ids" not in slime.samples_of(lacking, 1.0, 0)[0]
