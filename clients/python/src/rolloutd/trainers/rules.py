"""The rules by which a record becomes a trainer's data. They are pure functions, and each is written only here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..errors import InvalidError
from ..staleness import version_number
from ..types import Sequence, Span
from .record import Record


def untrained(record: Record) -> str:
    """Why nothing of the record is trained on; "" if something is. A missing reward is not a reward of 0."""
    if record.reward is None:
        return f"rollout {record.rollout_id} has no reward: it ended as {record.outcome or 'unknown'}"
    masked = [s for s in record.sequences if any(s.loss_mask)]
    if not masked:
        return f"rollout {record.rollout_id} has no tokens to train on"
    if all(map(unseen, masked)):
        return f"rollout {record.rollout_id} has images: {unseen(masked[0])}"
    return ""


def trained(record: Record) -> tuple[Sequence, ...]:
    """The sequences to train on, in order. Each is a training example of its own with the reward of the rollout; none without a reward.

    A sequence with images is among them if it has their bytes, which only adapters of trainers that take images read.
    """
    return () if untrained(record) else tuple(s for s in record.sequences if any(s.loss_mask) and not unseen(s))


def unseen(sequence: Sequence) -> str:
    """Why a trainer cannot give the model the images that it saw in a sequence; "" if it can, or there are none."""
    if not sequence.images and any(span.images for span in sequence.spans):
        return "they were stored by an earlier release, in the requests of the trace alone"
    for number, image in enumerate(sequence.images):
        if not image.data:
            return f"image {number}, of turn {image.turn}: {image.missing or 'it is not read for this trainer'}"
    return ""


def longest(sequences: Iterable[Sequence]) -> Sequence | None:
    """The sequence with the most tokens to train on, the first of several: for trainers that take one of each rollout."""
    return max(sequences, key=lambda s: sum(s.loss_mask), default=None)


def token_logprobs(sequence: Sequence, elsewhere: float = 0.0) -> list[float]:
    """The log probability of each token to train on, and `elsewhere` for every other."""
    return [float(logprob) if bit else elsewhere for logprob, bit in zip(sequence.logprobs, sequence.loss_mask, strict=True)]


def token_versions(sequence: Sequence) -> list[int | None]:
    """The version of the weights that sampled each token: the last number in its name; None for other tokens, and where it is unknown.

    The weights of a reply may have been replaced while it was sampled. Where the engine does not say which token was the first of the new ones, all
    tokens of such a reply have the older version.
    """
    versions: list[int | None] = [None] * len(sequence.token_ids)
    for span in sequence.spans:
        known = [v for v in map(version_number, span.versions) if v is not None]
        versions[span.start : span.stop] = [min(known, default=None)] * (span.stop - span.start)
        for name, start, stop in span.version_spans:
            end = min(stop, span.stop)  # the reply may be cut
            versions[start:end] = [version_number(name)] * (end - start)
    return versions


def version_names(sequence: Sequence) -> list[str]:
    """The versions of the weights that sampled tokens to train on, in order, under the endpoint's names. Replies without one are left out."""
    return [name for span in sequence.spans if span.train for name in dict.fromkeys(span.versions) if name]


def version_range(sequences: Iterable[Sequence]) -> tuple[int, int] | None:
    """The oldest and the newest version of the weights that sampled a token to train on; None if no version is known."""
    names = (name for s in sequences for span in s.spans if span.train for name in span.versions)
    known = [v for v in map(version_number, names) if v is not None]
    return (min(known), max(known)) if known else None


def filled_rewards(group: Iterable[Record]) -> list[float] | None:
    """The rewards of a group for a trainer that needs a number from each rollout; None if none of them has training data.

    A rollout without training data has the mean of the others. So it does not move the group's mean, whereas 0 would; its mask must be 0.
    """
    rewards = [record.reward if trained(record) else None for record in group]
    known = [reward for reward in rewards if reward is not None]
    if not known:
        return None
    mean = sum(known) / len(known)
    return [mean if reward is None else reward for reward in rewards]


@dataclass(frozen=True)
class Split:
    """A sequence as prompt and response. The lists of the response are equally long."""

    prompt_ids: list[int]
    response_ids: list[int]
    mask: list[int]
    logprobs: list[float]
    versions: list[int | None]


def split(sequence: Sequence) -> Split:
    """Splits a sequence at the first sampled token. The response has the replies and what is between them: tool results and chat template."""
    at = sequence.prompt_length
    return Split(
        prompt_ids=sequence.token_ids[:at],
        response_ids=sequence.token_ids[at:],
        mask=sequence.loss_mask[at:],
        logprobs=token_logprobs(sequence)[at:],
        versions=token_versions(sequence)[at:],
    )


