// The points of a sweep: filters, charts and a table of the filtered points, and details of one point.

const data = JSON.parse(document.getElementById("data").textContent);
const points = data.rows.map((row) => Object.fromEntries(data.columns.map((column, i) => [column, row[i]])));
const fitting = points.filter((point) => point.fits);

const GOALS = [
  { name: "sram_bytes", title: "SRAM", unit: "B" },
  { name: "flash_bytes", title: "flash", unit: "B" },
  { name: "accuracy", title: "accuracy", isGood: true },
  { name: "sqnr_db", title: "signal to quantization noise", unit: "dB", isGood: true },
].filter((goal) => fitting.some((point) => point[goal.name] !== null));
const MOST_ROWS = 300;
const NEAR = 12; // pixels from a point at which a click still means it

const text = (value) => (value === null || value === "" ? "-" : typeof value === "number"
  ? value.toLocaleString("en", { maximumFractionDigits: 3 }) : String(value));
/** Returns the text of a figure; `-` for axes that its target lacks. An incomplete time shows its known part. */
const shown = (point, name) => (point.ignored?.split(", ").includes(name) ? "-"
  : name === "latency_us" && point.latency_us === null && point.npu_us ? `>${text(point.npu_us)}` : text(point[name]));
const unique = (values) => [...new Set(values)];
const node = (id) => document.getElementById(id);

/** Returns an element with properties and children; strings are set as text, never as HTML. */
function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** Axes with more than one value, and their values. */
const axes = data.axes.map((name) => ({ name, title: name.replaceAll("_", " "), values: unique(points.map((p) => p[name])) }))
  .filter((axis) => axis.values.length > 1);

const state = { wanted: new Map(), box: null, chosen: null, sort: { name: "latency_us", isUp: true }, bestOnly: true };

/** Returns the points that fit and pass the filters. */
function kept() {
  const { wanted, box } = state;
  return fitting.filter((point) =>
    [...wanted].every(([name, value]) => String(point[name]) === value)
    && (!box || (point.latency_us !== null && point.latency_us >= box.from && point.latency_us <= box.to
      && point[box.goal] !== null && point[box.goal] >= box.low && point[box.goal] <= box.high)));
}

/** Returns the missing part of a point's time; points are compared with those that lack the same part. */
const lacking = (point) => (point.latency_us !== null ? "0" : point.npu_us ? "1" : `${point.cycles === null ? 3 : 2} ${point.target}`);

/** Returns the figures by which a point is compared, its known time first; smaller is better. Null if one is missing. */
const scores = (point) => [point.latency_us ?? (point.npu_us || point.cycles), ...GOALS.map((goal) =>
  (point[goal.name] === null ? null : goal.isGood ? -point[goal.name] : point[goal.name]))];

/** Returns for each model the points that no other one dominates among those that lack the same figures; the first of equal ones. */
function best(candidates) {
  const alike = (point) => JSON.stringify([point.model, lacking(point)]);
  return unique(candidates.map(alike)).flatMap((kind) => {
    const own = candidates.filter((point) => alike(point) === kind)
      .map((point) => ({ point, score: scores(point).map((score) => score ?? Infinity) }))
      .sort((a, b) => a.score.reduce((order, value, i) => order || (value < b.score[i] ? -1 : value > b.score[i] ? 1 : 0), 0));
    const front = [];
    for (const one of own) {
      if (!front.some((other) => other.score.every((value, i) => value <= one.score[i]))) front.push(one);
    }
    return front.map((one) => one.point);
  });
}

/** Chart of time against one goal. */
class Scatter {
  constructor(host, goal) {
    Object.assign(this, { host, goal, shown: [], plot: null });
    new ResizeObserver(() => this.plot?.setSize(this.size())).observe(host);
  }

  size() {
    return { width: Math.max(240, this.host.clientWidth), height: 220 };
  }

