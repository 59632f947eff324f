"""A node: one parent process with its pool, its lease and its loop, from joining to leaving."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from uuid import UUID, uuid4

from batchproc.core.job import Claim
from batchproc.core.outcome import Outcome
from batchproc.core.transition import Transition
from batchproc.engine import kinds, leaving, requirements, scarcity
from batchproc.engine.bad_pages import PageBlame
from batchproc.engine.braking import Braking
from batchproc.engine.calm import Calm
from batchproc.engine.dispatch_options import dispatch_options
from batchproc.engine.dispatcher import Dispatcher
from batchproc.engine.gone_storages import GoneStorages
from batchproc.engine.housekeeping import Housekeeping
from batchproc.engine.joining import Joining
from batchproc.engine.last_turns import LastTurns
from batchproc.engine.lease import JOIN_SECONDS, Lease
from batchproc.engine.meters import Meters, Slots
from batchproc.engine.news import Held, NewsBox
from batchproc.engine.night import Night
from batchproc.engine.node_pool import node_pool
from batchproc.engine.outage import Outage
from batchproc.engine.own_facts import own_facts
from batchproc.engine.pool import forkserver
from batchproc.engine.reloadable import brake_jobs, takers
from batchproc.engine.reloading import Reloading
from batchproc.engine.run_report import Begun, RunOptions, RunReport
from batchproc.engine.sd_notify import Notifier
from batchproc.engine.service import Service
from batchproc.engine.sessions import NodeSessions
from batchproc.engine.settling import Settling
from batchproc.engine.signals import stopping_signals
from batchproc.engine.tenant_names import TenantNames
from batchproc.engine.unserved import PATIENCE, GivingUp
from batchproc.engine.window import Window, patience
from batchproc.engine.worker import WorkerOptions
from batchproc.queue.exclusive import ExclusiveRun
from batchproc.queue.kind_store import KindStore
from batchproc.queue.node_store import NodeStore
from batchproc.queue.turn_store import TurnStore
from batchproc.settings import Settings

__all__ = ["Node", "RunOptions", "RunReport"]

# How often a node that does not end tries whether a storage is back, in seconds.
_STORAGE_PAUSE = 60.0


class Node:
    """Joins the database's nodes under a new random id, runs, and leaves.

    Args:
        database_url: for claims, settles and the workers.
        direct_url: the same database past a transaction pooler, for LISTEN.
        observe: told every outcome, with the attempt's seconds, before it is written.
        revive: called before the dispatcher connects; starts a server of our own that has died, without waiting.
        notifier: is told when this node works, and when it stops.
        read_again: reads the settings again, when SIGHUP asks for it; None leaves them as they are.
        meters: count what it does.
        notes: a folder for the workers' notes of each attempt, for somebody who looks at one job alone.
        begun: told of each run once it has begun.
    """

    def __init__(
        self,
        settings: Settings,
        database_url: str,
        direct_url: str,
        observe: Callable[[Claim, Outcome, float], None],
        *,
        log_to_stderr: bool = True,
        revive: Callable[[], None] = lambda: None,
        notifier: Notifier | None = None,
        read_again: Callable[[], Settings] | None = None,
        notes: Path | None = None,
        meters: Meters | None = None,
        begun: Callable[[Begun], None] = lambda _: None,
    ) -> None:
        self._settings = settings
        self._database_url = database_url
        self._sessions = NodeSessions(settings, database_url, direct_url, revive)
        self._observe = observe
        self._log_to_stderr = log_to_stderr
        self._notifier = notifier or Notifier()
        self._read_again = read_again
        self._accepted: Collection[str] = settings.run.accept_codes
        self._warnings: tuple[str, ...] = ()
        self._notes = notes
        self._meters = meters or Meters()
        self._begun = begun
        self._quiet_outage = self._housekeeping_outage()
        self._calm = Calm(settings.dispatch.lease)

    def run(self, options: RunOptions) -> RunReport:
        """Runs until there is nothing left to do, or until SIGTERM or SIGINT.

        Raises:
            AnotherRun: it is to be the only one, and is not.
            EnvironmentFault: the database is gone for too long, or workers cannot start.
            UsageError: the settings' handlers cannot be imported, or ``job_id`` does not wait.
        """
        node_id = uuid4()
        self._sessions.window = options.window
        scarcity.require_descriptors(options.workers)
        with scarcity.as_fault(), contextlib.ExitStack() as stack:
            forkserver.acquire()
            stack.callback(forkserver.release)
            known = kinds.learn(self._settings, str(node_id), log_to_stderr=self._log_to_stderr)
            requirements.require_known(options.scope, known)
            requirements.require_detection(self._settings, known)
            self._warnings = requirements.warned_of(self._settings, known)
            store = self._store(node_id, known)
            braking, gone = self._braking(options), GoneStorages(store)
            night = Night(self._settings.database.schema_name, options, self._settings.pool.shutdown_grace)
            settling = Settling(
                store,
                known.specs,
                self._settings.retry.max_node_losses,
                night.noting(self._observe),
                settled=_both(braking.note, gone.note),
                blame=PageBlame(self._settings.database.schema_name, known.specs, self._settings.retry.max_node_losses),
                names=TenantNames(self._settings.database.schema_name),
                meters=self._meters,
            )
            told = WorkerOptions(self._database_url, self._settings, self._log_to_stderr, self._notes)
            pool = stack.enter_context(node_pool(told, node_id, options.workers, settling.prepare))
            news = NewsBox()
            stack.callback(news.close)
            turns = LastTurns(TurnStore(self._settings.database.schema_name, node_id))
            exclusive = self._exclusive(options)
            joining = Joining(
                self._settings,
                self._sessions.for_ticks,
                self._sessions.direct_apart,
                store,
                partial(own_facts, self._settings, known, options.workers),
                turns,
                exclusive,
            )
            beginning = stack.enter_context(leaving.Beginning(store, self._sessions.for_ticks, exclusive))
            run_id = beginning.began(joining.join(options))
            started = time.monotonic()  # as runs.started_at has it, so that summary and report tell of one length
            giving_up = self._giving_up(store, known, news, run_id, options)
            store.take_up(run_id, _STORAGE_PAUSE if options.forever else None)
            dispatcher = Dispatcher(
                store,
                self._sessions.for_ticks,
                pool,
                news,
                settling,
                known.specs,
                dispatch_options(self._settings, options, night.watch),
                run_id,
                braking,
                giving_up,
                turns,
            )
            stack.callback(dispatcher.close)
            self._meters.begin(
                Slots(options.workers, lambda: len(pool.running())), [dispatcher.outage, self._quiet_outage]
            )
            service = self._service(dispatcher, braking, news, known, options)
            stack.enter_context(stopping_signals(dispatcher.request_stop, service.ask_reload))
            stack.enter_context(self._housekeeping(store, known, news, giving_up, gone, turns, options.window))
            stack.enter_context(self._lease(store, joining, options, dispatcher, news, exclusive))
            beginning.over()
            self._begun(_begun(run_id, known, dispatcher, giving_up, store))
            try:
                dispatcher.insist(night.begin)
                self._drive(dispatcher, known, options)
                braked = dispatcher.insist(lambda connection: braking.standing(connection, known.specs, options))
                dispatcher.counts.storages.update(gone.jobs())
                dispatcher.insist(turns.write)
                report = leaving.leave(store, dispatcher, run_id, night, started, braked, self._accepted)
                if exclusive is not None:
                    dispatcher.insist(exclusive.release)
                return replace(report, warnings=self._warnings)
            except BaseException as error:
                try:
                    dispatcher.abandon()
                finally:
                    leaving.leave_after(error, store, dispatcher, run_id, turns, exclusive)
                raise

    # -- the parts

    def _housekeeping_outage(self) -> Outage:
        limit = self._settings.database.outage_limit
        if self._sessions.direct_apart is None:
            return Outage(limit)
        return Outage(limit, "the database at database.direct_url", "start it when database.direct_url works")

    @contextlib.contextmanager
    def _housekeeping(
        self,
        store: NodeStore,
        known: kinds.Kinds,
        news: NewsBox,
        giving_up: GivingUp | None,
        gone: GoneStorages,
        turns: LastTurns,
        window: Window | None,
    ) -> Iterator[None]:
        settings = self._settings
        housekeeping = Housekeeping(
            store,
            self._sessions.direct,
            news,
            known.specs,
            schema=settings.database.schema_name,
            poll_interval=settings.dispatch.poll_interval,
            lease=settings.dispatch.lease,
            calm=self._calm,
            outage=self._quiet_outage,
            max_node_losses=settings.retry.max_node_losses,
            giving_up=giving_up,
            gone=gone,
            turns=turns,
            meters=self._meters,
        )
        housekeeping.start()
        try:
            yield
        finally:
            housekeeping.stop(patience(window, JOIN_SECONDS))

    @contextlib.contextmanager
    def _lease(
        self,
        store: NodeStore,
        joining: Joining,
        options: RunOptions,
        dispatcher: Dispatcher,
        news: NewsBox,
        exclusive: ExclusiveRun | None,
    ) -> Iterator[None]:
        lease = Lease(
            store,
            self._sessions.for_lease,
            self._settings.dispatch.lease,
            dispatcher.lease_lost,
            lambda claims: news.tell(Held(claims)),
            self._calm,
            also=exclusive.renew if exclusive is not None else lambda _: True,
        )
        dispatcher.join_again = lambda connection: lease.renewed(joining.join_again(connection))
        lease.start()
        try:
            yield
        finally:
            lease.stop(patience(options.window, JOIN_SECONDS))

    def _store(self, node_id: UUID, known: kinds.Kinds) -> NodeStore:
        return NodeStore(
            self._settings.database.schema_name,
            node_id,
            known.specs,
            languages=known.languages,
            default_languages=self._settings.ocr.languages,
        )

    def _giving_up(
        self, store: NodeStore, known: kinds.Kinds, news: NewsBox, run_id: int, options: RunOptions
    ) -> GivingUp | None:
        """None for a single job: who looks at that one gives up no others."""
        if options.single:
            return None
        dispatch = self._settings.dispatch
        return GivingUp(
            store,
            news,
            options.scope,
            run_id,
            patience=min(PATIENCE, dispatch.lease),
            give_in=dispatch.drain_wait,
            brake=None if dispatch.brake == "off" else int(dispatch.brake),
            own_lacking=set(self._settings.ocr.languages) - set(known.languages),
        )

    def _braking(self, options: RunOptions) -> Braking:
        return Braking(KindStore(self._settings.database.schema_name), brake_jobs(self._settings, options))

    def _exclusive(self, options: RunOptions) -> ExclusiveRun | None:
        if not options.exclusive:
            return None
        return ExclusiveRun(self._settings.database.schema_name, options.scope.plain(), self._settings.dispatch.lease)

    def _service(
        self, dispatcher: Dispatcher, braking: Braking, news: NewsBox, known: kinds.Kinds, options: RunOptions
    ) -> Service:
        """What goes on with each of the dispatcher's turns."""

        def accept(settings: Settings) -> None:
            self._accepted = settings.run.accept_codes
            self._warnings = requirements.warned_of(settings, known)

        taken = takers(dispatcher, braking, accept, options, log_to_stderr=self._log_to_stderr)
        reload = Reloading(self._settings, self._read_again, taken)
        service = Service(self._notifier, lambda: dispatcher.stop.begun, news.wake, reload.reload)
        dispatcher.each_turn = service.turn
        return service

    def _drive(self, dispatcher: Dispatcher, known: kinds.Kinds, options: RunOptions) -> None:
        job_id = options.job_id
        if job_id is not None and not dispatcher.claim(job_id):
            schema, defaults = self._settings.database.schema_name, self._settings.ocr.languages
            raise dispatcher.insist(
                lambda connection: requirements.cannot_be_claimed(
                    connection, schema, job_id, known.specs, known.languages, defaults
                )
            )
        dispatcher.run()


def _begun(
    run_id: int, known: kinds.Kinds, dispatcher: Dispatcher, giving_up: GivingUp | None, store: NodeStore
) -> Begun:
    languages = {kind for kind, spec in known.specs.items() if spec.needs_languages and giving_up is not None}
    return Begun(run_id, frozenset(known.specs), dispatcher.counts, frozenset(languages), store.able)


def _both(*told: Callable[[Claim, Transition], None]) -> Callable[[Claim, Transition], None]:
    def tell(claim: Claim, moved: Transition) -> None:
        for tell_one in told:
            tell_one(claim, moved)

    return tell
