"""One step of GRPO over token-exact sequences, and what each control breaks in its data."""

import random
from dataclasses import dataclass

import torch
from policy import log_probabilities, padded, step
from transformers import LlamaForCausalLM

CLIP = 0.2
EPOCHS = 2
CONTROLS = ("shifted_mask", "other_logprobs", "shuffled_rewards")


@dataclass
class Row:
    """A sequence of a rollout: 1 in `mask`, and the engine's log probability, for each token to train on."""

    ids: list[int]
    mask: list[int]
    logprobs: list[float]
    reward: float


def update(model: LlamaForCausalLM, optimizer: torch.optim.Optimizer, groups: list[list[Row]]) -> float:
    """Takes a step, and returns the largest difference between a log probability of the engine and the model's."""
    rows = [row for group in groups for row in group]
    ids = padded([row.ids for row in rows], torch.long)
    mask = padded([row.mask for row in rows])[:, 1:]
    sampled = padded([row.logprobs for row in rows])[:, 1:]
    advantage = torch.tensor([a for group in groups for a in advantages(group)])[:, None]
    difference = 0.0
    model.train()

    for epoch in range(EPOCHS):
        log_ratio = (log_probabilities(model, ids) - sampled) * mask
        ratio = log_ratio.exp()
        gain = torch.min(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage)
        step(model, optimizer, -(gain * mask).sum() / mask.sum())
        difference = difference if epoch else float(log_ratio.detach().abs().max())

    model.eval()

    return difference


def advantages(group: list[Row]) -> list[float]:
    rewards = torch.tensor([row.reward for row in group], dtype=torch.float)

    return ((rewards - rewards.mean()) / (rewards.std(correction=0) + 1e-6)).tolist()


def broken(groups: list[list[Row]], control: str, rng: random.Random) -> list[list[Row]]:
    """The groups with the mistake that the control is about."""
    if control == "shuffled_rewards":
        return [_shuffled(group, rng) for group in groups]

    if control == "shifted_mask":
        return [[Row(r.ids, _shift(r.mask), _shift(r.logprobs), r.reward) for r in group] for group in groups]

    if control == "other_logprobs":
        return _with_other_logprobs(groups, rng)

    return groups


def _shift(values: list) -> list:
    return [0, *values[:-1]]


def _shuffled(group: list[Row], rng: random.Random) -> list[Row]:
    rewards = [row.reward for row in group]
    rng.shuffle(rewards)

    return [Row(r.ids, r.mask, r.logprobs, reward) for r, reward in zip(group, rewards, strict=True)]


def _with_other_logprobs(groups: list[list[Row]], rng: random.Random) -> list[list[Row]]:
    """Each token to train on has the log probability of another one of the step."""
    pool = [value for group in groups for r in group for value, on in zip(r.logprobs, r.mask, strict=True) if on]
    rng.shuffle(pool)

    return [[Row(r.ids, r.mask, [pool.pop() if on else 0.0 for on in r.mask], r.reward) for r in g] for g in groups]
