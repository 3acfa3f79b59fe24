"""The synchronous wrapper, as training loops without an event loop use it."""

import json
import sys

from openenv.core.mcp_client import MCPToolClient

with MCPToolClient(base_url=sys.argv[1], message_timeout_s=600.0).sync() as env:
    env.reset()
    assert len(env.list_tools()) == 9
    result = json.loads(env.call_tool("run_rollout", endpoint="openai", agent="react", instruction="x"))
    assert result["outcome"] == "completed", result
    assert env.state().step_count >= 0
print("all checks held")
