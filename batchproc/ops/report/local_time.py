"""The time that the clocks show here, over their changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo


class LocalTime(tzinfo):
    """The system's time zone, whichever way it is set, with the offset that holds at each moment.

    What ``datetime.astimezone()`` gives has the offset of that one moment alone, and ``ZoneInfo`` wants a name, which
    neither /etc/localtime nor a TZ of rules need have.
    """

    def fromutc(self, moment: datetime) -> datetime:
        local = moment.replace(tzinfo=UTC).astimezone()
        # Of a time that the clocks show twice, the second.
        return local.replace(tzinfo=self, fold=_here(local).utcoffset() != local.utcoffset())

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        return None if moment is None else _here(moment).utcoffset()

    def dst(self, _: datetime | None) -> timedelta | None:
        return None  # nobody here asks what of the offset is summer time

    def tzname(self, moment: datetime | None) -> str | None:
        return None if moment is None else _here(moment).tzname()


def _here(moment: datetime) -> datetime:
    """A time without a zone is taken as local, with its fold."""
    return moment.replace(tzinfo=None).astimezone()
