// The query graph: boxes of streams, operators and queries, queues that fill, units by their direct edges.
import { count, duration, h, s } from "/calls.js";

const TANK = 9;

export class Graph {
  constructor(choose) {
    this.choose = choose;
    this.drawn = null;
    this.zoom = null;
    this.chosen = null;
    this.box = document.getElementById("graph");
    for (const [name, factor] of [["zoom-in", 1.25], ["zoom-out", 0.8]]) {
      document.getElementById(name).addEventListener("click", () => this.#scale((this.zoom ?? this.#fit()) * factor));
    }
    document.getElementById("zoom-fit").addEventListener("click", () => this.#scale(null));
    new ResizeObserver(() => this.#scale(this.zoom)).observe(this.box);
  }

  load(graph, colours, states) {
    this.drawn = graph;
    this.live = graph.live;
    this.draw(colours, states);
  }

  update(live, colours, states) {
    this.live = live;
    if (this.drawn) this.draw(colours, states);
  }

  draw(colours, states) {
    const graph = this.drawn;
    const streams = graph.nodes.filter((node) => node.kind === "stream").length;
    const queries = graph.nodes.filter((node) => node.kind === "query").length;
    const operators = graph.nodes.length - streams - queries;
    if (!graph.nodes.length) {
      document.getElementById("graph-hint").textContent = "no query is registered yet";
      this.box.replaceChildren();
      this.svg = null;
      return;
    }
    const units = this.live.units?.length ? this.live.units : graph.units;
    document.getElementById("graph-hint").textContent =
      `${counted(streams, "stream")}, ${counted(operators, "operator")} in ${counted(units.length, "unit")}, ${counted(queries, "query", "queries")}; bold edges are direct`;
    const unitOf = new Map(), classOf = new Map();
    units.forEach((unit, number) => unit.operators.forEach((operator) => {
      unitOf.set(operator, [...(unitOf.get(operator) ?? []), number]);
      classOf.set(operator, unit.class);
    }));
    const nodes = new Map(graph.nodes.map((node) => [node.id, node]));
    const deepest = Math.max(1000, ...Object.values(this.live.operators ?? {}).map((each) => each.queue_rows));
    const parts = graph.edges.map((edge) => this.#edge(edge, nodes, unitOf));
    for (const node of graph.nodes) parts.push(this.#node(node, colours, states, classOf, unitOf, deepest));
    const focused = document.activeElement?.dataset?.query;
    this.svg = s("svg", { viewBox: `-14 -8 ${graph.width + 28} ${graph.height + 16}`, role: "img", "aria-label": "Query graph" }, ...parts);
    this.box.replaceChildren(this.svg);
    this.#scale(this.zoom);
    if (focused) this.box.querySelector(`[data-query="${CSS.escape(focused)}"]`)?.focus();
  }

  #edge(edge, nodes, unitOf) {
    const one = nodes.get(edge.from), other = nodes.get(edge.to);
    const points = [[one.x + one.width, one.y + one.height / 2], ...edge.bends, [other.x, other.y + other.height / 2]];
    let path = `M${points[0][0]} ${points[0][1]}`;
    for (let i = 1; i < points.length; i++) {
      const [x0, y0] = points[i - 1], [x1, y1] = points[i], middle = (x0 + x1) / 2;
      path += `C${middle} ${y0} ${middle} ${y1} ${x1} ${y1}`;
    }
    const shared = (unitOf.get(edge.from) ?? []).some((unit) => (unitOf.get(edge.to) ?? []).includes(unit));
    const direct = shared || other.kind === "query";
    return s("path", { class: `edge${direct && one.kind !== "stream" ? " direct" : ""}`, d: path });
  }

  #node(node, colours, states, classOf, unitOf, deepest) {
    const figures = this.live.operators?.[node.id];
    const cls = node.kind === "query" ? node.class : classOf.get(node.id);
    const state = node.kind === "query" ? states.get(node.title) ?? "" : "";
    const group = s("g", {
      class: [node.kind, colours.get(cls) ?? "", state, node.kind === "query" && node.title === this.chosen ? "chosen" : ""].join(" "),
      transform: `translate(${node.x} ${node.y})`,
    });
    const tip = [`${node.kind === "operator" ? node.title : node.kind} ${node.kind === "query" ? node.title : node.detail}`];
    if (cls) tip.push(`class ${cls}`);
    if (unitOf.has(node.id)) tip.push(`unit ${unitOf.get(node.id).map((unit) => unit + 1).join(", ")}`);
    if (figures) tip.push(`${count(figures.queue_rows)} rows wait`, `${count(figures.rows_in)} in, ${count(figures.rows_out)} out`, `${duration(figures.cost)} per row`, `selectivity ${figures.selectivity.toPrecision(2)}`);
    if (node.queries.length > 1) tip.push(`shared by ${node.queries.length} queries`);
    group.append(s("title", {}, tip.join("\n")),
      s("rect", { class: "box", width: node.width, height: node.height, rx: node.kind === "operator" ? 6 : node.height / 2.6 }));
    let left = 12;
    if (node.kind === "operator") {
      const rows = figures?.queue_rows ?? 0;
      const level = rows ? Math.min(1, Math.log1p(rows) / Math.log1p(deepest)) : 0;
      const deep = (node.height - 8) * level;
      group.append(s("rect", { class: "tank", x: 4, y: 4, width: TANK, height: node.height - 8, rx: 2 }),
        s("rect", { class: "water", x: 4, y: node.height - 4 - deep, width: TANK, height: deep, rx: 2 }));
      left = TANK + 10;
      if (rows) group.append(s("text", { class: "depth", x: -3, y: node.height / 2 + 4, "text-anchor": "end" }, count(rows)));
    }
    const fits = Math.floor((node.width - left - 6) / 6.2);
    const title = node.kind === "stream" ? node.detail : node.title;
    const detail = node.kind === "stream" ? "stream" : node.kind === "query" ? `class ${node.class}${state && state !== "running" ? `, ${state}` : ""}` : node.detail;
    const badge = node.queries.length > 1 && node.kind === "operator" ? ` ×${node.queries.length}` : "";
    group.append(s("text", { class: "kind", x: left, y: 19 }, cut(title, fits - badge.length) + badge), s("text", { class: "what", x: left, y: 35 }, cut(detail, fits)));
    if (node.kind === "query") {
      group.setAttribute("tabindex", "0");
      group.setAttribute("role", "button");
      group.setAttribute("aria-label", `query ${node.title}: show results`);
      group.dataset.query = node.title;
      group.addEventListener("click", () => this.choose(node.title));
      group.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          this.choose(node.title);
        }
      });
    }
    return group;
  }

  #fit() {
    return Math.min(1.1, Math.max(0.55, (this.box.clientWidth - 18) / (this.drawn.width + 28)));
  }

  #scale(zoom) {
    this.zoom = zoom === null ? null : Math.min(3, Math.max(0.2, zoom));
    if (!this.svg) return;
    const factor = this.zoom ?? this.#fit();
    this.svg.setAttribute("width", (this.drawn.width + 28) * factor);
    this.svg.setAttribute("height", (this.drawn.height + 16) * factor);
  }
}

function cut(text, letters) {
  return text.length <= letters ? text : `${text.slice(0, Math.max(1, letters - 1))}…`;
}

function counted(number, one, many) {
  return `${number} ${number === 1 ? one : many ?? `${one}s`}`;
}
