"""How the sessions of a load are called, on the server and in what is kept of them.

A server that is there may have the load of several experiments, in one database and by one role. So on the server a
name says whose load it is; what a result folder keeps are names of its own load, and of others as they are.
"""

import hashlib

NAME = "PGAPPNAME"  # the variable by which libpq gives a session its name
LOAD = "pgtrial/"  # how the names of the load's sessions begin in a result folder; the scenario follows
_DIGITS = 12  # the server cuts names to 63 bytes: the scenario comes last, and has most of them


def beginning_of_names(machine: str, mark: str, arm: str) -> str:
    """How the names of the sessions of an arm's load begin on the server.

    ``mark`` is what an experiment gives to its processes, which ``machine`` has only one of at a time. It is the same
    after a resume, which so ends what a killed pgtrial has left at work.
    """
    digest = hashlib.sha256("\0".join((machine, mark, arm)).encode("utf-8", "surrogateescape")).hexdigest()
    return f"pgtrial:{digest[:_DIGITS]}/"


def name_on_server(name: str, beginning: str) -> str:
    """The name of one of the load's sessions ("pgtrial/read") as the server gets it."""
    return beginning + name.removeprefix(LOAD)


def name_in_folder(name: str, beginning: str) -> str:
    """A name that the server tells as a result folder has it; those of others stay as they are."""
    return LOAD + name.removeprefix(beginning) if name.startswith(beginning) else name
