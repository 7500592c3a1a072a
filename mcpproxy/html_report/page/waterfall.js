// The waterfall: every request of all servers on one clock. Above, a lane for each server; below, a row for each
// request in the chosen part of the clock.

const SLOTS = 800;
const LANE = 14;
const MOST_LANES = 24;

class Waterfall {
  constructor(model, place) {
    const { capture, from, to } = model.calls;
    this.model = model;
    this.starts = from.map((us, call) => model.shared(capture[call], us));
    this.ends = to.map((us, call) => model.shared(capture[call], us));
    this.order = this.starts.map((_, call) => call).sort((a, b) => this.starts[a] - this.starts[b] || a - b);
    if (!this.order.length) {
      place.append(el("p", { class: "dim" }, "These captures contain no requests."));
      return;
    }
    this.whole = [
      this.starts[this.order[0]],
      Math.max(
        this.ends.reduce((a, b) => Math.max(a, b), 0),
        this.starts[this.order[0]] + 1,
      ),
    ];
    this.lanes = model.captures.slice(0, MOST_LANES);
    this.from = el("span");
    this.to = el("span");
    this.brush = el("div", { class: "brush" });
    this.map = this.drawMap();
    this.status = el("p", { class: "dim", role: "status" });
    this.list = new List({
      name: "waterfall",
      label: "Requests on one clock",
      printed: 60,
      columns: this.columns(),
      choose: (call, isEntered) => isEntered && this.follow(call),
    });
    place.append(this.buttons(), this.map, this.status, this.list.element);
    this.zoom(...this.whole);
  }

  columns() {
    const { calls, captures } = this.model;
    return [
      {
        title: "frame",
        kind: "num",
        make: linkCell,
        draw: (cell, call) => setLink(cell, calls.capture[call], calls.request[call]),
      },
      ...(captures.length > 1
        ? [
            {
              title: "server",
              kind: "server",
              draw: (cell, call) => (cell.textContent = captures[calls.capture[call]].name),
            },
          ]
        : []),
      {
        title: "request",
        kind: "call",
        draw: (cell, call) =>
          (cell.textContent = `${calls.by[call] === "server" ? "← " : ""}${calls.method[call]} ${calls.name[call]}`),
      },
      {
        title: "took",
        kind: "num took",
        draw: (cell, call) => (cell.textContent = duration(calls.took_ns[call])),
      },
      {
        title: "state",
        kind: calls.late.some(Boolean) ? "state late" : "state",
        draw: (cell, call) => (cell.textContent = stateOf(calls, call)),
      },
      {
        title: el("span", { class: "ends" }, this.from, this.to),
        kind: "time-bar",
        make: (cell) => cell.append(el("span", { class: "bar" })),
        draw: (cell, call) => this.drawBar(cell.firstChild, call),
      },
    ];
  }

  drawBar(bar, call) {
    const [from, to] = this.window;
    const left = (100 * (this.starts[call] - from)) / (to - from);
    const right = (100 * (this.ends[call] - from)) / (to - from);
    bar.className = `bar ${lookOf(this.model.calls, call)}`;
    bar.style.left = `${Math.max(0, left)}%`;
    bar.style.width = `max(2px, ${Math.min(100, right) - Math.max(0, left)}%)`;
  }

  follow(call) {
    window.location.hash = frameAddress(this.model.calls.capture[call], this.model.calls.request[call]);
  }

  buttons() {
    const button = (text, label, act) => {
      const element = el("button", { type: "button", "aria-label": label }, text);
      element.addEventListener("click", act);
      return element;
    };
    return el(
      "div",
      { class: "tools", role: "group", "aria-label": "Part of the clock" },
      button("All", "Show all of the clock", () => this.zoom(...this.whole)),
      button("+", "Zoom in", () => this.scaled(0.5)),
      button("−", "Zoom out", () => this.scaled(2)),
      button("‹", "Earlier", () => this.moved(-0.5)),
      button("›", "Later", () => this.moved(0.5)),
      el("span", { class: "dim hint" }, "Drag across the lanes to zoom in."),
    );
  }

  scaled(factor) {
    const [from, to] = this.window;
    const middle = (from + to) / 2;
    const half = ((to - from) / 2) * factor;
    this.zoom(middle - half, middle + half);
  }

  moved(share) {
    const [from, to] = this.window;
    const step = (to - from) * share;
    this.zoom(from + step, to + step);
  }

