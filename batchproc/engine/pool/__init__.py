"""Slots that each run one job at a time in a worker process that can always be killed, with all that came from it.

``worker_pool`` is what its users see, with the values of ``types``. Nothing in here knows the database or a handler.
"""
