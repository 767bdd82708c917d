"""The record in the folder that "pgtrial workload" writes, for a load like a server's; it may come from anybody."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

_Count = Annotated[int, Field(ge=0, le=2**63)]
_Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Counted(BaseModel):
    text: str
    calls: Annotated[_Count, Field(gt=0)]
    rows: _Count
    hit: _Count
    read: _Count
    seconds: _Seconds


class _Script(BaseModel):
    name: Annotated[str, Field(pattern=r"^s[0-9]{1,9}$")]  # of a file
    calls: Annotated[_Count, Field(gt=0)]
    statements: Annotated[list[_Counted], Field(min_length=1)]


class _LeftOut(BaseModel):
    command: str
    reason: str
    statements: _Count
    calls: _Count
    seconds: _Seconds


class _Transactions(BaseModel):
    commits: _Count
    explained: _Count
    levels: dict[
        Literal["", "SERIALIZABLE", "REPEATABLE READ", "READ COMMITTED", "READ UNCOMMITTED", "unknown"], _Count
    ] = {}


class _Record(BaseModel):
    seconds: _Seconds
    counted_for: _Seconds | None = None
    transactions: _Transactions
    scripts: Annotated[list[_Script], Field(min_length=1)]
    left_out: list[_LeftOut]
    hidden: _Count
    triggers: list[str] = []


def checked(document: object) -> dict[str, Any]:
    """What is used of a record that may come from anybody. Raises ValueError that says what is wrong with it."""
    try:
        return _Record.model_validate(document, strict=True).model_dump()
    except ValidationError as err:
        first = err.errors(include_url=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from err
