"""Errors of scheduling.

SchedulingError
├── SchedulerMissing    the system has no crontab or no systemctl
├── SchedulerFailed     crontab or systemctl refused
├── BadSchedule         a time that cron or systemd does not understand
└── LineRefused         the line cannot be written so that cron runs it
"""


class SchedulingError(Exception):
    """Root of this package's errors."""


class SchedulerMissing(SchedulingError):
    """A program of the system is not there."""


class SchedulerFailed(SchedulingError):
    """A program of the system ended with an error; the message has what it said."""


class BadSchedule(SchedulingError):
    """The time to run at is not written as it must be."""


class LineRefused(SchedulingError):
    """The command has a character, or a length, that cron does not take."""
