// SPDX-License-Identifier: Apache-2.0
// Draws a report of Cinch (the JSON file that CINCH_REPORT names) into a page, without dependencies
// or network. `cinchReport.render(element, report)` may be called again with newer figures:
// sorting, filters and the choice of columns stay.
"use strict";

const cinchReport = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const state = { sort: "raw_bytes", down: true, filter: "", depth: 0, kinds: "" };

  // Text for people.
  const bytes = (n) => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = 0;
    while (n >= 1023.95 && unit + 1 < units.length) { n /= 1024; ++unit; }
    return `${unit ? n.toFixed(1) : Math.round(n)} ${units[unit]}`;
  };
  const seconds = (s) => {
    if (s === 0) return "0 s";
    if (s < 0.0995) return `${(s * 1000).toFixed(s < 0.00995 ? 1 : 0)} ms`;
    if (s < 99.95) return `${s.toFixed(1)} s`;
    const whole = Math.round(s);
    return whole < 3600 ? `${Math.floor(whole / 60)} min ${whole % 60} s`
                        : `${Math.floor(whole / 3600)} h ${Math.floor(whole % 3600 / 60)} min`;
  };
  const ratio = (r) => (Number.isFinite(r) ? `${r < 99.95 ? r.toFixed(1) : Math.round(r)}x` : "-");
  const error = (e) => (e === 0 ? "0" : e.toPrecision(2));
  const short = (op) => (op || "(unknown)").replace(/^aten::/, "");

  /** Makes an element with attributes and children. Strings become text, never markup. */
  function make(name, attributes = {}, ...children) {
    const made = name.startsWith("svg:") ? document.createElementNS(SVG, name.slice(4))
                                         : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
      else if (value !== null && value !== undefined) made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
  }

  const tip = {
    show(text, x, y) {
      const box = document.getElementById("tip");
      box.textContent = text;
      box.hidden = false;
      const { width, height } = box.getBoundingClientRect();
      box.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - width - 4))}px`;
      box.style.top = `${y + 18 + height > innerHeight ? Math.max(4, y - height - 10) : y + 18}px`;
    },
    hide() { document.getElementById("tip").hidden = true; },
  };
  /** Attributes for `make`: show `text` while the element has the pointer or the focus. */
  const hints = (text) => ({
    onpointermove: (e) => tip.show(text, e.clientX, e.clientY),
    onpointerleave: tip.hide,
    onfocus: (e) => { const r = e.target.getBoundingClientRect(); tip.show(text, r.left, r.bottom - 14); },
    onblur: tip.hide,
  });

  const section = (id, title, ...children) =>
    make("section", { id, "aria-labelledby": `${id}-title` }, make("h2", { id: `${id}-title` }, title), ...children);

  function head(report) {
    const parts = [make("p", {}, make("code", {}, report.command || "")),
      make("p", { class: "note" }, [`process ${report.pid}`, report.torch_version && `torch ${report.torch_version}`,
        `policy ${report.policy}`].filter(Boolean).join(" · "))];
    if (!report.active) parts.push(make("p", { class: "bad" }, `NOT ACTIVE: ${report.inactive_reason}`));
    return make("div", {}, ...parts);
  }

  /** Estimates the RSS without Cinch: this run's, with the bytes that the stash held replaced by
   *  those that autograd would have held. */
  const plainRss = (p) => p.rss_bytes + p.raw_bytes - p.stored_bytes;

  function tiles(report) {
    const tile = (value, label) => make("div", { class: "tile" }, make("b", {}, value), make("span", {}, label));
    const list = [];
    if (report.active) {
      list.push(tile(report.stored_bytes_at_peak ? ratio(report.ratio) : "-", "less activation memory at the peak"),
        tile(bytes(report.raw_bytes_at_peak), "activations, uncompressed"),
        tile(bytes(report.stored_bytes_at_peak), "kept for them"));
    }
    list.push(tile(bytes(report.peak_rss_bytes), "peak RSS of the process"));
    const points = (report.memory || []).filter((p) => p.rss_bytes);
    if (points.length) {
      list.push(tile(bytes(points.reduce((most, p) => Math.max(most, plainRss(p)), 0)),
        "peak RSS without Cinch (reconstructed)"));
    }
    list.push(tile(String(report.steps), "optimizer steps"), tile(seconds(report.seconds_in_cinch),
      report.seconds ? `in Cinch, of ${seconds(report.seconds)}` : "in Cinch"));
    return make("div", { class: "tiles" }, ...list);
  }

  /** Width of a chart in SVG units: less on a phone, so that text stays as large as the page's. */
  const chartWidth = () => (innerWidth < 640 ? 440 : 1000);

  /** Round numbers for an axis up to `most`. */
  function ticks(most, binary) {
    if (!(most > 0)) return [0];
    const base = binary ? 2 : 10;
    let step = base ** Math.floor(Math.log(most / 4) / Math.log(base));
    while (most / step > 6) step *= binary ? 2 : most / step > 30 ? 5 : 2;
    const marks = [];
    for (let value = 0; value <= most; value += step) marks.push(value);
    return marks;
  }

  function memoryChart(report) {
    const points = report.memory || [];
    if (points.length < 2) {
      return section("memory", "Memory over time",
        make("p", { class: "note" }, "This report holds no series: it was asked for without details, is of an older Cinch, or the run saved nothing."));
    }
    const series = [
      { name: "plain run's RSS, reconstructed", colour: "--plain", of: plainRss, dash: "5 4" },
      { name: "RSS", colour: "--rss", of: (p) => p.rss_bytes },
      { name: "raw: what autograd would keep", colour: "--raw", of: (p) => p.raw_bytes, low: (p) => p.least_raw_bytes },
      { name: "stored: what Cinch keeps", colour: "--stored", of: (p) => p.stored_bytes, low: (p) => p.least_stored_bytes },
    ];
    const width = chartWidth(), height = 330, left = 78, bottom = 34, top = 10, right = 12;
    const first = points[0].seconds, span = Math.max(points.at(-1).seconds - first, 1e-9);
    const shown = new Set(series.map((s) => s.name));
    const holder = make("div");
    let at = points.length - 1;

    function draw() {
      const drawn = series.filter((s) => shown.has(s.name));
      let most = 1;
      for (const s of drawn) for (const p of points) most = Math.max(most, s.of(p));
      const x = (p) => left + (p.seconds - first) / span * (width - left - right);
      const y = (v) => height - bottom - v / most * (height - top - bottom);
      const svg = make("svg:svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "img",
        "aria-label": "Memory over time. Arrow keys move through the moments; the table of entries below has the figures." });
      for (const value of ticks(most, true)) {
        svg.append(make("svg:line", { class: "axis", x1: left, x2: width - right, y1: y(value), y2: y(value) }),
          make("svg:text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, bytes(value)));
      }
      for (const value of ticks(span, false)) {
        const where = left + value / span * (width - left - right);
        svg.append(make("svg:text", { x: where, y: height - 10, "text-anchor": value ? "middle" : "start" }, seconds(value)));
      }
      for (const s of drawn) {
        let line = "";
        for (const p of points) {
          line += `${line ? "L" : "M"}${x(p).toFixed(1)} ${y(s.of(p)).toFixed(1)}`;
          if (s.low && s.low(p) < s.of(p)) line += `V${y(s.low(p)).toFixed(1)}V${y(s.of(p)).toFixed(1)}`;
        }
        svg.append(make("svg:path", { d: line, style: `stroke: var(${s.colour})`, "stroke-dasharray": s.dash || null }));
      }
      for (const e of (report.events || []).filter((e) => e.kind !== "choice").slice(-200)) {
        const where = x({ seconds: Math.min(Math.max(e.seconds, first), first + span) });
        svg.append(make("svg:path", { d: `M${where} ${top}l5 9h-10z`, style: "fill: var(--bad); stroke: none",
          ...hints(`${e.kind} at step ${e.step}: ${e.subject}\n${e.detail}`) }));
      }
      const cursor = make("svg:line", { class: "cursor", y1: top, y2: height - bottom, visibility: "hidden" });
      svg.append(cursor);
      const point = (index, clientX, clientY) => {
        at = Math.max(0, Math.min(points.length - 1, index));
        const p = points[at];
        cursor.setAttribute("x1", x(p));
        cursor.setAttribute("x2", x(p));
        cursor.setAttribute("visibility", "visible");
        const box = svg.getBoundingClientRect();
        tip.show(`${seconds(p.seconds)}, step ${p.step}\n` + drawn.map((s) => `${s.name}: ${bytes(s.of(p))}`).join("\n") +
          `\nalso held by the program: ${bytes(p.owned_bytes)}`,
          clientX ?? box.left + x(p) / width * box.width, clientY ?? box.top + 20);
      };
      svg.addEventListener("pointermove", (e) => {
        const box = svg.getBoundingClientRect();
        const when = first + ((e.clientX - box.left) / box.width * width - left) / (width - left - right) * span;
        let low = 0, high = points.length - 1;
        while (low < high) { const mid = low + high >> 1; if (points[mid].seconds < when) low = mid + 1; else high = mid; }
        point(low, e.clientX, e.clientY);
      });
      const leave = () => { tip.hide(); cursor.setAttribute("visibility", "hidden"); };
      svg.addEventListener("pointerleave", leave);
      svg.addEventListener("blur", leave);
      svg.addEventListener("focus", () => { if (svg.matches(":focus-visible")) point(at); });
      svg.addEventListener("keydown", (e) => {
        const far = Math.max(1, Math.round(points.length / 20));
        const to = { ArrowLeft: at - 1, ArrowRight: at + 1, PageUp: at - far, PageDown: at + far, Home: 0, End: points.length - 1 }[e.key];
        if (to === undefined) { if (e.key === "Escape") leave(); return; }
        e.preventDefault();
        point(to);
      });
      holder.replaceChildren(svg);
    }
    const legend = make("ul", { class: "legend" }, ...series.map((s) => make("li", {}, make("label", {},
      make("input", { type: "checkbox", checked: "", onchange: (e) => {
        if (e.target.checked) shown.add(s.name); else shown.delete(s.name);
        draw();
      } }), " ", make("i", { style: `--of: var(${s.colour})` }), s.name))));
    draw();
    return section("memory", "Memory over time", holder, legend, make("p", { class: "note" },
      "Red marks are guard events and rescues. The plain run's RSS is this run's, with what the stash held replaced by what autograd would have held."));
  }

  /** Bars of `items` {name, detail, parts: [[value, colour]…]}, longest first. */
  function bars(items, text, most = 20) {
    items.sort((a, b) => b.size - a.size);
    const longest = items.length ? Math.max(items[0].size, 1e-12) : 1;
    const list = make("ul", { class: "bars" });
    const add = (from, to) => {
      for (const item of items.slice(from, to)) {
        const track = make("div", { class: "bar" });
        for (const [value, colour] of item.parts) {
          track.append(make("i", { style: `width: ${(100 * value / longest).toFixed(2)}%; background: var(${colour})` }));
        }
        list.append(make("li", { tabindex: 0, ...hints(item.detail) },
          make("div", { class: "name" }, make("span", {}, item.name), make("span", {}, text(item))), track));
      }
    };
    add(0, most);
    if (items.length <= most) return list;
    const more = make("button", { type: "button", onclick: () => { add(most, 500); more.remove(); } },
      `Show ${Math.min(items.length, 500) - most} more`);
    return make("div", {}, list, more);
  }

  const both = (item) => `${bytes(item.raw)} → ${bytes(item.stored)}, ${ratio(item.raw / item.stored)}`;
  const twoBars = (o) => Object.assign(o, { size: o.raw, parts: [[o.raw, "--raw"], [o.stored, "--stored"]] });
  const rawStored = () => make("ul", { class: "legend" },
    make("li", {}, make("i", { style: "--of: var(--raw)" }), "raw"),
    make("li", {}, make("i", { style: "--of: var(--stored)" }), "stored"));

  function gathered(rows, keyOf) {
    const sums = new Map();
    for (const row of rows) {
      const key = keyOf(row);
      let sum = sums.get(key);
      if (!sum) sums.set(key, sum = { name: key, raw: 0, stored: 0, count: 0, encode: 0, decode: 0, codecs: new Set() });
      sum.raw += row.raw_bytes;
      sum.stored += row.stored_bytes;
      sum.count += row.count;
      sum.encode += row.encode_seconds;
      sum.decode += row.decode_seconds;
      sum.codecs.add(row.codec);
    }
    return [...sums.values()];
  }
  const detailOf = (s) => `${s.name}\n${both(s)}\n${s.count} storages over the run\nencode ${seconds(s.encode)}, decode ${seconds(s.decode)}\n${[...s.codecs].join(", ")}`;

  function opsSection(report) {
    const sums = gathered(report.ops || [], (o) => short(o.op));
    return section("ops", "By operator", rawStored(),
      bars(sums.map((s) => twoBars({ ...s, detail: detailOf(s) })), both),
      make("p", { class: "note" }, "Sums over all storages of the run."));
  }

  const placeOf = (e) => (e.module ? (e.relation === "after" ? `after ${e.module}` : e.module) : "(no module known)");

  function modulesSection(report) {
    const entries = report.entries || [];
    const holder = make("div");
    const known = entries.some((e) => e.module);
    const draw = () => {
      const cut = (e) => {
        if (!e.module) return "(no module known)";
        return state.depth ? e.module.split(".").slice(0, state.depth).join(".") : placeOf(e);
      };
      holder.replaceChildren(bars(gathered(entries, cut).map((s) => twoBars({ ...s, detail: detailOf(s) })), both));
    };
    const choice = make("select", { onchange: (e) => { state.depth = Number(e.target.value); draw(); } },
      ...[["every module", 0], ["depth 1", 1], ["depth 2", 2], ["depth 3", 3]].map(([text, depth]) =>
        make("option", { value: depth, selected: depth === state.depth ? "" : null }, text)));
    if (!known) {
      return section("modules", "By module", make("p", { class: "note" },
        "No module names in this report: the program has none, never stepped an optimizer of torch.optim, or an older Cinch wrote it."));
    }
    draw();
    return section("modules", "By module", make("div", { class: "controls" }, make("label", {}, "Group by ", choice)),
      rawStored(), holder, make("p", { class: "note" },
        "“after layer” is what an operator without parameters of its own reads behind that layer."));
  }

  function timeSection(report) {
    const items = gathered(report.ops || [], (o) => `${o.codec}`).filter((s) => s.encode + s.decode > 0).map((s) => ({
      ...s, size: s.encode + s.decode, detail: detailOf(s),
      parts: [[s.encode + s.decode, "--plain"], [s.encode, "--rss"]] }));
    return section("time", "Codec time", make("ul", { class: "legend" },
      make("li", {}, make("i", { style: "--of: var(--rss)" }), "encode"),
      make("li", {}, make("i", { style: "--of: var(--plain)" }), "decode")),
      items.length ? bars(items, (s) => `${seconds(s.encode)} + ${seconds(s.decode)}`)
                   : make("p", { class: "note" }, "No codec took measurable time."));
  }

  function errorSection(report) {
    const checked = (report.entries || []).filter((e) => e.guard_checks > 0);
    if (!checked.length) {
      return section("errors", "Error and bits", make("p", { class: "note" },
        "The guard has compared no entry with its exact values in this run."));
    }
    const width = chartWidth(), height = 300, left = 78, bottom = 40, top = 12, right = 14;
    const mostBits = Math.max(1, ...checked.map((e) => e.bits_per_element));
    const mostError = Math.max(1e-9, ...checked.map((e) => e.worst_relative_error));
    const x = (e) => left + e.bits_per_element / mostBits * (width - left - right);
    const y = (v) => height - bottom - v / mostError * (height - top - bottom);
    const svg = make("svg:svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img",
      "aria-label": "Worst relative error of each checked entry against its bits per element; the table below has the figures." });
    for (const value of ticks(mostError, false)) {
      svg.append(make("svg:line", { class: "axis", x1: left, x2: width - right, y1: y(value), y2: y(value) }),
        make("svg:text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, error(value)));
    }
    for (const value of ticks(mostBits, true)) {
      svg.append(make("svg:text", { x: left + value / mostBits * (width - left - right), y: height - 22, "text-anchor": "middle" }, String(value)));
    }
    svg.append(make("svg:text", { x: width - right, y: height - 4, "text-anchor": "end" }, "bits per element"));
    // At most 1,500 points; those with the largest errors are kept.
    for (const e of checked.sort((a, b) => b.worst_relative_error - a.worst_relative_error).slice(0, 1500)) {
      svg.append(make("svg:circle", { cx: x(e).toFixed(1), cy: y(e.worst_relative_error).toFixed(1), r: 4,
        style: "fill: var(--stored); fill-opacity: .55",
        ...hints(`${placeOf(e)}\n${short(e.op)} ${e.operand} ${e.shape} #${e.place}\n${e.codec}, ${e.bits_per_element.toFixed(2)} bits\nvalues off by ${error(e.worst_relative_error)}, gradients by ${error(e.worst_gradient_error)}`) }));
    }
    return section("errors", "Error and bits", svg, make("p", { class: "note" },
      `Worst error of the values, relative to their size, of the ${checked.length} entries that the guard has checked.`));
  }

  /** A table that makes only the rows in view, so that 10,000 rows cost no more than 40. */
  function entriesSection(report) {
    const entries = report.entries || [];
    const columns = [
      ["module", "Module", placeOf], ["op", "Operator", (e) => short(e.op)], ["operand", "Operand", (e) => e.operand],
      ["shape", "Shape", (e) => `${e.shape} ${e.type}`], ["place", "#", (e) => String(e.place), 1], ["codec", "Codec", (e) => e.codec],
      ["bits_per_element", "Bits", (e) => (e.bits_per_element ? e.bits_per_element.toFixed(2) : "-"), 1],
      ["count", "Count", (e) => String(e.count), 1],
      ["raw_bytes", "Raw", (e) => bytes(e.raw_bytes), 1], ["stored_bytes", "Stored", (e) => bytes(e.stored_bytes), 1],
      ["ratio", "Ratio", (e) => ratio(e.raw_bytes / e.stored_bytes), 1],
      ["encode_seconds", "Encode", (e) => seconds(e.encode_seconds), 1], ["decode_seconds", "Decode", (e) => seconds(e.decode_seconds), 1],
      ["worst_relative_error", "Error", (e) => (e.guard_checks ? error(e.worst_relative_error) : "-"), 1],
      ["worst_gradient_error", "Gradient error", (e) => (e.guard_checks ? error(e.worst_gradient_error) : "-"), 1],
    ];
    if (!entries.length) {
      return section("entries", "Entries", make("p", { class: "note" }, "This report holds no entries: it was asked for without details, or is of an older Cinch."));
    }
    const valueOf = (e) => (state.sort === "ratio" ? (e.stored_bytes ? e.raw_bytes / e.stored_bytes : Infinity)
                                                   : state.sort === "module" ? placeOf(e) : e[state.sort]);
    const rowHeight = 29;
    const body = make("tbody");
    const scroll = make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of entries" });
    const count = make("span", { class: "note", role: "status" });
    const headers = columns.map(([key, title, , number]) => make("th", { scope: "col", class: number ? "number" : null },
      make("button", { type: "button", onclick: () => {
        state.down = state.sort === key ? !state.down : Boolean(number);
        state.sort = key;
        update();
      } }, title)));
    let rows = [];
    let drawn = "";
    function window() {
      const first = Math.max(0, Math.floor(scroll.scrollTop / rowHeight) - 10);
      const last = Math.min(rows.length, first + Math.ceil((scroll.clientHeight || 480) / rowHeight) + 20);
      if (drawn === `${first} ${last}`) return;
      drawn = `${first} ${last}`;
      const space = (n) => make("tr", { class: "spacer", "aria-hidden": "true" }, make("td", { colspan: columns.length, style: `height: ${n * rowHeight}px` }));
      body.replaceChildren(space(first), ...rows.slice(first, last).map((e, i) => make("tr", { "aria-rowindex": first + i + 2, style: `height: ${rowHeight}px` },
        ...columns.map(([, , text, number]) => make("td", { class: number ? "number" : null }, text(e))))), space(rows.length - last));
    }
    function update() {
      const words = state.filter.toLowerCase().split(/\s+/).filter(Boolean);
      rows = entries.filter((e) => {
        if (!words.length) return true;
        const text = `${placeOf(e)} ${e.op} ${e.operand} ${e.shape} ${e.type} ${e.codec}`.toLowerCase();
        return words.every((word) => text.includes(word));
      });
      const sign = state.down ? -1 : 1;
      rows = rows.map((e) => [valueOf(e), e]).sort(([a], [b]) => (a < b ? -sign : a > b ? sign : 0)).map(([, e]) => e);
      columns.forEach(([key, title], i) => {
        const sorted = key === state.sort;
        headers[i].setAttribute("aria-sort", sorted ? (state.down ? "descending" : "ascending") : "none");
        headers[i].firstChild.textContent = title + (sorted ? (state.down ? " ▼" : " ▲") : "");
      });
      count.textContent = `${rows.length} of ${entries.length}`;
      table.setAttribute("aria-rowcount", rows.length + 1);
      drawn = "";
      window();
    }
    const table = make("table", {}, make("thead", {}, make("tr", {}, ...headers)), body);
    scroll.append(table);
    scroll.addEventListener("scroll", window, { passive: true });
    update();
    const filter = make("input", { type: "search", placeholder: "conv layer1 float32", value: state.filter,
      oninput: (e) => { state.filter = e.target.value; update(); } });
    return section("entries", "Entries", make("div", { class: "controls" }, make("label", {}, "Filter ", filter), count), scroll,
      make("p", { class: "note" }, "One row for each storage of a forward; figures are sums over the run, errors the worst that was seen."));
  }

  function eventsSection(report) {
    const events = report.events || [];
    if (!events.length) return section("events", "Decisions over time", make("p", { class: "note" }, "Nothing was decided while this run went on: no guard event, no change of an adaptive policy, no rescue."));
    const holder = make("div");
    const kinds = [...new Set(events.map((e) => e.kind))];
    // The number of decisions by kind, in intervals of time.
    const width = chartWidth(), columns = width < 1000 ? 20 : 40, pitch = (width - 24) / columns, span = Math.max(report.seconds || 0, events.at(-1).seconds, 1e-9);
    const colours = { choice: "--stored", guard: "--bad", rescue: "--raw" };
    const svg = make("svg:svg", { class: "chart", viewBox: `0 0 ${width} 120`, role: "img", "aria-label": "Decisions over time; the table below lists them." });
    const counts = Array.from({ length: columns }, () => ({}));
    for (const e of events) {
      const column = counts[Math.min(columns - 1, Math.floor(e.seconds / span * columns))];
      column[e.kind] = (column[e.kind] || 0) + 1;
    }
    const most = Math.max(...counts.map((c) => Object.values(c).reduce((a, b) => a + b, 0)));
    counts.forEach((c, i) => {
      let y = 95;
      for (const kind of kinds) {
        if (!c[kind]) continue;
        const h = Math.max(2, c[kind] / most * 88);
        y -= h;
        svg.append(make("svg:rect", { x: 12 + i * pitch, y, width: pitch - 4, height: h, style: `fill: var(${colours[kind] || "--plain"})`,
          ...hints(`${seconds(i * span / columns)} to ${seconds((i + 1) * span / columns)}\n${kind}: ${c[kind]}`) }));
      }
    });
    svg.append(make("svg:text", { x: 12, y: 114 }, "0 s"), make("svg:text", { x: width - 12, y: 114, "text-anchor": "end" }, seconds(span)));
    const draw = () => {
      const listed = events.filter((e) => !state.kinds || e.kind === state.kinds).slice(-500).reverse();
      holder.replaceChildren(make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of decisions" }, make("table", {}, make("thead", {}, make("tr", {},
        ...["Time", "Step", "Kind", "What", "Decision"].map((t) => make("th", { scope: "col", style: "padding: .35rem .6rem" }, t)))),
        make("tbody", {}, ...listed.map((e) => make("tr", {}, ...[seconds(e.seconds), String(e.step), e.kind, e.subject, e.detail].map((t) => make("td", {}, t))))))));
    };
    draw();
    const choice = make("select", { onchange: (e) => { state.kinds = e.target.value; draw(); } },
      ...["", ...kinds].map((k) => make("option", { value: k, selected: k === state.kinds ? "" : null }, k || "all kinds")));
    const dropped = report.events_dropped ? ` ${report.events_dropped} older ones were dropped.` : "";
    return section("events", "Decisions over time", svg, make("ul", { class: "legend" }, ...kinds.map((k) => make("li", {}, make("i", { style: `--of: var(${colours[k] || "--plain"})` }), k))),
      make("div", { class: "controls" }, make("label", {}, "Show ", choice)), holder,
      make("p", { class: "note" }, `Newest first, at most 500 listed.${dropped}`));
  }

  /** GPUs: their allocators' figures, offloads and fetches, and what was done when memory ran out.
   *  Null when the report has none of these. */
  function devicesSection(report) {
    const devices = report.devices || [];
    const facts = [];
    if (report.offloads) {
      facts.push(`At the peak ${bytes(report.offloaded_bytes_at_peak)} more were held in the host's memory instead of a GPU's; ` +
        `in all ${report.offloads} storages of ${bytes(report.offloaded_bytes)} were moved there.`,
      `Of ${report.fetches} copies back, ${report.fetches_ahead} were made before backward asked.`,
      `Page-locked memory: ${bytes(report.peak_pinned_bytes)} in use at most, ${bytes(report.reserved_pinned_bytes)} taken from the system.`);
    }
    if (report.rescues) {
      facts.push(`Memory ran out ${report.rescues} times: ${bytes(report.rescued_bytes)} were freed by compressing earlier` +
        (report.rescued_by_offload_bytes ? `, ${bytes(report.rescued_by_offload_bytes)} by moving to the host.` : "."));
    }
    if (report.given_by_others_bytes) facts.push(`Other processes gave back ${bytes(report.given_by_others_bytes)} when memory had run out.`);
    if (!devices.length && !facts.length) return null;
    const cells = (d) => [`cuda:${d.index}`, d.allocator, bytes(d.peak_allocated_bytes), bytes(d.peak_reserved_bytes), bytes(d.stash_bytes_at_most)];
    const table = make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of devices" }, make("table", {},
      make("thead", {}, make("tr", {}, ...["Device", "Allocator", "Allocated, at most", "Reserved, at most", "Held by the stash, at most"]
        .map((t) => make("th", { scope: "col", style: "padding: .35rem .6rem" }, t)))),
      make("tbody", {}, ...devices.map((d) => make("tr", {}, ...cells(d).map((t) => make("td", {}, t)))))));
    return section("devices", "GPUs and the host's memory", ...(devices.length ? [table] : []), ...facts.map((t) => make("p", {}, t)));
  }

  function reasonsSection(report) {
    const items = (report.passed_through || []).map((p) => ({ name: p.reason, size: p.bytes, count: p.count,
      detail: `${p.reason}\n${bytes(p.bytes)} in ${p.count}`, parts: [[p.bytes, "--raw"]] }));
    if (!items.length) return section("reasons", "Not compressed, and why", make("p", { class: "note" }, "Everything was compressed."));
    return section("reasons", "Not compressed, and why", bars(items, (p) => `${bytes(p.size)}, ${p.count}`));
  }

  function render(root, report) {
    const low = report.active && report.ratio < 2;
    const parts = [head(report), tiles(report)];
    if (low) parts.push(reasonsSection(report));
    parts.push(...[memoryChart(report), devicesSection(report)].filter(Boolean), opsSection(report), modulesSection(report), timeSection(report),
      errorSection(report), eventsSection(report), entriesSection(report));
    if (!low) parts.push(reasonsSection(report));
    root.replaceChildren(...parts);
  }

  /** Switches between auto, dark and light. Keeps the choice in localStorage where there is one. */
  function themes(button) {
    const names = ["auto", "dark", "light"];
    const system = matchMedia("(prefers-color-scheme: dark)");
    let chosen = "auto";
    try { chosen = names.includes(localStorage.getItem("cinch-theme")) ? localStorage.getItem("cinch-theme") : "auto"; } catch { /* a file page without storage */ }
    const apply = () => {
      document.documentElement.dataset.theme = chosen === "auto" ? (system.matches ? "dark" : "light") : chosen;
      button.textContent = `Theme: ${chosen}`;
    };
    button.addEventListener("click", () => {
      chosen = names[(names.indexOf(chosen) + 1) % names.length];
      try { localStorage.setItem("cinch-theme", chosen); } catch { /* as above */ }
      apply();
    });
    system.addEventListener("change", apply);
    apply();
  }

  return { render, themes };
})();

if (typeof document !== "undefined" && document.getElementById("data")) {
  cinchReport.themes(document.getElementById("theme"));
  const root = document.getElementById("report");
  const report = JSON.parse(document.getElementById("data").textContent);
  document.title = `Cinch: ${report.command || "report"}`;
  cinchReport.render(root, report);
}
