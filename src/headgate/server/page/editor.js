// The SQL editor: line numbers, and the mark where a statement is wrong.
import { call, h, Refused } from "/calls.js";

const EXAMPLES = {
  "stream of generated rows": `CREATE STREAM ticks (timestamp TIMESTAMP, value BIGINT)
USING rate OPTIONS (rowsPerSecond '20');

CREATE QUERY even AS
SELECT timestamp, value FROM ticks WHERE value % 2 = 0;`,
  "folder of JSON files": `CREATE STREAM sensors (
  ts TIMESTAMP, location STRING, temperature INT, humidity INT,
  WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS
) USING json OPTIONS (path 'in/sensors');`,
  "class": "CREATE CLASS critical WITH (priority = 6);",
  "query in a class": `CREATE QUERY fire CLASS critical AS
SELECT ts, location, temperature FROM sensors
WHERE temperature > 35 AND humidity < 20;`,
  "window": `CREATE QUERY climate AS
SELECT window(ts, '10 seconds') AS w, location, avg(temperature) AS t
FROM sensors GROUP BY window(ts, '10 seconds'), location;`,
  "spec": "ALTER QUERY fire SET (latency = '500 ms', tolerance = '10%');",
};

export class Editor {
  constructor(executed) {
    this.executed = executed;
    this.text = document.getElementById("sql");
    this.marks = document.getElementById("marks");
    this.gutter = document.getElementById("gutter");
    this.answer = document.getElementById("answer");
    this.wrong = null;
    this.text.value = sessionStorage.getItem("headgate-sql") ?? "";
    this.text.addEventListener("input", () => {
      this.wrong = null;
      this.#say("", "");
      this.#draw();
      sessionStorage.setItem("headgate-sql", this.text.value);
    });
    this.text.addEventListener("scroll", () => this.#scroll());
    this.text.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        this.run("/api/statements");
      }
    });
    document.getElementById("execute").addEventListener("click", () => this.run("/api/statements"));
    document.getElementById("check").addEventListener("click", () => this.run("/api/check"));
    const examples = document.getElementById("examples");
    examples.append(...Object.keys(EXAMPLES).map((name) => h("option", { value: name }, name)));
    examples.addEventListener("change", () => {
      if (EXAMPLES[examples.value]) {
        this.text.value = EXAMPLES[examples.value];
        this.text.dispatchEvent(new Event("input"));
        this.text.focus();
      }
      examples.value = "";
    });
    this.#draw();
  }

  async run(path) {
    const sql = this.text.value;
    if (!sql.trim()) return this.#say("bad", "write a statement first");
    const buttons = [document.getElementById("execute"), document.getElementById("check")];
    buttons.forEach((button) => (button.disabled = true));
    this.#say("", path === "/api/check" ? "checking …" : "executing …");
    try {
      const { statements } = await call("POST", path, { sql });
      this.wrong = null;
      const done = statements.map((each) => `${each.kind} ${each.name} ${each.done}`).join(", ");
      this.#say("good", path === "/api/check" ? `correct: ${done}` : done || "done");
      if (path !== "/api/check") this.executed(statements);
    } catch (error) {
      this.wrong = error instanceof Refused && error.line ? error : null;
      const place = this.wrong ? `line ${error.line}, column ${error.column}: ` : "";
      this.#say("bad", place + error.message);
      if (this.wrong) this.#show(error.line, error.column);
    } finally {
      buttons.forEach((button) => (button.disabled = false));
      this.#draw();
    }
  }

  #say(kind, text) {
    this.answer.className = kind;
    this.answer.textContent = text;
  }

  #offset(line, column) {
    const lines = this.text.value.split("\n");
    const before = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
    // Columns count characters; JavaScript counts some of them twice.
    const characters = [...(lines[line - 1] ?? "")].slice(0, column - 1).join("");
    return before + characters.length;
  }

  #show(line, column) {
    const at = this.#offset(line, column);
    this.text.focus();
    this.text.setSelectionRange(at, at);
    const height = parseFloat(getComputedStyle(this.text).lineHeight);
    const middle = (line - 1) * height - this.text.clientHeight / 2;
    this.text.scrollTop = Math.max(0, middle);
  }

  #draw() {
    const text = this.text.value;
    const lines = text.split("\n");
    this.gutter.replaceChildren(...lines.map((_, number) => h("span", { class: this.wrong?.line === number + 1 ? "wrong" : null }, `${number + 1}\n`)));
    if (this.wrong) {
      const at = Math.min(this.#offset(this.wrong.line, this.wrong.column), text.length);
      const word = /^[\w`'"]+|^\S|^$/u.exec(text.slice(at))?.[0] ?? "";
      const marked = word || " ";
      this.marks.replaceChildren(text.slice(0, at), h("mark", {}, marked), text.slice(at + word.length), "\n");
    } else {
      this.marks.replaceChildren(text, "\n");
    }
    this.#scroll();
  }

  #scroll() {
    this.marks.scrollTop = this.gutter.scrollTop = this.text.scrollTop;
    this.marks.scrollLeft = this.text.scrollLeft;
  }
}
