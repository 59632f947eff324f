"""A document that is split into ranges, its jobs run one by one in this process: claimed, read, settled."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

from PIL import Image

from batchproc.core.job import Claim, NewJob
from batchproc.core.outcome import Completed, Outcome
from batchproc.core.settle import settle
from batchproc.engine import ending
from batchproc.handlers.args import validated_args
from batchproc.handlers.context import Context
from batchproc.handlers.errors import Failure, Snooze
from batchproc.handlers.ocr import OcrResult, RangeResult, SplitResult, ocr
from batchproc.handlers.ocr_options import OcrArgs
from batchproc.handlers.registry import declared
from batchproc.queue.document_jobs import document_key
from batchproc.queue.node_store import Ended, NodeFacts, NodeStore
from batchproc.settings import Settings
from tests.handlers.running_job import Conn, RecordingSink, add_document
from tests.queue.helpers import STORE, one, rows_of

Result = OcrResult | SplitResult | RangeResult | None
ENTRY = declared(ocr)


def settings(split_pages: int = 3, **ocr_settings: Any) -> Settings:
    return Settings.model_validate({"ocr": {"languages": ["eng"], "split_pages": split_pages, **ocr_settings}})


def tiff(folder: Path, pages: list[Image.Image]) -> Path:
    file = folder / "large.tif"
    pages[0].save(file, save_all=True, append_images=pages[1:], dpi=(300, 300))
    return file


class LargeDocument:
    """A document of one tenant and all jobs on it."""

    def __init__(self, connection: Conn, tenant_id: int, file: Path, workdir: Path) -> None:
        self.connection = connection
        self.tenant_id = tenant_id
        self.document_id = add_document(connection, tenant_id, file)
        self.workdir = workdir
        self.settings = settings()
        self.node = _node(connection)
        self.follow_ups: list[str] = []

    # -- jobs

    def enqueue(self, **args: Any) -> int:
        job = NewJob(
            self.tenant_id,
            "ocr",
            args,
            document_id=self.document_id,
            unique_key=document_key(self.document_id, pilot=bool(args.get("pilot"))),
        )
        return STORE.enqueue(self.connection, job, ENTRY.spec).job_id

    def claim(self, job_id: int, sink: RecordingSink | None = None) -> tuple[Claim, Context]:
        claimed = self.node.claim_one(self.connection, job_id, None)
        assert claimed is not None, f"job {job_id} does not wait"
        slug, tenant_settings = self.connection.execute(
            "select slug, settings from batchproc.tenants where tenant_id = %s", [self.tenant_id]
        ).fetchall()[0]
        context = Context(
            job_id=job_id,
            claim_id=claimed.claim_id,
            tenant_id=self.tenant_id,
            tenant=slug,
            kind="ocr",
            attempt=claimed.attempt,
            document_id=self.document_id,
            tenant_settings=tenant_settings,
            workdir=self.workdir,
            settings=self.settings,
            sink=sink or RecordingSink(),
            connect=lambda: self.connection,
        )
        return claimed, context

    def args(self, job_id: int) -> OcrArgs:
        stored = one(self.connection, "select args from batchproc.processing_jobs where job_id = %s", [job_id])
        args = validated_args(ENTRY, stored, self.document_id)
        assert isinstance(args, OcrArgs)
        return args

    def run(self, job_id: int, sink: RecordingSink | None = None) -> Result:
        """One attempt that is settled; a declared failure or a snooze comes through after that."""
        claimed, context = self.claim(job_id, sink)
        try:
            result = ocr(context, self.args(job_id))
        except Failure as failure:
            self.end(claimed, ending.declared(ENTRY.spec, failure))
            raise
        except Snooze as snooze:
            self.end(claimed, ending.snoozed(snooze))
            raise
        outcome = ending.completed(result, context.follow_ups)
        self.end(claimed, outcome)
        return result

    def killed(self, job_id: int) -> None:
        """An attempt that ends by an exception which nobody settles; the job goes back as that of a dead node."""
        _, context = self.claim(job_id)
        try:
            ocr(context, self.args(job_id))
        finally:
            self.connection.execute(
                """
                update batchproc.processing_jobs set state = 'available', claim_id = null, node_id = null
                where job_id = %s
                """,
                [job_id],
            )

    def end(self, claimed: Claim, outcome: Outcome) -> None:
        moved = settle(claimed, outcome, ENTRY.spec, max_node_losses=3, jitter=0.0)
        self.node.settle(self.connection, [Ended(moved)])
        if isinstance(outcome, Completed):
            self.follow_ups += [follow_up.kind for follow_up in outcome.follow_ups]

    def split(self, **args: Any) -> list[int]:
        """A new job is run and leaves the pages to these jobs."""
        job_id = self.enqueue(**args)
        result = self.run(job_id)
        assert isinstance(result, SplitResult)
        return self.ranges()[-result.ranges :]

    def discard(self, job_id: int, code: str = "unreadable_file") -> None:
        claimed, _ = self.claim(job_id)
        self.end(claimed, ending.declared(ENTRY.spec, Failure(code)))

    # -- what there is

    def ranges(self) -> list[int]:
        """The jobs of all ranges."""
        query = """
            select job_id from batchproc.processing_jobs
            where jsonb_typeof(args -> 'range') = 'array' and document_id = %s order by job_id
        """
        return [row["job_id"] for row in rows_of(self.connection, query, [self.document_id])]

    def joins(self) -> list[int]:
        """The jobs that wait to join ranges."""
        query = """
            select job_id from batchproc.processing_jobs
            where args ->> 'range' = 'join' and document_id = %s and state = 'available' order by job_id
        """
        return [row["job_id"] for row in rows_of(self.connection, query, [self.document_id])]

    def join(self) -> OcrResult:
        [joining] = self.joins()
        result = self.run(joining)
        assert isinstance(result, OcrResult)
        return result

    def waiting(self) -> list[dict[str, Any]]:
        """The args of the jobs of this kind that wait."""
        query = """
            select args from batchproc.processing_jobs
            where document_id = %s and kind = 'ocr' and state in ('available', 'scheduled') order by job_id
        """
        return [row["args"] for row in rows_of(self.connection, query, [self.document_id])]

    def state(self, job_id: int) -> str:
        return str(one(self.connection, "select state from batchproc.processing_jobs where job_id = %s", [job_id]))

    def text(self) -> list[str]:
        query = """
            select trim(p.text, E'\\n ') as text from batchproc.documents d
            join batchproc.ocr_pages p on p.revision_id = d.current_revision
            where d.document_id = %s order by p.page
        """
        return [row["text"] for row in rows_of(self.connection, query, [self.document_id])]

    def failed(self) -> dict[int, str]:
        """The failed pages of the current revision."""
        query = """
            select p.page, p.failure_code from batchproc.documents d
            join batchproc.ocr_pages p on p.revision_id = d.current_revision
            where d.document_id = %s and p.state = 'failed'
        """
        return {row["page"]: row["failure_code"] for row in rows_of(self.connection, query, [self.document_id])}

    def document(self) -> tuple[str, str | None]:
        query = "select status, failure_code from batchproc.documents where document_id = %s"
        [row] = rows_of(self.connection, query, [self.document_id])
        return row["status"], row["failure_code"]

    def revisions(self) -> list[str]:
        query = "select state from batchproc.ocr_revisions where document_id = %s order by revision_id"
        return [row["state"] for row in rows_of(self.connection, query, [self.document_id])]


def _node(connection: Conn) -> NodeStore:
    languages = ("deu", "eng")
    store = NodeStore(
        "batchproc", uuid4(), {ENTRY.spec.name: ENTRY.spec}, languages=languages, default_languages=("eng",)
    )
    facts = NodeFacts(store.node_id, "host", 1, 1, (ENTRY.spec.name,), languages, "5.5", "0.1", ("eng",))
    store.join(connection, facts, 3600.0)
    return store
