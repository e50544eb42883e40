// Calls of the API, with the token if the server needs one, and streams of events.

let token = sessionStorage.getItem("headgate-token") || "";
const given = new URLSearchParams(location.hash.slice(1)).get("token");
if (given) {
  token = given;
  sessionStorage.setItem("headgate-token", given);
  history.replaceState(null, "", location.pathname);
}

/** An answer of the server that is no success: `message`, and `line` and `column` if a statement is wrong. */
export class Refused extends Error {
  constructor(status, values) {
    super(values.message || `the server answered with status ${status}`);
    this.status = status;
    this.line = values.line;
    this.column = values.column;
  }
}

function headers(more = {}) {
  return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}

let asking = null;

function askForToken() {
  asking ??= new Promise((resolve) => {
    const dialog = document.getElementById("login");
    dialog.addEventListener("close", () => {
      token = document.getElementById("token").value.trim();
      sessionStorage.setItem("headgate-token", token);
      asking = null;
      resolve();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}

/** Calls an operation and returns its JSON; throws Refused. Asks for the token if it is wrong. */
export async function call(method, path, body) {
  for (;;) {
    const request = { method, headers: headers(body === undefined ? {} : { "Content-Type": "application/json" }) };
    if (body !== undefined) request.body = JSON.stringify(body);
    const response = await fetch(path, request);
    if (response.status === 401) {
      await askForToken();
      continue;
    }
    const values = await response.json().catch(() => ({}));
    if (!response.ok) throw new Refused(response.status, values);
    return values;
  }
}

/** Calls `listen(kind, value)` with each event of a path until `signal` aborts; connects again after a break. */
export async function follow(path, listen, signal, broken = () => {}) {
  while (!signal?.aborted) {
    try {
      const response = await fetch(path, { headers: headers({ Accept: "text/event-stream" }), signal });
      if (response.status === 401) {
        await askForToken();
        continue;
      }
      if (response.status === 404) return;
      if (!response.ok) throw new Error(`status ${response.status}`);
      listen("open", {});
      await read(response.body.getReader(), listen);
      if (path.includes("/results/")) return;
    } catch (error) {
      if (signal?.aborted) return;
    }
    broken();
    await new Promise((resolve) => setTimeout(resolve, 1500));
  }
}

async function read(reader, listen) {
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true });
    let end;
    while ((end = text.indexOf("\n\n")) >= 0) {
      const event = text.slice(0, end);
      text = text.slice(end + 2);
      const kind = /^event: (.*)$/m.exec(event);
      const data = /^data: (.*)$/m.exec(event);
      if (kind && data) listen(kind[1], JSON.parse(data[1]));
    }
  }
}

/** An element with attributes and children; texts are never taken as HTML. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  return filled(element, attributes, children);
}

/** The same for SVG. */
export function s(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined || !(seconds > 0)) return "–";
  if (seconds < 0.001) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  return seconds < 100 ? `${seconds.toFixed(1)} s` : `${(seconds / 60).toFixed(1)} min`;
}

export function size(bytes) {
  if (!(bytes > 0)) return "–";
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (bytes < 1024 || unit === "GiB") return `${bytes < 10 && unit !== "B" ? bytes.toFixed(1) : Math.round(bytes)} ${unit}`;
    bytes /= 1024;
  }
}

export function count(number) {
  if (number === null || number === undefined) return "–";
  if (number >= 1e6) return `${(number / 1e6).toFixed(1)} M`;
  if (number >= 1e4) return `${(number / 1e3).toFixed(1)} k`;
  return number >= 100 || Number.isInteger(number) ? Math.round(number).toLocaleString("en") : number.toFixed(1);
}
