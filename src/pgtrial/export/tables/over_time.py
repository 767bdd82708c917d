"""Tables of the time of the runs: dips, charts, entries of the log."""

from pgtrial.export.tables.base import ARM, LEVEL, Table, integer, level_row, number, table, text
from pgtrial.findings.causes import Causes
from pgtrial.findings.findings import Findings
from pgtrial.findings.message import say
from pgtrial.findings.record import parts_of


def timelines(findings: Findings, causes: Causes) -> Table:
    """What the charts over time show: waits, CPU, disks, memory, dirty pages."""
    columns = (
        integer("run", "id of the run"),
        ARM,
        integer("block", "block"),
        text("of", "what is drawn together"),
        text("line", "quantity"),
        number("seconds", "since the first measured second of the run", "s"),
        number("value", "in base units; unknown: a gap"),
        text("unit", "base unit of the value"),
    )
    rows = (
        (panel.run, panel.arm, panel.block, say(panel.title), line.name, t, value, panel.unit)
        for panel in causes.panels
        for line in panel.lines
        for t, value in zip(panel.t, line.value, strict=True)
    )
    return table("timelines", "Samples over the time of the runs", columns, rows)


def courses(findings: Findings, causes: Causes) -> Table:
    """The arms over each other."""
    columns = (
        text("metric", "as in docs/metrics.md"),
        ARM,
        number("seconds", "since the first measured second", "s"),
        number("value", "mean of the arm's runs at that time, in base units; unknown: a gap"),
        text("unit", "base unit of the value"),
    )
    rows = (
        (course.metric, line.arm, t, value, course.unit)
        for course in causes.courses
        for line in course.lines
        for t, value in zip(course.t, line.value, strict=True)
    )
    return table("courses", "Metrics over measured time by arm", columns, rows)


def dip_waits(findings: Findings, causes: Causes) -> Table:
    columns = (
        ARM,
        *LEVEL,
        text("kind", "CPU, or a wait type of the server"),
        text("event", "wait event"),
        number("inside", "average sessions inside dips", "sessions"),
        number("outside", "average sessions in all other seconds", "sessions"),
        number("chance", "that any wait differs as much by chance", "probability"),
    )
    rows = (
        (
            *(one.arm, *level_row(findings, one.load_level), wait.kind, wait.event or None),
            *(wait.inside, wait.outside, wait.chance),
        )
        for one in causes.stability
        for wait in one.waits
    )
    return table("dip_waits", "What sessions wait for inside dips", columns, rows)


def dip_signs(findings: Findings, causes: Causes) -> Table:
    columns = (
        ARM,
        *LEVEL,
        text("metric", "as in docs/metrics.md"),
        text("unit", "base unit of its values"),
        number("lead", "how long before dips begin", "s"),
        number("before", "mean at that time"),
        number("usual", "mean of all seconds outside of dips"),
        number("chance", "that any metric is as unlike itself by chance", "probability"),
    )
    rows = (
        (
            *(one.arm, *level_row(findings, one.load_level), sign.metric, sign.unit),
            *(sign.lead, sign.before, sign.usual, sign.chance),
        )
        for one in causes.stability
        for sign in one.signs
    )
    return table("dip_signs", "What is unlike itself before dips", columns, rows)


def stability(findings: Findings, causes: Causes) -> Table:
    columns = (
        ARM,
        *LEVEL,
        number("variation", "coefficient of variation of throughput per second", "share"),
        number("lowest", "1st percentile of throughput per second", "1/s"),
        number("dip_share", "share of the time in dips", "share"),
        number("stalled", "share of seconds without a commit", "share"),
        number("trend", "Theil-Sen, per minute", "1/s"),
        text("aligned", "whether dips and events of the log go together"),
    )
    rows = (
        (
            *(one.arm, *level_row(findings, one.load_level)),
            *(
                parts_of(each)[0]
                for each in (one.coefficient_of_variation, one.lowest, one.dip_share, one.stalled, one.trend)
            ),
            say(one.aligned) or None,
        )
        for one in causes.stability
    )
    return table("stability", "How steady throughput is", columns, rows)


def dips(findings: Findings, causes: Causes) -> Table:
    columns = (
        ARM,
        *LEVEL,
        integer("run", "id of the run"),
        number("start", "since measuring began", "s"),
        number("length", "of the dip", "s"),
        number("depth", "1 - lowest / usual throughput", "share"),
        number("recovery", "from the lowest point until 90 % was made good; unknown: never in the run", "s"),
        number("stalled", "time without a single commit", "s"),
        text("near", "what the server's log says of that time"),
        text("more", "wait that more sessions were in than outside of dips"),
    )
    rows = (
        (
            *(one.arm, *level_row(findings, one.load_level), dip.run, dip.start, dip.length, dip.depth),
            *(dip.recovery, dip.stalled, "; ".join(map(say, dip.near)), say(dip.more) or None),
        )
        for one in causes.stability
        for dip in one.dips
    )
    return table("dips", "Stretches in which throughput was far below its usual value", columns, rows)


def log(_: Findings, causes: Causes) -> Table:
    columns = (
        ARM,
        text("kind", "of what the server wrote to its log in the measured time"),
        integer("count", "how often"),
        text("text", "in words"),
        text("quantity", "what is summed"),
        number("sum", "in base units"),
    )
    rows = (
        (summary.arm, summary.kind, summary.count, say(summary.text) or None, name, value)
        for summary in causes.log
        for name, value in (summary.numbers.items() or [(None, None)])
    )
    return table("server_log", "What the server's log tells", columns, rows)
