"""Environments written for Atropos' AgentEnv: their hooks run in this process, the agent and its sandboxes in rolloutd."""

from .config import AgentConfig, AgentEnvConfig, APIServerConfig
from .env import AgentEnv, Counts
from .records import AgentResult, AgentStep, ScoredGroup, ToolCall, ToolResult

__all__ = [
    "APIServerConfig",
    "AgentConfig",
    "AgentEnv",
    "AgentEnvConfig",
    "AgentResult",
    "AgentStep",
    "Counts",
    "ScoredGroup",
    "ToolCall",
    "ToolResult",
]
