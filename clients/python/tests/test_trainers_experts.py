"""Routed experts of records: what is read of a file, what is missing, and the shapes of trainers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from conftest import Answer, Server
from recorded import recorded
from routed import LAYERS, TOP_K, row_of, with_rows

from rolloutd import InvalidError, ProtocolError, RoutedExperts, Sequence
from rolloutd.aio import AsyncClient
from rolloutd.trainers import Limits, Record, fit, prime_rl, skyrl, slime, trained, verifiers, verl
from rolloutd.trainers.experts import Shape, expert_rows, routed, unrouted, with_experts

pytest.importorskip("numpy", reason="numpy is not installed")

ROUTER = Shape(LAYERS, TOP_K)


def sequences() -> list[Sequence]:
    return [sequence for record in with_rows(recorded()) for sequence in trained(record)]


def test_each_token_but_the_last_has_its_row() -> None:
    for sequence in sequences():
        rows = expert_rows(sequence, ROUTER)
        assert rows.tolist() == [row_of(sequence.token_ids[: i + 1]) for i in range(len(sequence.token_ids) - 1)]


def test_a_sequence_that_is_cut_has_the_rows_of_its_tokens() -> None:
    record = max(with_rows(recorded()), key=lambda record: sum(len(s.token_ids) for s in trained(record)))
    for sequence in fit(record, Limits(total=12))[0].sequences:
        assert len(expert_rows(sequence, ROUTER)) == len(sequence.token_ids) - 1


def test_rows_that_are_missing_are_said() -> None:
    sequence = sequences()[0]
    experts = sequence.routed_experts
    assert experts is not None
    short = replace(sequence, routed_experts=replace(experts, rows=3, missing="turn 2: the endpoint gave none"))
    assert unrouted(short) == f"the tokens 3 to {len(sequence.token_ids) - 1} have no routed experts: turn 2: the endpoint gave none"
    with pytest.raises(ProtocolError, match="turn 2: the endpoint gave none"):
        expert_rows(short, ROUTER)

    record = next(r for r in with_rows(recorded()) if len(trained(r)) > 1)
    lacking = replace(record, sequences=(replace(record.sequences[0], routed_experts=None), *record.sequences[1:]))
    kept, lacks = routed(lacking)
    assert kept.sequences == record.sequences[1:]
    assert lacks == [f"rollout {record.rollout_id}, sequence 0: no routed experts were asked for"]


@pytest.mark.parametrize("router", [Shape(), Shape(LAYERS + 1, TOP_K), Shape(TOP_K, 0)])
def test_another_router_is_refused(router: Shape) -> None:
    with pytest.raises(InvalidError, match="layers, top_k: must be those of the model"):
        expert_rows(sequences()[0], router)


@pytest.mark.parametrize(("change", "error"), [({"at": 1 << 20}, "has no"), ({"dtype": "float16"}, "float16")])
def test_a_file_that_lacks_rows_is_refused(change: dict[str, Any], error: str) -> None:
    sequence = sequences()[0]
    experts = sequence.routed_experts
    assert experts is not None
    broken = replace(experts, parts=(*experts.parts[:-1], replace(experts.parts[-1], **change)))
    with pytest.raises(ProtocolError, match=error):
        expert_rows(replace(sequence, routed_experts=broken), ROUTER)


def shaped(sequence: Sequence) -> Sequence:
    """As from an engine that names the shape of its router."""
    assert sequence.routed_experts is not None
    return replace(sequence, routed_experts=replace(sequence.routed_experts, layers=LAYERS, top_k=TOP_K))


def test_each_token_of_a_node_and_of_a_sample_has_a_row() -> None:
    for record in with_rows(recorded()):
        whole = replace(record, sequences=tuple(map(shaped, record.sequences)))
        expected = []
        for sequence in record.sequences:
            rows = [row_of(sequence.token_ids[: i + 1]) for i in range(len(sequence.token_ids) - 1)]
            expected.append([*rows, rows[-1]])
        nodes = verifiers.trace(whole)["nodes"]
        assert [len(node["routed_experts"]) for node in nodes] == [len(node["token_ids"]) for node in nodes]
        assert [row for node in nodes for row in node["routed_experts"].tolist()] == [row for rows in expected for row in rows]

        for sample in prime_rl.training_samples(whole, "env"):
            found = sample["routed_experts"]
            assert (found["shape"], found["dtype"]) == ([len(sample["token_ids"]), LAYERS, TOP_K], "uint8")
            assert len(found["data"]) == len(sample["token_ids"]) * LAYERS * TOP_K


@pytest.mark.parametrize("change", [{"missing": "turn 2: none", "rows": 2}, {"layers": 0, "top_k": 0}])
def test_nodes_have_no_part_of_the_rows(change: dict[str, Any]) -> None:
    sequence = shaped(sequences()[0])
    assert sequence.routed_experts is not None
    lacking = replace(sequence, routed_experts=replace(sequence.routed_experts, **change))
    record = Record("r", "", "", "completed", 1.0, (lacking,))
    assert all("routed_experts" not in node for node in verifiers.trace(record)["nodes"])
    assert "routed_experts" not in prime_rl.training_samples(record, "env")[0]


def test_a_file_is_read_once(server: Server) -> None:
    raw = {"rows": 1, "width": 2, "layers": 1, "top_k": 2, "parts": [{"rows": 1, "dtype": "uint8", "at": 1}]}
    sequence = replace(sequences()[0], rollout_id="r", token_ids=[1, 2], routed_experts=RoutedExperts.of(raw))
    server.on("GET /rollouts/r/routed_experts", Answer(body=b"\x00\x04\x05"))

    async def read() -> list[Sequence]:
        async with AsyncClient(server.url) as client:
            return await with_experts(client, [sequence, sequence, replace(sequence, routed_experts=None)])

    first, second, none = asyncio.run(read())
    assert expert_rows(first).tolist() == expert_rows(second).tolist() == [[[4, 5]]]
    assert none.routed_experts is None
    assert len(server.requests("GET /rollouts/r/routed_experts")) == 1


def test_the_shapes_of_trainers() -> None:
    for record in with_rows(recorded()):
        lengths = [len(sequence.token_ids) - 1 for sequence in trained(record)]
        assert [output["routed_experts"].shape for output in verl.outputs(record, replay=ROUTER)] == [(n, LAYERS, TOP_K) for n in lengths]
        rows = [sample["rollout_routed_experts"] for sample in slime.samples_of(record, 0.0, 1, ROUTER)]
        assert [of.shape for of in rows] == [(n, LAYERS, TOP_K) for n in lengths or [1]]
        assert all(of[:, layer].any() for of in rows for layer in range(LAYERS))
    for made in (skyrl.linear(with_rows(recorded()), replay=ROUTER), skyrl.stepwise(with_rows(recorded()), replay=ROUTER)):
        output = made.output(None, stepwise=True)
        lengths = [len(p) + len(r) - 1 for p, r in zip(output["prompt_token_ids"], output["response_ids"], strict=True)]
        assert [routes.shape for routes in output["rollout_expert_indices"]] == [(n, LAYERS, TOP_K) for n in lengths]
