// Table of runs: sorted by a click on a column, filtered by words, ticked and pinned by keyboard or mouse. Its rows and
// the user's selection are in a plain widget model, which a page opened later reads too. If columns would be cut off,
// those of settings fold into a line below each run.

const COLUMNS = [ // outcomes first, so that a narrow page shows them without scrolling
  { name: "began", title: "launched" },
  { name: "system", title: "system", text: (run) => (run.recipe_text ? `${run.system} (${run.recipe_text})` : run.system) },
  { name: "name", title: "name", text: (run) => [run.name, ...run.tags.map((tag) => `#${tag}`)].filter(Boolean).join(" "),
    folds: (text) => text },
  { name: "score", title: "test (%)", number: true, text: (run) => fixed(run.score, 2, 100) },
  { name: "curve", title: "validation", fixed: true, text: (run) => (run.curve.length > 1 ? "curve" : "") },
  { name: "train_s", title: "total (s)", number: true, text: (run) => fixed(run.train_s, 2) },
  { name: "faster", title: "× pinned", number: true, text: (run) => times(run.faster) },
  { name: "bytes_sent", title: "sent (kB/epoch)", number: true, text: (run) => fixed(run.bytes_sent, 1, 1e-3) },
  { name: "graph", title: "graph", setting: true, folds: (text) => text },
  { name: "model", title: "model", setting: true, folds: (text) => text },
  { name: "workers", title: "workers", number: true, setting: true, folds: (text) => `${text} worker${text === "1" ? "" : "s"}` },
  { name: "link", title: "link", setting: true, folds: (text) => `link ${text}` },
  { name: "seed", title: "seed", number: true, setting: true, folds: (text) => `seed ${text}` },
  { name: "epochs", title: "epochs", number: true, setting: true, folds: (text) => `${text} epochs` },
  { name: "size", title: "disk (MB)", number: true, text: (run) => fixed(run.size, 2, 1e-6), folds: (text) => `${text} MB` },
  { name: "status", title: "status", folds: (text) => text },
];
const HINTS = { system: (run) => run.id, status: (run) => run.trouble };
const CURVE = { width: 90, height: 22 };

const fixed = (value, digits, by = 1) => (value === null || value === undefined ? "" : (by * value).toFixed(digits));
const times = (value) => (value === null || value === undefined ? "" : `${value.toFixed(2)} ×`);
const shown = (column, run) => (column.text ? column.text(run) : String(run[column.name] ?? ""));

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && typeof value === "boolean") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

// Curve of validation scores over evaluations, on the scale of all runs.
function sparkline(run, [least, most]) {
  const points = run.curve;
  if (points.length < 2) return "";
  const { width, height } = CURVE;
  const place = (score, index) => {
    const x = 2 + (index * (width - 4)) / (points.length - 1);
    const y = height - 3 - ((score - least) * (height - 6)) / (most - least || 1);
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  };
  const words = `validation score from ${fixed(points[0], 1, 100)} to ${fixed(points.at(-1), 1, 100)} %`;
  const picture = make("span", { role: "img", "aria-label": words, title: words });
  picture.innerHTML =
    `<svg width="${width}" height="${height}" aria-hidden="true"><polyline fill="none" stroke="currentColor" ` +
    `stroke-width="1.5" points="${points.map(place).join(" ")}"/></svg>`;
  return picture;
}

function compare(column, a, b) {
  const [x, y] = [a[column.name] ?? null, b[column.name] ?? null];
  if (x === null || y === null) return (x === null) - (y === null); // unknown values come last
  return column.number ? x - y : shown(column, a).localeCompare(shown(column, b));
}

