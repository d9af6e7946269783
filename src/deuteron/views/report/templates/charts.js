// Content of the charts: timeline, memories, modules.

const LANES = { delegate: "NPU's parts", cpu: "CPU", npu: "NPU", flash: "Fetch channel" };

const KIND_COLOURS = {
  "delegate": "delegate", "kernel": "kernel", "operator": "operator", "dispatch": "dispatch", "fetch": "dispatch",
  "transfer": "transfer", "wait": "wait", "transpose": "copy", "copy in": "copy", "copy out": "copy",
  "unattributed": "gap",
};

const COLOUR_TITLES = {
  "delegate": "part of the model for the NPU", "kernel": "kernel", "kernel-sram": "kernel bound by SRAM",
  "operator": "operator on the CPU", "dispatch": "driver and runtime", "transfer": "fetch of weights",
  "wait": "waiting for weights", "copy": "copy or transpose", "gap": "not attributed", "module": "module",
};

function colourOf(event) {
  const kernel = data.parts[event.parts[0]]?.kernel;
  return event.kind === "kernel" && event.track === "npu" && kernel?.bound === "SRAM" ? "kernel-sram"
    : KIND_COLOURS[event.kind];
}

function eventTitle(event) {
  if (event.kind === "kernel") return data.parts[event.parts[0]].label;
  return ["operator", "delegate"].includes(event.kind) ? event.name : `${event.kind}: ${event.name}`;
}

/** Returns the events of one run as boxes, one row per track with events; a part of the model represents its members. */
function timelineBoxes(run) {
  const events = data.events.filter((event) => event.run === run && event.kind !== "run");
  const lanes = Object.keys(LANES).filter((lane) => events.some((event) => event.track === lane));
  const inPartition = (partition) =>
    unique(events.filter((event) => event.partition === partition).flatMap((event) => event.parts));
  const boxes = events.map((event) => {
    const title = eventTitle(event);
    const kernel = event.kind === "kernel" ? null : data.parts[event.parts[0]]?.kernel;
    return {
      isBeside: !["kernel", "operator"].includes(event.kind),
      from: event.start, to: event.stop, row: lanes.indexOf(event.track),
      top: lanes.indexOf(event.track) / lanes.length, height: 1 / lanes.length,
      label: title, colour: colourOf(event),
      parts: event.kind === "delegate" ? inPartition(event.partition) : event.parts,
      text: [title.toLowerCase(), ...event.parts.map((part) => partTexts[part])].join("\n"),
      about: () => [
        ["event", event.kind],
        ...(kernel ? [["for", data.parts[event.parts[0]].label]] : []),
        [`time, ${data.measure}`, length(event.stop - event.start)],
        ["starts at", length(event.start)],
        ...(event.bytes ? [["bytes moved", number(event.bytes)]] : []),
      ],
    };
  });
  return { boxes, lanes: lanes.map((lane, i) => ({ name: LANES[lane], top: (i + 0.5) / lanes.length })) };
}

/** Returns the end of a run. */
const endOf = (run) => data.events.reduce((end, event) => (event.run === run ? Math.max(end, event.stop) : end), 0);

/** Returns the interval from each kernel call of a partition to the next; equal parts of its time if unrecorded. */
function callTimes(run, memory) {
  const inside = data.events.filter((event) => event.run === run && event.partition === memory.partition);
  const part = inside.find((event) => event.kind === "delegate") ?? { start: 0, stop: endOf(run) };
  const starts = Array(memory.calls + 1).fill(null);
  starts[memory.calls] = part.stop;
  for (const event of inside) if (event.kind === "kernel") starts[event.index] = event.start;
  const recorded = !starts.includes(null);
  const step = (part.stop - part.start) / memory.calls;
  const begin = (call) => (recorded ? starts[call] : part.start + call * step);
  const times = Array.from({ length: memory.calls }, (_, call) => ({ from: begin(call), to: begin(call + 1) }));
  return { times, recorded };
}

/** Returns the blocks of a memory as boxes: time horizontally, addresses vertically. */
function memoryBoxes(memory, times) {
  const whole = Math.max(1, memory.bytes);
  const lanes = unique(memory.blocks.map((block) => block.offset)).sort((a, b) => b - a);
  return memory.blocks.map((block, i) => ({
    from: times[block.first].from, to: times[block.last].to, row: lanes.indexOf(block.offset),
    top: 1 - (block.offset + block.bytes) / whole, height: block.bytes / whole,
    label: block.name, isTail: true, colour: `block-${i % 4}`, parts: block.parts,
    text: [block.name.toLowerCase(), ...block.parts.map((part) => partTexts[part])].join("\n"),
    about: () => [
      ["tensor in", `${memory.name} of npu ${memory.partition}`],
      ["bytes", number(block.bytes)],
      ["offset", number(block.offset)],
      ["live", block.first === block.last ? `in kernel call #${block.first}`
        : `from kernel call #${block.first} to #${block.last}`],
    ],
  }));
}

