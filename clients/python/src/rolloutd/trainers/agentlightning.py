"""Agent Lightning 1.0: the events of a rollout (`agentlightning.schemas.EventCreate`)."""

from __future__ import annotations

from typing import Any, TypedDict

from .record import Record
from .rules import Turn, named_rewards, trained, turns


class Event(TypedDict):
    """The body of `POST /api/rollouts/{id}/attempt/{attempt}/events`."""

    event_type: str
    data: dict[str, Any]


def events(record: Record) -> list[Event]:
    """The `reward`, then a `model_request` for each reply to train on; none of a record without a reward.

    The reward comes first: the trainer would train on requests without one as if it were its `reward_fillna_value`, which is 0. Of several requests with
    the same prompt it takes the last.
    """
    if record.reward is None:
        return []
    named = {"rewards": named_rewards(record)} if named_rewards(record) else {}
    reward = Event(event_type="reward", data={"value": record.reward, "source": "rolloutd", "message": record.outcome, **named})
    return [reward, *(_request(turn) for sequence in trained(record) for turn in turns(sequence))]


def _request(turn: Turn) -> Event:
    choice = {"token_ids": turn.completion_ids, "logprobs": {"content": [{"logprob": logprob} for logprob in turn.logprobs]}}
    return Event(
        event_type="model_request",
        data={
            "status": "ok",
            "request": {},
            "response": {"prompt_token_ids": turn.prompt_ids, "choices": [choice]},
            "server": {"version": turn.span.versions[0]},
            "finish_reason": turn.span.finish_reason,
        },
    )
