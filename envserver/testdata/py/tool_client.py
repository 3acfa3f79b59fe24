"""MCPToolClient as a trainer uses it: reset, list the tools, call them, read the state. A server that really runs rollouts is
given the base URL of a model that writes the file."""

import asyncio
import json
import sys

from openenv.core.env_server.mcp_types import CallToolAction
from openenv.core.mcp_client import MCPToolClient

TOOLS = ["run_rollout", "start_rollout", "get_state", "get_messages", "subscribe_events", "get_trace", "abort_rollout", "finalize_rollout", "run_group"]
# Exactly what the typed client of the second generation sends, empty values and nulls included.
TYPED = dict(
    endpoint="", base_url=sys.argv[2] if len(sys.argv) > 2 else "http://model.test/v1", api_key="intercepted", model="m",
    instruction="write a file", setup=[], verify=["true", "false"], task_id="t1", mode="transparent_proxy",
    disable_thinking=None, max_tokens_cap=4096, top_logprobs=5, agent_timeout_s=600.0, template="",
)


async def main(url: str) -> None:
    async with MCPToolClient(base_url=url, message_timeout_s=600.0) as env:
        reset = await env.reset(episode_id="ep-1")
        assert reset.done is False and reset.reward is None, reset
        tools = await env.list_tools()
        assert [t.name for t in tools] == TOOLS, tools
        schema = tools[0].input_schema
        assert schema["required"] == ["instruction"], schema
        assert schema["properties"]["mode"]["default"] == "transparent_proxy", schema

        text = await env.call_tool("run_rollout", **TYPED)
        assert isinstance(text, str), text
        result = json.loads(text)
        assert result["task_id"] == "t1" and result["reward"] == 0.5, result
        files = {path.rsplit("/", 1)[-1]: text for path, text in result["workdir_files"].items()}
        assert files == {"größe.txt": "<ok> & done"}, result

        started = json.loads(await env.call_tool("start_rollout", **{**TYPED, "rollout_id": "again", "agent": "react"}))
        assert started["rollout_id"] == "again" and started["status"] == "starting", started
        final = json.loads(await env.call_tool("finalize_rollout", rollout_id="again", wait_s=300))
        assert final["rollout_id"] == "again" and final["error"] is None, final
        state = json.loads(await env.call_tool("get_state", rollout_id="again"))
        assert state["status"] == "done", state

        # The action interface carries the error with its type.
        step = await env.step(CallToolAction(tool_name="nope", arguments={}))
        assert step.observation.error.error_type.value == "tool_not_found", step
        step = await env.step(CallToolAction(tool_name="run_rollout", arguments={"instruction": "x", "colour": "red"}))
        assert step.observation.error.error_type.value == "invalid_args", step
        assert "colour" in step.observation.error.message, step

        for name, args, word in [("nope", {}, "Unknown tool"), ("run_rollout", {}, "instruction")]:
            try:
                await env.call_tool(name, **args)
            except RuntimeError as e:
                assert word in str(e), e
            else:
                raise AssertionError(f"{name} must fail")

        current = await env.state()
        assert current.episode_id == "ep-1" and current.step_count >= 2, current


asyncio.run(main(sys.argv[1]))
print("all checks held")
