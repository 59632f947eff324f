"""Documents enqueued again: which, and on trial first."""