@dataclass(frozen=True)
class Turn:
    """One reply to train on. `prompt_ids` are all tokens that the model saw before it."""

    number: int
    prompt_ids: list[int]
    completion_ids: list[int]
    logprobs: list[float]
    span: Span

    @property
    def reward(self) -> float:
        """The turn's own reward, besides that of the rollout; 0 without one."""
        return self.span.reward or 0.0


def turns(sequence: Sequence) -> list[Turn]:
    """The replies of a sequence that are trained on. Another reply is a part of the prompts after it."""
    return [
        Turn(span.turn, sequence.token_ids[: span.start], sequence.token_ids[span.start : span.stop], sequence.logprobs[span.start : span.stop], span)
        for span in sequence.spans
        if span.train
    ]


def token_rewards(sequence: Sequence) -> list[float]:
    """For each token the reward of the turn whose last token to train on it is, and 0 elsewhere. That of the rollout is not among them.

    A turn that is not trained on has no place for its reward, which is left out.
    """
    rewards = [0.0] * len(sequence.token_ids)
    for turn in turns(sequence):
        rewards[turn.span.stop - 1] = turn.reward
    return rewards


def named_rewards(record: Record) -> dict[str, float]:
    """The rewards of a rollout by name, besides its reward."""
    return dict(next((sequence.rewards for sequence in record.sequences if sequence.rewards), {}))


@dataclass(frozen=True)
class Limits:
    """The largest lengths of a trainer, in tokens: up to the first sampled token, from it on, and in all. None: no limit."""

    prompt: int | None = None
    response: int | None = None
    total: int | None = None

    def __post_init__(self) -> None:
        for name in ("prompt", "response", "total"):
            if (limit := getattr(self, name)) is not None and limit < 1:
                raise InvalidError(f"{name}: a limit must be at least 1 token, got {limit}")


@dataclass(frozen=True)
class Losses:
    """What limits cost. `dropped` are sequences of which nothing to train on is left."""

    cut: int = 0  # sequences
    dropped: int = 0  # sequences
    trained_tokens: int = 0  # tokens to train on, of both

    def __add__(self, other: Losses) -> Losses:
        return Losses(self.cut + other.cut, self.dropped + other.dropped, self.trained_tokens + other.trained_tokens)


def fit(record: Record, limits: Limits) -> tuple[Record, Losses]:
    """The record within limits, with the sequences to train on alone.

    A sequence that is too long is cut at its end, and dropped if its prompt is too long or if nothing to train on is left. What remains is a
    prefix, so every token keeps the context and the log probability that it was sampled with. A reply that is cut is truncated.
    """
    kept, losses = [], Losses()
    for sequence in record.sequences:
        if not any(sequence.loss_mask):
            continue
        length = _allowed(sequence, limits)
        shorter = _cut(sequence, length)
        lost = sum(sequence.loss_mask) - sum(shorter.loss_mask)
        if not any(shorter.loss_mask):
            losses += Losses(dropped=1, trained_tokens=lost)
            continue
        losses += Losses(cut=int(length < len(sequence.token_ids)), trained_tokens=lost)
        kept.append(shorter)
    return replace(record, sequences=tuple(kept)), losses


def _allowed(sequence: Sequence, limits: Limits) -> int:
    """The number of tokens of a sequence that a trainer can take."""
    prompt, length = sequence.prompt_length, len(sequence.token_ids)
    if limits.prompt is not None and prompt > limits.prompt:
        return 0
    if limits.response is not None:
        length = min(length, prompt + limits.response)
    return length if limits.total is None else min(length, limits.total)


def _cut(sequence: Sequence, length: int) -> Sequence:
    if length >= len(sequence.token_ids):
        return sequence
    # The tokens among which an image's placeholders are come before a reply, so nothing to train on is lost with them.
    length = min((image.start for image in sequence.images if image.start < length < image.stop), default=length)
    spans = [
        span if span.stop <= length else replace(span, stop=length, finish_reason="length", truncated=True)
        for span in sequence.spans
        if span.start < length
    ]
    mask = sequence.loss_mask[:length]
    return replace(
        sequence, token_ids=sequence.token_ids[:length], loss_mask=mask, logprobs=sequence.logprobs[:length], spans=tuple(spans),
        trained=sum(mask), end="cut", images=tuple(image for image in sequence.images if image.stop <= length),
    )  # fmt: skip
