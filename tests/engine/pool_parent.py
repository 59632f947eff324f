"""A node to be killed: starts a pool whose workers hang with trees of processes below them, says so, and waits."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from tests.engine.pool_functions import Act
from tests.engine.pool_testing import make_pool, traces, work
from tests.waiting import wait_until


def main() -> None:
    folder = Path(sys.argv[1])
    if "deaf" in sys.argv:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
    pool = make_pool(folder, node_id="killed-node")
    pool.start()
    pool.submit(work(Act.TREE_AND_HANG, 600))
    pool.submit(work(Act.HANG_DEAF, 600))
    wait_until(lambda: len(traces(folder)) >= 7)
    print("busy", flush=True)  # noqa: T201 - to the test
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
