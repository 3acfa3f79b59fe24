"""NeMo-Gym 0.4.0: the answer of an agent server's `POST /run` (`nemo_gym.base_resources_server.BaseVerifyResponse`), which NeMo-RL trains on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import UnscoredError
from .record import Record
from .rules import Turn, longest, trained, turns, untrained


def verify_response(record: Record, request: Mapping[str, Any], *, created_at: float = 0.0) -> dict[str, Any]:
    """The answer to `request`, whose fields it repeats: the longest sequence, with an output item for each reply that is trained on.

    NeMo-RL requires that the prompt of each item begins with all tokens before it, so it takes one sequence of a rollout. It has no form for a
    missing reward: UnscoredError, which a server answers as a failure.
    """
    sequence = longest(trained(record))
    if sequence is None:
        raise UnscoredError(untrained(record))
    response = {
        "id": record.rollout_id,
        "created_at": created_at,
        "model": "",
        "object": "response",
        "output": [_item(turn) for turn in turns(sequence)],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    return {**request, "response": response, "reward": record.reward}


def _item(turn: Turn) -> dict[str, Any]:
    return {
        "id": f"turn-{turn.number}",
        "type": "message",
        "role": "assistant",
        "status": "incomplete" if turn.span.truncated else "completed",
        "content": [{"type": "output_text", "text": "", "annotations": []}],
        "prompt_token_ids": turn.prompt_ids,
        "generation_token_ids": turn.completion_ids,
        "generation_log_probs": turn.logprobs,
    }
