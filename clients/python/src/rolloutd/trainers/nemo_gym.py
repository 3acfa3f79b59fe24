"""NeMo-Gym 0.4.0: the answer of an agent server's `POST /run` (`nemo_gym.base_resources_server.BaseVerifyResponse`), which NeMo-RL trains on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import RolloutdError, UnscoredError
from .experts import token_rows
from .record import Record
from .rules import Turn, longest, named_rewards, trained, turns, untrained


def verify_response(record: Record, request: Mapping[str, Any], *, created_at: float = 0.0) -> dict[str, Any]:
    """The answer to `request`, whose fields it repeats: the longest sequence, with an output item for each reply that is trained on.

    Items have routed experts where all tokens of the sequence have them, in a shape that the endpoint names. NeMo-RL requires that the prompt of each item
    begins with all tokens before it, so it takes one sequence of a rollout. It has no form for a
    missing reward: UnscoredError, for which a server answers by `masked_response`. Rewards by name are `reward_components`.
    """
    sequence = longest(trained(record))
    if sequence is None:
        raise UnscoredError(untrained(record))
    named = named_rewards(record)
    components = {"reward_components": named} if named else {}
    response = _response(record.rollout_id, turns(sequence), created_at)
    if (rows := token_rows(sequence)) is not None:
        for item in response["output"]:
            item["routed_experts"] = _rows_of(item, rows)
    return {**request, "response": response, "reward": record.reward, **components}


def _rows_of(item: Mapping[str, Any], rows: Any) -> list[list[list[int]]]:
    """The routed experts of an item's tokens. Its last token, which no engine had processed, repeats the row before, as the trainer replaces it by that of the
    next item."""
    length = len(item["prompt_token_ids"]) + len(item["generation_token_ids"])
    made: list[list[list[int]]] = rows[: length - 1].tolist()
    return [*made, made[-1]]


def masked_response(record: Record, request: Mapping[str, Any], *, created_at: float = 0.0) -> dict[str, Any]:
    """The answer to `request` for a rollout that nothing is trained on, without output. Gym's own agents mark such a sample by `mask_sample`.

    Without a reward it has `_ng_failure_class` besides, so that Gym writes it to its file of failures and not to its results
    (`nemo_gym.rollout_collection`). The class of the answer requires a reward, which is then 0 and means nothing.
    """
    answer = {**request, "response": _response(record.rollout_id, (), created_at), "mask_sample": True, "error": untrained(record)}
    if record.reward is None:
        return {**answer, "reward": 0.0, "_ng_failure_class": record.outcome or "unknown"}
    return {**answer, "reward": record.reward}


def failure_response(error: RolloutdError, request: Mapping[str, Any], *, created_at: float = 0.0) -> dict[str, Any]:
    """The answer to `request` when there is no rollout: rolloutd refused the row, or no server answered.

    An HTTP error would end Gym's whole collection (`nemo_gym.rollout_collection`).
    """
    return {
        **request,
        "response": _response("", (), created_at),
        "reward": 0.0,
        "mask_sample": True,
        "error": str(error),
        "_ng_failure_class": error.kind or type(error).__name__,
    }


def _response(rollout_id: str, replies: Iterable[Turn], created_at: float) -> dict[str, Any]:
    return {
        "id": rollout_id,
        "created_at": created_at,
        "model": "",
        "object": "response",
        "output": [_item(turn) for turn in replies],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


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
