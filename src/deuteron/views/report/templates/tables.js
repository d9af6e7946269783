// Sortable tables, the path from kernel to source line, and the lists at the end.

const TABLE_TITLES = { module: "By module", line: "By line", operator: "By operator", kernel: "By kernel call" };
const TIME_UNIT = counted ? UNITS[0] : UNITS[1];

/** Texts for the origin of bytes and multiply-accumulates: counted in the program, or reported by the compiler with its cycles. */
const WORK = data.npu_measure === "estimated" ? "estimated" : "exact";

const asTime = (ticks) => number(ticks / TIME_UNIT.ticks, counted ? 0 : 1);

/** Returns a count of a row's work as text; empty if it is unknown or the row moves no bytes. */
const countOf = (row, value) => (row.bytes ? number(value) : "");

const COLUMNS = [
  { id: "name", title: "name", text: true },
  { id: "detail", title: "from", text: true },
  { id: "ticks", title: TIME_UNIT.name, hint: `time, ${data.measure}`, show: (row) => asTime(row.ticks) },
  { id: "share", title: "share", hint: `of the run, ${data.measure}`, value: (row) => row.ticks,
    show: (row) => share(row.ticks / Math.max(1, data.ticks)), bar: true },
  { id: "own", title: "own", hint: `${TIME_UNIT.name} of kernels and operators themselves, ${data.measure}`,
    show: (row) => asTime(row.own) },
  { id: "estimate", title: "estimate", hint: `estimated ${TIME_UNIT.name} of the kernels and operators that have an estimate`,
    show: (row) => (row.estimate ? asTime(row.estimate) : "") },
  { id: "ratio", title: "ratio", hint: "measured time of these kernels and operators / estimate", value: (row) => row.ratio ?? -1,
    show: (row) => (row.ratio === null ? "" : row.ratio.toFixed(2)) },
  { id: "wait", title: "wait", hint: `${TIME_UNIT.name} of waiting for weights, ${data.measure}`,
    show: (row) => asTime(row.wait) },
  { id: "dispatch", title: "dispatch", hint: `${TIME_UNIT.name} of starting the kernels, ${data.measure}`,
    show: (row) => asTime(row.dispatch) },
  { id: "calls", title: "calls", show: (row) => number(row.calls) },
  { id: "macs", title: "MACs", hint: `multiply-accumulates, ${WORK}`, show: (row) => countOf(row, row.macs) },
  { id: "bytes", title: "bytes", hint: `read and written in SRAM, ${WORK}`, show: (row) => countOf(row, row.bytes) },
  { id: "cycles", title: "NPU cycles", hint: `at best, ${data.npu_measure}`, show: (row) => countOf(row, row.cycles) },
  { id: "used", title: "used", hint: `share of the MACs that the NPU's array could do in the row's time, ${data.measure}`,
    value: (row) => row.used ?? -1, show: (row) => (row.used === null ? "" : share(row.used)) },
  { id: "bound", title: "bound", text: true, hint: "what limits most of it" },
].filter((column) => !["wait", "estimate", "ratio"].includes(column.id) ||
  data.tables.kernel.some((row) => row[column.id]));

/** Tables under tabs; a click on a column title sorts. */
class Tables {
  constructor(host, tabs, view) {
    Object.assign(this, { host, tabs, view, by: "kernel" });
    this.sorts = Object.fromEntries(Object.keys(TABLE_TITLES).map((by) => [by, by === "module" ? null : ["ticks", -1]]));
    this.buttons = Object.entries(TABLE_TITLES).map(([by, title]) =>
      element("button", { type: "button", role: "tab", id: `tab-${by}`, onclick: () => this.show(by) }, title));
    for (const button of this.buttons) button.setAttribute("aria-controls", host.id);
    tabs.replaceChildren(...this.buttons);
    tabs.addEventListener("keydown", (event) => this.tabKey(event));
    host.addEventListener("keydown", (event) => this.rowKey(event));
    view.listeners.push(() => this.mark());
    this.show("kernel");
  }

  tabKey(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const next = (this.buttons.findIndex((button) => button === document.activeElement) + by) % this.buttons.length;
    this.buttons.at(next).click();
    this.buttons.at(next).focus();
  }

  rowKey(event) {
    const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const now = event.target.closest("tbody tr");
    if (!by || !now) return;
    event.preventDefault();
    let next = now;
    do next = by < 0 ? next.previousElementSibling : next.nextElementSibling;
    while (next?.hidden);
    next?.querySelector("button").focus();
  }

