"""The dispatcher's mailbox: what it keeps while nobody reads, and what it does after its end."""

from __future__ import annotations

import os
import select

from batchproc.core.fairness import Queue
from batchproc.core.job import Lane
from batchproc.engine.mailbox import Mailbox
from batchproc.engine.news import CancelRequested, Held, Hinted, NewsBox, ReadyNow, Rescued
from batchproc.queue.node_store import ReadyQueue

QUEUES = [Queue(Lane.BULK, tenant, "t_quick") for tenant in range(3)]


def is_readable(mailbox: Mailbox[int]) -> bool:
    return bool(select.select([mailbox.fileno()], [], [], 0)[0])


def test_it_is_readable_while_something_is_in_it() -> None:
    mailbox: Mailbox[int] = Mailbox()
    assert not is_readable(mailbox)
    mailbox.put(1)
    mailbox.put(2)
    assert is_readable(mailbox)
    assert mailbox.drain() == [1, 2]
    assert not is_readable(mailbox)
    mailbox.wake()
    assert is_readable(mailbox)
    assert mailbox.drain() == []
    mailbox.close()


def test_a_closed_one_writes_into_nobody_elses_file() -> None:
    mailbox: Mailbox[int] = Mailbox()
    number = mailbox.fileno()
    mailbox.close()
    theirs = os.eventfd(0, os.EFD_NONBLOCK)
    if theirs != number:
        os.dup2(theirs, number)  # whatever is opened next may get that number
    try:
        mailbox.put(1)
        mailbox.wake()
        mailbox.close()
        assert select.select([theirs], [], [], 0)[0] == []
        os.fstat(number)
    finally:
        for descriptor in {theirs, number}:
            os.close(descriptor)


def test_what_is_told_again_and_again_does_not_pile_up() -> None:
    news = NewsBox()
    for number in range(1000):
        news.tell(ReadyNow([ReadyQueue(queue, float(number + 1), False) for queue in QUEUES]))
        for queue in QUEUES:
            news.tell(Hinted(queue))
        news.tell(Held([]))
        news.tell(CancelRequested([]))
    news.tell(Rescued(1, 0))
    news.tell(Rescued(1, 0))

    told = news.drain()

    assert len(told) == 1 + len(QUEUES) + 1 + 1 + 2, "but every rescue counts"
    assert told[0] == ReadyNow([ReadyQueue(queue, 1000.0, False) for queue in QUEUES]), "the newest one"
    news.close()
