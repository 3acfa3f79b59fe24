"""GenericEnvClient: reset, step and state with plain dictionaries, and errors that leave the session usable."""

import asyncio
import json
import sys

from openenv.core.generic_client import GenericEnvClient

RUN = {"endpoint": "vllm", "agent": "react", "instruction": "x", "task_id": "t9", "rollout_id": "r9", "verify": ["true", "false"]}


async def main(url: str) -> None:
    async with GenericEnvClient(base_url=url, message_timeout_s=600.0) as env:
        before = await env.state()
        assert before["step_count"] == 0 and before["rollouts_completed"] == 0, before
        reset = await env.reset(seed=7, episode_id="ep-9", level="hard")
        assert reset.observation == {"metadata": {}} and reset.done is False, reset
        step = await env.step({"type": "call_tool", "tool_name": "run_rollout", "arguments": RUN})
        assert step.observation["tool_name"] == "run_rollout" and step.observation["error"] is None, step
        inner = step.observation["result"]
        assert inner["is_error"] is False and inner["content"][0]["text"] == inner["data"], inner
        assert json.loads(inner["data"])["rollout_id"] == "r9", inner

        try:
            await env.step({"cmd": "ls"})
        except RuntimeError as e:
            assert "VALIDATION_ERROR" in str(e), e
        else:
            raise AssertionError("an action of another kind must be refused")

        after = await env.state()
        assert after == {"episode_id": "ep-9", "step_count": 1, "rollouts_completed": 1, "last_reward": 0.5,
                         "rollouts": ["r9"], "last_task_id": "t9", "last_sandbox_id": "r9.1"}, after


asyncio.run(main(sys.argv[1]))
print("all checks held")
