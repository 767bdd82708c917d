// Making elements. Whatever comes from the server goes into the page as text or as a number, never as HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export function el(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

// A table whose first row is its heads; cells are texts or elements.
export function table(caption, heads, rows, attributes = {}) {
  return el(
    "div",
    { class: "scroll" },
    el(
      "table",
      attributes,
      el("caption", {}, caption),
      el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
      el("tbody", {}, rows),
    ),
  );
}

export function badge({ verdict, provisional }) {
  const symbols = { supported: "✔", refuted: "✘", inconclusive: "?", invalid: "!" };
  if (!(verdict in symbols)) {
    return null;
  }
  return el("span", { class: `badge badge-${verdict}` }, `${symbols[verdict]} ${verdict}${provisional ? ", provisional" : ""}`);
}

export function day(seconds) {
  const date = new Date(seconds * 1000);
  if (seconds === null || Number.isNaN(date.getTime())) {
    return "–";
  }
  return `${date.toISOString().slice(0, 16).replace("T", " ")} UTC`;
}

export function report(id, name) {
  return el("iframe", { class: "report", src: `/reports/${id}`, sandbox: "allow-scripts", title: `Report of ${name}` });
}

// Gets JSON; an Error with the server's own words where there is none.
export async function load(path) {
  const response = await fetch(path, { headers: { Accept: "application/json" } });
  if (response.ok) {
    return response.json();
  }
  const text = await response.text();
  let message = text;
  try {
    message = JSON.parse(text).error;
  } catch {
    // it is the message itself
  }
  throw new Error(message);
}

export function say(text) {
  const line = document.getElementById("connection");
  line.textContent = text;
  line.hidden = text === "";
}

// Calls show with what the server tells, now and whenever it changes.
export function follow(path, show) {
  const source = new EventSource(path);
  source.addEventListener("message", (event) => {
    say("");
    show(JSON.parse(event.data));
  });
  source.addEventListener("gone", (event) => {
    source.close();
    say(JSON.parse(event.data).error);
  });
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) {
      say("This is not there, or “pgtrial serve” has ended and been started anew: open the address that it printed.");
    } else {
      say("The connection is lost; what you see is as it was. Trying again …");
    }
  });
}