  /** Shows a part of the clock, kept within the whole. */
  zoom(from, to) {
    const [first, last] = this.whole;
    const length = Math.min(last - first, Math.max(100, to - from));
    const start = Math.min(Math.max(first, from), last - length);
    this.window = [start, start + length];
    const isWhole = length >= last - first;
    this.brush.hidden = isWhole;
    this.brush.style.left = `${(100 * (start - first)) / (last - first)}%`;
    this.brush.style.width = `${(100 * length) / (last - first)}%`;
    const shown = this.order.filter((call) => this.starts[call] <= start + length && this.ends[call] >= start);
    this.status.textContent = `${counted(shown.length, "request")} from ${sinceStart(start)} to ${sinceStart(start + length)} s`;
    this.from.textContent = sinceStart(start);
    this.to.textContent = sinceStart(start + length);
    this.list.show(shown);
  }

  drawMap() {
    const [first, last] = this.whole;
    const height = this.lanes.length * LANE;
    const drawing = svg("svg", {
      viewBox: `0 0 ${SLOTS} ${height}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `When requests were open, for ${counted(this.lanes.length, "capture")}`,
    });
    const slots = this.lanes.map(() => ({
      fine: new Uint8Array(SLOTS),
      lost: new Uint8Array(SLOTS),
      bad: new Uint8Array(SLOTS),
    }));
    for (const call of this.order) {
      const lane = slots[this.model.calls.capture[call]];
      if (!lane) continue;
      const from = Math.floor(((this.starts[call] - first) / (last - first)) * (SLOTS - 1));
      const to = Math.floor(((this.ends[call] - first) / (last - first)) * (SLOTS - 1));
      lane[lookOf(this.model.calls, call)].fill(1, from, to + 1);
    }
    slots.forEach((lane, at) => {
      for (const look of ["lost", "fine", "bad"])
        drawing.append(svg("path", { class: look, d: runs(lane[look], at * LANE + 3, LANE - 6) }));
    });
    const strip = el("div", { class: "strip" }, drawing, this.brush);
    strip.style.height = `${height}px`;
    this.makeDraggable(strip);
    const names = this.lanes.map((capture) => el("span", {}, capture.name || capture.file));
    const more = this.model.captures.length - this.lanes.length;
    return el(
      "div",
      { class: "map" },
      el("div", { class: "lanes" }, names),
      strip,
      more > 0 ? el("p", { class: "dim" }, `${counted(more, "more capture")} without a lane`) : null,
    );
  }

  makeDraggable(strip) {
    const at = (event) => {
      const { left, width } = strip.getBoundingClientRect();
      const [first, last] = this.whole;
      return first + (Math.min(width, Math.max(0, event.clientX - left)) / width) * (last - first);
    };
    let from = null;
    strip.addEventListener("pointerdown", (event) => {
      from = at(event);
      strip.setPointerCapture(event.pointerId);
    });
    strip.addEventListener("pointerup", (event) => {
      const to = at(event);
      const [first, last] = this.whole;
      if (from !== null && Math.abs(to - from) > (last - first) / 200)
        this.zoom(Math.min(from, to), Math.max(from, to));
      from = null;
    });
  }
}

function lookOf(calls, call) {
  if (["abandoned", "unanswered", "not_recorded"].includes(calls.state[call])) return "lost";
  return calls.bad[call] ? "bad" : "fine";
}

function stateOf(calls, call) {
  const late = calls.late[call] && `, answered ${calls.late[call]}`;
  return calls.state[call] === "answered" ? (calls.bad[call] ? "error" : "") : calls.state[call].replace("_", " ") + late;
}

/** The runs of ones as rectangles of a path. */
function runs(slots, y, height) {
  let path = "";
  for (let at = 0; at < slots.length; at += 1) {
    if (!slots[at]) continue;
    const from = at;
    while (slots[at + 1]) at += 1;
    path += `M${from} ${y}h${at - from + 1}v${height}h-${at - from + 1}z`;
  }
  return path;
}

function linkCell(cell) {
  cell.append(el("a", { tabindex: -1 }));
}

function setLink(cell, capture, frame) {
  const link = cell.firstChild;
  link.textContent = frame < 0 ? "" : frame;
  if (frame < 0) link.removeAttribute("href");
  else link.setAttribute("href", frameAddress(capture, frame));
}
