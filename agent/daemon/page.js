// SPDX-License-Identifier: Apache-2.0
// The live page: asks the agent once a second and shows its answer. Text is never inserted as HTML.
"use strict";

const $ = (id) => document.getElementById(id);
let token = sessionStorage.getItem("cinch-token") || "";
let chosen = null; // "pid start_ticks"

function element(name, text, kind) {
  const made = document.createElement(name);
  made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  for (; count >= 1023.95 && unit + 1 < units.length; ++unit) count /= 1024;
  return unit ? `${count.toFixed(1)} ${units[unit]}` : `${count} B`;
}

function seconds(value) {
  return value < 0.0995 ? `${Math.round(value * 1000)} ms` : value < 99.95 ? `${value.toFixed(1)} s` : `${Math.round(value / 60)} min`;
}

const ratio = (raw, stored) => (stored ? `${(raw / stored).toFixed(1)}x` : "-");

// columns: [title, cell of a row (text or a node), whether it is a number]
function fill(table, columns, rows, nothing, look) {
  const head = document.createElement("tr");
  for (const [title, , number] of columns) {
    const cell = element("th", title, number ? "number" : "");
    cell.scope = "col";
    head.append(cell);
  }
  const lines = rows.map((row) => {
    const line = document.createElement("tr");
    if (look) line.className = look(row);
    for (const [, cell, number] of columns) {
      const content = cell(row);
      const made = element("td", "", number ? "number" : "");
      made.append(content);
      line.append(made);
    }
    return line;
  });
  if (!rows.length) {
    const line = document.createElement("tr");
    const cell = element("td", nothing);
    cell.colSpan = columns.length;
    line.append(cell);
    lines.push(line);
  }
  table.replaceChildren(head, ...lines);
}

const key = (run) => `${run.pid} ${run.start_ticks}`;
const ifLive = (f) => (run) => (run.live ? f(run.live) : "-");

const runColumns = [
  ["Job", (run) => run.job],
  ["Rank", (run) => String(run.rank ?? "-"), true],
  ["Process", (run) => {
    const button = element("button", String(run.pid), "link");
    button.type = "button";
    button.id = `run-${run.pid}`;
    button.addEventListener("click", () => { chosen = key(run); refresh(); });
    return button;
  }, true],
  ["State", (run) => run.state],
  ["Step", ifLive((l) => String(l.steps)), true],
  ["Step time", ifLive((l) => seconds(l.step_seconds)), true],
  ["Raw", ifLive((l) => bytes(l.raw_bytes_at_peak)), true],
  ["Stored", ifLive((l) => bytes(l.stored_bytes_at_peak)), true],
  ["Ratio", ifLive((l) => ratio(l.raw_bytes_at_peak, l.stored_bytes_at_peak)), true],
  ["Peak RSS", (run) => bytes(run.peak_rss_bytes), true],
  ["In Cinch", ifLive((l) => (l.share_in_cinch === null ? "-" : `${(l.share_in_cinch * 100).toFixed(1)}%`)), true],
  ["Guard", ifLive((l) => String(l.guard_moves)), true],
  ["Command", (run) => run.note || run.command],
];

const opColumns = [
  ["Operator", (op) => op.op.replace(/^aten::/, "") || "(unknown)"],
  ["Operand", (op) => op.operand],
  ["Codec", (op) => op.codec],
  ["Count", (op) => String(op.count), true],
  ["Raw", (op) => bytes(op.raw_bytes), true],
  ["Stored", (op) => bytes(op.stored_bytes), true],
  ["Ratio", (op) => ratio(op.raw_bytes, op.stored_bytes), true],
  ["Encode", (op) => seconds(op.encode_seconds), true],
  ["Decode", (op) => seconds(op.decode_seconds), true],
];

const pastColumns = [
  ["Last seen", (run) => new Date(run.last_seen * 1000).toLocaleString()],
  ["Job", (run) => run.job],
  ["Rank", (run) => (run.rank < 0 ? "-" : String(run.rank)), true],
  ["Steps", (run) => String(run.steps), true],
  ["Raw", (run) => bytes(run.raw_bytes_at_peak), true],
  ["Stored", (run) => bytes(run.stored_bytes_at_peak), true],
  ["Ratio", (run) => ratio(run.raw_bytes_at_peak, run.stored_bytes_at_peak), true],
  ["In Cinch", (run) => seconds(run.seconds_in_cinch), true],
  ["Policy", (run) => run.policy],
];

function draw(points) {
  const most = Math.max(1, ...points.map((p) => p.raw_bytes));
  const line = (what) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
    const x = (i) => (points.length < 2 ? 0 : (i / (points.length - 1)) * 600);
    made.setAttribute("points", points.map((p, i) => `${x(i).toFixed(1)},${(158 - (p[what] / most) * 154).toFixed(1)}`).join(" "));
    made.setAttribute("class", what === "raw_bytes" ? "raw" : "stored");
    return made;
  };
  $("chart").replaceChildren(line("raw_bytes"), line("stored_bytes"));
}

function showDetails(run) {
  $("details").hidden = !run;
  if (!run) return;
  $("details-title").textContent = `Process ${run.pid}`;
  $("details-text").textContent = `${run.command} (policy ${run.policy}, torch ${run.torch})`;
  draw(run.history);
  fill($("ops"), opColumns, run.ops, "Nothing was saved yet.");
  $("events").replaceChildren(...run.events.slice(-10).reverse().map((e) => element("li", `step ${e.step}: ${e.kind}: ${e.text}`)));
}

async function ask(path) {
  const answer = await fetch(path, token ? { headers: { Authorization: `Bearer ${token}` } } : {});
  if (answer.status === 401) {
    $("login").hidden = false;
    throw new Error("the agent wants its token");
  }
  if (!answer.ok) throw new Error(`the agent answered ${answer.status}`);
  $("login").hidden = true;
  return answer.json();
}

async function refresh() {
  try {
    const { runs } = await ask("api/v1/runs");
    const focused = document.activeElement?.id;
    fill($("runs"), runColumns, runs, "No program of yours is training under Cinch.", (run) =>
      ["stale", "foreign", "unreadable"].includes(run.state) ? "bad" : "");
    if (focused) $(focused)?.focus();
    showDetails(runs.find((run) => key(run) === chosen));
    $("status").textContent = `${runs.length} process${runs.length === 1 ? "" : "es"}, ${new Date().toLocaleTimeString()}`;
  } catch (error) {
    $("status").textContent = `Not up to date: ${error.message}`;
  }
}

async function refreshPast() {
  try {
    fill($("history"), pastColumns, (await ask("api/v1/history")).runs, "Nothing yet.");
  } catch (error) {
    $("status").textContent = `Not up to date: ${error.message}`;
  }
}

$("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value;
  sessionStorage.setItem("cinch-token", token);
  refresh();
  refreshPast();
});
refresh();
refreshPast();
setInterval(refresh, 1000);
setInterval(refreshPast, 10000);
