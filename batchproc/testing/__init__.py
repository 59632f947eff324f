"""For tests of handlers: a real database for a moment, and the real path of a job through it.

In ``conftest.py``::

    pytest_plugins = ["batchproc.testing"]

and in a test, with the fixture ``sandbox``::

    def test_the_date_is_found(sandbox):
        document = sandbox.document("Winchester, 4 April 2020")
        assert sandbox.run(letter_date, document=document).result == {"date": "4 April 2020"}

The database is one of an embedded server that lasts as long as the tests, or of the server in
``BATCHPROC_TEST_DATABASE_URL``, whose user may make databases.
"""

from __future__ import annotations

from batchproc.testing.fixtures import sandbox, sandbox_databases
from batchproc.testing.sandbox import Attempt, Sandbox

__all__ = ["Attempt", "Sandbox", "sandbox", "sandbox_databases"]
