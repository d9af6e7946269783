// Selection, search, and start-up.

/** State that all charts and tables share: the selection, the search, and listeners for changes. */
const view = {
  listeners: [],
  choice: null,
  chosen: new Set(),
  query: "",
  found: new Set(), // parts that match the query

  isChosen(box) {
    return box === this.choice?.box || box.parts.some((part) => this.chosen.has(part));
  },

  isFaint(box) {
    if (this.query) return !box.text.includes(this.query);
    return this.choice !== null && !this.isChosen(box);
  },

  choose(choice) {
    this.choice = choice;
    this.chosen = new Set(choice?.parts ?? []);
    this.changed();
    const title = document.getElementById("path-title");
    const body = document.getElementById("path-body");
    const inside = body.contains(document.activeElement);
    title.textContent = choice ? choice.title : "Nothing selected";
    body.replaceChildren(...pathOf(choice, this));
    if (inside) title.focus();
    if (choice) this.say(`${choice.title} is chosen; P goes to what it comes from`);
  },

  search(text) {
    this.query = text.trim().toLowerCase();
    this.found = new Set();
    if (this.query) partTexts.forEach((one, part) => one.includes(this.query) && this.found.add(part));
    this.changed();
  },

  changed() {
    for (const listener of this.listeners) listener();
  },

  say(text) {
    document.getElementById("said").textContent = text;
  },

  hover(box, x, y) {
    const tip = document.getElementById("tip");
    tip.hidden = !box;
    if (!box) return;
    tip.replaceChildren(element("strong", {}, box.label), facts(box.about()));
    const left = Math.min(x + 12, window.innerWidth - tip.offsetWidth - 8);
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${y + 16 + tip.offsetHeight < window.innerHeight ? y + 16 : Math.max(4, y - tip.offsetHeight - 8)}px`;
  },
};

/** Light or dark: as in the system's settings, until the button changes it. */
function startTheme(redraw) {
  const button = document.getElementById("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  let wanted = null;
  const apply = () => {
    const dark = wanted ?? system.matches;
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    button.textContent = dark ? "Light theme" : "Dark theme";
    redraw();
  };
  system.addEventListener("change", apply);
  button.addEventListener("click", () => {
    wanted = !(wanted ?? system.matches);
    apply();
  });
  apply();
}

function zoomTools(host, stretch) {
  const button = (text, title, onclick) => element("button", { type: "button", title, onclick }, text);
  const label = (made, title) => {
    made.setAttribute("aria-label", title);
    return made;
  };
  host.replaceChildren(
    label(button("+", "zoom in", () => stretch.zoom(0.5)), "zoom in"),
    label(button("−", "zoom out", () => stretch.zoom(2)), "zoom out"),
    button("all", "show all", () => stretch.set(0, stretch.whole)));
}

function legend(host, boxes) {
  const colours = unique(boxes.map((box) => box.colour));
  host.replaceChildren(...colours.map((colour) => {
    const swatch = element("span", { className: "swatch" });
    swatch.style.background = `var(--box-${colour})`;
    return element("li", {}, swatch, COLOUR_TITLES[colour]);
  }));
}

function summary() {
  const lengths = data.events.filter((event) => event.kind === "run").map((event) => event.stop - event.start);
  const delegate = data.events.filter((event) => event.kind === "delegate" && event.run === data.median)
    .reduce((sum, event) => sum + event.stop - event.start, 0);
  const kernels = data.tables.kernel;
  const macs = kernels.reduce((sum, row) => sum + row.macs, 0);
  const slowest = kernels.reduce((best, row) => (row.calls && row.ticks > (best?.ticks ?? 0) ? row : best), null);
  const tiles = [
    [`${data.runs > 1 ? `median of ${data.runs} runs` : "one run"}, ${data.measure}`, length(data.ticks)],
    ...(lengths.length > 1 ? [["shortest and longest run",
      [Math.min, Math.max].map((end) => length(lengths.reduce((a, b) => end(a, b)))).join(" to ")]] : []),
    ...(delegate ? [["in the NPU's parts", share(delegate / Math.max(1, data.ticks))]] : []),
    ...(delegate && data.attributed !== null ? [["of that attributed", share(data.attributed)]] : []),
    ...(data.utilisation === null ? [] : [["of the NPU's array used in it", share(data.utilisation)]]),
    ["multiply-accumulates", number(macs)],
    ...(slowest ? [["longest", `${share(slowest.ticks / Math.max(1, data.ticks))} ${data.parts[slowest.parts[0]].label}`]] : []),
    ...(data.left_out ? [[`operators on the CPU, not ${data.measure}, not in these times`, number(data.left_out)]] : []),
    ...(data.lost ? [["events lost: the buffer was full", number(data.lost)]] : []),
  ];
  document.getElementById("summary").replaceChildren(...tiles.map(([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", { title: value }, value))));
}

function startSearch(timeline, maps) {
  const field = document.getElementById("query");
  const found = document.getElementById("found");
  let at = -1;
  const matches = (chart = timeline) => chart.boxes.filter((box) => view.query && box.text.includes(view.query));
  const countOf = (count, name) => `${number(count)} ${name}${count === 1 ? "" : "s"}`;
  field.addEventListener("input", () => {
    at = -1;
    view.search(field.value);
    const tensors = maps.reduce((sum, map) => sum + matches(map).length, 0);
    found.textContent = view.query ? [countOf(view.found.size, "part"), countOf(matches().length, "event"),
      ...(maps.length ? [countOf(tensors, "tensor")] : [])].join(", ") : "";
    view.say(found.textContent);
  });
  document.getElementById("search").addEventListener("submit", (event) => {
    event.preventDefault();
    const boxes = matches().sort((a, b) => a.isBeside - b.isBeside); // kernels and operators first
    if (!boxes.length) return;
    at = (at + 1) % boxes.length;
    timeline.stretch.show(boxes[at].from, boxes[at].to);
    timeline.choose(boxes[at]);
    found.textContent = `${at + 1} of ${boxes.length} events`;
    view.say(`${found.textContent}: ${boxes[at].label}`);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && event.target !== field) {
      event.preventDefault();
      field.focus();
    } else if (event.key === "Escape") {
      field.value = "";
      found.textContent = "";
      view.search("");
      view.choose(null);
    }
  });
}

/** `P` moves the focus to the selection's path to its source, and back. */
function startPathKey() {
  const title = document.getElementById("path-title");
  let before = null;
  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "p" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input, select")) return;
    event.preventDefault();
    if (title.parentElement.contains(document.activeElement)) {
      if (before?.isConnected) before.focus();
    } else {
      before = document.activeElement;
      title.focus();
    }
  });
}

function startMemory(time) {
  const maps = document.getElementById("memory-maps");
  const used = data.memories.filter((memory) => memory.bytes && memory.blocks.length);
  if (!used.length) {
    document.getElementById("memory").hidden = true;
    return { maps: [], show() {}, redraw() {} };
  }
  const chart = new UseChart(document.getElementById("memory-use"), time);
  const made = used.map((memory) => {
    const host = element("div");
    const title = `${memory.name} of npu ${memory.partition}`;
    maps.append(element("h3", {}, `${title}: ${bytes(memory.bytes)}, of which at most ${bytes(memory.bound)} are live `
      + "at once"), host);
    const step = niceStep(memory.bytes, 4);
    const marks = Array.from({ length: Math.floor(memory.bytes / step) + 1 }, (_, i) => i * step);
    const rowNames = marks.map((at) => ({ name: bytes(at), top: 1 - at / memory.bytes }));
    const height = Math.min(360, Math.max(160, 14 * unique(memory.blocks.map((block) => block.offset)).length));
    const label = `memory ${title} over time`;
    const map = new Boxes(host, { label, what: "tensors", height, stretch: time, view, rowNames });
    return { memory, title, map };
  });
  return {
    show(run) {
      let recorded = true;
      const lines = made.map(({ memory, title, map }) => {
        const calls = callTimes(run, memory);
        recorded &&= calls.recorded;
        const boxes = memoryBoxes(memory, calls.times);
        map.fill(boxes);
        const sizes = memory.blocks.map((block) => block.bytes);
        return { title, bytes: memory.bytes, use: memoryUse(boxes, sizes, endOf(run)) };
      });
      chart.show(lines);
      const note = document.getElementById("memory-note");
      note.hidden = recorded;
      note.textContent = "When each kernel ran is not recorded: all kernel calls are drawn equally wide.";
    },
    redraw: () => chart.redraw(),
    chart,
    maps: made.map(({ map }) => map),
  };
}

function start() {
  document.getElementById("title").textContent = data.model;
  document.getElementById("subtitle").textContent =
    `for ${data.target}, on ${data.on}, ${data.measure}, ${data.runs} ${data.runs === 1 ? "run" : "runs"}`
    + data.basis.map((sentence) => `; ${sentence}`).join("");
  for (const kind of document.querySelectorAll(".kind")) {
    kind.textContent = `${data.measure}${counted ? " instructions, no time of any chip" : ""}`;
  }
  summary();
  const stripes = document.getElementById("depth-first");
  stripes.hidden = !data.depth_first.length;
  stripes.replaceChildren(...data.depth_first.map((sentence) => element("li", {}, sentence)));

  const time = new Stretch(endOf(data.median));
  const timelineHost = document.getElementById("timeline-chart");
  const timeline = new Boxes(timelineHost, {
    label: "timeline of events", what: "events", height: 120, stretch: time, view,
  });
  const memory = startMemory(time);
  const showRun = (run) => {
    const { boxes, lanes } = timelineBoxes(run);
    timeline.rowNames = lanes;
    time.reset(endOf(run));
    timeline.fill(boxes, 34 * Math.max(1, lanes.length));
    legend(document.querySelector("#timeline .legend"), boxes);
    memory.show(run);
    view.changed();
  };
  const runs = document.getElementById("run");
  runs.append(...Array.from({ length: data.runs }, (_, i) =>
    element("option", { value: i, selected: i === data.median }, i === data.median ? `${i + 1}, the median` : `${i + 1}`)));
  runs.addEventListener("change", () => {
    view.choose(null);
    showRun(Number(runs.value));
  });
  document.getElementById("runs").hidden = data.runs < 2;

  const { boxes, depth, whole } = flameBoxes();
  const width = new Stretch(whole);
  const flame = new Boxes(document.getElementById("flame-chart"), {
    label: "modules, as wide as their time", what: "modules, kernels and operators", height: 22 * depth, stretch: width, view, gutter: 0,
  });
  flame.fill(boxes, 22 * depth);

  zoomTools(document.querySelector("#timeline .zoom"), time);
  zoomTools(document.querySelector("#modules .zoom"), width);
  new Tables(document.getElementById("table"), document.querySelector("[role=tablist]"), view);
  document.getElementById("sizes-body").replaceChildren(...sizes());
  document.getElementById("quality-body").replaceChildren(...quality());
  document.getElementById("placement-body").replaceChildren(...placement(view));
  document.getElementById("made-body").replaceChildren(...madeOf());
  startTheme(() => {
    view.changed();
    memory.redraw();
  });
  showRun(data.median);
  startSearch(timeline, memory.maps);
  startPathKey();
  view.choose(null);
  // For tests and the browser's console.
  window.report = { data, view, timeline, flame, time, use: memory.chart, memory: memory.maps };
}

start();
document.documentElement.dataset.ready = "yes";
