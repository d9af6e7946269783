// Boxes on a canvas, with mouse and keyboard: draws the timeline, memory maps and the module flame graph.

const GUTTER = 96; // pixels left of plots whose rows have names
const AXIS = 20; // pixels above it for the axis

let drawings = 0; // how many there are: each has a summary for those who do not see it

/** The visible range of an axis; charts that share one zoom together. */
class Stretch {
  constructor(whole) {
    this.listeners = [];
    this.reset(whole);
  }

  reset(whole) {
    this.whole = Math.max(1, whole);
    this.set(0, this.whole);
  }

  set(from, to) {
    const least = this.whole / 1e6;
    const size = Math.min(this.whole, Math.max(least, to - from));
    this.from = Math.min(this.whole - size, Math.max(0, from));
    this.to = this.from + size;
    for (const listener of this.listeners) listener(this);
  }

  zoom(factor, at = (this.from + this.to) / 2) {
    this.set(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  move(part) {
    const by = (this.to - this.from) * part;
    this.set(this.from + by, this.to + by);
  }

  /** Moves, and zooms out if necessary, so that this range is visible. */
  show(from, to) {
    if (from >= this.from && to <= this.to) return;
    const size = Math.max(this.to - this.from, (to - from) * 1.2);
    const middle = (from + to) / 2;
    this.set(middle - size / 2, middle + size / 2);
  }
}

/**
 * A canvas of boxes; `what` is its name.
 *
 * A box has `from` and `to` on the range's axis, `top` and `height` as shares of the plot's height, a `row` number for
 * the arrow keys, a `label` (shortened at the beginning if `isTail`, otherwise at the end), a `colour` (a style's
 * variable `--box-COLOUR`), `parts`, lower-case `text` for the search, and `about`, a function that returns pairs of texts.
 */
class Boxes {
  constructor(host, { label, what, height, stretch, view, gutter = GUTTER, rowNames = [] }) {
    Object.assign(this, { what, stretch, view, gutter, rowNames, height, boxes: [], cursor: null, band: null });
    this.canvas = element("canvas", { tabIndex: 0, className: "boxes" });
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", label);
    drawings += 1;
    this.summary = element("p", { id: `drawing-${drawings}`, className: "unseen" });
    this.canvas.setAttribute("aria-describedby", `${this.summary.id} keys`);
    this.canvas.style.height = `${height + AXIS}px`;
    host.replaceChildren(this.canvas, this.summary);
    this.listen();
    stretch.listeners.push(() => this.draw());
    view.listeners.push(() => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  fill(boxes, height = this.height) {
    this.boxes = boxes;
    this.height = height;
    this.canvas.style.height = `${height + AXIS}px`;
    this.cursor = null;
    this.rows = unique(boxes.map((box) => box.row)).sort((a, b) => a - b)
      .map((row) => boxes.filter((box) => box.row === row).sort((a, b) => a.from - b.from || a.to - b.to));
    this.summary.textContent =
      `${this.what}: ${number(boxes.length)}, rows: ${this.rows.length}, in all ${length(this.stretch.whole)}`;
    this.draw();
  }

  // Drawing, at most once per frame.
  draw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.paint();
    });
  }

  get width() {
    return Math.max(1, this.canvas.clientWidth - this.gutter - 1);
  }

  x(at) {
    return this.gutter + ((at - this.stretch.from) / (this.stretch.to - this.stretch.from)) * this.width;
  }

  at(x) {
    return this.stretch.from + ((x - this.gutter) / this.width) * (this.stretch.to - this.stretch.from);
  }

  place(box) {
    const left = Math.max(this.x(box.from), this.gutter - 2);
    const right = Math.min(this.x(box.to), this.gutter + this.width + 2);
    return {
      left, width: Math.max(1, right - left),
      top: AXIS + box.top * this.height, height: Math.max(2, box.height * this.height - 1),
    };
  }

  isVisible(box) {
    return box.to >= this.stretch.from && box.from <= this.stretch.to;
  }

  paint() {
    const scale = window.devicePixelRatio || 1;
    const wide = this.canvas.clientWidth;
    const high = this.height + AXIS;
    this.canvas.width = Math.round(wide * scale);
    this.canvas.height = Math.round(high * scale);
    const pen = this.canvas.getContext("2d");
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    this.paintAxis(pen, colour);
    pen.save();
    pen.beginPath();
    pen.rect(this.gutter, 0, this.width, high);
    pen.clip();
    const visible = this.boxes.filter((box) => this.isVisible(box));
    for (const box of visible) this.paintBox(pen, colour, box);
    for (const box of visible) if (this.view.isChosen(box)) this.outline(pen, box, colour("mark"), 2);
    if (this.cursor && document.activeElement === this.canvas) {
      this.outline(pen, this.cursor, colour("page"), 5);
      this.outline(pen, this.cursor, colour("focus"), 3, [4, 2]);
    }
    if (this.band) {
      pen.fillStyle = colour("band");
      pen.fillRect(this.band.from, 0, this.band.to - this.band.from, high);
    }
    pen.restore();
  }

  paintAxis(pen, colour) {
    pen.strokeStyle = colour("grid");
    pen.fillStyle = colour("faint");
    pen.lineWidth = 1;
    for (const { at, text } of timeTicks(this.stretch.from, this.stretch.to, this.width / 110)) {
      const x = Math.round(this.x(at)) + 0.5;
      pen.beginPath();
      pen.moveTo(x, AXIS - 4);
      pen.lineTo(x, AXIS + this.height);
      pen.stroke();
      if (x + pen.measureText(text).width + 3 < this.gutter + this.width) pen.fillText(text, x + 3, AXIS / 2);
    }
    for (const { name, top } of this.rowNames) {
      const y = Math.min(AXIS + this.height - 7, AXIS + top * this.height);
      pen.fillText(shortened(pen, name, this.gutter - 8), 0, y);
    }
  }

  paintBox(pen, colour, box) {
    const { left, top, width, height } = this.place(box);
    pen.globalAlpha = this.view.isFaint(box) ? 0.35 : 1;
    pen.fillStyle = colour(`box-${box.colour}`);
    pen.fillRect(left, top, width > 3 ? width - 0.6 : width, height);
    if (width > 22 && height > 11) {
      pen.fillStyle = colour("on-box");
      pen.fillText(shortened(pen, box.label, width - 6, box.isTail), left + 3, top + height / 2 + 0.5);
    }
    pen.globalAlpha = 1;
  }

  outline(pen, box, colour, width, dash = []) {
    const place = this.place(box);
    pen.setLineDash(dash);
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    pen.strokeRect(place.left + 1, place.top + 1, Math.max(1, place.width - 2), Math.max(1, place.height - 2));
    pen.setLineDash([]);
  }

  // Mouse: a click selects, dragging zooms, the wheel with Ctrl zooms, a horizontal wheel moves.
  boxAt(x, y) {
    if (x < this.gutter) return null;
    const inside = (box) => {
      const place = this.place(box);
      return x >= place.left - 1 && x <= place.left + place.width + 1 && y >= place.top && y <= place.top + place.height;
    };
    const found = this.boxes.filter((box) => this.isVisible(box) && inside(box));
    return found.sort((a, b) => a.to - a.from - (b.to - b.from))[0] ?? null; // of those as close, the shortest
  }

  listen() {
    const canvas = this.canvas;
    let pressed = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      pressed = event.offsetX;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (pressed !== null && (this.band || Math.abs(event.offsetX - pressed) > 4)) {
        this.band = { from: Math.min(pressed, event.offsetX), to: Math.max(pressed, event.offsetX) };
        this.draw();
      }
      const box = this.band ? null : this.boxAt(event.offsetX, event.offsetY);
      canvas.style.cursor = box ? "pointer" : "";
      this.view.hover(box, event.clientX, event.clientY);
    });
    canvas.addEventListener("pointerup", (event) => {
      if (pressed === null) return;
      pressed = null;
      if (this.band) {
        const { from, to } = this.band;
        this.band = null;
        this.stretch.set(this.at(from), this.at(to));
      } else {
        this.choose(this.boxAt(event.offsetX, event.offsetY));
      }
    });
    canvas.addEventListener("pointerleave", () => this.view.hover(null));
    canvas.addEventListener("dblclick", () => this.stretch.set(0, this.stretch.whole));
    canvas.addEventListener("wheel", (event) => {
      if (event.ctrlKey) this.stretch.zoom(1.0015 ** event.deltaY, this.at(event.offsetX));
      else if (event.deltaX || event.shiftKey) this.stretch.move((event.deltaX || event.deltaY) / this.width);
      else return;
      event.preventDefault();
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("focus", () => this.draw());
    canvas.addEventListener("blur", () => {
      this.view.hover(null);
      this.draw();
    });
  }

  // Keyboard.
  key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const actions = {
      ArrowLeft: () => (event.shiftKey ? this.stretch.move(-0.2) : this.step(-1)),
      ArrowRight: () => (event.shiftKey ? this.stretch.move(0.2) : this.step(1)),
      ArrowUp: () => this.changeRow(-1),
      ArrowDown: () => this.changeRow(1),
      Home: () => this.step(-Infinity),
      End: () => this.step(Infinity),
      Enter: () => this.choose(this.cursor),
      " ": () => this.choose(this.cursor),
      "+": () => this.zoomAtCursor(0.5),
      "=": () => this.zoomAtCursor(0.5),
      "-": () => this.zoomAtCursor(2),
      0: () => this.stretch.set(0, this.stretch.whole),
    };
    if (!(event.key in actions) || !this.boxes.length) return;
    event.preventDefault();
    actions[event.key]();
  }

