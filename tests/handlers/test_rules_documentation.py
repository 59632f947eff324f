"""The examples in docs/rules.md are rules, and do what is said of them."""

from __future__ import annotations

import re
from importlib import resources

from batchproc.handlers.rules import taxonomy, workflow
from batchproc.handlers.rules.patterns import SearchText
from batchproc.handlers.rules.reading import read
from batchproc.handlers.rules.taxonomy import TaxonomyRule
from batchproc.handlers.rules.workflow import DOCUMENT_NAMES, Facts, WorkflowRule

PAGE = resources.files("batchproc").joinpath("docs", "rules.md").read_text("utf-8")


def example(sort: str) -> bytes:
    found = re.search(rf"^```yaml {sort}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found.group(1).encode()


def test_the_taxonomy_example() -> None:
    file = read(example("taxonomy"), "rules.md", TaxonomyRule)
    assert not file.problems
    found = {
        text: [
            (finding.rule, finding.title)
            for versioned in file.rules
            if (finding := taxonomy.apply(versioned, SearchText([text])))
        ]
        for text in ("Invoice No. AB-12", "Rechnung", "Rechnung, Mahnung", "Mietvertrag nach BGB", "Mietvertrag bgb")
    }
    assert found == {
        "Invoice No. AB-12": [("invoice", "Invoice AB-12")],
        "Rechnung": [("invoice", None)],
        "Rechnung, Mahnung": [],
        "Mietvertrag nach BGB": [("lease", None)],
        "Mietvertrag bgb": [],
    }


def test_the_workflow_example() -> None:
    file = read(example("workflows"), "rules.md", WorkflowRule)
    assert not file.problems
    mail = Facts(1, frozenset({"invoice"}), "Invoice AB-12", "MAIL_7.pdf", "application/pdf", None, 2, None)
    scan = Facts(2, frozenset(), None, "a.png", "image/png", "deu", None, "x")
    first, second = (versioned for versioned in file.rules)
    firing = workflow.apply(first, mail)
    assert firing is not None
    assert firing.fields == {"invoice_number": "AB-12", "source": "MAIL_7.pdf"}
    assert workflow.apply(first, scan) is None
    firing = workflow.apply(second, scan)
    assert firing is not None
    assert [job.kind for job in firing.jobs] == ["thumbnail"]
    assert workflow.apply(second, mail) is None


def test_every_key_is_documented() -> None:
    models = (TaxonomyRule, WorkflowRule, workflow.When, workflow.Action)
    keys = {field.alias or name for model in models for name, field in model.model_fields.items()}
    assert {key for key in keys | DOCUMENT_NAMES if f"`{key}`" not in PAGE} == set()
