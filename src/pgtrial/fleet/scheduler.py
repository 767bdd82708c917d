"""The connection to a scheduler of dask.distributed that the user runs: by TLS alone, and of the same versions."""

import asyncio
import contextlib
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Mapping
from importlib import metadata
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from pgtrial import __version__
from pgtrial.errors import ConnectError, PreflightError
from pgtrial.fleet.cluster import LostError
from pgtrial.safe_text import parse_json

if TYPE_CHECKING:
    from distributed import Client, Security

SCHEME = "tls://"
_PORT = 8786
_REACHING = 10.0  # s to shake hands


@contextlib.asynccontextmanager
async def connected(address: str) -> AsyncIterator["Client"]:
    """A client of the scheduler. Raises PreflightError and ConnectError."""
    from distributed import Client

    security = _own_security(address)
    await _shake_hands(address, security)
    client = None
    try:
        try:
            client = Client(
                address, security=security, asynchronous=True, set_as_default=False, timeout=_REACHING, name="pgtrial"
            )
            await client
        except (OSError, ValueError) as err:
            raise ConnectError(
                f"{address} does not answer as a scheduler of dask.distributed", detail=str(err), hint="See its log."
            ) from err
        await _compare_versions(client, address)
        yield client
    finally:
        if client is not None:
            with contextlib.suppress(Exception):  # of a connection that is gone
                await asyncio.wait_for(client.close(timeout=1), _REACHING)


def _own_security(address: str) -> "Security":
    """The certificates that dask's own configuration names, for its clients."""
    from distributed import Security

    try:
        security = Security(require_encryption=True)
        config = security.get_tls_config_for_role("client")
    except (OSError, ValueError) as err:
        raise PreflightError("dask's configuration of TLS cannot be used", detail=str(err)) from err
    names = {"ca_file": "ca-file", "cert": "client.cert", "key": "client.key"}
    missing = [f"distributed.comm.tls.{name}" for key, name in names.items() if not config.get(key)]
    if missing:
        raise PreflightError(
            f"dask's configuration names no certificate for {address}: {', '.join(missing)}",
            hint="Name them as for any client of that cluster, in ~/.config/dask/*.yaml or by "
            "DASK_DISTRIBUTED__COMM__TLS__CA_FILE, …__CLIENT__CERT and …__CLIENT__KEY.",
        )
    for key, name in names.items():
        text = str(config[key])
        if "-----BEGIN" not in text and not os.access(text, os.R_OK):
            raise PreflightError(f'"{text}" (distributed.comm.tls.{name}) cannot be read')
    return security


async def _shake_hands(address: str, security: "Security") -> None:
    """Find out, before dask tries for long and says little, whether the two sides trust each other."""
    parts = urlsplit(address)
    try:
        context = security.get_connection_args("client")["ssl_context"]
    except (OSError, ValueError) as err:  # ssl.SSLError is an OSError
        raise PreflightError("the certificate that dask's configuration names cannot be used", detail=str(err)) from err
    try:
        async with asyncio.timeout(_REACHING):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port or _PORT, ssl=context)
            try:
                await reader.readexactly(1)  # of its greeting: it has taken our certificate
            finally:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
    except ssl.SSLCertVerificationError as err:
        raise PreflightError(
            f"{address} shows a certificate that is not trusted: {err.verify_message}",
            hint="Name the authority that signed it: distributed.comm.tls.ca-file in dask's configuration.",
        ) from err
    except ssl.SSLError as err:
        if err.reason in (
            "WRONG_VERSION_NUMBER",
            "HTTP_REQUEST",
            "UNEXPECTED_EOF_WHILE_READING",
            "RECORD_LAYER_FAILURE",
        ):
            raise ConnectError(
                f"{address} does not speak TLS", hint="Start the scheduler with --protocol tls and its certificate."
            ) from err
        raise _not_taken(address, err) from err
    except (asyncio.IncompleteReadError, ConnectionResetError) as err:
        raise _not_taken(address, err) from err
    except TimeoutError as err:
        raise ConnectError(f"{address} cannot be reached: no answer for {_REACHING:g} s") from err
    except OSError as err:
        reason = err.strerror or str(err)
        raise ConnectError(f"{address} cannot be reached: {reason}", hint="Is the scheduler running?") from err


def _not_taken(address: str, err: Exception) -> PreflightError:
    return PreflightError(
        f"{address} does not take the certificate that dask's configuration names",
        detail=str(err),
        hint="It has to be signed by the authority that the scheduler trusts: distributed.comm.tls.client.cert.",
    )


async def _compare_versions(client: "Client", address: str) -> None:
    own = metadata.version("distributed")
    versions: dict[str, Any] = await cast("Awaitable[dict[str, Any]]", client.get_versions(check=False))
    nodes = {f"the scheduler {address}": versions["scheduler"]}
    nodes |= {f"worker {worker}": found for worker, found in versions["workers"].items()}
    for name, found in nodes.items():
        other = ((found or {}).get("packages") or {}).get("distributed")
        if other != own:
            raise PreflightError(
                f"{name} has distributed {other}, and this Python has {own}",
                hint="Install the same version on both: they understand each other in no other way.",
            )


async def workers_of(client: "Client") -> dict[str, dict[str, Any]]:
    """Those that the scheduler knows, by address. Raises OSError where the connection to it is gone."""
    scheduler: Any = client.scheduler
    if scheduler is None:
        raise ConnectionResetError("the connection to the scheduler is closed")
    workers: dict[str, dict[str, Any]] = (await scheduler.identity())["workers"]
    return workers


def answer_of(future: Any) -> "asyncio.Future[Any]":
    """The answer of a block's task, read. Raises LostError, and PreflightError where somebody has no pgtrial."""

    async def read() -> Mapping[str, object]:
        from distributed.client import FutureCancelledError
        from distributed.scheduler import KilledWorker

        try:
            answer = parse_json(await future)
        except KilledWorker:
            raise LostError("its worker has ended") from None
        except (FutureCancelledError, asyncio.CancelledError):
            raise LostError("the scheduler has forgotten its block") from None
        except ModuleNotFoundError as err:
            raise without_pgtrial("its worker", err) from None
        except Exception as err:
            if _is_of_scheduler(err):
                raise without_pgtrial("the scheduler", err) from err
            raise LostError(f"its worker could not run it: {type(err).__name__}: {err}") from err
        if not isinstance(answer, dict):
            raise LostError("its worker answers what pgtrial does not understand")
        return answer

    return asyncio.ensure_future(read())


def lacks_module(err: Exception) -> bool:
    return isinstance(err, ModuleNotFoundError) or ModuleNotFoundError.__name__ in str(err)


def _is_of_scheduler(err: Exception) -> bool:
    """Whether it is what a scheduler says that does not know the function, and none of the worker's errors."""
    return isinstance(err, RuntimeError) and "deserialization of the task graph" in str(err)


def without_pgtrial(who: str, err: Exception) -> PreflightError:
    return PreflightError(
        f"{who} has no pgtrial {__version__}",
        detail=str(err),
        hint="Install pgtrial in the Python that dask runs with there.",
    )