/** Returns the live bytes at each time of a change: [moments, bytes]. */
function memoryUse(boxes, sizes, end) {
  const changes = new Map([[0, 0], [end, 0]]);
  boxes.forEach((box, i) => {
    changes.set(box.from, (changes.get(box.from) ?? 0) + sizes[i]);
    changes.set(box.to, (changes.get(box.to) ?? 0) - sizes[i]);
  });
  const moments = [...changes.keys()].sort((a, b) => a - b);
  let live = 0;
  return [moments, moments.map((moment) => (live += changes.get(moment)))];
}

/** The chart of used bytes, one line per memory; zooms with the timeline. */
class UseChart {
  constructor(host, stretch) {
    Object.assign(this, { host, stretch, plot: null });
    stretch.listeners.push(() => this.follow());
    new ResizeObserver(() => this.plot?.setSize(this.size())).observe(host);
  }

  size() {
    return { width: Math.max(200, this.host.clientWidth), height: 170 };
  }

  /** Shows lines: {title, bytes, use: [moments, bytes]}. */
  show(lines) {
    this.plot?.destroy();
    const colour = (name) => () => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    const moments = unique(lines.flatMap((line) => line.use[0])).sort((a, b) => a - b);
    const axis = { stroke: colour("faint"), grid: { stroke: colour("grid"), width: 1 }, ticks: { show: false }, gap: 4 };
    const values = (line) => {
      const known = new Map(line.use[0].map((moment, i) => [moment, line.use[1][i]]));
      let last = 0;
      return moments.map((moment) => (last = known.get(moment) ?? last));
    };
    const ticks = () => timeTicks(this.stretch.from, this.stretch.to, this.host.clientWidth / 130)
      .filter((tick) => this.stretch.to - tick.at > 0.05 * (this.stretch.to - this.stretch.from));
    const options = {
      ...this.size(),
      padding: [8, 0, 0, 0],
      cursor: { drag: { x: true, y: false, setScale: false }, points: { show: false } },
      scales: { x: { time: false, auto: false, range: () => [this.stretch.from, this.stretch.to] },
        y: { range: (_, low, high) => [0, Math.max(1, high) * 1.05] } },
      axes: [
        { ...axis, splits: () => ticks().map((tick) => tick.at), values: () => ticks().map((tick) => tick.text), size: 26 },
        { ...axis, size: GUTTER, values: (_, splits) => splits.map((value) => bytes(value)) },
      ],
      series: [
        { label: "at", value: (_, value) => (value === null ? "" : length(value)) },
        ...lines.map((line, i) => ({
          label: `${brief(line.title)}, of ${bytes(line.bytes)}`,
          stroke: colour(`line-${i % 4}`), width: 2, points: { show: false },
          paths: uPlot.paths.stepped({ align: 1 }),
          value: (_, value) => (value === null ? "" : bytes(value)),
        })),
      ],
      hooks: { setSelect: [(plot) => this.zoom(plot)] },
    };
    this.plot = new uPlot(options, [moments, ...lines.map(values)], this.host);
    this.plot.over.addEventListener("dblclick", () => this.stretch.set(0, this.stretch.whole));
  }

  zoom(plot) {
    const { left, width } = plot.select;
    if (width < 3) return;
    this.stretch.set(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  }

  follow() {
    this.plot?.setScale("x", { min: this.stretch.from, max: this.stretch.to });
  }

  redraw() {
    this.plot?.redraw(false);
  }
}

/** Returns the tree of modules as boxes whose width is their time; parts of a module are below it. */
function flameBoxes() {
  const rows = data.tables.module;
  const boxes = [];
  const add = (label, ticks, parts, from, depth, colour) => boxes.push({
    from, to: from + ticks, row: depth, label, parts, colour,
    text: [label.toLowerCase(), ...(colour === "module" ? [] : parts.map((part) => partTexts[part]))].join("\n"),
    about: () => [
      [`time, ${data.measure}`, length(ticks)],
      ["share of the run", share(ticks / Math.max(1, data.ticks))],
    ],
  });
  const kindOf = (part) => ({ kernel: "kernel", operator: "operator", overhead: "dispatch" })[data.parts[part].kind];
  const timeOf = new Map(data.tables.kernel.map((row) => [row.parts[0], row.ticks]));
  let next = 0;
  const subtree = (from, depth) => {
    const row = rows[next++];
    const ownPart = row.parts.length === 1 && data.parts[row.parts[0]].name === row.name;
    const colour = ownPart ? kindOf(row.parts[0]) : "module";
    const label = ownPart ? data.parts[row.parts[0]].label : row.name.split(".").at(-1);
    add(label, row.ticks, row.parts, from, depth, colour);
    if (ownPart) return row;
    let at = from;
    const inside = new Set();
    while (next < rows.length && rows[next].depth > row.depth) {
      const child = subtree(at, depth + 1);
      at += child.ticks;
      child.parts.forEach((part) => inside.add(part));
    }
    for (const part of row.parts.filter((one) => !inside.has(one))) {
      add(data.parts[part].label, timeOf.get(part), [part], at, depth + 1, kindOf(part));
      at += timeOf.get(part);
    }
    return row;
  };
  let at = 0;
  while (next < rows.length) at += subtree(at, 0).ticks;
  const depth = Math.max(1, ...boxes.map((box) => box.row + 1));
  for (const box of boxes) Object.assign(box, { top: box.row / depth, height: 1 / depth });
  return { boxes: boxes.filter((box) => box.to > box.from), depth, whole: at };
}
