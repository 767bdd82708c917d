// Tables sort by a click on a heading, and are copied as tab-separated text, as spreadsheets take it.
(() => {
  "use strict";
  const words = JSON.parse(document.getElementById("words")?.textContent ?? "{}"); // of another language than English
  const say = (text) => words.texts?.[text] ?? text;
  const UNITS = {
    ns: 1e-9, µs: 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, d: 86400,
    B: 1, kB: 1024, MB: 1024 ** 2, GB: 1024 ** 3, TB: 1024 ** 4, k: 1e3, M: 1e6, G: 1e9, "%": 0.01,
    ...words.units,
  };
  const LONG = ["min", "h", "d", ...(words.long ?? [])]; // a smaller unit may follow: "3 min 20 s"
  const DECIMAL = words.decimal ?? ".";
  const NAMES = Object.keys(UNITS)
    .map((name) => name.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&"))
    .sort((one, other) => other.length - one.length);
  const PART = new RegExp(`^(\\d+(?:[${DECIMAL}]\\d+)?(?:e[+-]?\\d+)?)(?: ?(${NAMES.join("|")})(?!\\p{L}))?\\s*`, "u");

  // What a cell says: the number that it begins with, in base units, otherwise its text; null for nothing.
  function read(cell) {
    const text = cell.textContent.replace(/\s+/g, " ").trim();
    if (text === "" || text === "–") {
      return null;
    }
    const inside = words.range && text.startsWith(words.range) ? text.slice(words.range.length) : text;
    const [, sign, number] = /^[<>≤≥≈±]? ?([+−×-]?) ?(.*)$/u.exec(inside);
    let [value, rest, part] = [0, number, PART.exec(number)];
    if (part === null) {
      return text;
    }
    while (part !== null) {
      value += Number(part[1].replace(DECIMAL, ".")) * (UNITS[part[2]] ?? 1);
      rest = rest.slice(part[0].length);
      part = LONG.includes(part[2]) ? PART.exec(rest) : null;
    }
    // "× 12.3" is a change of +1130 %.
    return { "−": -value, "-": -value, "×": value - 1 }[sign] ?? value;
  }

  function compare(one, other) {
    if (typeof one === "number" && typeof other === "number") {
      return one - other;
    }
    return typeof one === typeof other ? one.localeCompare(other) : typeof one === "number" ? -1 : 1;
  }

  function sort(table, heading, column) {
    const direction = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => ({ row, value: read(row.cells[column]) }));
    const known = rows.filter(({ value }) => value !== null);
    const unknown = rows.filter(({ value }) => value === null); // last in both directions
    known.sort((one, other) => direction * compare(one.value, other.value));
    body.append(...[...known, ...unknown].map(({ row }) => row));
    for (const each of table.tHead.rows[0].cells) {
      each.removeAttribute("aria-sort");
    }
    heading.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
  }

  function addSorting(table) {
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      if (heading.textContent.trim() === "") {
        return; // a button without a name is nothing to press
      }
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...heading.childNodes);
      button.addEventListener("click", () => sort(table, heading, column));
      heading.append(button);
    });
  }

  // A spreadsheet takes a text that begins so for a formula; a number with its sign is none.
  const FORMULA = /^(?:[=@\uff1d\uff0b\uff0d\uff20]|[+-](?!\d[^=(|!]*$))/u;

  function textOf(table) {
    const shown = (text) => (FORMULA.test(text) ? `'${text}` : text);
    const cells = (row) => [...row.cells].map((cell) => shown(cell.textContent.replace(/\s+/g, " ").trim()));
    return [...table.rows].map((row) => cells(row).join("\t")).join("\n") + "\n";
  }

  async function copy(text) {
    if (navigator.clipboard) {
      await navigator.clipboard.writeText(text);
      return;
    }
    // A page that was opened as a file may have no clipboard of its own.
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const isCopied = document.execCommand("copy");
    area.remove();
    if (!isCopied) {
      throw new Error("no clipboard");
    }
  }

  function addCopying(table) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = say("Copy table");
    button.addEventListener("click", async () => {
      try {
        await copy(textOf(table));
        button.textContent = say("Copied");
      } catch {
        button.textContent = say("Not copied: the browser does not allow it");
      }
    });
    (table.closest(".scroll") ?? table).after(button);
  }

  // What is wider than its place can be scrolled by keys once it can be reached by them.
  const widths = new ResizeObserver((entries) => {
    for (const { target: place } of entries) {
      if (place.scrollWidth > place.clientWidth) {
        place.tabIndex = 0;
        place.setAttribute("role", "group");
        place.setAttribute("aria-labelledby", `${place.closest("section[id]").id}-title`);
      } else {
        for (const name of ["tabindex", "role", "aria-labelledby"]) {
          place.removeAttribute(name);
        }
      }
    }
  });
  document.querySelectorAll("main .scroll").forEach((place) => widths.observe(place));

  for (const table of document.querySelectorAll("main table")) {
    const isPlain = table.tHead?.rows.length === 1 && table.tBodies.length === 1 && !table.querySelector("[colspan], [rowspan]");
    const isEven = isPlain && [...table.tBodies[0].rows].every((row) => row.cells.length === table.tHead.rows[0].cells.length);
    if (isEven && table.tBodies[0].rows.length > 1) {
      addSorting(table);
    }
    addCopying(table);
  }
})();
