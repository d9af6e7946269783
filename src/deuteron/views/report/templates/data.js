// What the page knows, how it finds what belongs together, and how it writes numbers.

const data = JSON.parse(document.getElementById("data").textContent);

/** Parts, as numbers, that share an entry: an operator, a node, a module or a line. */
function indexed(entriesOf) {
  const found = new Map();
  data.parts.forEach((part, number) => {
    for (const entry of entriesOf(part)) {
      if (!found.has(entry)) found.set(entry, []);
      found.get(entry).push(number);
    }
  });
  return found;
}

const unique = (values) => [...new Set(values)];
const lineOf = (source) =>
  source.line
    ? `${source.file}:${source.line}`
    : `${source.module && `[${source.module}] `}${source.code}`;
const moduleOf = (source) => source.module || data.model;

/** The steps from what ran to the user's source, each with the parts that share an entry of it. */
const STEPS = [
  { title: "Kernel or operator", entries: (part) => [part.name] },
  { title: "TFLite operator", entries: (part) => unique(part.ops) },
  { title: "Edge operator", entries: (part) => unique(part.nodes) },
  { title: "Module", entries: (part) => unique(part.sources.map(moduleOf)) },
  { title: "Source line", entries: (part) => unique(part.sources.map(lineOf)) },
].map((step) => ({ ...step, parts: indexed(step.entries) }));

const codeOfLine = new Map(data.parts.flatMap((part) => part.sources.map((source) => [lineOf(source), source.code])));

/** All that can be searched of a part. */
const partTexts = data.parts.map((part) =>
  [...STEPS.flatMap((step) => step.entries(part)), ...part.sources.map((source) => source.code)]
    .concat(part.kernel ? part.kernel.output : []).join("\n").toLowerCase());

const counted = data.measure === "counted";

/** Units of time: an emulator counts instructions, which are no time of any chip. */
const UNITS = counted
  ? [{ name: "instr.", ticks: 1 }]
  : [["ns", 1e-9], ["µs", 1e-6], ["ms", 1e-3], ["s", 1]]
    .map(([name, seconds]) => ({ name, ticks: seconds * data.clock.hz }));

/** The largest unit in which so many ticks are at least 1. */
function unitFor(ticks) {
  return [...UNITS].reverse().find((unit) => ticks >= unit.ticks) ?? UNITS[0];
}

const number = (value, digits = 0) =>
  value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });

/** A length in ticks, in a unit that fits. */
function length(ticks) {
  const unit = unitFor(ticks);
  const value = ticks / unit.ticks;
  return `${number(value, unit.ticks === 1 || value >= 1000 ? 0 : value >= 100 ? 1 : 2)} ${unit.name}`;
}

/** The text, cut where it is too long for a legend. */
const brief = (text) => (text.length > 60 ? `${text.slice(0, 60)}…` : text);

const bytes = (count) => `${number(count)} B`;
const share = (value) => `${number(100 * value, value < 0.1 ? 2 : 1)} %`;

/** A step of an axis: 1, 2 or 5 times a power of ten, so that about `count` fit into the span. */
function niceStep(span, count) {
  const rough = span / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * ([1, 2, 5].find((factor) => factor * power >= rough) ?? 10);
}

/** Places of an axis of time between two moments in ticks, with their texts. */
function timeTicks(from, to, count) {
  const unit = unitFor(Math.max(Math.abs(from), Math.abs(to)));
  const step = niceStep((to - from) / unit.ticks, count);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const found = [];
  for (let i = Math.ceil(from / unit.ticks / step); i * step * unit.ticks <= to; i++) {
    found.push({ at: i * step * unit.ticks, text: `${number(i * step, digits)} ${unit.name}` });
  }
  return found;
}

/** An element with properties and children; texts are only ever set as text. */
function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** A list of names and values. */
const facts = (pairs) =>
  element("dl", { className: "facts" },
    ...pairs.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, String(value))]));