function render({ model, el }) {
  let [source, removed] = [null, false];
  let order = { column: COLUMNS[0], down: true };
  const words = make("input", {
    type: "search", placeholder: "filter: adaqp digits 4", "aria-label": "Filter runs by words", oninput: draw,
  });
  const count = make("span", { role: "status" });
  const head = make("thead");
  const body = make("tbody");
  const table = make("table", { "aria-label": "Runs" }, head, body);
  const scroll = make("div", { class: "scroll" }, table);
  const sorting = make("select", { "aria-label": "Sort by", onchange: () => sortBy(COLUMNS[sorting.value]) });
  const area = make("div", { class: "gnnqlab-runs" }, make("div", { class: "bar" }, words, count, sorting), scroll);
  let width = 0;
  const resized = new ResizeObserver(() => {
    if (scroll.offsetWidth !== width) draw();
  });
  el.replaceChildren(make("style"), area);
  el.firstChild.textContent = STYLE;

  function choose(name, value) {
    source.set(name, value);
    source.save_changes();
    draw();
  }

  function tick(id, on) {
    const others = source.get("ticked").filter((each) => each !== id);
    choose("ticked", on ? [...others, id] : others);
  }

  function sortBy(column) {
    order = { column, down: order.column === column ? !order.down : Boolean(column.number) };
    draw();
    head.querySelector(`[data-column="${column.name}"]`)?.focus();
  }

  function title(column) {
    if (column.fixed) return make("th", { scope: "col" }, column.title);
    const mine = order.column === column;
    const mark = mine ? (order.down ? " ▾" : " ▴") : "";
    const sort = mine ? (order.down ? "descending" : "ascending") : "none";
    const button = make("button", { type: "button", "data-column": column.name, onclick: () => sortBy(column) }, column.title + mark);
    return make("th", { scope: "col", "aria-sort": sort, class: column.number ? "number" : "" }, button);
  }

  function line(run, columns, pinned, ticked, range) {
    const about = `${run.system || run.id} of ${run.began}`;
    const box = make("input", {
      type: "checkbox", "aria-label": `Tick ${about}`, checked: ticked.has(run.id), onchange: (event) => tick(run.id, event.target.checked),
    });
    const pin = make("input", {
      type: "radio", name: `pin-${model.model_id}`, "aria-label": `Compare others with ${about}`,
      checked: run.id === pinned, onchange: () => choose("pinned", run.id),
    });
    const cells = columns.map((column) => make(
      "td",
      { class: column.number ? "number" : "", "data-column": column.name, title: HINTS[column.name]?.(run) ?? "" },
      column.fixed ? sparkline(run, range) : shown(column, run),
    ));
    const look = `${ticked.has(run.id) ? "ticked" : ""} ${run.id === pinned ? "pinned" : ""}`;
    return make("tr", { class: look, "data-run": run.id }, make("td", {}, box), make("td", {}, pin), ...cells);
  }

  function folded(run, columns, span, ticked) {
    const texts = columns.filter((column) => shown(column, run) !== "").map((column) => column.folds(shown(column, run)));
    const look = `more ${ticked.has(run.id) ? "ticked" : ""}`;
    return make("tr", { class: look }, make("td", { colspan: 2 }), make("td", { colspan: span, title: run.trouble ?? "" }, texts.join(" · ")));
  }

  function draw() {
    if (removed || !source) return;
    const runs = JSON.parse(source.get("rows"));
    const [pinned, ticked] = [source.get("pinned"), new Set(source.get("ticked"))];
    const reference = runs.find((run) => run.id === pinned);
    for (const run of runs)
      run.faster = reference?.train_s && run.train_s ? reference.train_s / run.train_s : null;
    const filters = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const text = (run) => [run.id, ...COLUMNS.map((column) => shown(column, run))].join(" ").toLowerCase();
    const matches = runs.filter((run) => filters.every((word) => text(run).includes(word)));
    matches.sort((a, b) => {
      const unknown = [a, b].some((run) => (run[order.column.name] ?? null) === null);
      return (order.down && !unknown ? -1 : 1) * compare(order.column, a, b);
    });
    const used = COLUMNS.filter((column) => runs.some((run) => shown(column, run) !== "")); // without empty columns
    const same = used.filter((column) => column.setting && runs.length > 1 && runs.every((run) => shown(column, run) === shown(column, runs[0])));
    const columns = used.filter((column) => !same.includes(column)); // what runs share is in one line above them
    const scores = runs.flatMap((run) => run.curve);
    const range = [Math.min(...scores), Math.max(...scores)];
    count.textContent = `${matches.length} of ${runs.length} runs, ${ticked.size} ticked` + (same.length ? `; all with ${same.map((column) => column.folds(shown(column, runs[0]))).join(", ")}` : "");
    const focused = el.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
    const fill = (across, below) => {
      head.replaceChildren(make("tr", {}, make("th", { scope: "col" }, "✓"), make("th", { scope: "col" }, "pin"),
        ...across.map(title)));
      body.replaceChildren(...matches.flatMap((run) => [
        line(run, across, pinned, ticked, range), ...(below.length ? [folded(run, below, across.length, ticked)] : []),
      ]));
    };
    fill(columns, []);
    width = scroll.offsetWidth;
    const cut = scroll.scrollWidth > scroll.clientWidth;
    if (cut) fill(columns.filter((column) => !column.folds), columns.filter((column) => column.folds));
    sorting.hidden = !cut; // a list to sort by, because folded columns have no title to click on
    const choices = columns.filter((column) => !column.fixed);
    sorting.replaceChildren(...choices.map((column) => make(
      "option", { value: COLUMNS.indexOf(column), selected: column === order.column }, `by ${column.title}`,
    )));
    if (focused) [...body.querySelectorAll("input")].find((each) => each.getAttribute("aria-label") === focused)?.focus();
  }

  async function begin() {
    source = await find(model.widget_manager, model.get("source"));
    source.on("change:rows change:ticked change:pinned", draw);
    draw();
    resized.observe(scroll);
  }

  begin().catch((error) => {
    area.setAttribute("role", "alert");
    area.textContent = `✗ The table of runs cannot be shown: ${error.message}. Run the cell again.`;
  });
  return () => {
    removed = true;
    resized.disconnect();
    source?.off("change:rows change:ticked change:pinned", draw);
  };
}