  show(by) {
    this.by = by;
    for (const button of this.buttons) {
      const chosen = button.id === `tab-${by}`;
      button.setAttribute("aria-selected", chosen);
      button.tabIndex = chosen ? 0 : -1;
    }
    this.host.setAttribute("aria-labelledby", `tab-${by}`);
    this.draw();
  }

  /** Cycles through descending, ascending and original order. */
  sort(column) {
    const first = column.text ? 1 : -1;
    const [id, direction] = this.sorts[this.by] ?? [];
    this.sorts[this.by] = id !== column.id ? [column.id, first] : direction === first ? [id, -first] : null;
    this.draw();
    this.host.querySelector(`[data-column=${column.id}] button`).focus();
  }

  sorted() {
    const rows = [...data.tables[this.by]];
    const sort = this.sorts[this.by];
    if (!sort) return rows;
    const column = COLUMNS.find((one) => one.id === sort[0]);
    const value = column.value ?? ((row) => row[column.id]);
    const compare = column.text ? (a, b) => value(a).localeCompare(value(b), "en", { numeric: true })
      : (a, b) => value(a) - value(b);
    return rows.sort((a, b) => sort[1] * compare(a, b));
  }

  draw() {
    const sort = this.sorts[this.by];
    const titles = COLUMNS.map((column) => {
      const head = element("th", { scope: "col", className: column.text ? "" : "amount" },
        element("button", { type: "button", title: column.hint ?? "", onclick: () => this.sort(column) },
          column.title, element("span", { className: "arrow" },
            sort?.[0] === column.id ? (sort[1] > 0 ? " ▲" : " ▼") : "")));
      head.dataset.column = column.id;
      head.setAttribute("aria-sort", sort?.[0] !== column.id ? "none" : sort[1] > 0 ? "ascending" : "descending");
      return head;
    });
    const most = data.tables[this.by].reduce((best, row) => Math.max(best, row.ticks), 1);
    this.rows = this.sorted().map((row) => ({ row, made: this.row(row, !sort, most) }));
    this.host.replaceChildren(element("table", {},
      element("thead", {}, element("tr", {}, ...titles)),
      element("tbody", {}, ...this.rows.map(({ made }) => made))));
    this.mark();
  }

  row(row, isTree, most) {
    const cells = COLUMNS.map((column) => {
      if (column.id === "name") {
        const button = element("button", { type: "button", title: row.name }, row.name);
        const cell = element("th", { scope: "row" }, button);
        if (isTree) cell.style.paddingLeft = `${0.5 + 1.1 * row.depth}rem`;
        return cell;
      }
      const cell = element("td", { className: column.text ? "" : "amount" },
        column.show ? column.show(row) : row[column.id]);
      if (column.text) cell.title = row[column.id];
      if (column.bar) cell.style.backgroundSize = `${(100 * row.ticks) / most}% 100%`;
      if (column.bar) cell.classList.add("bar");
      return cell;
    });
    return element("tr", { onclick: () => this.view.choose({
      title: row.name, parts: row.parts, about: [
        [`time, ${data.measure}`, length(row.ticks)],
        ["share of the run", share(row.ticks / Math.max(1, data.ticks))],
        ...(row.bound ? [["bound", row.bound]] : []),
      ],
    }) }, ...cells);
  }

  mark() {
    for (const { row, made } of this.rows ?? []) {
      const chosen = row.parts.some((part) => this.view.chosen.has(part));
      made.classList.toggle("chosen", chosen);
      if (chosen) made.setAttribute("aria-current", "true");
      else made.removeAttribute("aria-current");
      made.hidden = this.view.query !== "" && !this.isFound(row);
    }
  }

  isFound(row) {
    return `${row.name}\n${row.detail}`.toLowerCase().includes(this.view.query)
      || row.parts.some((part) => this.view.found.has(part));
  }
}

/** The path from the selection to the source; an entry of a step selects all parts that share it. */
function pathOf(choice, view) {
  if (!choice) {
    return [element("p", { className: "note" },
      "Choose an event, a tensor, a module or a row: what it comes from is shown here, and marked everywhere.")];
  }
  const parts = choice.parts.map((part) => data.parts[part]);
  const [part] = parts;
  const of = parts.length === 1 && part.kernel && !choice.box?.isBeside ? [
    [`MACs, ${WORK}`, number(part.kernel.macs)],
    [`bytes in SRAM, ${WORK}`, `${number(part.kernel.bytes)}, of these ${number(part.kernel.weights)} of weights`],
    [`NPU cycles at best, ${data.npu_measure}`, number(part.kernel.cycles)],
    ["bound on the NPU", part.kernel.bound],
    ["writes", part.kernel.output.join(", ")],
    ...(part.kernel.stripe ? [["depth first", part.kernel.stripe]] : []),
  ] : [];
  const why = parts.length === 1 && part.why ? [["why on the CPU", part.why]] : [];
  const steps = STEPS.map((step) => ({ ...step, found: unique(parts.flatMap(step.entries)) }))
    .filter((step) => step.found.length && parts.some((one) => one.kind !== "overhead"));
  const list = element("ol", { className: "way" }, ...steps.map((step) => element("li", {},
    element("h3", {}, step.title),
    ...step.found.slice(0, MANY).map((entry) => entryOf(step, entry, view)),
    ...(step.found.length > MANY ? [element("p", { className: "note" }, `and ${step.found.length - MANY} more`)] : []))));
  return [facts([...choice.about, ...of, ...why]), ...(steps.length ? [list] : [])];
}

