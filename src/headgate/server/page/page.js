// The page: connects the parts to the server's events.
import { call, count, duration, follow, h, size } from "/calls.js";
import { Charts, palette } from "/charts.js";
import { Editor } from "/editor.js";
import { Graph } from "/graph.js";
import { Letters, Queries, Results } from "/tables.js";

const OBJECTIVES = {
  delay: "seconds that results take", output: "results per second", queue: "rows that wait",
  memory: "bytes that wait", freshness: "age of what is shown",
};

const notice = (text) => {
  const place = document.getElementById("notice");
  place.hidden = !text;
  place.textContent = text;
};

const charts = new Charts();
const results = new Results();
const letters = new Letters();
const queries = new Queries(choose, notice);
const graph = new Graph(choose);
let known = [], colours = new Map(), version = -1, chosen = null;
new Editor((statements) => {
  const created = statements.filter((each) => each.kind === "query" && each.done === "created").at(-1);
  refresh().then(() => created && choose(created.name));
});

function choose(name) {
  chosen = queries.chosen = graph.chosen = name;
  results.choose(name);
  results.describe(known.find((query) => query.name === name));
  show(known);
}

function states() {
  return new Map(known.map((query) => [query.name, query.state]));
}

function show(list) {
  known = list;
  colours = palette(Object.fromEntries(list.map((query) => [query.class, query])));
  queries.show(list, colours);
  if (chosen && !list.some((query) => query.name === chosen)) choose(null);
  else if (chosen) results.describe(list.find((query) => query.name === chosen));
}

async function refresh() {
  show((await call("GET", "/api/queries")).queries);
  graph.load(await call("GET", "/api/graph"), colours, states());
}

function status(value) {
  const pill = document.getElementById("state");
  pill.textContent = value.state;
  pill.className = `pill ${value.state}`;
  const lost = value.not_restored.map((each) => `${each.statement} is not restored: ${each.error}`);
  const words = value.state === "starting" ? ["Spark is starting; statements wait until it has."] : [];
  notice([...words, ...(value.error ? [value.error] : []), ...lost].join("\n"));
  const select = document.getElementById("policy");
  if (document.activeElement !== select) choosePolicy(value.policy);
  if (value.version !== version && value.state !== "starting") {
    version = value.version;
    refresh().catch((error) => notice(error.message));
  }
}

function choosePolicy(policy) {
  const select = document.getElementById("policy");
  if (![...select.options].some((option) => option.value === policy)) select.append(h("option", { value: policy }, policy));
  select.value = policy;
}

function totals(sample) {
  const parts = { read: `${count(sample.read)} rows/s`, results: `${count(sample.results)} /s`, waiting: `${count(sample.waiting)} rows`, memory: size(sample.memory), epochs: `${sample.epochs.toFixed(1)} /s` };
  document.getElementById("totals").replaceChildren(...Object.entries(parts).map(([name, text]) => h("div", {}, h("dt", {}, name), h("dd", {}, text))));
}

function measured(objectives) {
  for (const [name, each] of Object.entries(objectives ?? {})) {
    const place = document.getElementById(`measured-${name}`);
    const value = each.measured;
    if (place) place.textContent = value === null || value === undefined ? "" : name === "delay" || name === "freshness" ? duration(value) : name === "memory" ? size(value) : count(value);
  }
}

function logged(event) {
  const list = document.getElementById("log");
  const [clock] = new Date(event.time * 1000).toTimeString().split(" ");
  list.prepend(h("li", { class: event.kind === "policy" ? "policy-change" : event.kind }, h("time", {}, clock), h("b", {}, event.kind), ` ${event.text}`));
  while (list.children.length > 200) list.lastChild.remove();
}

async function loadPolicies() {
  const { policy, policies } = await call("GET", "/api/policy");
  const select = document.getElementById("policy");
  select.replaceChildren(...policies.map((each) => h("option", { value: each.name, title: each.about }, each.name)));
  choosePolicy(policy);
  select.addEventListener("change", async () => {
    const before = select.dataset.policy;
    try {
      const set = await call("PUT", "/api/policy", { policy: select.value });
      select.dataset.policy = set.policy;
      notice("");
    } catch (error) {
      notice(error.message);
      if (before) choosePolicy(before);
    }
  });
  select.dataset.policy = policy;
}

async function loadObjectives() {
  const form = document.getElementById("objectives");
  const { objectives } = await call("GET", "/api/objectives");
  form.replaceChildren(
    ...Object.entries(OBJECTIVES).map(([name, about]) => h("label", { title: about }, h("span", {}, `${name} `, h("output", { id: `measured-${name}` })),
      h("input", { name, type: "number", min: 0, max: 1, step: "any", placeholder: "0", value: objectives[name] ?? "", inputmode: "decimal" }))),
    h("div", { class: "row wide" }, h("button", { class: "main" }, "Apply"), h("button", { type: "reset", id: "objectives-reset" }, "Policy's own"), h("span", { class: "hint", id: "objectives-hint", role: "status" }, hintOf(objectives))));
  form.onsubmit = (event) => {
    event.preventDefault();
    const weights = {};
    for (const input of form.querySelectorAll("input")) if (Number(input.value)) weights[input.name] = Number(input.value);
    setObjectives(weights);
  };
  form.onreset = (event) => {
    event.preventDefault();
    form.querySelectorAll("input").forEach((input) => (input.value = ""));
    setObjectives({});
  };
}

function hintOf(objectives) {
  return Object.keys(objectives).length ? `set: ${Object.entries(objectives).map(([name, weight]) => `${name} ${weight}`).join(", ")}` : "none are set: the policy's own count";
}

async function setObjectives(weights) {
  const hint = document.getElementById("objectives-hint");
  try {
    const { objectives } = await call("PUT", "/api/objectives", { objectives: weights });
    hint.className = "hint";
    hint.textContent = hintOf(objectives);
  } catch (error) {
    hint.className = "hint missed";
    hint.textContent = error.message;
  }
}

function listen(kind, value) {
  if (kind === "status") status(value);
  else if (kind === "sample") {
    charts.add(value);
    totals(value);
    measured(value.objectives);
  } else if (kind === "queries") {
    show(value.queries);
    letters.show(value.dead_letters).catch((error) => notice(error.message));
  } else if (kind === "graph" && value.version === version) graph.update(value, colours, states());
  else if (kind === "event") {
    charts.mark(value);
    logged(value);
  }
}

function theme() {
  const root = document.documentElement;
  const saved = localStorage.getItem("headgate-theme");
  if (saved) root.dataset.theme = saved;
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem("headgate-theme", root.dataset.theme);
  });
}

theme();
const history = await call("GET", "/api/history");
charts.load(history);
history.events.forEach(logged);
await Promise.all([loadPolicies(), loadObjectives()]);
follow("/api/metrics/events", listen, undefined, () => {
  const pill = document.getElementById("state");
  pill.textContent = "not connected";
  pill.className = "pill failed";
});
