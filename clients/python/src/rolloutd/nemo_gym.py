"""An agent server of NeMo-Gym 0.4.0 whose rollouts run in rolloutd.

    # responses_api_agents/rolloutd/app.py
    from rolloutd.nemo_gym import RolloutdAgent

    if __name__ == "__main__":
        RolloutdAgent.run_webserver()
"""

from __future__ import annotations

import time
from typing import Any

from fastapi import Body, HTTPException
from nemo_gym.base_resources_server import AggregateMetrics, AggregateMetricsRequest, BaseRunRequest, BaseVerifyResponse
from nemo_gym.base_responses_api_agent import BaseResponsesAPIAgentConfig, SimpleResponsesAPIAgent
from nemo_gym.openai_utils import NeMoGymResponse, NeMoGymResponseCreateParamsNonStreaming
from pydantic import ConfigDict

from .aio import AsyncClient
from .errors import RolloutdError
from .trainers import Limits, fit, trained
from .trainers.nemo_gym import failure_response, masked_response, verify_response
from .trainers.running import arguments_of, pinned, run_rollout
from .trl.rollouts import instruction_of


class RolloutdAgentConfig(BaseResponsesAPIAgentConfig):
    """`rolloutd_server` is the URL of the server; `task` has arguments of each rollout; `prompt_length` and `response_length` bound its tokens."""

    rolloutd_server: str
    rolloutd_token: str | None = None
    task: dict[str, Any] = {}
    prompt_length: int | None = None
    response_length: int | None = None


class RolloutdRunRequest(BaseRunRequest):
    """A row of the dataset. `rolloutd` has further arguments of its rollout."""

    model_config = ConfigDict(extra="allow")
    rolloutd: dict[str, Any] = {}


class RolloutdVerifyResponse(BaseVerifyResponse):
    """The row, with the longest sequence and the reward of its rollout."""

    model_config = ConfigDict(extra="allow")


class RolloutdAgent(SimpleResponsesAPIAgent):
    """Runs each row as a rollout.

    The arguments of the rollout are `task`, then the row's `rolloutd`; the instruction is the last user message of `responses_create_params`, whose
    sampling parameters are pinned on every model call. What is sampled greedily is evaluated: it has its reward, and nothing of it can be trained on. A
    rollout without a reward, a row that rolloutd refuses and a server that is away are answered as a failure: Gym writes it to its file of failures, tries
    it again when the collection is resumed, and no metric counts it.
    """

    config: RolloutdAgentConfig

    async def responses(self, body: NeMoGymResponseCreateParamsNonStreaming = Body()) -> NeMoGymResponse:
        raise HTTPException(501, "rolloutd's agent calls the model itself: POST /run")

    async def run(self, body: RolloutdRunRequest = Body()) -> RolloutdVerifyResponse:
        row = body.model_dump(mode="json", exclude_unset=True)
        try:
            arguments = self._arguments(row)
            async with AsyncClient(self.config.rolloutd_server, token=self.config.rolloutd_token) as client:
                record = await run_rollout(client, arguments)
        except RolloutdError as err:
            return RolloutdVerifyResponse.model_validate(failure_response(err, row, created_at=time.time()))

        record, _ = fit(record, Limits(prompt=self.config.prompt_length, response=self.config.response_length))
        answer = verify_response if trained(record) else masked_response
        return RolloutdVerifyResponse.model_validate(answer(record, row, created_at=time.time()))

    async def aggregate_metrics(self, body: AggregateMetricsRequest = Body()) -> AggregateMetrics:
        graded = [answer for answer in body.verify_responses if "_ng_failure_class" not in answer]
        return await super().aggregate_metrics(body.model_copy(update={"verify_responses": graded}))

    def _arguments(self, row: dict[str, Any]) -> dict[str, Any]:
        params = row["responses_create_params"]
        purpose = "eval" if params.get("temperature") == 0 else "train"
        arguments = arguments_of({"purpose": purpose, **self.config.task}, row.get("rolloutd"))
        if "instruction" not in arguments:
            arguments["instruction"] = instruction_of(params["input"])
        arguments = pinned(arguments, params)
        if params.get("max_output_tokens") is not None:
            arguments.setdefault("max_tokens_cap", params["max_output_tokens"])
        return arguments
