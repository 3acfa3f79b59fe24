"""The parts of the example without a server: `deploy/suite.sh trl` runs these tests."""

import random
from argparse import Namespace
from contextlib import contextmanager

import pytest
import torch
import train
from curves import averages, picture
from engine import Request, sample
from grpo import Row, advantages, broken, update
from policy import log_probabilities, make_model, make_tokenizer, marked, prompt_ids, warm_up_once
from task import CALL, demonstration
from train import rows_of

TOKENIZER = make_tokenizer()
torch.set_num_threads(1)  # as in train.py: beside other tests, threads that wait for each other cost most of the time


def sampled(model, count: int = 4) -> list[Row]:
    prompt = prompt_ids(TOKENIZER, demonstration("7", "7")[:2])
    requests = [Request(prompt[: len(prompt) - i], 12, 1.0) for i in range(count)]
    sample(model, requests, TOKENIZER.eos_token_id)

    return [
        Row(r.prompt + r.ids, [0] * len(r.prompt) + [1] * len(r.ids), [0.0] * len(r.prompt) + r.logprobs, i % 2)
        for i, r in enumerate(requests)
    ]


def test_a_batch_of_prompts_of_several_lengths_is_sampled_with_the_models_own_probabilities():
    model = make_model(TOKENIZER, seed=1)
    for row in sampled(model):
        with torch.no_grad():
            own = log_probabilities(model, torch.tensor([row.ids]))[0]

        start = row.mask.index(1)
        assert torch.allclose(own[start - 1 :], torch.tensor(row.logprobs[start:]), atol=1e-4)


def test_a_step_makes_rewarded_replies_more_probable():
    torch.manual_seed(1)
    model = make_model(TOKENIZER, seed=1)
    group = sampled(model)
    assert update(model, torch.optim.AdamW(model.parameters(), lr=1e-3), [group]) < 1e-4

    for row in group:
        with torch.no_grad():
            now = log_probabilities(model, torch.tensor([row.ids]))[0]

        gain = sum((float(now[i - 1]) - row.logprobs[i]) for i, on in enumerate(row.mask) if on)
        assert (gain > 0) == (row.reward == 1)


@pytest.mark.parametrize(
    ("control", "seen"), [("", False), ("shifted_mask", True), ("other_logprobs", True), ("shuffled_rewards", False)]
)
def test_a_step_sees_log_probabilities_that_are_not_the_models(control: str, seen: bool):
    torch.manual_seed(1)
    model = make_model(TOKENIZER, seed=1)
    groups = broken([sampled(model)], control, random.Random(1))
    difference = update(model, torch.optim.AdamW(model.parameters(), lr=1e-3), groups)

    assert difference > 1e-2 if seen else difference < 1e-4


def test_the_engine_opens_under_the_name_of_its_weights(tmp_path, monkeypatch):
    seen: list[str] = []

    class Weights:
        def __init__(self, *args, **options) -> None:
            pass

        @contextmanager
        def drained(self, version: str, abort: bool):
            seen.append(f"paused for {version}")
            yield
            seen.append("resumed")

    monkeypatch.setattr(train, "WeightSync", Weights)
    monkeypatch.setattr(train, "Engine", lambda *args: seen.append("opened"))
    monkeypatch.setattr(train, "warm_up_once", lambda *args: None)
    args = Namespace(seed=1, folder=tmp_path, lr=1e-3, warm=None, port=0)

    trainer = train.Trainer(args)
    trainer.curve.append({"step": 1})
    trainer._save()
    train.Trainer(args)  # as after a kill
    assert seen == ["paused for step-0", "opened", "resumed", "paused for step-1", "opened", "resumed"]


def test_advantages_have_mean_zero_and_deviation_one():
    assert advantages([Row([], [], [], reward) for reward in (1, 0)]) == pytest.approx([1, -1], abs=1e-4)
    assert advantages([Row([], [], [], 1)] * 3) == [0, 0, 0]


def test_a_reply_that_was_cut_off_earns_nothing():
    def rollout(**span: bool):
        sequence = {"token_ids": [1], "loss_mask": [1], "logprobs": [-1.0], "spans": [{}, span]}
        return {"reward": 1.0, "sequences": [sequence]}

    rows = rows_of({"rollouts": [rollout(), rollout(truncated=True), {"reward": 1.0, "sequences": []}]})
    assert [row.reward for row in rows] == [1, 0]


def test_each_control_breaks_one_thing():
    rows = [Row([1, 2, 3, 4], [0, 1, 1, 0], [0.0, -0.1 * i, -0.2 * i, 0.0], i) for i in range(1, 9)]
    rng = random.Random(1)

    assert broken([rows], "", rng) == [rows]
    assert broken([rows[:1]], "shifted_mask", rng) == [[Row([1, 2, 3, 4], [0, 0, 1, 1], [0, 0.0, -0.1, -0.2], 1)]]

    [shuffled] = broken([rows], "shuffled_rewards", rng)
    assert [r.reward for r in shuffled] != [r.reward for r in rows]
    assert sorted(r.reward for r in shuffled) == [r.reward for r in rows]

    [other] = broken([rows], "other_logprobs", rng)
    assert [r.logprobs for r in other] != [r.logprobs for r in rows]
    assert sorted(x for r in other for x in r.logprobs) == sorted(x for r in rows for x in r.logprobs)


def test_demonstrations_are_learnt_in_the_replies_alone():
    ids, mask = marked(TOKENIZER, demonstration("3", "4"))
    assert TOKENIZER.decode([i for i, on in zip(ids, mask, strict=True) if on]) == (
        CALL % "4" + "<|im_end|>Done.<|im_end|>"
    )


def test_runs_of_a_seed_share_a_warm_up(tmp_path):
    first, second = (make_model(TOKENIZER, seed=1) for _ in range(2))
    warm_up_once(first, TOKENIZER, 1, tmp_path / "warm.pt", steps=1)
    warm_up_once(second, TOKENIZER, 1, tmp_path / "warm.pt", steps=0)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert not torch.equal(first.lm_head.weight, make_model(TOKENIZER, seed=1).lm_head.weight)

    with pytest.raises(ValueError, match="the warm-up of seed 1, not of 2"):
        warm_up_once(second, TOKENIZER, 2, tmp_path / "warm.pt")


def test_a_picture_has_a_thin_and_a_thick_line_for_each_run():
    drawn = picture({"learning": [0.25, 0.5, 1], "shuffled": [0.25]})
    assert drawn.count("<polyline") == 4
    assert averages([0, 1] * 6)[-1] == 0.5
