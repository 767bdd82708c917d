// A watched server: its last hour as it goes on, any time beside one like it, and its alarms.

import { day, el, follow, load, table } from "./dom.js";
import { sparkline } from "./live.js";

const LAST_HOUR = "now-1h";

function courseRow(course) {
  const top = Math.max(0, ...course.values.filter((value) => value !== null));
  const label = `${course.name}, now ${course.now}`;
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, course.name),
    el("td", { class: "number" }, course.now),
    el("td", {}, sparkline(course.values, top, "currentColor", label, course.values.length)),
  );
}

function waitRow(wait) {
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, wait.label),
    el("td", { class: "number" }, wait.text),
    el("td", {}, el("progress", { class: "share", max: 1, value: wait.share, "aria-hidden": "true" })),
  );
}

function statementRow(statement) {
  return el(
    "tr",
    {},
    el("td", { class: "number" }, statement.sessions),
    el("td", {}, statement.wait),
    el("td", { class: "number" }, statement.calls),
    el("td", { class: "number" }, statement.time),
    el("td", { class: "note" }, statement.text),
  );
}

function latest(found) {
  if (found.error) {
    return [el("p", { class: "next" }, `${found.error}. Nothing of the last hour is there: “pgtrial watch” may have ended.`)];
  }
  return [
    el("p", { class: "answer", id: "until" }, found.until === null ? "Not read in the last hour." : `Read until ${day(found.until)}.`),
    el(
      "div",
      { class: "pair" },
      table("The last hour by minute, each on its own scale from zero", ["", "now", ""], found.courses.map(courseRow), { class: "arms" }),
      table("What client sessions were at in the last ten minutes", ["wait", "sessions", ""], found.waits.map(waitRow)),
    ),
    table(
      "Statements of the last hour, those with most sessions at work on them first",
      ["sessions", "most of it", "calls", "time", "statement"],
      found.statements.map(statementRow),
      { id: "statements" },
    ),
  ];
}

function alarmRow(alarm, compare) {
  const button = el("button", { type: "button" }, "Explain");
  button.addEventListener("click", () => compare(alarm.window));
  return el("tr", {}, el("td", { class: "nowrap" }, alarm.at), el("td", { class: "note" }, alarm.text), el("td", {}, button));
}

export function showWatch(main, id) {
  const now = el("div", { id: "now" });
  const page = el("div", { id: "report" });
  const input = el("input", { id: "window", value: LAST_HOUR, size: 34, spellcheck: "false", autocomplete: "off" });
  const button = el("button", { type: "button" }, "Compare");
  const look = el("button", { type: "button" }, "Look for alarms");
  const alarms = el("div", { id: "alarms" });

  function compare(window) {
    input.value = window;
    const src = `/reports/watches/${id}?${new URLSearchParams({ window })}`;
    page.replaceChildren(
      el("p", {}, el("a", { href: src }, "This comparison alone")),
      el("iframe", { class: "report", src, sandbox: "allow-scripts", title: `${window} beside a time like it` }),
    );
    page.scrollIntoView();
  }

  async function find() {
    look.disabled = true;
    alarms.replaceChildren(el("p", { class: "quiet" }, "Looking …"));
    try {
      const found = await load(`/api/watches/${id}/alarms`);
      alarms.replaceChildren(
        found.alarms.length
          ? table("Alarms, the latest first", ["alarm", "what changed", ""], found.alarms.map((alarm) => alarmRow(alarm, compare)))
          : el("p", {}, "No alarm."),
        ...found.notes.map((note) => el("p", { class: "quiet" }, note)),
      );
    } catch (error) {
      alarms.replaceChildren(el("p", { class: "next" }, error.message));
    }
    look.disabled = false;
  }

  button.addEventListener("click", () => compare(input.value.trim() || LAST_HOUR));
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      compare(input.value.trim() || LAST_HOUR);
    }
  });
  look.addEventListener("click", find);
  main.append(
    now,
    el("h2", {}, "A time beside one like it"),
    el("p", {}, el("label", { for: "window" }, "Time "), input, " ", button),
    el(
      "p",
      { class: "quiet" },
      "Such as now-30min or 2026-11-28T04:00/05:00, in UTC. It is compared with the same hour and weekday before, or with what comes nearest to it.",
    ),
    el("h2", {}, "Alarms"),
    el("p", {}, look, " ", el("span", { class: "quiet" }, "Learned from the first two weeks; that may take some seconds.")),
    alarms,
    page,
  );

  follow(`/events/watches/${id}`, (found) => {
    const { watch } = found;
    document.title = `${watch.name} – pgtrial`;
    document.getElementById("title").textContent = watch.name;
    document.getElementById("subtitle").textContent = watch.error || `database ${watch.database} at ${watch.server}`;
    now.replaceChildren(...latest(found));
    main.setAttribute("aria-busy", "false");
  });
}
