"""An agent of Agent Lightning 1.0 whose rollouts run in rolloutd: a process of its local controller for each rollout.

    # the trainer's configuration
    agentlightning:
      local:
        agent_class: rolloutd.agentlightning.RolloutdAgent
        env_map:
          ROLLOUTD_SERVER: http://127.0.0.1:8000
          ROLLOUTD_TASK: '{"agent": "react", "verify": ["pytest -q"]}'
          ROLLOUTD_ROW: input
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any

import httpx

from .aio import AsyncClient
from .errors import InvalidError, UnscoredError
from .trainers import untrained
from .trainers.agentlightning import events
from .trainers.running import arguments_of, pinned, run_rollout, unscaled
from .trl.rollouts import instruction_of

# Seconds for an answer of the trainer's server.
_TIMEOUT_S = 60.0


class RolloutdAgent:
    """Runs the rollout that the controller's environment variables describe, and posts its reward and its calls as events.

    The arguments of the rollout are those of ROLLOUTD_TASK, then the row's `rolloutd`; the instruction is the row's `instruction`, or the last user message of
    its `prompt`. Without `endpoint`, `base_url` or `model_key` the rollout calls the trainer's proxy, whose `train.temperature` must be 1. At an endpoint of
    its own its temperature is 1, unless the arguments have another. UnscoredError without a reward: then the rollout has failed, and nothing of it is trained
    on.
    """

    def __init__(self) -> None:
        self._environment = dict(os.environ)

    async def run(self) -> None:
        url = _variable(self._environment, "AGL_EVENT_URL")
        async with AsyncClient() as client:
            record = await run_rollout(client, self._arguments(url))
        if record.reward is None:
            raise UnscoredError(untrained(record))

        key = self._environment.get("AGL_KEY")
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {key}"} if key else {}, timeout=_TIMEOUT_S) as http:
            for event in events(record):
                (await http.post(url, json=event)).raise_for_status()

    def _arguments(self, event_url: str) -> dict[str, Any]:
        row = _object(self._environment, "ROLLOUTD_ROW")
        proxy = self._environment.get("AGL_OPENAI_BASE_URL", "")
        purpose = "eval" if "/mode/val/" in proxy else "train"
        arguments = arguments_of({"purpose": purpose, **_object(self._environment, "ROLLOUTD_TASK")}, row.get("rolloutd"))
        if "instruction" not in arguments:
            arguments["instruction"] = row.get("instruction") or instruction_of(row.get("prompt") or "")
        if (match := re.search("/rollouts/([^/]+)/attempt/", event_url)) is not None:
            arguments.setdefault("rollout_id", match[1])
        if not arguments.keys() & {"endpoint", "base_url", "model_key"}:
            # The proxy records its calls as those of another attempt, so that the trainer takes the ones that are posted here.
            arguments |= {"base_url": re.sub("/attempt/[^/]+/", "/attempt/calls/", proxy), "model": "policy", "api_key": self._environment.get("AGL_KEY", "")}
            if arguments["purpose"] == "train":
                arguments = pinned(arguments, {"temperature": 1.0})  # the proxy's, whatever a call says
        return unscaled(arguments)


def _variable(environment: Mapping[str, str], name: str) -> str:
    if not (value := environment.get(name)):
        raise InvalidError(f"{name}: must be set; Agent Lightning's local controller does it")
    return value


def _object(environment: Mapping[str, str], name: str) -> dict[str, Any]:
    """The JSON object of a variable; empty if it is not set."""
    try:
        value = json.loads(environment.get(name) or "{}")
    except ValueError as err:
        raise InvalidError(f"{name}: must be a JSON object: {err}") from err
    if not isinstance(value, dict):
        raise InvalidError(f"{name}: must be a JSON object, got {type(value).__name__}")
    return value
