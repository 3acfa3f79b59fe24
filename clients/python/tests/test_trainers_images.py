"""Images of records: what is read of a file, what is missing, and what trainers get."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from conftest import Answer, Server
from pictured import described, png, record_of, seeing, with_data

from rolloutd import Image, ProtocolError, Sequence
from rolloutd.aio import AsyncClient
from rolloutd.trainers import Limits, fit, trained, untrained, verifiers, verl
from rolloutd.trainers.images import pictured, pictures, with_images
from rolloutd.trainers.rules import Losses, unseen

CAT, DOG = b"cat", b"dog!"


def read(server: Server, sequences: list[Sequence]) -> list[Sequence]:
    async def run() -> list[Sequence]:
        async with AsyncClient(server.url) as client:
            return await with_images(client, sequences)

    return asyncio.run(run())


def test_a_file_is_read_once_and_checked(server: Server) -> None:
    first = seeing(described(CAT, 0, turn=1, start=0, stop=1), described(DOG, 3, turn=2, start=3, stop=6), described(CAT, 0, turn=2, start=3, stop=6))
    wrong = seeing(described(b"cow", 0, turn=1, start=0, stop=1), described(DOG, 5, turn=1, start=0, stop=1))
    server.on("GET /rollouts/r/images", Answer(body=CAT + DOG))
    one, two, none = read(server, [first, wrong, seeing()])
    assert [image.data for image in one.images] == [CAT, DOG, CAT]
    assert {image.missing for image in two.images} == {"the file of the rollout's images does not have it"}
    assert none.images == ()
    assert unseen(one) == unseen(none) == ""
    assert unseen(two) == "image 0, of turn 1: the file of the rollout's images does not have it"


def test_a_file_that_is_lost_is_said(server: Server) -> None:
    server.on("GET /rollouts/r/images", Answer(status=404, body=b'{"error": {"kind": "NotFound", "message": "no images"}}'))
    (sequence,) = read(server, [seeing(described(CAT, 0, turn=1, start=0, stop=1))])
    assert untrained(record_of(sequence)) == "rollout r has images: image 0, of turn 1: the file of the rollout's images does not have it"


@pytest.mark.parametrize(
    ("sequence", "why"),
    [
        (seeing({"message": 0, "turn": 2, "start": 3, "stop": 6, "missing": "the request has only its URL"}), "image 0, of turn 2: the request has only its URL"),
        (seeing(described(CAT, 0, turn=2, start=3, stop=6)), "image 0, of turn 2: it is not read for this trainer"),
        (replace(seeing(described(CAT, 0, turn=2, start=3, stop=6)), images=()), "they were stored by an earlier release, in the requests of the trace alone"),
    ],
)
def test_a_trainer_gets_no_placeholders_without_images(sequence: Sequence, why: str) -> None:
    blind = seeing()
    assert trained(record_of(sequence)) == ()
    assert untrained(record_of(sequence)) == f"rollout r has images: {why}"
    assert trained(record_of(sequence, blind)) == (blind,)
    assert len(verl.outputs(record_of(sequence, blind))) == 1
    assert len(verifiers.trace(record_of(sequence, blind))["calls"]) == 2
    assert verifiers.trace(record_of(sequence))["errors"][0]["message"] == untrained(record_of(sequence))


@pytest.mark.parametrize(("total", "length", "images"), [(8, 8, 2), (7, 7, 2), (6, 6, 2), (5, 3, 1), (3, 3, 1)])
def test_a_cut_keeps_images_and_their_placeholders_together(total: int, length: int, images: int) -> None:
    sequence = seeing(described(CAT, 0, turn=1, start=0, stop=1), described(DOG, 3, turn=2, start=3, stop=6))
    (cut,) = fit(record_of(sequence), Limits(total=total))[0].sequences
    assert (len(cut.token_ids), len(cut.images)) == (length, images)


def test_verl_gets_the_images_in_order() -> None:
    red, blue = png((255, 0, 0)), png((0, 0, 255))
    (output,) = verl.outputs(record_of(with_data(red, blue)))
    assert [image.getpixel((0, 0)) for image in output["multi_modal_data"]["images"]] == [(255, 0, 0), (0, 0, 255)]
    assert "multi_modal_data" not in verl.outputs(record_of(seeing()))[0]


@pytest.mark.parametrize("data", [b"\x89PNG", b"GIF89a"])
def test_an_image_that_is_none_is_refused(data: bytes) -> None:
    pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    with pytest.raises(ProtocolError, match="image 0 cannot be read"):
        pictures(with_data(data))


def test_fields_of_an_image() -> None:
    raw = described(CAT, 4, turn=2, start=3, stop=6)
    assert Image.of(raw) == Image(2, 0, 3, 6, raw["digest"], "image/png", 4, 3, "")


def test_a_sequence_with_an_image_that_is_none_is_left_out_and_counted() -> None:
    good, bad, blind = with_data(png((255, 0, 0))), with_data(b"GIF89a"), seeing()
    record, losses, lacks = pictured(record_of(good, bad, blind))
    assert record.sequences == (good, blind)
    assert losses == Losses(dropped=1, trained_tokens=4)
    (lack,) = lacks
    assert lack.startswith("rollout r, sequence 0: image 0 cannot be read: ")
    assert untrained(pictured(record_of(bad))[0]) == "rollout r has no tokens to train on"
