// Charts over time, drawn as SVG: lines by class, areas, and a strip of policies; events are marked on all.
import { count, duration, s, size } from "/calls.js";

const LONGEST = 180, SHORTEST = 60; // seconds that are shown
const LEFT = 46, RIGHT = 6, TOP = 8, BOTTOM = 16;

/** The colour class of a class of queries, by its rank among all. */
export function palette(classes) {
  const order = Object.entries(classes).sort((a, b) => b[1].priority - a[1].priority || a[0].localeCompare(b[0]));
  return new Map(order.map(([name], place) => [name, `k${Math.min(place, 5)}`]));
}

export class Charts {
  constructor() {
    this.samples = [];
    this.events = [];
    this.colours = new Map();
    new ResizeObserver(() => this.draw()).observe(document.getElementById("charts"));
  }

  load(history) {
    this.samples = history.samples;
    this.events = history.events;
    this.draw();
  }

  add(sample) {
    this.samples.push(sample);
    while (this.samples.length > 900) this.samples.shift();
    this.draw();
  }

  mark(event) {
    this.events.push(event);
    this.draw();
  }

  draw() {
    const last = this.samples.at(-1);
    if (!last) return;
    this.window = Math.min(LONGEST, Math.max(SHORTEST, last.time - this.samples[0].time));
    const shown = this.samples.filter((sample) => sample.time > last.time - this.window);
    const classes = {};
    for (const sample of shown) Object.assign(classes, sample.classes);
    this.colours = palette(classes);
    const names = [...this.colours.keys()];
    const lines = (key) => names.map((name) => ({
      colour: this.colours.get(name),
      points: shown.map((sample) => [sample.time, sample.classes[name]?.[key] ?? null]),
    }));
    this.#plot("latency", last.time, lines("p50"), { log: true, text: duration, least: 0.01, title: "Latency by class" });
    this.#plot("throughput", last.time, lines("results"), { log: true, floor: 1, text: count, least: 10, title: "Results per second by class" });
    const memory = [{ colour: "k1", area: true, points: shown.map((sample) => [sample.time, sample.memory]) }];
    this.#plot("memory", last.time, memory, { text: size, least: 1024, base: 2, title: "Bytes of rows that wait" });
    this.#strip("policies", last.time, shown);
    const legend = names.map((name) => {
      const item = document.createElement("span");
      item.className = this.colours.get(name);
      item.textContent = name;
      return item;
    });
    document.getElementById("legend").replaceChildren(...legend);
  }

