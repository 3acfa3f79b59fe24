"""A rollout's training data, and its form for each trainer. No trainer's package is imported here.

`records_of` makes a Record of each rollout of a group. The module of a trainer, such as `rolloutd.trainers.verl`, converts records. The
rules that all of them follow are in `rolloutd.trainers.rules`. `batch_health` says what was lost on the way.
"""

from .health import Drift, Health, HealthLog, batch_health, drift, merged
from .record import Record, records_of
from .rules import Limits, Losses, Split, Turn, fit, longest, named_rewards, split, token_rewards, token_versions, trained, turns, untrained

__all__ = [
    "Drift",
    "Health",
    "HealthLog",
    "Limits",
    "Losses",
    "Record",
    "Split",
    "Turn",
    "batch_health",
    "drift",
    "fit",
    "longest",
    "merged",
    "named_rewards",
    "records_of",
    "split",
    "token_rewards",
    "token_versions",
    "trained",
    "turns",
    "untrained",
]
