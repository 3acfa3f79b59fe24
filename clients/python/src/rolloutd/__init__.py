"""The client of a rolloutd server: rollouts, groups, producers, deliveries, episodes and training sequences."""

from ._episodes import Episode, EpisodeTask, EpisodeTool, Execution, Step
from ._production import Delivery, ListedProducer, Producer, ProducerChange, ProducerTask
from .aio import AsyncClient
from .client import Client
from .errors import (
    ClosedError,
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
from .types import SCORED_OUTCOMES, Event, Group, GroupTask, ListedGroup, Member, Regrade, Result, RoutedExperts, Sequence, Span, State, Task, TurnReward
from .weights import WeightSync

__all__ = [
    "SCORED_OUTCOMES",
    "AsyncClient",
    "Client",
    "ClosedError",
    "ConflictError",
    "DeadlineError",
    "Delivery",
    "Episode",
    "EpisodeTask",
    "EpisodeTool",
    "Event",
    "Execution",
    "ExhaustedError",
    "Group",
    "GroupTask",
    "InvalidError",
    "ListedGroup",
    "ListedProducer",
    "Member",
    "NotFoundError",
    "Producer",
    "ProducerChange",
    "ProducerTask",
    "ProtocolError",
    "Regrade",
    "Result",
    "RolloutdError",
    "RoutedExperts",
    "Sequence",
    "ServerError",
    "Span",
    "Staleness",
    "State",
    "Step",
    "Task",
    "TurnReward",
    "UnauthorizedError",
    "UnavailableError",
    "UnscoredError",
    "WeightSync",
]
