"""Client of a rolloutd server for OpenEnv's tools."""

from .client import RolloutdEnv

__all__ = ["RolloutdEnv"]
