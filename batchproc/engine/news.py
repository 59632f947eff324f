"""What a node's threads tell its dispatcher."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from batchproc.core.fairness import Queue
from batchproc.core.job import Claim
from batchproc.core.limit_room import Rooms
from batchproc.engine.mailbox import Mailbox
from batchproc.queue.node_store import ReadyQueue


@dataclass(frozen=True, slots=True)
class ReadyNow:
    """Every queue that had available jobs at one look, and the room that limits left right after it."""

    queues: list[ReadyQueue]
    rooms: Rooms = field(default_factory=Rooms)


@dataclass(frozen=True, slots=True)
class Hinted:
    """A queue that a notification or a promotion named, and the priority of what came, where that is known."""

    queue: Queue
    priority: int | None = None


@dataclass(frozen=True, slots=True)
class Rescued:
    """How many claims of dead nodes were taken back, and how many of those jobs were given up on."""

    jobs: int
    discarded: int


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Jobs that were discarded without an attempt: no live node has their languages.

    ``jobs``: (kind, what stands for the job) of each; all jobs on one document have the same (see ``core.brake``).
    ``brakes``: the node lacks what its own settings name, and the brake is to count them.
    """

    jobs: list[tuple[str, Hashable]]
    brakes: bool


@dataclass(frozen=True, slots=True)
class Held:
    """Every claim of this node by the database's word."""

    claims: list[Claim]


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """Running claims of this node whose jobs somebody wants cancelled; told again at each look until they end."""

    claims: list[Claim]


@dataclass(frozen=True, slots=True)
class Faulted:
    """Why a thread of the node cannot do its work, so that the run has to end."""

    error: Exception


News = ReadyNow | Hinted | Rescued | GivenUp | Held | CancelRequested | Faulted


class NewsBox(Mailbox[News]):
    """The dispatcher's mailbox. Unread, it holds no more than one of each, one hint per queue and priority, and all
    that was rescued or given up.
    """

    def tell(self, news: News) -> None:
        """Puts it; what says the whole of something takes the place of an older word on it."""
        match news:
            case Rescued() | GivenUp():
                self.put(news)
            case Hinted():
                self.put(news, replaces=(news.queue, news.priority))
            case _:
                self.put(news, replaces=type(news).__name__)