const MANY = 12;

function entryOf(step, entry, view) {
  const parts = step.parts.get(entry);
  const button = element("button", {
    type: "button", title: parts.length > 1 ? `choose all ${parts.length} that share it` : "choose",
    onclick: () => view.choose({ title: entry, parts, about: [[step.title.toLowerCase(), entry]] }),
  }, entry);
  const code = step.title === "Source line" ? [element("code", {}, codeOfLine.get(entry))] : [];
  return element("div", { className: "entry" }, button, ...code);
}

/** Returns a plain table of texts and numbers. */
function plainTable(titles, rows, isAmount = () => false) {
  return element("table", {},
    element("thead", {}, element("tr", {}, ...titles.map((title, i) =>
      element("th", { scope: "col", className: isAmount(i) ? "amount" : "" }, title)))),
    element("tbody", {}, ...rows.map((cells) => element("tr", {}, ...cells.map((cell, i) =>
      element("td", { className: isAmount(i) ? "amount" : "" }, cell))))));
}

function sizes() {
  const state = !data.state.length ? [] : [
    element("p", {}, "State, which lasts from one run to the next:"),
    element("ul", {}, ...data.state.map((line) => element("li", {}, line))),
  ];
  if (!data.sections.length) {
    return [...state, element("p", { className: "note" },
      "No firmware was linked for this run; a profile of a board has its sizes.")];
  }
  const whole = data.sections.reduce((sum, section) => sum + section.bytes, 0);
  const rows = [...data.sections].sort((a, b) => b.bytes - a.bytes)
    .map((section) => [section.group, section.name, number(section.bytes), share(section.bytes / whole)]);
  return [...state, plainTable(["part of the firmware", "section or kernel", "bytes", "share"],
    [...rows, ["all", "", number(whole), share(1)]], (i) => i > 1)];
}

function quality() {
  const { title, lines, layers } = data.quality;
  if (!title) {
    return [element("p", { className: "note" }, "The build has not measured how far its program is from the float model.")];
  }
  const rows = layers.slice(0, MANY).map((layer) => [
    `${layer.op} ${layer.name}`, layer.own.toFixed(1), layer.total.toFixed(1), layer.sources.slice(0, 1).map(lineOf).join(),
  ]);
  return [
    element("p", {}, `The ${title}.`),
    element("ul", {}, ...lines.map((line) => element("li", {}, line))),
    plainTable(["layer of quantized PyTorch, worst first", "own", "so far", "line"], rows, (i) => i === 1 || i === 2),
    ...(layers.length > MANY ? [element("p", { className: "note" }, `and ${layers.length - MANY} more`)] : []),
  ];
}

function placement(view) {
  const npu = data.npu.map((part, i) => {
    const ops = Object.entries(part.ops).map(([name, count]) => `${count} ${name}`).join(", ");
    return element("p", {}, `npu ${i}: ${part.kernels} kernel calls for ${ops}`);
  });
  if (!data.cpu.length) return [...npu, element("p", {}, "Nothing that the build lists runs on the CPU.")];
  const rows = data.cpu.map((op) => [
    element("button", { type: "button", onclick: () => view.choose({
      title: op.name, parts: op.parts, about: [["on the CPU", op.why || "the build does not say why"]],
    }) }, op.name),
    op.node,
    op.sources.map(lineOf).join(", "),
    op.why || "the build does not say",
  ]);
  return [...npu, plainTable(["on the CPU", "edge operator", "line", "why"], rows)];
}

function madeOf() {
  const group = (title, pairs) => element("details", { open: pairs.length < 8 },
    element("summary", {}, title), facts(pairs));
  return [
    group("Versions and clocks", Object.entries({ ...data.versions, ...data.made })),
    group("Options of the build", Object.entries(data.options)),
    group("SHA-256 of its files", Object.entries(data.files)),
  ];
}
