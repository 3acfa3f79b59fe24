"""Environments written for Atropos' AgentEnv: their hooks run in this process, the agent and its sandboxes in rolloutd.

It needs the package atroposlib, whose BaseEnv, configs and command line it uses; the extra [atropos] has it.
"""

try:
    from atroposlib.envs.base import APIServerConfig, BaseEnv, BaseEnvConfig, EvalHandlingEnum, Item, ScoredDataGroup, ScoredDataItem
except ImportError as err:
    raise ImportError(f"rolloutd.atropos needs atroposlib, of rolloutd's extra [atropos] ({err})") from err

from .config import AgentConfig, AgentEnvConfig
from .env import AgentEnv, Counts
from .records import AgentResult, AgentStep, SequenceData, ToolCall, ToolResult

__all__ = [
    "APIServerConfig",
    "AgentConfig",
    "AgentEnv",
    "AgentEnvConfig",
    "AgentResult",
    "AgentStep",
    "BaseEnv",
    "BaseEnvConfig",
    "Counts",
    "EvalHandlingEnum",
    "Item",
    "ScoredDataGroup",
    "ScoredDataItem",
    "SequenceData",
    "ToolCall",
    "ToolResult",
]
