"""What can limit a load, a rule for each: what it takes to suspect a resource."""

from pgtrial.analysis.causes.limit_rules.base import Facts, Rule, Scene
from pgtrial.analysis.causes.limit_rules.cpu import suspect_cpu
from pgtrial.analysis.causes.limit_rules.disk import suspect_disk, suspect_write_back, suspect_write_limit
from pgtrial.analysis.causes.limit_rules.disturbances import suspect_autovacuum, suspect_checkpoints
from pgtrial.analysis.causes.limit_rules.memory import suspect_memory, suspect_swap
from pgtrial.analysis.causes.limit_rules.waits import (
    suspect_by_difference,
    suspect_client,
    suspect_connections,
    suspect_locks,
    suspect_lwlocks,
    suspect_sleep,
    suspect_temporary_files,
    suspect_wal_flush,
)

__all__ = ["RULES", "Facts", "Rule", "Scene"]

RULES: tuple[Rule, ...] = (
    suspect_cpu,
    suspect_disk,
    suspect_write_limit,
    suspect_write_back,
    suspect_memory,
    suspect_swap,
    suspect_locks,
    suspect_lwlocks,
    suspect_wal_flush,
    suspect_temporary_files,
    suspect_checkpoints,
    suspect_autovacuum,
    suspect_connections,
    suspect_client,
    suspect_sleep,
    suspect_by_difference,
)
