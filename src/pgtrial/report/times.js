// Charts of one group show the same stretch of time: it is zoomed and moved in all of them at once, by dragging over a
// chart, by the wheel, by buttons and by keys. Charts are drawn one after the other; each tells of its view when it is.
(() => {
  "use strict";
  const words = JSON.parse(document.getElementById("words")?.textContent ?? "{}"); // of another language than English
  // As place_seconds of the report's own ticks.
  const STEPS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400];
  const MOST_TICKS = 8;
  const MOST_ZOOM = 500; // times
  const LEAST_DRAG = 6; // pixels; less is a click
  const LET_REST = 200; // ms

  function placeTicks([from, to]) {
    const step = STEPS.find((each) => (to - from) / each <= MOST_TICKS)
      ?? STEPS.at(-1) * Math.ceil((to - from) / STEPS.at(-1) / MOST_TICKS);
    const ticks = [];
    for (let k = Math.ceil(from / step); k * step <= to; k += 1) {
      ticks.push(Number((k * step).toPrecision(12)));
    }
    return ticks;
  }

  function say(seconds) {
    const [unit, name] = Math.abs(seconds) < 120 ? [1, "s"] : Math.abs(seconds) < 7200 ? [60, "min"] : [3600, "h"];
    const number = `${Number((seconds / unit).toPrecision(4))}`.replace("-", "−").replace(".", words.decimal ?? ".");
    return `${number}\u00a0${words.times?.[name] ?? name}`;
  }

  function connect(group) {
    const whole = [Number(group.dataset.from), Number(group.dataset.to)];
    if (group.querySelector(".plot[data-timed]") === null) {
      return;
    }
    const tools = group.querySelector(".time-tools");
    const output = tools.querySelector("output");
    const hint = group.querySelector(".time-hint");
    const views = new Map(); // of each plot that is drawn
    const behind = new Set(); // plots that do not show what is to be shown yet
    let shown = whole;
    let [isWaiting, later] = [false, 0];

    function apply(plot) {
      behind.delete(plot);
      const view = views.get(plot);
      view.signal("time_from", shown[0]).signal("time_to", shown[1]).signal("time_ticks", placeTicks(shown)).runAsync();
    }

    function isInView(plot) {
      const { top, bottom } = plot.getBoundingClientRect();
      return bottom > 0 && top < innerHeight;
    }

    // What can be seen follows at once, the rest when the hand rests.
    function follow() {
      isWaiting = false;
      views.forEach((view, plot) => behind.add(plot));
      [...behind].filter(isInView).forEach(apply);
      clearTimeout(later);
      later = setTimeout(() => behind.forEach(apply), LET_REST);
    }

    function show(from, to) {
      const length = Math.min(Math.max(to - from, (whole[1] - whole[0]) / MOST_ZOOM), whole[1] - whole[0]);
      const start = Math.min(Math.max(from, whole[0]), whole[1] - length);
      shown = [start, start + length];
      output.textContent = output.dataset.text.replace("{from}", say(shown[0])).replace("{to}", say(shown[1]));
      group.toggleAttribute("data-zoomed", length < whole[1] - whole[0]);
      if (!isWaiting) {
        isWaiting = true;
        requestAnimationFrame(follow);
      }
    }

    // Around the middle, or another time, so that it stays where it is.
    function zoom(factor, around = (shown[0] + shown[1]) / 2) {
      show(around - (around - shown[0]) * factor, around + (shown[1] - around) * factor);
    }

    function move(share) {
      const by = share * (shown[1] - shown[0]);
      show(shown[0] + by, shown[1] + by);
    }

    const steps = {
      in: () => zoom(1 / 2),
      out: () => zoom(2),
      earlier: () => move(-1 / 4),
      later: () => move(1 / 4),
      reset: () => show(...whole),
    };
    const keys = { "+": "in", "=": "in", "-": "out", ArrowLeft: "earlier", ArrowRight: "later", 0: "reset", Escape: "reset" };

    // Where the axis lies on the screen, and the time at a place on it.
    const areaOf = (plot) => plot.querySelector("svg .root .background").getBoundingClientRect();
    const timeAt = (area, x) => shown[0] + ((x - area.left) / area.width) * (shown[1] - shown[0]);

    function drag(plot, down) {
      const area = areaOf(plot);
      const isInside = down.clientX >= area.left && down.clientX <= area.right;
      if (down.button !== 0 || !isInside) {
        return;
      }
      const [isMove, began] = [down.shiftKey, shown];
      const brush = document.createElement("div");
      brush.className = "brush";
      const place = (event) => Math.min(Math.max(event.clientX, area.left), area.right);
      plot.setPointerCapture(down.pointerId);
      plot.append(brush);

      function stretch(event) {
        if (isMove) {
          const by = ((down.clientX - event.clientX) / area.width) * (began[1] - began[0]);
          show(began[0] + by, began[1] + by);
          return;
        }
        const [left, right] = [down.clientX, place(event)].sort((one, other) => one - other);
        const outer = plot.getBoundingClientRect();
        Object.assign(brush.style, {
          left: `${left - outer.left}px`, width: `${right - left}px`, top: `${area.top - outer.top}px`, height: `${area.height}px`,
        });
      }

      function end(event) {
        plot.removeEventListener("pointermove", stretch);
        plot.removeEventListener("pointerup", end);
        plot.removeEventListener("pointercancel", end);
        brush.remove();
        const [left, right] = [down.clientX, place(event)].sort((one, other) => one - other);
        if (event.type === "pointerup" && !isMove && right - left >= LEAST_DRAG) {
          show(timeAt(area, left), timeAt(area, right));
        }
      }

      plot.addEventListener("pointermove", stretch);
      plot.addEventListener("pointerup", end);
      plot.addEventListener("pointercancel", end);
    }

    function turn(plot, wheel) {
      const isZoom = wheel.ctrlKey;
      if (isZoom) {
        wheel.preventDefault();
        zoom(2 ** (wheel.deltaY / 200), timeAt(areaOf(plot), wheel.clientX));
      } else if (group.hasAttribute("data-zoomed") && Math.abs(wheel.deltaX) > Math.abs(wheel.deltaY)) {
        wheel.preventDefault();
        move(wheel.deltaX / 1000);
      }
    }

    group.addEventListener("drawn", ({ target: plot, detail: view }) => {
      if (!("timed" in plot.dataset)) {
        return;
      }
      views.set(plot, view);
      plot.addEventListener("pointerdown", (event) => drag(plot, event));
      plot.addEventListener("wheel", (event) => turn(plot, event), { passive: false });
      plot.addEventListener("dblclick", steps.reset);
      if (view.signal("time_from") !== shown[0] || view.signal("time_to") !== shown[1]) {
        apply(plot);
      }
    });
    for (const button of tools.querySelectorAll("button")) {
      button.addEventListener("click", () => steps[button.dataset.step]());
    }
    tools.addEventListener("keydown", (event) => {
      if (keys[event.key] !== undefined && !event.ctrlKey && !event.metaKey && !event.altKey) {
        event.preventDefault();
        steps[keys[event.key]]();
      }
    });
    show(...whole);
    [tools.hidden, hint.hidden] = [false, false];
  }

  document.querySelectorAll(".timed").forEach(connect);
})();
