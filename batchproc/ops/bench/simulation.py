"""Many nodes on one database, event by event: the choice is the real ``FairShare``, all else a model of measured costs.

What is modelled: each node has one tick at a time, which settles what has ended and claims for the free slots, and one
look for ready queues at a time, a poll interval after the last. The database has some cores; what is asked of it while
they are all busy takes longer in proportion (processor sharing, judged when it is asked, so only about). Renewals of
leases and NOTIFY are an even load that takes its part of the cores. No IO, no clock.

What is approximated: a window is simulated, from full slots on, in which no tenant runs dry. Where the tenants are many
more than a node's slots, none has two turns at one node in it, so that a node needs to know only those whose turn
comes, in a random order of its own; and what follows a document takes its tenant's next turn, at whichever node that
comes.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from math import gcd
from random import Random
from typing import NamedTuple

from batchproc.core.backoff import backoff
from batchproc.core.fairness import FairShare, Queue, Turn
from batchproc.core.job import KindSpec, Lane
from batchproc.core.kinds import CLASSIFY, OCR
from batchproc.ops.bench.simulation_load import Load

_LEAST_CORES = 0.05
_SPEC = KindSpec(OCR)


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of one of the database's cores; ``latency`` is what a tick takes beside its work (network, fsync)."""

    tick: float
    settle_and_claim: float
    refresh_queue: float
    notify_listener: float
    lease: float
    promote: float
    latency: float


@dataclass(frozen=True, slots=True)
class Setting:
    """Who works, on what database. Times in seconds.

    Args:
        cores: of the database's server.
        poll_interval: between two looks of a node for ready queues.
        gather: a node's ticks begin at least so long after one another.
        bundle: ``classify`` jobs in one slot.
        uploads: enqueues a second, each with a NOTIFY that every node hears.
    """

    nodes: int
    slots: int
    cores: float
    poll_interval: float = 1.0
    lease: float = 30.0
    gather: float = 0.0
    bundle: int = 1
    uploads: float = 10.0


@dataclass(slots=True)
class Figures:
    """Of the window. ``tick_seconds`` from the begin of each tick to its end; core seconds by what they went to."""

    seconds: float
    documents: int = 0
    claims: int = 0
    slot_seconds: float = 0.0
    tick_seconds: list[float] = field(default_factory=list)
    core_seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))


class Database:
    """Serves what is asked of it, slower the more is asked at once."""

    def __init__(self, cores: float) -> None:
        self._cores = cores
        self._ends: list[float] = []

    def serve(self, now: float, work: float) -> float:
        """When work of so many core seconds, asked for now, is done."""
        while self._ends and self._ends[0] <= now:
            heapq.heappop(self._ends)
        end = now + work * max(1.0, (len(self._ends) + 1) / self._cores)
        heapq.heappush(self._ends, end)
        return end


class _Ended(NamedTuple):
    """What a slot did: one ``ocr`` job, or a bundle of others."""

    node: _Node
    jobs: list[Queue]


class _Ticked(NamedTuple):
    node: _Node
    turns: list[Turn]
    settled: list[Queue]
    begun: float


class _Woken(NamedTuple):
    node: _Node


class _Looked(NamedTuple):
    node: _Node


class _Retried(NamedTuple):
    """A job that failed is due again; its tenant's turn comes as for any other job."""


_Event = _Ended | _Ticked | _Woken | _Looked | _Retried


class _Node:
    """One node's memory: its share of turns, its free slots, and what it has to settle."""

    def __init__(self, setting: Setting, tenants: int, random: Random) -> None:
        self.share = FairShare({Lane.BULK: 1.0}, bundles={CLASSIFY: setting.bundle})
        self.free = setting.slots
        self.ended: list[Queue] = []
        self.ticks = False
        self.last_tick = -setting.gather
        self.wakes = False
        self.following: Counter[int] = Counter()  # classify jobs that wait, by tenant
        # As many as one choice may take, so that it finds a tenant for each.
        known = min(tenants, setting.slots + setting.bundle)
        self.knows_all = known == tenants
        self._order = _in_random_order(tenants, random)
        for place in range(known):
            # Of the turns that follow the first slots' jobs every other is of a follow-up, as later on.
            follows = not self.knows_all and place >= setting.slots and place % 2 == 0
            self.share.add(Queue(Lane.BULK, next(self._order), CLASSIFY if follows else OCR))

    def had_its_turn(self, queue: Queue, next_kind: str) -> None:
        """Its next comes after the window; in its place the node learns of the one whose turn comes."""
        self.share.remove(queue)
        self.share.add(Queue(Lane.BULK, next(self._order), next_kind))


def _in_random_order(tenants: int, random: Random) -> Iterator[int]:
    """Tenants 1 to n again and again, each once a round: steps of a random width without a factor in common with n."""
    step = random.randrange(1, tenants + 1)
    while gcd(step, tenants) != 1:
        step = random.randrange(1, tenants + 1)
    place = random.randrange(tenants)
    while True:
        yield place + 1
        place = (place + step) % tenants


