"""The settings as validated, frozen values: one model per section of the settings file.

Loading them from files, the environment and flags is the business of ``batchproc.config``; everything else is
handed these values. Times are float seconds, sizes are bytes, paths are absolute. Constructing a model raises
``pydantic.ValidationError``, whose text never quotes an input (it may be a password).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from batchproc.core.job import MAX_ATTEMPTS
from batchproc.core.keep import KeepPolicy
from batchproc.core.rates import LARGEST_BURST
from batchproc.setting_types import (
    AbsolutePath,
    Age,
    BrakeJobs,
    DatabaseUrl,
    DefaultLanguages,
    Duration,
    ExporterName,
    FailureCode,
    Identifier,
    IpAddress,
    KindName,
    LaneByName,
    Languages,
    ModuleName,
    OcrMode,
    PositiveDuration,
    Rate,
    Size,
    StoredPath,
    Workers,
    distinct,
    wrong,
)


class Section(BaseModel):
    """Base of all sections: frozen, unknown keys refused, no silent conversion, no input quoted in errors."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, hide_input_in_errors=True, validate_default=True
    )


class Database(Section):
    """Where the data lives."""

    url: DatabaseUrl | None = Field(default=None, description="The PostgreSQL database; none means the embedded one.")
    direct_url: DatabaseUrl | None = Field(
        default=None, description="The same database past a transaction pooler: for LISTEN, locks and migrations."
    )
    schema_name: Identifier = Field(default="batchproc", alias="schema", description="The schema of all tables.")
    outage_limit: Duration = Field(
        default=600.0, description="How long a run waits for a lost database before it gives up."
    )

    @field_validator("schema_name")
    @classmethod
    def _not_reserved(cls, name: str) -> str:
        if name.startswith("pg_") or name == "information_schema":
            raise wrong("is reserved by PostgreSQL")
        return name


class Pool(Section):
    """The workers of this node."""

    workers: Workers = Field(default="auto", description="Jobs at a time; auto is the CPUs this process may use.")
    memory_limit_mb: int = Field(
        default=2048, ge=64, description="The most a worker and what it started may hold, MiB."
    )
    max_jobs_per_worker: int = Field(
        default=1000, ge=1, description="After so many jobs, or bundles of them, a worker is replaced by a fresh one."
    )
    shutdown_grace: Duration = Field(
        default=30.0, description="How long running jobs may finish once a stop is asked for."
    )
    nice: int = Field(
        default=5,
        ge=0,
        le=19,
        description="Niceness of the workers, as of nice(1): they give way to the node and the database.",
    )


class LaneWeights(Section):
    """How many turns each lane gets when both have work."""

    interactive: int = Field(default=4, ge=1, le=1000, description="Turns of jobs a person waits for.")
    bulk: int = Field(default=1, ge=1, le=1000, description="Turns of jobs that the night may take.")


class Dispatch(Section):
    """How jobs are chosen and claimed."""

    fairness: Literal["round_robin", "worker_seconds"] = Field(
        default="round_robin", description="What the tenants share: jobs, one per tenant and round, or worker seconds."
    )
    lanes: LaneWeights = Field(default=LaneWeights(), description="The weights of the lanes.")
    reserved: int = Field(
        default=0, ge=0, description="Workers kept free for interactive jobs; at most pool.workers - 1."
    )
    poll_interval: Duration = Field(
        default=1.0, ge=0.01, description="How often to look for jobs that no notice announced."
    )
    lease: Duration = Field(
        default=30.0, ge=1, description="How long a node may be silent before its jobs are taken back."
    )
    drain_wait: Duration = Field(
        default=600.0, description="How long a run waits for the due time of retries it caused."
    )
    brake: BrakeJobs = Field(
        default=20, description="A kind is paused after so many jobs in a row that the environment failed; or off."
    )


class Retry(Section):
    """The budgets and backoff of kinds that do not declare their own."""

    max_attempts: int = Field(
        default=MAX_ATTEMPTS, ge=1, le=1000, description="Attempts in all before a job is given up on."
    )
    max_timeouts: int = Field(default=2, ge=1, le=1000, description="Attempts that may end in a timeout or stall.")
    max_crashes: int = Field(default=3, ge=1, le=1000, description="Attempts that may crash or run out of memory.")
    max_node_losses: int = Field(
        default=10,
        ge=2,
        le=1000,
        description="The loss of its node that a job is given up on; before the last two it runs alone.",
    )
    base: PositiveDuration = Field(default=2.0, description="The first backoff; it doubles each time.")
    cap: PositiveDuration = Field(default=300.0, description="The longest backoff.")

    @field_validator("cap")
    @classmethod
    def _not_below_base(cls, cap: float, info: ValidationInfo) -> float:
        if cap < info.data.get("base", cap):
            raise wrong("must not be less than base", related="retry.base")
        return cap


