// Draws every chart of the page from the specification beside it. Expressions are interpreted, not compiled, so that
// the page's Content-Security-Policy needs no 'unsafe-eval'; the loader refuses, so nothing is ever fetched.
(() => {
  "use strict";
  const words = JSON.parse(document.getElementById("words")?.textContent ?? "{}"); // of another language than English
  const tooltip = document.getElementById("tooltip");

  function showTooltip(handler, event, item, value) {
    if (value === null || value === undefined || value === "") {
      tooltip.hidden = true;
      return;
    }
    tooltip.textContent = Object.entries(value).map(([name, text]) => `${name}: ${text}`).join("\n");
    tooltip.hidden = false;
    const left = Math.min(event.clientX + 12, innerWidth - tooltip.offsetWidth - 8);
    const top = Math.min(event.clientY + 12, innerHeight - tooltip.offsetHeight - 8);
    tooltip.style.left = `${Math.max(8, left)}px`;
    tooltip.style.top = `${Math.max(8, top)}px`;
  }

  const refuse = () => Promise.reject(new Error("this page loads nothing"));
  const options = {
    mode: "vega-lite",
    renderer: "svg",
    actions: false,
    defaultStyle: false,
    ast: true,
    loader: { load: refuse, sanitize: refuse, http: refuse, file: refuse },
    tooltip: showTooltip,
    ...(words.numbers && { formatLocale: words.numbers }),
  };

  async function draw(plot) {
    plot.dataset.drawn = "";
    const text = plot.getAttribute("aria-label");
    try {
      const spec = JSON.parse(plot.nextElementSibling.textContent);
      const { view } = await vegaEmbed(plot, spec, options);
      // Vega has made the plot a document without a name, with marks that a screen reader would go through one by one.
      plot.setAttribute("role", "img");
      plot.setAttribute("aria-label", text);
      plot.removeAttribute("aria-roledescription");
      plot.querySelector("svg").setAttribute("aria-hidden", "true");
      plot.dispatchEvent(new CustomEvent("drawn", { bubbles: true, detail: view }));
    } catch (error) {
      const text = "This chart could not be drawn: {error}";
      plot.textContent = (words.texts?.[text] ?? text).replace("{error}", () => error.message);
      console.error(error);
    }
  }

  // A folded section is drawn in advance, for the printer, where the browser knows its width; what is folded away
  // inside a section, such as the runs of other blocks, is drawn when it is opened.
  const isFolded = (plot) => plot.closest("details:not(.fold):not([open])") !== null || plot.clientWidth === 0;

  function isInView(plot) {
    const { top, bottom } = plot.getBoundingClientRect();
    return bottom > 0 && top < innerHeight;
  }

  // One chart after the other, what can be seen first, with a breath between them in which the page answers its reader.
  let isDrawing = false;
  async function drawAll() {
    if (isDrawing) {
      return;
    }
    isDrawing = true;
    const waiting = () => [...document.querySelectorAll(".plot:not([data-drawn])")].filter((plot) => !isFolded(plot));
    for (let plots = waiting(); plots.length > 0; plots = waiting()) {
      await draw(plots.find(isInView) ?? plots[0]);
      await new Promise((resolve) => setTimeout(resolve));
    }
    isDrawing = false;
    document.documentElement.dataset.charts = "drawn";
  }

  // How much of the page the navigation covers: as many lines as its links need, or nothing where it is at the side.
  const nav = document.querySelector("nav");
  new ResizeObserver(() => {
    const isAbove = nav.offsetWidth > innerWidth / 2;
    document.documentElement.style.setProperty("--under-nav", isAbove ? `${nav.offsetHeight}px` : "0px");
  }).observe(nav);

  for (const details of document.querySelectorAll("details")) {
    details.addEventListener("toggle", drawAll);
  }

  // A link leads to what it names, also where that is folded.
  function unfold(hash) {
    const target = document.getElementById(decodeURIComponent(hash.slice(1)));
    const fold = target?.querySelector(":scope > details.fold");
    for (let details = fold ?? target?.closest("details"); details; details = details.parentElement.closest("details")) {
      details.open = true;
    }
    if (fold) {
      target.scrollIntoView();
    }
  }
  addEventListener("hashchange", () => unfold(location.hash));
  for (const link of document.querySelectorAll("a[href^='#']")) {
    link.addEventListener("click", () => unfold(link.hash)); // also where the address has that hash already
  }
  unfold(location.hash);

  // Paper cannot be unfolded.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    folded.forEach((details) => { details.open = true; });
  });
  addEventListener("afterprint", () => {
    folded.forEach((details) => { details.open = false; });
  });

  drawAll();
})();