class Simulation:
    """See the module.

    Args:
        warm_up: seconds before the window; the slots begin in the middle of jobs.
    """

    def __init__(self, setting: Setting, load: Load, costs: Costs, random: Random, *, warm_up: float) -> None:
        self._setting, self._load, self._costs, self._random = setting, load, costs, random
        self._warm_up = warm_up
        self._events: list[tuple[float, int, _Event]] = []
        self._order = count()
        self._background = self._even_load()
        self._database = Database(max(_LEAST_CORES * setting.cores, setting.cores - sum(self._background.values())))
        self._now = 0.0
        self._following = 0  # classify jobs that wait for a turn of their tenants, at any node
        self._figures = Figures(0.0)

    def run(self, seconds: float) -> Figures:
        """The figures of a window of so many seconds."""
        self._figures = Figures(seconds)
        for _ in range(self._setting.nodes):
            self._begin(_Node(self._setting, self._load.tenants, self._random))
        end = self._warm_up + seconds
        while self._events and self._events[0][0] <= end:
            self._now, _, event = heapq.heappop(self._events)
            match event:
                case _Ended(node, jobs):
                    node.ended += jobs
                    node.free += 1
                    self._tick_if_due(node)
                case _Ticked():
                    self._ticked(event)
                case _Woken(node):
                    node.wakes = False
                    self._tick_if_due(node)
                case _Looked(node):
                    self._look(node)
                case _Retried():
                    self._spend("promotions", self._costs.promote)
        for what, cores in self._background.items():
            self._figures.core_seconds[what] += cores * seconds
        return self._figures

    def _even_load(self) -> dict[str, float]:
        """Cores that are taken all the time."""
        setting, costs = self._setting, self._costs
        return {
            "leases": setting.nodes / (setting.lease / 3) * costs.lease,
            "notify": setting.uploads * setting.nodes * costs.notify_listener,
        }

    def _begin(self, node: _Node) -> None:
        """Each slot is somewhere in a job; each look comes at its own time."""
        for turn in node.share.choose(self._setting.slots):
            node.share.claimed(turn, list(range(turn.jobs)))
            if not node.knows_all:
                node.had_its_turn(turn.queue, OCR)
            for _ in range(turn.jobs):
                self._submit(node, [turn.queue], self._random.random() * self._load.job_seconds(self._random))
        self._at(self._random.random() * self._setting.poll_interval, _Looked(node))

    def _at(self, when: float, event: _Event) -> None:
        heapq.heappush(self._events, (when, next(self._order), event))

    @property
    def _counts(self) -> bool:
        return self._now >= self._warm_up

    def _in_window(self, begin: float, end: float) -> float:
        """How many of these seconds lie in the window."""
        return max(0.0, min(end, self._warm_up + self._figures.seconds) - max(begin, self._warm_up))

    def _spend(self, what: str, work: float) -> float:
        """Has the database do it; when it is done."""
        end = self._database.serve(self._now, work)
        if end > self._now:
            self._figures.core_seconds[what] += work * self._in_window(self._now, end) / (end - self._now)
        return end

    def _tick_if_due(self, node: _Node) -> None:
        if node.ticks or node.wakes:
            return
        due = node.last_tick + self._setting.gather
        if due > self._now:
            node.wakes = True
            self._at(due, _Woken(node))
            return
        turns = node.share.choose(node.free)
        if not turns and not node.ended:
            return
        jobs = sum(turn.jobs for turn in turns)
        # A settle and a claim together are what was measured; half of a pair each.
        work = self._costs.tick + self._costs.settle_and_claim * (jobs + len(node.ended)) / 2
        end = self._spend("ticks", work) + self._costs.latency
        node.ticks, node.last_tick = True, self._now
        self._at(end, _Ticked(node, turns, node.ended, self._now))
        node.ended = []

    def _ticked(self, tick: _Ticked) -> None:
        node, figures = tick.node, self._figures
        node.ticks = False
        if self._counts:
            figures.tick_seconds.append(self._now - tick.begun)
        for queue in tick.settled:
            self._settled(node, queue)
        quick: list[Queue] = []
        for turn in tick.turns:
            jobs = self._claimed(node, turn)
            if turn.queue.kind == OCR:
                for _ in range(jobs):
                    self._submit(node, [turn.queue], self._load.job_seconds(self._random))
            else:
                quick += [turn.queue] * jobs
        for start in range(0, len(quick), self._setting.bundle):
            bundle = quick[start : start + self._setting.bundle]
            self._submit(node, bundle, self._load.classify_seconds * len(bundle))
        self._tick_if_due(node)

    def _claimed(self, node: _Node, turn: Turn) -> int:
        """How many jobs a turn gave."""
        jobs = turn.jobs
        if turn.queue.kind == CLASSIFY:
            jobs = min(jobs, node.following[turn.queue.tenant_id] if node.knows_all else 1)
        node.share.claimed(turn, list(range(jobs)))
        if self._counts:
            self._figures.claims += jobs
        if node.knows_all:
            if turn.queue.kind == CLASSIFY:
                self._take_following(node, turn.queue, jobs)
        else:
            node.had_its_turn(turn.queue, CLASSIFY if self._following else OCR)
            self._following = max(0, self._following - 1)
        return jobs

    def _settled(self, node: _Node, queue: Queue) -> None:
        if queue.kind != OCR:
            return
        if self._random.random() < self._load.failing:
            wait = backoff(1, base=_SPEC.base, cap=_SPEC.cap, jitter=self._random.random())
            self._at(self._now + wait, _Retried())
            return
        self._figures.documents += self._counts
        if node.knows_all:
            node.following[queue.tenant_id] += 1
            node.share.add(queue._replace(kind=CLASSIFY))
        else:
            self._following += 1

    def _take_following(self, node: _Node, queue: Queue, jobs: int) -> None:
        node.following[queue.tenant_id] -= jobs
        if node.following[queue.tenant_id] <= 0:
            del node.following[queue.tenant_id]
            node.share.remove(queue)

    def _submit(self, node: _Node, jobs: list[Queue], seconds: float) -> None:
        node.free -= 1
        self._figures.slot_seconds += self._in_window(self._now, self._now + seconds)
        self._at(self._now + seconds, _Ended(node, jobs))

    def _look(self, node: _Node) -> None:
        queues = self._load.tenants + len(node.following)
        end = self._spend("refresh", self._costs.refresh_queue * queues)
        self._at(end + self._setting.poll_interval, _Looked(node))
