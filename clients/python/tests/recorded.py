"""Records as rolloutd makes them: random ones for properties, and a fixed set with each kind of rollout."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from rolloutd import Sequence
from rolloutd.trainers import Record, trained

Pairs = Counter[tuple[int, float]]

VOCABULARY = 1000


@dataclass
class Conversation:
    """The model calls of one conversation, joined to sequences: a prompt that does not continue the one before begins a new sequence."""

    rng: random.Random
    sequences: list[dict[str, Any]] = field(default_factory=list)
    calls: int = 0

    def tokens(self, most: int = 12) -> list[int]:
        return [self.rng.randrange(VOCABULARY) for _ in range(self.rng.randint(1, most))]

    def begin(self, end: str = "end", lineage: str = "main") -> None:
        """Begins a sequence. `end` is why the one before it ended."""
        if self.sequences:
            self.sequences[-1]["end"] = end
        self.sequences.append({"token_ids": [], "loss_mask": [], "logprobs": [], "spans": [], "lineage": lineage, "end": "end"})

    def call(
        self, *, train: bool = True, version: str = "", finish: str = "stop", reply: list[int] | None = None, reward: float | None = None
    ) -> None:
        """One model call: what is new in its prompt, and the reply."""
        if not self.sequences:
            self.begin()
        s, new, reply = self.sequences[-1], self.tokens(), reply or self.tokens()
        self.calls += 1
        start = len(s["token_ids"]) + len(new)
        span = {"turn": self.calls, "start": start, "stop": start + len(reply), "train": train, "finish_reason": finish}
        s["spans"].append(span | {"truncated": finish == "length", "model_version": version, "temperature": 1.0, "reward": reward})
        s["token_ids"] += new + reply
        s["loss_mask"] += [0] * len(new) + [int(train)] * len(reply)
        s["logprobs"] += [0.0] * len(new) + [-self.rng.randrange(5000) / 1024 if train else 0.0 for _ in reply]

    def record(self, rollout_id: str, group: str, outcome: str = "completed", reward: float | None = 0.0) -> Record:
        raw = [
            s | {"rollout_id": rollout_id, "group_id": group, "task_id": "task", "outcome": outcome, "reward": reward, "sequence": i, "trained": sum(s["loss_mask"])}
            for i, s in enumerate(self.sequences)
        ]
        return Record(rollout_id, group, "task", outcome, reward, tuple(Sequence.of(s) for s in raw))


def random_record(rng: random.Random, *, turn_rewards: bool = False) -> Record:
    """Any record: sequences, turns with and without training, versions, a reward or none; by choice rewards of turns."""
    c = Conversation(rng)
    for _ in range(rng.randint(0, 3)):
        c.begin(rng.choice(["prefix_break", "compacted"]))
        for _ in range(rng.randint(1, 4)):
            reward = rng.choice([None, 0.0, 1.0, -0.25]) if turn_rewards else None
            version, finish = rng.choice(["", "step-3", "step-3..step-4", "7"]), rng.choice(["stop", "length"])
            c.call(train=rng.random() < 0.8, version=version, finish=finish, reward=reward)
    total = rng.choice([None, 0.0, 1.0, -0.5])
    return c.record("r", "g", "completed" if total is not None else "infra_failed", total)


# What makes the conversation of each kind of rollout.


def _one_sequence(c: Conversation) -> None:
    for _ in range(c.rng.randint(1, 4)):
        c.call()


def _prefix_break(c: Conversation) -> None:
    c.call()
    c.call()
    c.begin("prefix_break")
    c.call()


def _compacted(c: Conversation) -> None:
    c.call()
    c.begin("compacted")
    c.call()
    c.call()


def _subagents(c: Conversation) -> None:
    c.call()
    c.call()
    c.begin(lineage="sub")
    c.call()


def _truncated(c: Conversation) -> None:
    c.call()
    c.call(finish="length")


def _two_versions(c: Conversation) -> None:
    c.call(version="step-3")
    c.call(version="step-3..step-4")
    c.call(version="step-4")


def _parallel_tools(c: Conversation) -> None:
    c.call(finish="tool_calls")
    c.sequences[-1]["token_ids"] += (results := c.tokens() + c.tokens())
    c.sequences[-1]["loss_mask"] += [0] * len(results)
    c.sequences[-1]["logprobs"] += [0.0] * len(results)
    c.call()


def _unicode(c: Conversation) -> None:
    # The bytes of a text as tokens: a character may begin in one token and end in the next.
    c.call(reply=list("naïve 日本語 🙂".encode()))


def _untrained_turn_between(c: Conversation) -> None:
    c.call(train=False)
    c.call()
    c.call(train=False)
    c.call()


def _nothing_trainable(c: Conversation) -> None:
    c.call(train=False)


def _nothing(c: Conversation) -> None:
    return


KINDS: dict[str, tuple[Callable[[Conversation], None], str, bool]] = {
    "one sequence": (_one_sequence, "completed", True),
    "prefix break": (_prefix_break, "completed", True),
    "compacted": (_compacted, "completed", True),
    "subagents": (_subagents, "completed", True),
    "truncated": (_truncated, "budget_exhausted", True),
    "two versions": (_two_versions, "completed", True),
    "parallel tools": (_parallel_tools, "completed", True),
    "unicode": (_unicode, "agent_failed", True),
    "untrained turns": (_untrained_turn_between, "completed", True),
    "nothing trainable": (_nothing_trainable, "completed", True),
    "no calls": (_nothing, "agent_timeout", True),
    "failed for infrastructure": (_one_sequence, "infra_failed", False),
    "reward missing": (_one_sequence, "completed", False),
}


def recorded(rollouts: int = 64, seed: int = 1) -> list[Record]:
    """The fixed set: each kind in turn, in groups of four."""
    records = []
    for i in range(rollouts):
        kind = list(KINDS)[i % len(KINDS)]
        make, outcome, rewarded = KINDS[kind]
        c = Conversation(random.Random(f"{seed} {i}"))
        make(c)
        records.append(c.record(f"{kind.replace(' ', '-')}-{i}", f"group-{i // 4}", outcome, c.rng.choice([0.0, 0.5, 1.0]) if rewarded else None))
    return records


def pairs_of(records: Iterable[Record]) -> Pairs:
    """The tokens to train on with their log probabilities: each converter must give exactly these."""
    return Counter(
        (id, logprob)
        for record in records
        for s in trained(record)
        for id, bit, logprob in zip(s.token_ids, s.loss_mask, s.logprobs, strict=True)
        if bit
    )
