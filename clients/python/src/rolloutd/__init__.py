"""The client of a rolloutd server: rollouts, groups and training sequences."""

from .aio import AsyncClient
from .client import Client
from .errors import (
    ConflictError,
    DeadlineError,
    ExhaustedError,
    InvalidError,
    NotFoundError,
    ProtocolError,
    RolloutdError,
    ServerError,
    UnauthorizedError,
    UnavailableError,
    UnscoredError,
)
from .staleness import Staleness
from .types import SCORED_OUTCOMES, Event, Group, GroupTask, Member, Result, Sequence, Span, State, Task
from .weights import WeightSync

__all__ = [
    "SCORED_OUTCOMES",
    "AsyncClient",
    "Client",
    "ConflictError",
    "DeadlineError",
    "Event",
    "ExhaustedError",
    "Group",
    "GroupTask",
    "InvalidError",
    "Member",
    "NotFoundError",
    "ProtocolError",
    "Result",
    "RolloutdError",
    "Sequence",
    "ServerError",
    "Span",
    "Staleness",
    "State",
    "Task",
    "UnauthorizedError",
    "UnavailableError",
    "UnscoredError",
    "WeightSync",
]
