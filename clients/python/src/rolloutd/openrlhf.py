"""An agent executor of OpenRLHF 0.11 whose rollouts run in rolloutd.

    # agent.py, named by --train.agent_func_path
    from rolloutd.openrlhf import RolloutdExecutor

    class AgentExecutor(RolloutdExecutor):
        server = "http://127.0.0.1:8000"
        task = {"agent": "react", "verify": ["pytest -q"]}
"""

from __future__ import annotations

import copy
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar

from openrlhf.utils.agent import AgentExecutorBase

from .aio import AsyncClient
from .engine import Call, Engine, Reply
from .trainers import Limits, Losses, fit
from .trainers.openrlhf import evaluated, execution
from .trainers.running import arguments_of, pinned, run_rollout


class RolloutdExecutor(AgentExecutorBase):
    """Runs each prompt as a rollout, of which the trainer takes the longest sequence.

    The arguments of the rollout are `task`, then those of the label, if it is a JSON object with the field `rolloutd`; the instruction is the prompt as the
    trainer hands it over, so leave `--data.apply_chat_template` off. Without `endpoint`, `base_url` or `model_key` the rollout calls the trainer's own engine,
    which listens on `host` for it: the server of rolloutd must reach that. UnscoredError without a reward: OpenRLHF has no way to leave out a sample, so
    it ends the batch; replacements inside rolloutd (`limits.attempts`) come first. What is sampled greedily, as an evaluation may be, is evaluated: nothing
    of it can be trained on.
    """

    server: ClassVar[str | None] = None
    token: ClassVar[str | None] = None
    task: ClassVar[Mapping[str, Any]] = {}
    host: ClassVar[str] = "127.0.0.1"

    def __init__(self) -> None:
        self._engine: Engine | None = None  # one for the actor, whose engine and loop are the same for all prompts

    async def execute(
        self, prompt: Any, label: Any, sampling_params: Any, max_length: int, hf_tokenizer: Any, llm_engine: Any, images: Any = None
    ) -> dict[str, Any]:
        purpose = "eval" if sampling_params.temperature == 0 else "train"
        arguments = arguments_of({"instruction": prompt, "purpose": purpose, **self.task}, _own(label))
        if not arguments.keys() & {"endpoint", "base_url", "model_key"}:
            if self._engine is None:
                self._engine = Engine(_generate(llm_engine, sampling_params), hf_tokenizer, max_length=max_length, host=self.host)
            arguments |= {"base_url": self._engine.url, "model": self._engine.model}
        sampling = {name: getattr(sampling_params, name, None) for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")}
        async with AsyncClient(self.server, token=self.token) as client:
            record = await run_rollout(client, pinned(arguments, sampling))

        evaluation = arguments["purpose"] == "eval"
        record, losses = (record, Losses()) if evaluation else fit(record, Limits(total=max_length))
        made = (evaluated if evaluation else execution)(record, prompt, label)
        logs = {**made["extra_logs"], "rolloutd_cut": float(losses.cut), "rolloutd_dropped": float(losses.dropped)}
        return {**made, "images": images, "mm_train_inputs": None, "extra_logs": logs}


def _generate(llm_engine: Any, sampling_params: Any) -> Callable[[Call], Awaitable[Reply]]:
    """Samples a reply by the trainer's engine. What a call does not say is as in the trainer's sampling parameters."""

    async def generate(call: Call) -> Reply:
        params = copy.deepcopy(sampling_params)
        params.max_tokens, params.temperature = call.max_tokens, call.temperature
        params.logprobs = params.logprobs or 0  # those of the sampled tokens
        for name, value in call.sampling.items():
            setattr(params, name, value)
        output = (await llm_engine.generate(call.prompt_ids, params)).outputs[0]
        ids = list(output.token_ids)
        logprobs = [float(step[id].logprob) for id, step in zip(ids, output.logprobs, strict=True)]
        return Reply(ids, logprobs, "length" if output.finish_reason == "length" else "stop")

    return generate


def _own(label: Any) -> Any:
    """The arguments of one row's rollout, which are in its label."""
    try:
        value = json.loads(label) if isinstance(label, str) else label
    except ValueError:
        return None
    return value.get("rolloutd") if isinstance(value, Mapping) else None
