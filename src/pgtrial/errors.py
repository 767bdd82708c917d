"""The exceptions that pgtrial raises on purpose.

::

    PgTrialError(message, *, detail="", hint="")     exit 1
    ├── SpecError           the experiment file or an option is wrong   exit 2
    ├── ConsentError        the experiment does something that the user has not allowed   exit 2
    ├── PreflightError      this machine or server cannot run it
    ├── TargetError         the server or its host failed to do something
    │   ├── ConnectError
    │   ├── SettingError
    │   └── HostCommandError
    ├── WorkloadError       the load generator failed
    ├── WrittenError        the load has written to a database that is read-only for it
    ├── StoreError          result folder unreadable, locked, or of a newer format
    └── RestoreError        a change could not be undone               exit 6

A message follows PostgreSQL's error style: the primary text is one lower-case line without a period, the
detail states facts in full sentences, and the hint says in a full sentence what to do.
"""

from dataclasses import dataclass


class PgTrialError(Exception):
    """Base of all errors that are not bugs."""

    exit_code = 1

    def __init__(self, message: str, *, detail: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint

    @property
    def line(self) -> str:
        """One line: the message, and the words of the server or program."""
        return ": ".join(part for part in (self.message, " ".join(self.detail.split())) if part)

    @property
    def sentences(self) -> str:
        """The message and the detail as sentences."""
        return " ".join(part for part in (f"{self.message[:1].upper()}{self.message[1:]}.", self.detail) if part)


def first_line(err: Exception) -> str:
    """Of a library's words, whose other lines point into a query that the user has not written."""
    return str(err).splitlines()[0].strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecProblem:
    """One error in an experiment file.

    ``path`` is dotted ("workload.clients"), ``line`` is 1-based or None where it is not known.
    """

    path: str
    message: str
    line: int | None = None
    hint: str = ""


class SpecError(PgTrialError):
    """The experiment file is wrong; carries every error in it, not only the first.

    ``source`` is the file's name, as it stands before the line number of a problem.
    """

    exit_code = 2

    def __init__(
        self,
        message: str,
        *,
        problems: tuple[SpecProblem, ...] = (),
        source: str = "",
        detail: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(message, detail=detail, hint=hint)
        self.problems = problems
        self.source = source


class ConsentError(PgTrialError):
    """The experiment executes code of its own, or changes the host or a server that is not its own, which the user has
    not allowed; nothing has been touched.
    """

    exit_code = 2


class PreflightError(PgTrialError):
    """This machine or server cannot run the experiment; nothing has been touched."""


class TargetError(PgTrialError):
    """The server or its host failed to do something."""


class ConnectError(TargetError):
    """No connection to the server, or to its host."""


class LostHostError(ConnectError):
    """The connection to a host was there and is no more: nothing else can be done over it."""


class SettingError(TargetError):
    """A setting was refused, or reads back differently."""


class HostCommandError(TargetError):
    """A program on the host ended with an error."""


class WorkloadError(PgTrialError):
    """The load generator failed."""


class HarmError(PgTrialError):
    """A server that others use is switched no more, for their sake: what was set has been put back."""


class WrittenError(PgTrialError):
    """The load has written to a database that is read-only for it; to repeat the run would write once more."""


class StoreError(PgTrialError):
    """A result folder is unreadable, locked, or of a newer format."""


class RestoreError(PgTrialError):
    """A change could not be undone."""

    exit_code = 6