  zoomAtCursor(factor) {
    this.stretch.zoom(factor, this.cursor && this.isVisible(this.cursor) ? middle(this.cursor) : undefined);
  }

  step(by) {
    const row = this.rows.find((boxes) => boxes.includes(this.cursor));
    if (!row) {
      this.moveTo(this.rows[0].find((box) => this.isVisible(box)) ?? this.rows[0][0]);
      return;
    }
    const next = row.indexOf(this.cursor) + by;
    this.moveTo(row[Math.min(row.length - 1, Math.max(0, next))]);
  }

  changeRow(by) {
    const now = this.rows.findIndex((boxes) => boxes.includes(this.cursor));
    if (now < 0) return this.step(1);
    const row = this.rows[now + by];
    if (!row) return undefined;
    const at = middle(this.cursor);
    const distance = (box) => (box.from <= at && at <= box.to ? 0 : Math.min(Math.abs(box.from - at), Math.abs(box.to - at)));
    return this.moveTo(row.reduce((best, box) => (distance(box) < distance(best) ? box : best)));
  }

  moveTo(box) {
    this.cursor = box;
    this.stretch.show(box.from, box.to);
    this.draw();
    const place = this.place(box);
    const frame = this.canvas.getBoundingClientRect();
    this.view.hover(box, frame.left + place.left + Math.min(24, place.width), frame.top + place.top + place.height);
    this.view.say(`${box.label}, ${length(box.to - box.from)}`);
  }

  choose(box) {
    if (box) this.cursor = box;
    this.view.choose(box ? { box, title: box.label, parts: box.parts, about: box.about() } : null);
  }
}

const middle = (box) => (box.from + box.to) / 2;

/** Returns the text, shortened with an ellipsis if it is too wide. */
function shortened(pen, text, limit, isTail = false) {
  const cut = (count) => (isTail ? `…${text.slice(-count)}` : `${text.slice(0, count)}…`);
  if (text.length < limit && pen.measureText(text).width <= limit) return text;
  let low = 0;
  let high = Math.min(text.length, Math.max(0, Math.ceil(limit)));
  while (low < high) {
    const half = Math.ceil((low + high) / 2);
    if (pen.measureText(cut(half)).width <= limit) low = half;
    else high = half - 1;
  }
  return low ? cut(low) : "";
}
