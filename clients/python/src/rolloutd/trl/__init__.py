"""Adapters for TRL: a `rollout_func` and its reward, and an environment, for GRPOTrainer, and the sessions of its loop-owning harness.

Importing this needs neither TRL nor OpenEnv; the methods of `Session` need OpenEnv.
"""

from ..trainers.trl import Batch
from .environment import Environment
from .rollouts import Counts, RolloutFunc, instruction_of, reward
from .sessions import Session, SessionFactory, training_entries

__all__ = ["Batch", "Counts", "Environment", "RolloutFunc", "Session", "SessionFactory", "instruction_of", "reward", "training_entries"]
