"""``python -m pgtrial.engine.sampler`` is the sampler (``loop.main``).

Imports are most of what a short run's sampler costs, and a third of that is spared here.
"""

import gc
import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec


def import_libpq_alone() -> None:
    """Import psycopg's layer over libpq without the rest of psycopg, which is as much again and of no use here.

    The package is there with its place only, its own code is not run.
    """
    spec = find_spec("psycopg")
    if spec is None:
        return  # the ordinary import says it
    sys.modules["psycopg"] = module_from_spec(spec)
    try:
        import_module("psycopg.pq")  # first, as in the package's own code
        import_module("psycopg.conninfo")
    except Exception:  # of a psycopg that cannot be taken apart
        for name in [name for name in sys.modules if name.partition(".")[0] == "psycopg"]:
            del sys.modules[name]


def main() -> int:
    gc.disable()  # there is no garbage among what is imported, and it is looked through again and again
    import_libpq_alone()
    from pgtrial.engine.sampler.loop import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
