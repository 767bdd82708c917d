"""What the experiment says about the size of memory's pages, as data."""

from pgtrial.findings.message import MaybeMessage
from pgtrial.findings.record import Estimate, Record
from pgtrial.model.verdict import Decision


class PageGain(Record):
    """Throughput of an arm against the arm that differs from it in nothing but the page size."""

    arm: str
    baseline: str
    page: str  # as declared: "2MB", "1GB"; "none" for ordinary pages; "" where the file says nothing of it
    baseline_page: str
    scale: int | None  # of pgbench's tables
    load_level: int | str  # index, or "all"
    ratio: float | None
    low: float | None  # simultaneous over all arms that are compared so
    high: float | None
    confidence: float
    decision: Decision
    blocks: int


class DataFit(Record):
    """Whether the data of some arms fit in the server's shared buffers."""

    arms: tuple[str, ...]
    scale: int | None
    data: float | None  # B, estimated from the scale
    shared_buffers: float | None  # B, as the server said it
    fits: bool | None
    hit_share: Estimate | None  # of the blocks that were asked for, found in shared buffers; all load levels


class PageCheck(Record):
    """What the kernel showed of the pages in the runs of an arm; sizes in bytes."""

    arm: str
    page: str  # as declared
    runs: int  # valid ones
    seen: int  # of them, with a page size that was read under load
    confirmed: int  # of them, with the size that was asked for
    found: tuple[float, ...]  # sizes that were found (KernelPageSize of the shared memory)
    transparent: float | None  # most of the shared memory that the kernel mapped by huge pages of its own
    pool: float | None  # most of all pools under load
    used: float | None  # most of it that was in use, or reserved for who has not touched it yet
    given_back: int  # runs after which all pools were as large as before
    not_given_back: int


class TranslationCost(Record):
    """Misses of the processor's translation caches (TLB) of the server's processes; means over blocks."""

    arm: str
    load_level: int
    misses: Estimate | None  # of data, loads and stores, per transaction
    miss_share: Estimate | None  # of the loads
    code_misses: Estimate | None  # of instructions, per transaction
    instructions: Estimate | None  # per transaction


class HugePages(Record):
    """``reason`` says why misses are not known, None where they are."""

    gains: tuple[PageGain, ...]
    fits: tuple[DataFit, ...]
    checks: tuple[PageCheck, ...]
    translations: tuple[TranslationCost, ...]
    reason: MaybeMessage
    text: MaybeMessage  # in two or three sentences
