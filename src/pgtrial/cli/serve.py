"""pgtrial serve: show experiments in a browser."""

from pathlib import Path

import click

from pgtrial.cli import options
from pgtrial.cli.terminal import echo

_PORT = 8417


@click.command()
@click.argument("folder", default=Path("results"), type=options.FolderPath())
@click.option(
    "--port",
    default=_PORT,
    metavar="N",
    type=click.IntRange(0, 65535),
    help=f"Port on 127.0.0.1; 0 picks a free one. Default: {_PORT}.",
)
@click.option(
    "--metrics-token",
    default=None,
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Whoever sends the token in this file, as Prometheus does, gets the metrics of watches, and nothing else.",
)
def command(*, folder: Path, port: int, metrics_token: Path | None) -> None:
    """Show experiments in a browser: what there is in FOLDER, and what runs there.

    FOLDER is a result folder, that of a watch, or the directory of them; left
    out: results. Prints the address to open. Only this machine can reach it,
    only with the token in the address, and nothing can be changed there.
    Ctrl-C ends it.

    \b
    Examples:
      pgtrial serve
      pgtrial serve results/first-20260120T101500Z --port 0
      pgtrial serve watch
    """
    import signal

    from pgtrial.web.access import read_monitor_token
    from pgtrial.web.server import open_server

    monitor = "" if metrics_token is None else read_monitor_token(metrics_token)
    try:
        with open_server(folder, port=port, monitor=monitor) as server:
            signal.signal(signal.SIGTERM, signal.default_int_handler)  # the same as Ctrl-C
            echo(server.address)
            echo("Ctrl-C ends it.", err=True)
            server.serve_forever()
    except KeyboardInterrupt:
        echo("ended", err=True)  # as asked; nothing has been broken off
