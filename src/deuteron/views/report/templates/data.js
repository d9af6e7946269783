// The page's data, relations between its parts, and number formats.

const data = JSON.parse(document.getElementById("data").textContent);

/** Numbers of the parts that share an entry: an operator, a node, a module or a line. */
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

/** The steps from kernel to source line, each with the parts that share its entries. */
const STEPS = [
  { title: "Kernel or operator", entries: (part) => [part.name] },
  { title: "TFLite operator", entries: (part) => unique(part.ops) },
  { title: "Edge operator", entries: (part) => unique(part.nodes) },
  { title: "Module", entries: (part) => unique(part.sources.map(moduleOf)) },
  { title: "Source line", entries: (part) => unique(part.sources.map(lineOf)) },
].map((step) => ({ ...step, parts: indexed(step.entries) }));

const codeOfLine = new Map(data.parts.flatMap((part) => part.sources.map((source) => [lineOf(source), source.code])));

/** Returns the searchable text of a part. */
const partTexts = data.parts.map((part) =>
  [...STEPS.flatMap((step) => step.entries(part)), ...part.sources.map((source) => source.code)]
    .concat(part.kernel ? part.kernel.output : []).join("\n").toLowerCase());

const counted = data.measure === "counted";

/** Units of time; an emulator counts instructions, which are not times. */
const UNITS = counted
  ? [{ name: "instr.", ticks: 1 }]
  : [["ns", 1e-9], ["µs", 1e-6], ["ms", 1e-3], ["s", 1]]
    .map(([name, seconds]) => ({ name, ticks: seconds * data.clock.hz }));

/** Returns the largest unit in which a number of ticks is at least 1. */
function unitFor(ticks) {
  return [...UNITS].reverse().find((unit) => ticks >= unit.ticks) ?? UNITS[0];
}

const number = (value, digits = 0) =>
  value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });

/** Returns a length in ticks as text, in a suitable unit. */
function length(ticks) {
  const unit = unitFor(ticks);
  const value = ticks / unit.ticks;
  return `${number(value, unit.ticks === 1 || value >= 1000 ? 0 : value >= 100 ? 1 : 2)} ${unit.name}`;
}

/** Returns the text, shortened for a legend. */
const brief = (text) => (text.length > 60 ? `${text.slice(0, 60)}…` : text);

const bytes = (count) => `${number(count)} B`;
const share = (value) => `${number(100 * value, value < 0.1 ? 2 : 1)} %`;

/** Returns an axis step: 1, 2 or 5 times a power of ten, so that the span has about `count` steps. */
function niceStep(span, count) {
  const rough = span / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * ([1, 2, 5].find((factor) => factor * power >= rough) ?? 10);
}

/** Returns the ticks of a time axis between two moments, with their labels. */
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

/** Returns a list of names and values. */
const facts = (pairs) =>
  element("dl", { className: "facts" },
    ...pairs.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, String(value))]));
