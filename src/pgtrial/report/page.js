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
    try {
      const spec = JSON.parse(plot.nextElementSibling.textContent);
      await vegaEmbed(plot, spec, options);
    } catch (error) {
      const text = "This chart could not be drawn: {error}";
      plot.textContent = (words.texts?.[text] ?? text).replace("{error}", () => error.message);
      console.error(error);
    }
  }

  // What is folded away has no width yet, so it is drawn when it is opened.
  const isFolded = (plot) => plot.closest("details:not([open])") !== null;

  async function drawAll() {
    for (const plot of document.querySelectorAll(".plot:not([data-drawn])")) {
      if (!isFolded(plot)) {
        await draw(plot);
      }
    }
    document.documentElement.dataset.charts = "drawn";
  }

  for (const details of document.querySelectorAll("details")) {
    details.addEventListener("toggle", drawAll);
  }

  drawAll();
})();
