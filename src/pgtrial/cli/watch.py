"""pgtrial watch: read a live server, as long as it is to be watched."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from pgtrial.cli.options import FolderPath, parsed
from pgtrial.cli.terminal import echo
from pgtrial.units import parse_bytes, parse_duration

_Callback = Callable[[click.Context, click.Parameter, str | None], float | None]


def _within(parse: Callable[[str], float], unit: str, *, least: float, most: float = float("inf")) -> _Callback:
    """Reads a quantity of an option, within bounds."""

    def read(text: str) -> float:
        found = parse(text)
        if not least <= found <= most:
            bounds = f"at least {least:g}" if most == float("inf") else f"from {least:g} to {most:g}"
            raise ValueError(f'"{text}" is not {bounds} {unit}')
        return found

    return parsed(read)


_time = partial(_within, parse_duration, "s")
_size = partial(_within, parse_bytes, "bytes")


@click.command()
@click.argument("dsn", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="DIR",
    type=FolderPath(),
    help="The folder to write into; the next watch of the same server goes on in it.",
)
@click.option(
    "--host",
    default=None,
    metavar="ADDRESS",
    help="The server's machine where that is another one, as ssh://user@host: its figures are read as well.",
)
@click.option("--once", is_flag=True, help="Read for two intervals, and end: to see whether it works.")
@click.option(
    "--for",
    "duration",
    default=None,
    metavar="TIME",
    callback=_time(least=1.0),
    help="End after this time. Default: with SIGINT or SIGTERM.",
)
@click.option(
    "--interval",
    default="5s",
    show_default=True,
    metavar="TIME",
    callback=_time(least=0.5, most=8.0),
    help="Between two readings of views and files; at random moments, as the next.",
)
@click.option(
    "--poll",
    default="1s",
    show_default=True,
    metavar="TIME",
    callback=_time(least=0.05, most=8.0),
    help="Between two polls of sessions.",
)
@click.option(
    "--keep-polls",
    default="48h",
    show_default=True,
    metavar="TIME",
    callback=_time(least=7200.0),
    help="Keep what was read for this time, …",
)
@click.option(
    "--keep-minutes",
    default="60d",
    show_default=True,
    metavar="TIME",
    callback=_time(least=86400.0),
    help="… sums of minutes for this, …",
)
@click.option(
    "--keep-hours",
    default="730d",
    show_default=True,
    metavar="TIME",
    callback=_time(least=86400.0),
    help="… and sums of hours for this.",
)
@click.option(
    "--keep-free",
    default="1GB",
    show_default=True,
    metavar="SIZE",
    callback=_size(least=0.0),
    help="End where the disk has less left.",
)
@click.option(
    "--textfile",
    default=None,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Write the newest figures into a file there as OpenMetrics, for the textfile collector of node exporter.",
)
@click.option("--unit", is_flag=True, help="Print a systemd unit that does this, and do nothing.")
@click.option("--user", default="postgres", show_default=True, metavar="NAME", help="Who the unit runs as.")
def command(
    *,
    dsn: tuple[str, ...],
    output: Path,
    host: str | None,
    once: bool,
    duration: float | None,
    interval: float,
    poll: float,
    keep_polls: float,
    keep_minutes: float,
    keep_hours: float,
    keep_free: float,
    textfile: Path | None,
    unit: bool,
    user: str,
) -> None:
    """Watch the live servers at DSN, read-only, and keep what is read.

    The role needs pg_monitor and nothing else. Where the server runs on this
    machine, or on that of --host, the machine's figures are read as well. Gaps
    stay gaps: a server that restarts, and a network that goes, are waited for.

    \b
    Examples:
      pgtrial watch "service=shop" --output watch/shop
      pgtrial watch "host=db1 dbname=shop" --output watch/shop --once
      pgtrial watch "host=db1 dbname=shop" -o watch/shop --host ssh://watcher@db1
      pgtrial watch "service=shop" --output /var/lib/pgtrial --unit
      pgtrial watch "service=shop" -o watch/shop --textfile /var/lib/node-exporter
    """
    if once and duration is not None:
        raise click.UsageError("give --once or --for TIME, not both")
    if host is not None and len(dsn) > 1:
        raise click.UsageError("--host is the machine of one server: watch each such server by a command of its own")
    if unit:
        from pgtrial.watch.unit import unit_text

        echo(unit_text(dsn, output, _given(), textfiles=textfile, user=user), nl=False)
        return
    from pgtrial.postgres.connect import forget_caller
    from pgtrial.watch.folder import Ages
    from pgtrial.watch.servers import watch
    from pgtrial.watch.watcher import Options

    options = Options(
        interval=interval,
        poll=poll,
        duration=2.5 * interval if once else duration,
        ages=Ages(readings=keep_polls, minutes=keep_minutes, hours=keep_hours),
        keep_free=int(keep_free),
        textfiles=textfile,
        machine=host,
    )
    watch(dsn, output, forget_caller(), options=options, tell=lambda text: echo(text, err=True))


def _given() -> list[str]:
    """The options of the command line that a unit has to repeat, as they were typed."""
    context = click.get_current_context()
    found: list[str] = []
    for parameter in context.command.params:
        name = parameter.name or ""
        is_typed = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if is_typed and name == "host":
            found += [parameter.opts[-1], context.params[name]]
        elif is_typed and name in ("interval", "poll", "keep_polls", "keep_minutes", "keep_hours", "keep_free"):
            value = context.params[name]
            unit = "B" if name == "keep_free" else "s"
            found += [parameter.opts[-1], f"{value:.0f}{unit}" if value == int(value) else f"{value:g}{unit}"]
    return found
