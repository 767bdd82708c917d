"""Arguments and options that several commands share. Importing this costs no more than click."""

from pathlib import Path

import click

file = click.argument("file", type=click.Path(path_type=Path))
folder = click.argument("folder", type=click.Path(path_type=Path))
results = click.option(
    "--results",
    default=Path("results"),
    metavar="DIRECTORY",
    type=click.Path(path_type=Path),
    help="Where the result folder is made. Default: results.",
)
work_directory = click.option(
    "--work-directory",
    default=None,
    metavar="DIRECTORY",
    type=click.Path(path_type=Path),
    help="Where the data live during the runs. Default: as the file says, else /var/tmp.",
)
host_changes = click.option(
    "--allow-host-changes",
    "host_changes",
    is_flag=True,
    help='Let the experiment change settings of the host, and put them back; "pgtrial plan" shows them.',
)
gate = click.option("--assert", "gate", is_flag=True, help="Exit with 3 if refuted, 4 if inconclusive, 5 if invalid.")
quiet = click.option("-q", "--quiet", is_flag=True, help="No progress on standard error.")