  #frame(place, now) {
    const box = document.getElementById(place);
    const width = Math.max(160, box.clientWidth), height = window.innerWidth <= 640 ? 110 : 130;
    const x = (time) => LEFT + (width - LEFT - RIGHT) * (1 - (now - time) / this.window);
    return { box, width, height, x };
  }

  #marks(now, x, height) {
    const found = [];
    for (const event of this.events) {
      if (event.time < now - this.window || !["policy", "decision"].includes(event.kind)) continue;
      const at = x(event.time).toFixed(1);
      found.push(s("line", { class: `mark ${event.kind}`, x1: at, x2: at, y1: TOP, y2: height - BOTTOM },
        s("title", {}, event.text)));
    }
    return found;
  }

  #plot(place, now, lines, { log = false, floor = 0, base = 10, text, least, title }) {
    const { box, width, height, x } = this.#frame(place, now);
    const values = lines.flatMap((line) => line.points.map((point) => point[1])).filter((value) => value !== null);
    let top = Math.max(least, ...values), low = log ? Math.min(top / 10, ...values.filter((value) => value > 0)) : 0;
    if (log) {
      top = 10 ** Math.ceil(Math.log10(top) - 1e-9);
      low = floor || 10 ** Math.floor(Math.log10(low));
    } else {
      top = base === 2 ? 2 ** Math.ceil(Math.log2(top)) : nice(top);
    }
    const share = (value) => log ? (Math.log10(Math.max(value, low)) - Math.log10(low)) / (Math.log10(top) - Math.log10(low)) : value / top;
    const y = (value) => height - BOTTOM - (height - TOP - BOTTOM) * share(value);
    const ticks = log ? decades(low, top) : [0, top / 2, top];
    const parts = ticks.flatMap((tick) => [
      s("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(tick), y2: y(tick) }),
      s("text", { x: LEFT - 5, y: y(tick) + 4, "text-anchor": "end" }, tick === 0 ? "0" : text(tick)),
    ]);
    parts.push(...times(x, now, height, this.window), ...this.#marks(now, x, height));
    for (const line of lines) {
      const path = pathOf(line.points, x, y);
      if (line.area && path) {
        const points = line.points.filter((point) => point[1] !== null);
        const ground = (height - BOTTOM).toFixed(1);
        parts.push(s("path", { class: `area ${line.colour}`, d: `${path}L${x(points.at(-1)[0]).toFixed(1)} ${ground}L${x(points[0][0]).toFixed(1)} ${ground}Z` }));
      }
      parts.push(s("path", { class: `line ${line.colour}`, d: path }));
    }
    box.replaceChildren(s("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title }, ...parts));
  }

  #strip(place, now, shown) {
    const { box, width, height, x } = this.#frame(place, now);
    const bands = [];
    for (const sample of shown) {
      const last = bands.at(-1);
      if (last && last.policy === sample.policy) last.end = sample.time;
      else bands.push({ policy: sample.policy, start: last ? last.end : sample.time - 1, end: sample.time });
    }
    const parts = [];
    bands.forEach((band, number) => {
      const from = Math.max(LEFT, x(band.start)), to = Math.max(from + 1, x(band.end));
      parts.push(s("rect", { class: `band${number % 2 ? " other" : ""}`, x: from, y: 34, width: to - from, height: height - BOTTOM - 34 }, s("title", {}, band.policy)));
      const letters = Math.floor((to - from - 8) / 7);
      const name = band.policy.length <= letters ? band.policy : letters > 3 ? `${band.policy.slice(0, letters - 1)}…` : "";
      if (name) parts.push(s("text", { class: "name", x: (from + to) / 2, y: (height - BOTTOM + 34) / 2 + 4, "text-anchor": "middle" }, name));
    });
    for (const event of this.events) {
      if (event.time < now - this.window || event.kind === "engine") continue;
      const at = x(event.time);
      parts.push(s("path", { class: `flag ${event.kind}`, d: `M${at - 4} ${event.kind === "change" ? 20 : 10}h8l-4 8z` }, s("title", {}, event.text)));
    }
    parts.push(...this.#marks(now, x, height), ...times(x, now, height, this.window));
    const current = shown.at(-1)?.policy ?? "";
    box.replaceChildren(s("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Policy over time; now ${current}` }, ...parts));
  }
}

function pathOf(points, x, y) {
  let path = "", drawing = false;
  for (const [time, value] of points) {
    if (value === null) continue; // a second without results: the line goes on
    // A single point is a dot.
    path += drawing ? `L${x(time).toFixed(1)} ${y(value).toFixed(1)}` : `M${x(time).toFixed(1)} ${y(value).toFixed(1)}h.1`;
    drawing = true;
  }
  return path;
}

function times(x, now, height, span) {
  const step = span > 120 ? 50 : span > 80 ? 30 : 20;
  return [3 * step, 2 * step, step, 0].filter((ago) => ago < span * 0.95).map((ago) => s("text", {
    x: x(now - ago), y: height - 3, "text-anchor": ago === 0 ? "end" : "middle",
  }, ago === 0 ? "now" : `−${ago} s`));
}

function decades(low, top) {
  const found = [];
  for (let tick = low; tick <= top * 1.001; tick *= 10) found.push(tick);
  const step = Math.ceil(found.length / 4);
  return found.filter((_, place) => (found.length - 1 - place) % step === 0);
}

function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((top) => top >= value * 0.999);
}
