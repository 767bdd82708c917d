// One experiment: what it does while it runs, its report when it is done.

import { badge, day, el, follow, report, svg, table } from "./dom.js";

const WIDTH = 120; // of an arm's sparkline, in its own units: one for each figure that is kept
const HEIGHT = 40;

// Figures from zero to top, the newest at the right; a null parts two runs.
export function sparkline(figures, top, colour, label, width = WIDTH) {
  const runs = [[]];
  figures.forEach((figure, index) => {
    if (figure === null) {
      runs.push([]);
    } else {
      const x = width - figures.length + index;
      const y = top > 0 ? HEIGHT - 2 - (figure / top) * (HEIGHT - 4) : HEIGHT - 2;
      runs.at(-1).push([x, y]);
    }
  });
  const lines = runs
    .filter((points) => points.length)
    // A single figure, as of a load level in turns, is a short line of its own.
    .map((points) => (points.length === 1 ? [points[0], [points[0][0] + 1, points[0][1]]] : points))
    .map((points) =>
      svg("polyline", {
        points: points.map(([x, y]) => `${x},${y.toFixed(1)}`).join(" "),
        fill: "none",
        stroke: colour,
        "stroke-width": 1.5,
        "vector-effect": "non-scaling-stroke",
      }),
    );
  return svg(
    "svg",
    {
      class: "sparkline",
      viewBox: `0 0 ${width} ${HEIGHT}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": label,
    },
    svg("line", { class: "zero", x1: 0, x2: width, y1: HEIGHT - 1, y2: HEIGHT - 1 }),
    lines,
  );
}

function largest(arms, name) {
  return Math.max(0, ...arms.flatMap((arm) => arm[name]).filter((figure) => figure !== null));
}

function armName(arm) {
  const mark = svg("svg", { class: "mark", viewBox: "0 0 10 10", "aria-hidden": "true" });
  mark.append(svg("circle", { cx: 5, cy: 5, r: 5, fill: arm.colour }));
  const role = arm.role === "candidate" ? "" : ` (${arm.role})`;
  return [mark, " ", arm.name, el("span", { class: "quiet" }, `${role}${arm.at_work ? " · at work" : ""}`)];
}

function armRow(arm, top) {
  return el(
    "tr",
    { class: arm.at_work ? "at-work" : null },
    el("th", { scope: "row" }, armName(arm)),
    el("td", { class: "number" }, arm.tps_now),
    el("td", {}, sparkline(arm.tps, top.tps, arm.colour, `Throughput of ${arm.name}, now ${arm.tps_now} per second`)),
    el("td", { class: "number" }, arm.p95_now),
    el("td", {}, sparkline(arm.p95, top.p95, arm.colour, `95th percentile of latency of ${arm.name}, now ${arm.p95_now}`)),
    el("td", { class: "number" }, String(arm.runs_done)),
  );
}

function waits(arms) {
  const seen = arms.filter((arm) => arm.waits.length);
  if (!seen.length) {
    return null;
  }
  return el(
    "section",
    {},
    el("h2", {}, "What sessions were found at in the latest seconds"),
    el(
      "div",
      { class: "pair" },
      seen.map((arm) =>
        table(
          armName({ ...arm, at_work: false }),
          ["wait", "share", ""],
          arm.waits.map((wait) =>
            el(
              "tr",
              {},
              el("th", { scope: "row" }, wait.label),
              el("td", { class: "number" }, wait.text),
              el("td", {}, el("progress", { class: "share", max: 1, value: wait.share, "aria-hidden": "true" })),
            ),
          ),
        ),
      ),
    ),
  );
}

// The interval against the margin, on a scale of logarithms that has both.
function picture(estimate) {
  const { ratio, low, high, margin } = estimate;
  const known = [ratio, low, high, 1 + margin, 1 - margin, 1].filter((value) => value !== null && value > 0);
  const reach = Math.max(...known.map((value) => Math.abs(Math.log(value)))) * 1.15 || 1;
  const x = (value) => 150 + (Math.log(Math.max(value, 1e-9)) / reach) * 145;
  if (ratio === null || ratio <= 0) {
    return null;
  }
  const inside = margin < 1 ? x(1 - margin) : 5;
  return svg(
    "svg",
    { class: "interval", viewBox: "0 0 300 34", "aria-hidden": "true" },
    svg("rect", { class: "margin", x: inside, y: 2, width: x(1 + margin) - inside, height: 30 }),
    svg("line", { class: "zero", x1: x(1), x2: x(1), y1: 0, y2: 34 }),
    low !== null && high !== null
      ? svg("line", { class: "reach", x1: Math.max(2, x(low)), x2: Math.min(298, x(high)), y1: 17, y2: 17 })
      : null,
    svg("circle", { class: "point", cx: x(ratio), cy: 17, r: 5 }),
  );
}

function estimated(estimate) {
  if (estimate === null) {
    return el("p", { class: "quiet" }, "An estimate comes with the third complete block.");
  }
  return el(
    "section",
    {},
    el("h2", {}, "So far"),
    el("p", { class: "figure" }, estimate.change),
    picture(estimate),
    el("p", {}, estimate.text),
    el(
      "p",
      { class: "quiet" },
      "The band is the margin. Looking is free, but stopping because of what is seen is not: an experiment that ends when it looks good finds too much.",
    ),
  );
}

function running(live) {
  const top = { tps: largest(live.arms, "tps"), p95: largest(live.arms, "p95") };
  const heads = ["arm", "tps", "", "p95", "", "runs"];
  return [
    el("p", { class: "answer", id: "progress" }, live.progress.join(" · ")),
    el("progress", { class: "whole", max: 1, value: live.share, "aria-label": "Progress of the experiment" }),
    el("p", { class: "quiet" }, [live.done, live.left].filter(Boolean).join(" · ")),
    live.arms.length
      ? table("Throughput and latency by arm, each on one scale from zero", heads, live.arms.map((arm) => armRow(arm, top)), { class: "arms" })
      : null,
    estimated(live.estimate),
    waits(live.arms),
  ];
}

function resting(experiment) {
  const command = { interrupted: `It was interrupted. “pgtrial resume” with this folder goes on.` };
  return [
    experiment.verdict ? el("p", {}, badge(experiment)) : null,
    experiment.reason ? el("p", { class: "answer" }, experiment.reason) : null,
    ...(experiment.beside ?? []).map((text) => el("p", { class: "note" }, text)),
    experiment.claim ? el("p", {}, el("span", { class: "quiet" }, "Claim: "), experiment.claim) : null,
    experiment.state in command ? el("p", { class: "next" }, command[experiment.state]) : null,
    el("ul", { class: "plain quiet" }, experiment.arms.map((arm) => el("li", {}, arm))),
    experiment.has_report || experiment.state === "unreadable"
      ? null
      : el("p", { class: "next" }, "There is no report yet: “pgtrial report” with this folder makes one."),
  ];
}

export function showExperiment(main, id) {
  const now = el("div", { id: "now" });
  const page = el("div", { id: "report" });
  main.append(now, page);
  let shown = "";

  follow(`/events/${id}`, ({ experiment, live }) => {
    document.title = `${experiment.name} – pgtrial`;
    document.getElementById("title").textContent = experiment.name;
    const of = `${experiment.done} of ${experiment.runs} runs, ${experiment.blocks} complete blocks`;
    const facts = experiment.state === "unreadable" ? [experiment.state] : [experiment.state, day(experiment.started), of];
    document.getElementById("subtitle").textContent = facts.join(" · ");
    if (live) {
      now.replaceChildren(...running(live).filter(Boolean));
    } else if (experiment.state === "running") {
      now.replaceChildren(
        el("p", { class: "answer", id: "progress" }, experiment.current || "It is being prepared."),
        el("progress", { class: "whole", max: experiment.runs || 1, value: experiment.done, "aria-label": "Progress of the experiment" }),
      );
    } else {
      now.replaceChildren(...resting(experiment).filter(Boolean));
    }
    // An existing report is not drawn anew with every figure.
    const wanted = experiment.state !== "running" && experiment.has_report ? `${experiment.done} ${experiment.verdict}` : "";
    if (wanted !== shown) {
      page.replaceChildren(
        ...(wanted
          ? [el("p", {}, el("a", { href: `/reports/${id}` }, "The report alone")), report(id, experiment.name)]
          : []),
      );
      shown = wanted;
    }
    main.setAttribute("aria-busy", "false");
  });
}
