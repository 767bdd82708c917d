// Two experiments side by side. What differs between their worlds comes first, and nothing is pooled.

import { el, load, report, table } from "./dom.js";

function effect(cell) {
  return cell === null
    ? el("td", {}, "–")
    : el("td", {}, el("strong", { class: `decision-${cell.decision}` }, cell.decision), " ", cell.text);
}

function rowOf(cells) {
  const [label, ...values] = cells;
  return el("tr", {}, el("th", { scope: "row" }, label), values.map((value) => el("td", { class: "note" }, value || "–")));
}

export async function showComparison(main, query) {
  const ids = [query.get("a") ?? "", query.get("b") ?? ""];
  document.getElementById("title").textContent = "Side by side";
  document.title = "Side by side – pgtrial";
  const found = await load(`/api/compare?${new URLSearchParams({ a: ids[0], b: ids[1] })}`);
  const links = found.names.map((name, index) => el("a", { href: `/experiments/${ids[index]}` }, name));
  const heads = () => ["", ...links.map((link) => link.cloneNode(true))];
  document.getElementById("subtitle").textContent = found.names.join(" and ");
  main.append(
    el(
      "p",
      { class: "next" },
      "Two experiments, each with intervals of its own: nothing is pooled. A difference between the two may come from anything that differs below.",
    ),
    found.world.length
      ? table(`What differs between their worlds: ${found.world.length}`, heads(), found.world.map(rowOf), { id: "world" })
      : el("p", {}, "Nothing that was recorded differs between their worlds."),
    table("The experiments", heads(), found.facts.map(rowOf), { id: "facts" }),
    table(
      "Effects against their controls",
      ["arm", "metric", ...links],
      found.effects.map((one) =>
        el("tr", {}, el("th", { scope: "row" }, one.arm), el("td", {}, one.what), one.cells.map(effect)),
      ),
      { id: "effects" },
    ),
    el("div", { class: "pair" }, ids.map((id, index) => report(id, found.names[index]))),
  );
  main.setAttribute("aria-busy", "false");
}
