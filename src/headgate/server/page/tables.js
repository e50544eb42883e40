// The tables: queries with their actions, results of the chosen one, dead letters.
import { call, count, duration, follow, h, size } from "/calls.js";

const SHOWN = 200; // rows of results

export class Queries {
  constructor(choose, notice) {
    this.choose = choose;
    this.notice = notice;
    this.body = document.querySelector("#queries tbody");
    this.chosen = null;
    this.busy = new Set();
    this.queries = [];
  }

  show(queries, colours) {
    this.queries = queries;
    this.colours = colours;
    const failed = queries.filter((query) => query.state === "failed").length;
    document.getElementById("queries-hint").textContent = queries.length
      ? `${queries.length} registered${failed ? `, ${failed} failed` : ""}` : "none is registered yet; write one in the editor";
    const focused = document.activeElement?.dataset?.key;
    const rank = (query) => (query.state === "failed" ? 0 : 1);
    const order = [...queries].sort((a, b) => rank(a) - rank(b) || b.priority - a.priority || a.name.localeCompare(b.name));
    this.body.replaceChildren(...order.flatMap((query) => this.#row(query)));
    if (focused) this.body.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }

  #row(query) {
    const best = query.spec?.latency?.best;
    const why = best === undefined ? "the spec is missed" : `the spec cannot be met: ${best.toPrecision(3)} s is the best`;
    const spec = query.spec?.met === false ? h("span", { class: "missed", title: why }, " ✗ spec") : null;
    const shed = query.shed_share ? ` ${Math.round(100 * query.shed_share)}% shed` : null;
    const row = h("tr", { class: query.name === this.chosen ? "chosen" : null },
      h("td", {}, h("button", { class: "link", type: "button", "data-key": `name ${query.name}`, onclick: () => this.choose(query.name) }, query.name)),
      h("td", {}, h("span", { class: `cls ${this.colours.get(query.class) ?? "k5"}` }, query.class)),
      h("td", {}, h("span", { class: `state-${query.state}` }, query.state), spec, shed),
      h("td", { class: "n", "data-label": "results" }, count(query.published ?? 0)),
      h("td", { class: "n", "data-label": "p50" }, duration(query.latency?.p50)),
      h("td", { class: "n", "data-label": "p99" }, duration(query.latency?.p99)),
      h("td", { class: "n", "data-label": "waiting" }, count(query.queue_rows ?? 0)),
      h("td", { class: "n", "data-label": "memory" }, size((query.waiting_bytes ?? 0) + (query.state_bytes ?? 0))),
      h("td", { class: "actions" },
        query.state === "failed" ? this.#action(query, "retry", "Retry") : null,
        query.state === "running" ? this.#action(query, "pause", "Pause") : null,
        query.state === "paused" ? this.#action(query, "resume", "Resume") : null,
        this.#action(query, "drop", "Stop")));
    return query.error ? [row, h("tr", { class: "error" }, h("td", { colspan: 9 }, query.error))] : [row];
  }

  #action(query, action, label) {
    const key = `${action} ${query.name}`;
    return h("button", {
      class: `small${action === "drop" ? " danger" : ""}`, type: "button", "data-key": key,
      disabled: this.busy.has(key), "aria-label": `${label} ${query.name}`,
      onclick: () => this.#act(query.name, action, key),
    }, label);
  }

  async #act(name, action, key) {
    if (action === "drop" && !confirm(`Stop query ${name} and drop its state?`)) return;
    this.busy.add(key);
    this.show(this.queries, this.colours);
    const path = `/api/queries/${encodeURIComponent(name)}`;
    try {
      await (action === "drop" ? call("DELETE", path) : call("POST", `${path}/${action}`));
    } catch (error) {
      this.notice(error.message);
    } finally {
      this.busy.delete(key);
      try {
        this.show((await call("GET", "/api/queries")).queries, this.colours);
      } catch (error) {
        this.notice(error.message);
      }
    }
  }
}

export class Results {
  constructor() {
    this.head = document.querySelector("#results thead");
    this.body = document.querySelector("#results tbody");
    this.hint = document.getElementById("results-hint");
    this.query = null;
    this.rows = [];
    this.total = 0;
    this.drawing = false;
  }

