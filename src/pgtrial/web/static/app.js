// Which page is shown: the list of experiments and watched servers, one of them, or two experiments side by side.

import { showComparison } from "./compare.js";
import { badge, day, el, follow, say, table } from "./dom.js";
import { showExperiment } from "./live.js";
import { showWatch } from "./watch.js";

const main = document.getElementById("main");

const STATES = { running: "running", complete: "complete", interrupted: "interrupted", unreadable: "cannot be read" };

function row(experiment, chosen) {
  const box = el("input", {
    type: "checkbox",
    value: experiment.id,
    checked: chosen.has(experiment.id),
    disabled: experiment.state === "unreadable",
    "aria-label": `Choose ${experiment.name}`,
  });
  const of = experiment.state === "unreadable" ? "–" : `${experiment.done} of ${experiment.runs}`;
  const said = experiment.state === "running" ? experiment.current : experiment.claim || experiment.reason;
  return el(
    "tr",
    { "data-id": experiment.id },
    el("td", {}, box),
    el("th", { scope: "row" }, el("a", { href: `/experiments/${experiment.id}` }, experiment.name)),
    el("td", { class: "nowrap" }, day(experiment.started)),
    el("td", {}, el("span", { class: `state state-${experiment.state}` }, STATES[experiment.state] ?? "–")),
    el("td", { class: "number nowrap" }, of),
    el("td", { class: "nowrap" }, badge(experiment) ?? "–"),
    el("td", { class: "note" }, [said || "–", ...(experiment.beside ?? [])].join(" ")),
  );
}

function watchRow(watch) {
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, el("a", { href: `/watches/${watch.id}` }, watch.name)),
    el("td", {}, watch.error || watch.database),
    el("td", {}, watch.server || "–"),
  );
}

function showList() {
  const chosen = new Set();
  const link = el("a", { class: "button", "aria-disabled": "true" }, "Side by side");
  const hint = el("span", { class: "quiet" }, "Choose two experiments.");
  const place = el("div");
  const watches = el("div");
  main.append(watches, place, el("p", { class: "actions" }, link, " ", hint));

  function offer() {
    const two = [...chosen];
    if (two.length === 2) {
      link.setAttribute("href", `/compare?a=${two[0]}&b=${two[1]}`);
      link.removeAttribute("aria-disabled");
    } else {
      link.removeAttribute("href");
      link.setAttribute("aria-disabled", "true");
    }
    hint.hidden = two.length === 2;
  }

  place.addEventListener("change", (event) => {
    const id = event.target.value;
    if (!event.target.checked) {
      chosen.delete(id);
    } else {
      if (chosen.size === 2) {
        const first = chosen.values().next().value;
        chosen.delete(first);
        const box = place.querySelector(`input[value="${first}"]`);
        if (box) {
          box.checked = false;
        }
      }
      chosen.add(id);
    }
    offer();
  });

  follow("/events", (found) => {
    document.getElementById("subtitle").textContent = found.name;
    const focused = document.activeElement?.closest?.("tr[data-id]")?.dataset.id;
    const kind = document.activeElement?.localName;
    const heads = ["", "experiment", "started", "state", "runs", "verdict", "claim, or what is done"];
    watches.replaceChildren(
      ...(found.watches.length ? [table("Watched servers", ["watch", "database", "server"], found.watches.map(watchRow))] : []),
    );
    const rows = found.experiments.map((experiment) => row(experiment, chosen));
    place.replaceChildren(
      rows.length
        ? table(`${rows.length} in this directory, the latest first`, heads, rows, { class: "list" })
        : el("p", {}, "No experiment is here yet. One that begins appears by itself."),
    );
    if (focused) {
      place.querySelector(`tr[data-id="${focused}"] ${kind}`)?.focus();
    }
    main.setAttribute("aria-busy", "false");
  });
}

function fail(error) {
  main.setAttribute("aria-busy", "false");
  say(error.message);
}

const path = location.pathname;
if (path === "/compare") {
  showComparison(main, new URLSearchParams(location.search)).catch(fail);
} else if (path.startsWith("/experiments/")) {
  showExperiment(main, path.slice("/experiments/".length));
} else if (path.startsWith("/watches/")) {
  showWatch(main, path.slice("/watches/".length));
} else {
  showList();
}
