"""Two groups of two rollouts in verl's own worker, without a GPU: prints the batch that its trainer would get.

    python verl_batch.py AGENT_LOOPS.yaml MODEL      # a folder or a name at Hugging Face, for its tokenizer
"""

from __future__ import annotations

import asyncio
import sys

import numpy as np
from hydra import compose, initialize_config_module
from verl import DataProto
from verl.experimental.agent_loop.agent_loop import AgentLoopWorker

INSTRUCTION = "Write binary_search.py with a function binary_search(items, target)."


def main(agent_loops: str, model: str) -> None:
    rollout = {
        "name": "vllm",
        "prompt_length": 4096,
        "response_length": 8192,
        "calculate_log_probs": True,
        "agent.agent_loop_config_path": agent_loops,
        "agent.default_agent_loop": "rolloutd",
    }
    with initialize_config_module("verl.trainer.config", version_base=None):
        settings = [f"actor_rollout_ref.rollout.{name}={value}" for name, value in rollout.items()]
        config = compose("ppo_trainer", [f"actor_rollout_ref.model.path={model}", *settings])

    rows = np.empty(4, dtype=object)
    rows[:] = [[{"role": "user", "content": INSTRUCTION}]] * 4
    uids = np.array(["a", "a", "b", "b"], dtype=object)
    prompts = DataProto.from_dict(non_tensors={"raw_prompt": rows, "uid": uids})

    batch = asyncio.run(AgentLoopWorker(config, llm_client=None).generate_sequences(prompts))
    print(batch.batch)
    print("rewards", batch.batch["rm_scores"].sum(1).tolist())
    print("tokens to train on", batch.batch["response_mask"].sum(1).tolist())


if __name__ == "__main__":
    main(*sys.argv[1:])
