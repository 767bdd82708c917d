"""One message of a server's log, whatever the log's format was."""

from dataclasses import dataclass

# Classes of SQLSTATE that are no errors: successful completion, warning, no data.
_NO_ERROR = ("00", "01", "02")
_ERRORS = ("ERROR", "FATAL", "PANIC")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """``t`` in seconds since the epoch. A text is "" where the log does not have it.

    ``severity`` is English ("LOG", "ERROR") where the word is known, else as it was printed. ``backend_type`` is as in
    pg_stat_activity ("client backend", "checkpointer").
    """

    t: float
    pid: int | None = None
    severity: str = ""
    sqlstate: str = ""
    database: str = ""
    application: str = ""
    backend_type: str = ""
    message: str = ""
    detail: str = ""
    statement: str = ""

    @property
    def is_error(self) -> bool:
        """By the severity, and where that is in an unknown language by the SQLSTATE."""
        if self.severity in _ERRORS:
            return True
        known = self.severity in ("LOG", "WARNING", "NOTICE", "INFO", "DEBUG")
        return not known and bool(self.sqlstate) and self.sqlstate[:2] not in _NO_ERROR