  show(candidates, front) {
    const { goal } = this;
    this.shown = candidates.filter((point) => point.latency_us !== null && point[goal.name] !== null)
      .sort((a, b) => a.latency_us - b.latency_us);
    const marked = new Set(front);
    const colour = (name) => () => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    const axis = { stroke: colour("faint"), grid: { stroke: colour("grid"), width: 1 }, ticks: { show: false } };
    const dots = (label, name, size) => ({
      label, stroke: colour(name), fill: colour(name), paths: () => null, points: { show: true, size, fill: colour(name) },
      value: (_, value) => text(value),
    });
    const title = goal.title + (goal.unit ? ` in ${goal.unit}` : "");
    const options = {
      ...this.size(), title: `${title} against time in µs`,
      cursor: { drag: { x: true, y: true, setScale: false }, points: { show: false } },
      scales: { x: { time: false }, y: {} },
      axes: [axis, { ...axis, size: 90, values: (_, splits) => splits.map(text) }],
      series: [{ label: "µs", value: (_, value) => text(value) }, dots("others", "faint", 4),
        dots("not dominated", "line-0", 7), dots("chosen", "focus", 11)],
      hooks: { setSelect: [(plot) => this.select(plot)] },
    };
    const values = (test) => this.shown.map((point) => (test(point) ? point[goal.name] : null));
    const series = [this.shown.map((point) => point.latency_us), values((point) => !marked.has(point)),
      values((point) => marked.has(point)), values((point) => point === state.chosen)];
    this.plot?.destroy();
    this.host.replaceChildren();
    this.plot = new uPlot(options, series, this.host);
    this.plot.over.addEventListener("click", (event) => this.click(event));
    this.plot.over.addEventListener("dblclick", () => { state.box = null; update(); });
  }

  /** Returns the point nearest to a position in the chart. */
  nearest(left, top) {
    let found = null;
    for (const point of this.shown) {
      const away = Math.hypot(this.plot.valToPos(point.latency_us, "x") - left, this.plot.valToPos(point[this.goal.name], "y") - top);
      if (away <= (found?.away ?? NEAR)) found = { point, away };
    }
    return found?.point ?? null;
  }

  click(event) {
    const place = this.plot.over.getBoundingClientRect();
    const point = this.nearest(event.clientX - place.left, event.clientY - place.top);
    if (point) choose(point);
  }

  select(plot) {
    const { left, top, width, height } = plot.select;
    if (width < 4 || height < 4) return;
    state.box = {
      goal: this.goal.name, from: plot.posToVal(left, "x"), to: plot.posToVal(left + width, "x"),
      low: plot.posToVal(top + height, "y"), high: plot.posToVal(top, "y"),
    };
    update();
  }
}

/** Returns for each model the point with the least SRAM, then the least flash, among those that are fast enough. */
function answer() {
  const limit = Number(node("at-most").value) * 1000;
  const amount = (value) => value ?? Infinity;
  const candidates = kept();
  node("answers").replaceChildren(...unique(candidates.map((point) => point.model)).map((model) => {
    const able = candidates.filter((point) => point.model === model && point.latency_us !== null && point.latency_us <= limit)
      .sort((a, b) => amount(a.sram_bytes) - amount(b.sram_bytes) || a.flash_bytes - b.flash_bytes || a.latency_us - b.latency_us);
    if (!able.length) return element("li", {}, `${model}: none of these points is fast enough`);
    const [one] = able;
    const values = axes.filter((axis) => !["model", "target"].includes(axis.name) && shown(one, axis.name) !== "-")
      .map((axis) => `${axis.title} ${shown(one, axis.name)}`);
    const button = element("button", { type: "button" }, `point ${one.number}`);
    button.addEventListener("click", () => choose(one));
    return element("li", {}, `${model}: ${[one.target, ...values].join(", ")}: ${text(one.latency_us)} µs, `
      + `${text(one.sram_bytes)} B of SRAM, ${text(one.flash_bytes)} B of flash `, button);
  }));
}

const COLUMNS = [
  { name: "number", title: "point" }, { name: "model", title: "model" }, { name: "target", title: "target" },
  { name: "latency_us", title: "µs" }, { name: "bound", title: "bound" },
  ...GOALS.map((goal) => ({ name: goal.name, title: goal.title + (goal.unit ? `, ${goal.unit}` : "") })),
  { name: "npu_share", title: "share of the NPU" },
  ...axes.filter((axis) => !["model", "target"].includes(axis.name)),
];