class Run(Section):
    """What makes a run a success."""

    accept_codes: Annotated[tuple[FailureCode, ...], Field(strict=False)] = Field(
        default=(), description="Failure codes that do not make a run exit with 1."
    )


class OcrBounds(Section):
    """What is refused as too_large, computed before anything is decoded."""

    max_bytes: Size = Field(default=2**30, ge=1, description="The largest file.")
    max_pages: int = Field(default=10_000, ge=1, description="The most pages of one document.")
    max_pixels: int = Field(
        default=120_000_000, ge=1, description="The most pixels of one page, as decoded or rendered."
    )


class Ocr(Section):
    """How pages are recognised."""

    languages: DefaultLanguages = Field(
        default=("eng", "deu"), description="Languages when neither job nor document nor tenant says."
    )
    mode: OcrMode = Field(
        default="skip",
        description="skip keeps a real text layer, redo recognises every page, force goes by pixels alone.",
    )
    dpi: int = Field(default=300, ge=70, le=1200, description="Resolution at which PDF pages are rendered.")
    orientation: bool = Field(
        default=True, description="Detect pages that lie askew, on their side or head, and turn them."
    )
    tessdata: Annotated[tuple[AbsolutePath, ...], Field(strict=False)] = Field(
        default=(),
        description="Folders of language files, the first that has a language wins; none means the packaged ones.",
    )
    keep: KeepPolicy = Field(
        default="newest", description="Which revision counts: the newest, or the best as far as they can be compared."
    )
    split_pages: int = Field(
        default=25,
        ge=1,
        description="Documents of more pages are read in ranges of so many at most, by several workers.",
    )
    bounds: OcrBounds = Field(default=OcrBounds(), description="What is refused as too_large.")


class Storage(Section):
    """Where originals lie. They are only ever read."""

    roots: Annotated[tuple[AbsolutePath, ...], Field(strict=False)] = Field(
        default=(),
        description="Folders that documents may be imported from; none means wherever the given path lies."
        " What import finds in a folder has to lie below that folder, too.",
    )
    min_free: Size = Field(default=2**30, description="doctor warns when a disk has less free space.")


class Taxonomy(Section):
    """Rules for titles and tags."""

    folder: AbsolutePath | None = Field(
        default=None, description="The folder of rule files; none means the packaged examples."
    )


class Workflows(Section):
    """Rules for what follows an upload."""

    folder: AbsolutePath | None = Field(
        default=None, description="The folder of rule files; none means the packaged examples."
    )


class KindOverride(Section):
    """What the settings change of one kind; None leaves what its handler declares."""

    timeout: PositiveDuration | None = Field(default=None, description="The longest one attempt may take.")
    stall_timeout: PositiveDuration | None = Field(default=None, description="The longest it may go without progress.")
    max_attempts: int | None = Field(default=None, ge=1, le=1000, description="Attempts in all.")
    max_timeouts: int | None = Field(
        default=None, ge=1, le=1000, description="Attempts that may end in a timeout or stall."
    )
    max_crashes: int | None = Field(
        default=None, ge=1, le=1000, description="Attempts that may crash or run out of memory."
    )
    base: PositiveDuration | None = Field(default=None, description="The first backoff; it doubles each time.")
    cap: PositiveDuration | None = Field(default=None, description="The longest backoff.")
    bundle: int | None = Field(default=None, ge=1, le=1000, description="Jobs of it that a worker gets at a time.")
    limit: int | None = Field(default=None, ge=1, description="Jobs of the kind that may run at once, over all nodes.")
    rate: Rate | None = Field(
        default=None, description="Jobs of the kind that may begin in a time, such as 10/s or 600/m, over all nodes."
    )
    burst: int | None = Field(
        default=None,
        ge=1,
        le=LARGEST_BURST,
        description="How many of them may begin at once after a pause; those of a second where not given.",
    )
    unique_while_running: bool | None = Field(
        default=None, description="Whether a running job blocks one of the same key."
    )
    lane: LaneByName | None = Field(default=None, description="interactive or bulk.")

    def changes(self) -> dict[str, Any]:
        """The overridden fields only, named as in ``batchproc.core.job.KindSpec``."""
        return {name: value for name, value in self if value is not None}