  /** Shows the newest rows of a query and then every new one. */
  async choose(name) {
    this.stop?.abort();
    const stop = (this.stop = new AbortController());
    this.query = name;
    document.getElementById("results-title").textContent = name ? `Results of ${name}` : "Results";
    this.rows = [];
    this.keyed = new Map();
    this.total = 0;
    this.columns = [];
    this.#draw();
    if (!name) {
      this.hint.textContent = "choose a query";
      document.getElementById("results-sql").hidden = true;
      document.getElementById("results-error").hidden = true;
      return;
    }
    this.hint.textContent = "waiting for rows";
    const path = `/api/queries/${encodeURIComponent(name)}/results`;
    follow(`${path}/events`, (kind, value) => this.#listen(kind, value, stop), stop.signal);
    try {
      const known = await call("GET", `${path}?limit=${SHOWN}`);
      if (stop.signal.aborted) return;
      this.columns = known.columns;
      if (!this.rows.length) this.rows = known.rows.map((row) => ({ row }));
      this.#later();
    } catch (error) {
      this.hint.textContent = error.message;
    }
  }

  describe(query) {
    const sql = document.getElementById("results-sql"), problem = document.getElementById("results-error");
    sql.hidden = !query;
    sql.textContent = query?.sql ?? "";
    problem.hidden = !query?.error;
    problem.textContent = query?.error ?? "";
  }

  #listen(kind, value, stop) {
    if (stop.signal.aborted || kind !== "results") return;
    this.columns = value.columns;
    this.total += value.rows.length + value.skipped;
    value.rows.forEach((row, place) => {
      const key = value.keys?.[place];
      if (key !== undefined) {
        this.rows = this.rows.filter((each) => each.key !== key && each.key !== undefined);
        if (value.deleted[place]) return;
      }
      this.rows.push({ row, key, fresh: value.epoch });
    });
    this.rows = this.rows.slice(-SHOWN);
    this.newest = value.epoch;
    this.#later();
  }

  #later() {
    if (this.drawing) return;
    this.drawing = true;
    setTimeout(() => {
      this.drawing = false;
      this.#draw();
    }, 200);
  }

  #draw() {
    this.head.replaceChildren(h("tr", {}, ...(this.columns ?? []).map((column) => h("th", { title: column.type }, column.name))));
    this.body.replaceChildren(...[...this.rows].reverse().map(({ row, fresh }) =>
      h("tr", { class: fresh !== undefined && fresh === this.newest ? "fresh" : null },
        ...this.columns.map((column) => {
          const text = shown(row[column.name]);
          return h("td", { title: text }, text);
        }))));
    if (this.query) this.hint.textContent = this.rows.length
      ? `newest first${this.total ? `; ${count(this.total)} since you look` : ""}` : "no rows yet";
  }
}

function shown(value) {
  if (value === null || value === undefined) return "NULL";
  if (typeof value === "object") {
    if ("start" in value && "end" in value && Object.keys(value).length === 2) return `${time(value.start)} … ${time(value.end)}`;
    return JSON.stringify(value);
  }
  return typeof value === "string" ? time(value) : String(value);
}

function time(text) {
  return /^\d{4}-\d\d-\d\dT/.test(text) ? text.replace("T", " ").replace(/\+00:00$/, "Z").replace(/(\.\d{3})\d+/, "$1") : text;
}

export class Letters {
  constructor() {
    this.counts = "";
  }

  /** Reads the newest dead letters again if there are more than before. */
  async show(counts) {
    const text = Object.entries(counts).map(([stream, rows]) => `${count(rows)} of ${stream}`).join(", ");
    document.getElementById("letters-part").hidden = false;
    if (text === this.counts) return;
    this.counts = text;
    document.getElementById("letters-hint").textContent = text ? `malformed rows since the start: ${text}` : "none";
    if (!text) return;
    const { rows } = await call("GET", "/api/dead_letters?limit=50");
    document.querySelector("#letters thead").replaceChildren(h("tr", {}, h("th", {}, "Stream"), h("th", {}, "Reason"), h("th", {}, "Row")));
    document.querySelector("#letters tbody").replaceChildren(...rows.map((letter) =>
      h("tr", {}, h("td", {}, letter.stream), h("td", { title: letter.reason }, letter.reason), h("td", { title: letter.row }, letter.row))));
  }
}
