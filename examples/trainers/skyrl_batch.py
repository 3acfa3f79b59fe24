"""Two groups of two rollouts by SkyRL's generator interface, without a GPU: prints the output that its trainer would get.

    python skyrl_batch.py http://127.0.0.1:8000
"""

from __future__ import annotations

import asyncio
import sys

from skyrl.train.generators.base import BatchMetadata, GeneratorInput, TrajectoryID

from rolloutd.skyrl import RolloutdGenerator

INSTRUCTION = "Write binary_search.py with a function binary_search(items, target)."


def main(server: str) -> None:
    task = {"endpoint": "scripted", "agent": "react", "verify": ["python3 binary_search.py"]}
    batch = GeneratorInput(
        prompts=[[{"role": "user", "content": INSTRUCTION}]] * 4,
        env_classes=["rolloutd"] * 4,
        env_extras=[{}] * 4,
        sampling_params={"temperature": 1.0},
        trajectory_ids=[TrajectoryID(instance, repetition) for instance in ("a", "b") for repetition in range(2)],
        batch_metadata=BatchMetadata(global_step=1, training_phase="train"),
    )
    output = asyncio.run(RolloutdGenerator(server, task, step_wise=True).generate(batch))

    print(len(output["response_ids"]), "rows, one for each reply")
    print("rewards", output["rewards"])
    print("tokens to train on", [sum(mask) for mask in output["loss_masks"]])
    print(output["rollout_metrics"])


if __name__ == "__main__":
    main(*sys.argv[1:])
