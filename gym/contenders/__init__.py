"""Who is graded: each contender is one file."""

from gym.contenders.base import Contender
from gym.contenders.benchstat import Benchstat
from gym.contenders.clickhouse import ClickhouseTest
from gym.contenders.duckdb import DuckdbRunner
from gym.contenders.hyperfine import Hyperfine
from gym.contenders.otava import Otava
from gym.contenders.pgtrial import Pgtrial
from gym.contenders.single_pair import SinglePair

CONTENDERS: tuple[Contender, ...] = (
    *(Pgtrial(method=method) for method in ("blocks", "interleaved", "duet")),
    *(Pgtrial(method=method, stops=True, sizes=(20, 40)) for method in ("blocks", "interleaved", "duet")),
    Benchstat(),
    Hyperfine(),
    DuckdbRunner(),
    ClickhouseTest(),
    Otava(),
    SinglePair(),
)
