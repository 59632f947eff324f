"""The doctor's look at the database server: its version, its distance, and whether it takes what a run needs."""

from __future__ import annotations

import time
from statistics import median

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.durations import duration
from batchproc.database import SqlFolder, connect, is_pooled, redacted
from batchproc.ops.doctor.findings import Findings, Patient

LEAST_SERVER = 14
CONNECT_SECONDS = 5
_PINGS = 5
_SLOW_PING = 0.02
# Of a node beside its workers: the dispatcher, the lease, housekeeping, and the line of progress.
_OF_A_NODE = 4


def check_database(patient: Patient, findings: Findings) -> None:
    """The server is new enough and near, can be written to, and has connections for every worker."""
    with connect(patient.database_url(), connect_timeout=CONNECT_SECONDS) as connection:
        round_trip = _round_trip(connection)
        version = connection.info.server_version // 10_000
        sort = "the embedded" if patient.embedded_folder is not None else redacted(patient.known_url)
        findings.note(f"PostgreSQL {version} ({sort}), a round trip takes {duration(round_trip)}")
        if version < LEAST_SERVER:
            findings.fault(f"PostgreSQL {version} is too old", f"use PostgreSQL {LEAST_SERVER} or newer")
        if round_trip > _SLOW_PING:
            findings.warning("the database is far away", "every job takes some round trips: run closer to it")
        _check_writable(connection, findings)
        if connection.pooled:
            _check_pooled(patient, findings)
        else:
            _check_connections(connection, patient.workers, findings)
    _check_direct(patient, findings)


def _check_writable(connection: Connection[TupleRow], findings: Findings) -> None:
    row = connection.execute(_sql()["only_reads"]).fetchone()
    if row and row[0] is not None:
        findings.fault(
            f"the database can only be read: {row[0]}", "correct that, or database.url: it must be the primary server"
        )


def _check_connections(connection: Connection[TupleRow], workers: int, findings: Findings) -> None:
    row = connection.execute(_sql()["connection_limits"]).fetchone()
    assert row is not None
    most, free = row
    needed = workers + _OF_A_NODE
    advice = "raise max_connections or the limit of the role or database, or use fewer workers (pool.workers)"
    if most < needed:
        findings.fault(f"{workers} workers need {needed} connections, {most} are allowed", advice)
    elif free < needed:
        findings.warning(f"{workers} workers need {needed} connections, {free} are free now", advice)
    else:
        findings.note(f"{needed} connections for {workers} workers can be had")


def _check_pooled(patient: Patient, findings: Findings) -> None:
    if patient.settings.database.direct_url is not None:
        findings.note("database.url leads through a transaction pooler")
        return
    advice = "set database.direct_url to the database past the pooler"
    if patient.settings.resources:
        findings.fault("database.url leads through a transaction pooler, where resources cannot work", advice)
    else:
        findings.warning(
            "database.url leads through a transaction pooler: new jobs are found by polling, and migrate is refused",
            advice,
        )


def _check_direct(patient: Patient, findings: Findings) -> None:
    direct = patient.settings.database.direct_url
    if direct is None:
        return
    with connect(direct.get_secret_value(), connect_timeout=CONNECT_SECONDS) as connection:
        if is_pooled(connection):
            findings.fault(
                "database.direct_url leads through a transaction pooler too", "give the address of the server itself"
            )
        else:
            findings.note("database.direct_url can be reached too")


def _round_trip(connection: Connection[TupleRow]) -> float:
    """In seconds."""
    times = []
    for _ in range(_PINGS):
        started = time.perf_counter()
        connection.execute("select 1")
        times.append(time.perf_counter() - started)
    return median(times)


def _sql() -> SqlFolder:
    return SqlFolder("batchproc.ops.doctor")
