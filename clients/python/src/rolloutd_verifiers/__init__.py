"""The name under which verifiers finds rolloutd's environment, which must be that of a top-level module."""

from rolloutd.verifiers import RolloutdEnv, RolloutdTaskset

__all__ = ["RolloutdEnv", "RolloutdTaskset"]