class Errors(Section):
    """What is kept of errors."""

    keep_messages: bool = Field(
        default=False, description="Store the text of every exception, although it may quote documents or secrets."
    )


class Logging(Section):
    """The log: on stderr, of `run` only with `-v`, `--once` or `--forever`, and never on stdout."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The least severe level logged."
    )
    format: Literal["human", "json"] = Field(
        default="human", description="Lines for people, or one JSON object per line."
    )
    file: AbsolutePath | None = Field(default=None, description="A file that gets the same lines, appended.")
    rotate: Size | None = Field(
        default=None, ge=2**16, description="A file that grew larger is moved away; none leaves that to logrotate."
    )
    keep: int = Field(default=5, ge=1, le=1000, description="How many files that were moved away are kept.")


class Metrics(Section):
    """Figures for Prometheus."""

    port: int | None = Field(
        default=None, ge=1, le=65535, description="Where `run --forever` answers /metrics; none: nowhere."
    )
    address: IpAddress = Field(default="127.0.0.1", description="The address of this machine that it answers on.")
    textfile: AbsolutePath | None = Field(
        default=None, description="A file for node_exporter's textfile collector, written by every run."
    )


class Tracing(Section):
    """Spans for OpenTelemetry; needs the extra `tracing`."""

    exporter: ExporterName | None = Field(
        default=None, description="The installed exporter that gets a span of every attempt, such as otlp; none: none."
    )


class Retention(Section):
    """How long what is no longer needed is kept."""

    revisions: int = Field(
        default=5, ge=1, le=1000, description="Complete revisions of a document kept besides the current one."
    )
    jobs: Age = Field(
        default=90 * 86400.0, description="`prune` deletes jobs that ended longer ago; nothing else deletes jobs."
    )


class Settings(Section):
    """All settings of one process."""

    database: Database = Field(default=Database(), description="Where the data lives.")
    pool: Pool = Field(default=Pool(), description="The workers of this node.")
    dispatch: Dispatch = Field(default=Dispatch(), description="How jobs are chosen and claimed.")
    retry: Retry = Field(default=Retry(), description="Budgets and backoff of kinds that do not declare their own.")
    resources: dict[KindName, Annotated[int, Field(ge=1, le=1000)]] = Field(
        default={}, description="How many jobs may hold each named resource at once, over all nodes."
    )
    run: Run = Field(default=Run(), description="What makes a run a success.")
    ocr: Ocr = Field(default=Ocr(), description="How pages are recognised.")
    storage: Storage = Field(default=Storage(), description="Where originals lie.")
    taxonomy: Taxonomy = Field(default=Taxonomy(), description="Rules for titles and tags.")
    workflows: Workflows = Field(default=Workflows(), description="Rules for what follows an upload.")
    handlers: Annotated[tuple[ModuleName, ...], Field(strict=False), AfterValidator(distinct)] = Field(
        default=(), description="Modules of handlers, besides the built-in ones."
    )
    kinds: dict[KindName, KindOverride] = Field(default={}, description="What to change of single kinds.")
    errors: Errors = Field(default=Errors(), description="What is kept of errors.")
    logging: Logging = Field(default=Logging(), description="The log.")
    metrics: Metrics = Field(default=Metrics(), description="Figures for Prometheus.")
    tracing: Tracing = Field(default=Tracing(), description="Spans for OpenTelemetry.")
    retention: Retention = Field(default=Retention(), description="How long what is no longer needed is kept.")

    @field_validator("dispatch")
    @classmethod
    def _leaves_a_worker_for_bulk(cls, dispatch: Dispatch, info: ValidationInfo) -> Dispatch:
        """``reserved`` < workers. What ``auto`` is comes as ``cpus`` in the context; without it auto is not checked."""
        pool: Pool | None = info.data.get("pool")
        if pool is not None:
            workers = (info.context or {}).get("cpus") if pool.workers == "auto" else pool.workers
            if workers is not None and dispatch.reserved >= workers:
                message = f"must be at most {workers - 1}, one less than the workers, or bulk jobs would never run"
                raise wrong(message, key="reserved", related="pool.workers")
        return dispatch


class TenantSettings(Section):
    """What one tenant's row may set; None leaves it to the settings file."""

    languages: Languages | None = Field(default=None, description="Languages of this tenant's documents.")
    keep: KeepPolicy | None = Field(default=None, description="newest or best.")
    mode: OcrMode | None = Field(default=None, description="skip, redo or force.")
    password_file: StoredPath | None = Field(
        default=None, description="A file of passwords for encrypted PDFs, one a line, readable for its owner alone."
    )