const STYLE = `
.gnnqlab-runs { font-size: 13px; color: var(--jp-ui-font-color1, inherit); }
.gnnqlab-runs .bar { display: flex; gap: 1em; align-items: center; padding: 4px 0; }
.gnnqlab-runs .bar input { width: 18em; padding: 3px 6px; font: inherit; color: inherit;
  background: var(--jp-layout-color1, transparent); border: 1px solid var(--jp-border-color1, #999); border-radius: 4px; }
.gnnqlab-runs .scroll { overflow: auto; max-height: 420px; border: 1px solid var(--jp-border-color2, #ccc); }
.gnnqlab-runs table { border-collapse: collapse; width: 100%; margin: 0; }
.gnnqlab-runs th { position: sticky; top: 0; background: var(--jp-layout-color2, #eee); text-align: left; z-index: 1; }
.gnnqlab-runs th button { all: unset; cursor: pointer; font-weight: 600; padding: 2px; }
.gnnqlab-runs th button:focus-visible { outline: 2px solid var(--jp-brand-color1, #0072b2); }
.gnnqlab-runs th, .gnnqlab-runs td { padding: 3px 6px; white-space: nowrap; }
.gnnqlab-runs .bar select { font: inherit; color: inherit; background: var(--jp-layout-color1, transparent); }
.gnnqlab-runs .more td { padding-top: 0; font-size: 12px; color: var(--jp-ui-font-color2, inherit); text-align: left; }
.gnnqlab-runs .number { text-align: right; font-variant-numeric: tabular-nums; }
.gnnqlab-runs tr.ticked td { background: var(--jp-layout-color2, #eef); }
.gnnqlab-runs tr.pinned td[data-column=system] { font-weight: 700; }
`;

export default { render };
