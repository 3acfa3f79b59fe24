"""An agent executor of OpenRLHF 0.11 whose rollouts run in rolloutd.

    # agent.py, named by --train.agent_func_path
    from rolloutd.openrlhf import RolloutdExecutor

    class AgentExecutor(RolloutdExecutor):
        server = "http://127.0.0.1:8000"
        task = {"endpoint": "vllm", "agent": "react", "verify": ["pytest -q"]}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from openrlhf.utils.agent import AgentExecutorBase

from .aio import AsyncClient
from .trainers import Limits, fit
from .trainers.openrlhf import execution
from .trainers.running import pinned, run_rollout


class RolloutdExecutor(AgentExecutorBase):
    """Runs each prompt as a rollout, of which the trainer takes the longest sequence.

    The arguments of the rollout are `task`, then those of the label, if it is a JSON object with the field `rolloutd`; the instruction is the prompt as the
    trainer hands it over, so leave `--data.apply_chat_template` off. UnscoredError without a reward: OpenRLHF has no way to leave out a sample, so
    it ends the batch; replacements inside rolloutd (`limits.attempts`) come first.
    """

    server: ClassVar[str | None] = None
    token: ClassVar[str | None] = None
    task: ClassVar[Mapping[str, Any]] = {}

    async def execute(
        self, prompt: Any, label: Any, sampling_params: Any, max_length: int, hf_tokenizer: Any, llm_engine: Any, images: Any = None
    ) -> dict[str, Any]:
        arguments = {"instruction": prompt, "purpose": "train", **self.task, **_own(label)}
        sampling = {name: getattr(sampling_params, name, None) for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")}
        async with AsyncClient(self.server, token=self.token) as client:
            record = await run_rollout(client, pinned(arguments, sampling))

        record, losses = fit(record, Limits(total=max_length))
        made = execution(record, prompt, label)
        logs = {**made["extra_logs"], "rolloutd_cut": float(losses.cut), "rolloutd_dropped": float(losses.dropped)}
        return {**made, "images": images, "mm_train_inputs": None, "extra_logs": logs}


def _own(label: Any) -> Mapping[str, Any]:
    """The arguments of one row's rollout, which are in its label."""
    try:
        value = json.loads(label) if isinstance(label, str) else label
    except ValueError:
        return {}
    own = value.get("rolloutd") if isinstance(value, Mapping) else None
    return own if isinstance(own, Mapping) else {}
