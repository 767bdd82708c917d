"""What cannot be known from an existing server's log, said once."""

from collections.abc import Iterator, Mapping

from pgtrial.model.caveat import Caveat, Severity
from pgtrial.postgres.connect import connect
from pgtrial.postgres.existing.log_language import read_language
from pgtrial.postgres.existing.log_place import LogPlace, find_log
from pgtrial.postgres.existing.server import ExistingServer
from pgtrial.store.server_log.times import find_zone
from pgtrial.units import format_duration

# Values by which the server keeps silent about something.
_SILENT: Mapping[str, tuple[str, str]] = {
    "log_checkpoints": ("off", "checkpoints"),
    "log_autovacuum_min_duration": ("-1", "autovacuum"),
    "log_lock_waits": ("off", "waits for locks"),
    "log_temp_files": ("-1", "temporary files"),
}
_SHORTEST = "log_autovacuum_min_duration"  # ms; 10 minutes unless somebody has set it


async def log_caveats(server: ExistingServer) -> tuple[Caveat, ...]:
    """Changes nothing. Raises ConnectError, TargetError."""
    place = await find_log(server)
    if isinstance(place, str):
        user = server.control.address.user
        return (
            _info(
                "no-server-log",
                "The server's log cannot be read: checkpoints, autovacuum by table, waits for locks, deadlocks, errors "
                f"and slow statements are not in the report, but for what the server counts. {place}",
                f'GRANT pg_monitor TO "{user}" and GRANT EXECUTE ON FUNCTION pg_current_logfile(text), '
                "pg_stat_file(text, boolean), pg_read_binary_file(text, bigint, bigint, boolean) "
                f'TO "{user}" let it read a log that the server collects itself (logging_collector = on); or run '
                "pgtrial as root on the server's machine.",
            ),
        )
    async with connect(server.conninfo()) as connection:
        language = await read_language(connection, server, place.languages)
    return tuple(_say(place, is_understood=language is not None))


def _say(place: LogPlace, *, is_understood: bool) -> Iterator[Caveat]:
    settings = place.settings
    if not is_understood:
        yield _info(
            "server-log-language",
            f"The server's messages are in another language ({place.languages[0]}), and its "
            "catalogue cannot be read: of the log only checkpoints, and errors by their code, are in the report.",
            "Run pgtrial on the server's machine, or let the server log in English: lc_messages = 'C'.",
        )
    silent = [f"{what} ({name} = {value})" for name, (value, what) in _SILENT.items() if settings.get(name) == value]
    shortest = float(settings[_SHORTEST]) / 1000
    if shortest > 0:
        silent.append(f"autovacuum of a table in less than {format_duration(shortest)} ({_SHORTEST})")
    if silent:
        yield _info(
            "server-log-silent",
            f"The server does not log {', '.join(silent)}: that the report shows none of them does not mean that there "
            "were none.",
            "pgtrial does not change these settings of a server that is not its own; whoever runs it can.",
        )
    zone = settings["log_timezone"]
    if find_zone(zone) is None:
        yield _info(
            "server-log-zone",
            f'The server logs times of the zone "{zone}", which this machine does not know: its log is not in the '
            "report unless the times say how far they are from universal time.",
            'Install the time zones (the package tzdata, or "pip install tzdata") where pgtrial runs.',
        )


def _info(code: str, text: str, hint: str) -> Caveat:
    return Caveat(code=code, severity=Severity.INFO, text=text, hint=hint)