function table(candidates) {
  const { name, isUp } = state.sort;
  const order = (a, b) => (a === null || b === null ? (a === null) - (b === null)
    : (isUp ? 1 : -1) * (a < b ? -1 : a > b ? 1 : 0));
  const rows = [...candidates].sort((a, b) => order(a[name], b[name]) || a.number - b.number);
  const heads = COLUMNS.map((column) => {
    const button = element("button", { type: "button" }, column.title);
    button.addEventListener("click", () => {
      state.sort = { name: column.name, isUp: state.sort.name === column.name ? !state.sort.isUp : true };
      update();
    });
    const sorted = column.name === name ? (isUp ? "ascending" : "descending") : "none";
    return element("th", { scope: "col", "aria-sort": sorted, "data-column": column.name }, button);
  });
  const body = rows.slice(0, MOST_ROWS).map((point) => {
    const row = element("tr", { className: point === state.chosen ? "chosen" : "" }, ...COLUMNS.map((column, i) => {
      if (i > 0) return element("td", { className: typeof point[column.name] === "number" ? "amount" : "" }, shown(point, column.name));
      return element("th", { scope: "row" }, element("button", { type: "button" }, String(point.number)));
    }));
    row.addEventListener("click", () => choose(point));
    return row;
  });
  node("table").replaceChildren(element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...body)));
  node("count").textContent = rows.length > MOST_ROWS ? `the first ${MOST_ROWS} of ${text(rows.length)}` : text(rows.length);
}

/** Shows one point: its figures, the command that reproduces them, and the profile of its build. */
function detail() {
  const point = state.chosen;
  node("path-title").textContent = point ? `Point ${point.number}` : "Nothing selected";
  if (!point) return node("path-body").replaceChildren();
  const known = data.columns.filter((name) => !["number", "fits", "why", "command", "profile"].includes(name) && point[name] !== null && point[name] !== "");
  const list = element("dl", { className: "facts" }, ...known.flatMap((name) =>
    [element("dt", {}, name.replaceAll("_", " ")), element("dd", {}, text(point[name]))]));
  const parts = [list];
  if (data.bands[point.target]) parts.push(element("p", { className: "note" }, data.bands[point.target]));
  if (point.command) {
    const build = data.profiles[point.number];
    parts.push(element("h3", {}, "Its figures again, in the sweep's directory"), element("pre", { id: "command" }, point.command),
      element("h3", {}, "The profile of its build"), element("pre", { id: "profile" }, build.command));
    if (build.page) parts.push(element("a", { id: "profile-page", href: build.page }, "the page of that profile"));
  }
  node("path-body").replaceChildren(...parts);
}

function choose(point) {
  state.chosen = point;
  update();
}

const plots = [];

function update() {
  const candidates = kept();
  const front = best(candidates);
  for (const plot of plots) plot.show(candidates, front);
  table(state.bestOnly ? front : candidates);
  answer();
  detail();
}

function filters() {
  node("axes").replaceChildren(...axes.map((axis) => {
    const select = element("select", { "data-axis": axis.name }, element("option", { value: "" }, "all"),
      ...axis.values.map((value) => element("option", { value: String(value) }, text(value))));
    select.addEventListener("change", () => {
      if (select.selectedIndex) state.wanted.set(axis.name, select.value);
      else state.wanted.delete(axis.name);
      update();
    });
    return element("label", {}, `${axis.title} `, select);
  }));
}

function theme(isDark) {
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  node("theme").textContent = isDark ? "Light theme" : "Dark theme";
  for (const plot of plots) plot.plot?.redraw(false);
}

function refusals() {
  const reasons = new Map();
  for (const point of points.filter((one) => !one.fits)) {
    const why = `${point.model} on ${point.target}: ${point.why}`;
    reasons.set(why, (reasons.get(why) ?? 0) + 1);
  }
  const listed = [...reasons].sort((a, b) => b[1] - a[1]);
  node("refused-body").replaceChildren(listed.length
    ? element("ul", {}, ...listed.map(([why, count]) => element("li", {}, `${text(count)} × ${why}`)))
    : "All points fit.");
}

node("subtitle").textContent = `${text(points.length)} points, ${text(fitting.length)} fit`;
node("notes").replaceChildren(...data.notes.map((note) => element("li", {}, note)));
for (const goal of GOALS) {
  const host = element("div", { className: "plot", "data-goal": goal.name });
  node("plots").append(host);
  plots.push(new Scatter(host, goal));
}
node("at-most").addEventListener("input", answer);
node("best-only").addEventListener("change", (event) => { state.bestOnly = event.target.checked; update(); });
node("all").addEventListener("click", () => { Object.assign(state, { wanted: new Map(), box: null }); filters(); update(); });
node("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme !== "dark"));
filters();
refusals();
theme(matchMedia("(prefers-color-scheme: dark)").matches);
update();
window.report = { state, plots, choose, kept, best };
document.documentElement.dataset.ready = "yes";
