// List: a table of any length of which only the rows in view exist. It is a grid: arrow keys move the chosen row.

const SPARE_ROWS = 5;

class List {
  /**
   * label: its name for screen readers. columns: {title, kind, draw(cell, row), make(cell)?} each. printed: how many rows
   * are printed. choose: called with the row that the user chooses.
   */
  constructor({ name, label, columns, printed, choose }) {
    this.name = name;
    this.columns = columns;
    this.printed = printed;
    this.choose = choose ?? (() => {});
    this.rows = [];
    this.chosen = -1;
    this.first = -1;
    this.pool = [];
    this.rowHeight = 0;
    this.top = el("td");
    this.bottom = el("td");
    this.body = el("tbody");
    this.headRow = el(
      "tr",
      { "aria-rowindex": 1 },
      columns.map(({ title, kind }) => el("th", { scope: "col", class: kind }, title)),
    );
    this.grid = el(
      "table",
      { class: `list ${name}`, role: "grid", "aria-label": label, "aria-readonly": true, tabindex: 0 },
      el("thead", {}, this.headRow),
      this.body,
    );
    this.note = el("p", { class: "print-note" });
    this.scroller = el("div", { class: `scroller ${name}-scroller` }, this.grid);
    this.element = el("div", { class: "list-box" }, this.scroller, this.note);
    this.scroller.addEventListener("scroll", () => this.later());
    this.grid.addEventListener("keydown", (event) => this.key(event));
    this.body.addEventListener("click", (event) => this.click(event));
    new ResizeObserver(() => this.draw(true)).observe(this.scroller);
    window.addEventListener("beforeprint", () => this.drawPrinted());
    window.addEventListener("afterprint", () => this.draw(true));
  }

  /** Shows other rows. The chosen row stays chosen if it is among them. */
  show(rows) {
    const row = this.chosen < 0 ? -1 : this.rows[this.chosen];
    this.rows = rows;
    this.chosen = row < 0 ? -1 : position(rows, row);
    this.grid.setAttribute("aria-rowcount", rows.length + 1);
    if (this.scroller.scrollTop > rows.length * this.height()) this.scroller.scrollTop = 0;
    this.draw(true);
  }

  /** Chooses a row and brings it into view. */
  select(at, { quietly = false } = {}) {
    if (at < 0 || at >= this.rows.length) return;
    this.chosen = at;
    const height = this.height();
    const room = this.scroller.clientHeight - this.headRow.offsetHeight;
    const top = at * height;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top + height > this.scroller.scrollTop + room)
      this.scroller.scrollTop = top + height - Math.floor(room / height / 2) * height;
    this.draw(true);
    if (!quietly) this.choose(this.rows[at]);
  }

  height() {
    if (!this.rowHeight) {
      const measured = el("tr", {}, el("td", {}, "0"));
      this.body.append(measured);
      this.rowHeight = measured.getBoundingClientRect().height || 28;
      measured.remove();
    }
    return this.rowHeight;
  }

  later() {
    this.waiting ??= requestAnimationFrame(() => {
      this.waiting = null;
      this.draw();
    });
  }

  draw(isForced = false) {
    const height = this.height();
    const fit = Math.ceil(this.scroller.clientHeight / height) + 1;
    const wanted = Math.floor(this.scroller.scrollTop / height) - SPARE_ROWS;
    const first = Math.max(0, Math.min(wanted, this.rows.length - fit - SPARE_ROWS));
    if (!isForced && first === this.first) return;
    this.first = first;
    this.fill(first, Math.min(this.rows.length, first + fit + 2 * SPARE_ROWS));
  }

  drawPrinted() {
    const most = Math.min(this.rows.length, this.printed);
    this.note.textContent =
      most < this.rows.length
        ? `The first ${most.toLocaleString("en")} of ${counted(this.rows.length, "row")} are printed; filter the list to print others.`
        : "";
    this.fill(0, most);
    this.top.style.height = this.bottom.style.height = "0";
  }

  fill(first, end) {
    while (this.pool.length < end - first) this.pool.push(this.newRow());
    const shown = this.pool.slice(0, end - first);
    let chosen = null;
    shown.forEach((tr, at) => {
      const position = first + at;
      tr.setAttribute("aria-rowindex", position + 2);
      tr.dataset.at = position;
      tr.setAttribute("aria-selected", position === this.chosen);
      if (position === this.chosen) chosen = tr;
      this.columns.forEach(({ draw }, column) => draw(tr.children[column], this.rows[position], tr));
    });
    this.top.style.height = `${first * this.height()}px`;
    this.bottom.style.height = `${(this.rows.length - end) * this.height()}px`;
    if (this.body.children.length !== shown.length + 2) {
      this.body.replaceChildren(
        el("tr", { class: "space", "aria-hidden": true }, this.top),
        ...shown,
        el("tr", { class: "space", "aria-hidden": true }, this.bottom),
      );
    }
    if (chosen) this.grid.setAttribute("aria-activedescendant", chosen.id);
    else this.grid.removeAttribute("aria-activedescendant");
  }

  newRow() {
    const tr = el("tr", { id: `${this.name}-row-${this.pool.length}` });
    for (const { kind, make } of this.columns) {
      const cell = el("td", { class: kind });
      make?.(cell);
      tr.append(cell);
    }
    return tr;
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / this.height()) - 2);
    const last = this.rows.length - 1;
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.altKey || event.ctrlKey || event.metaKey || last < 0) return;
    if (event.key in steps) {
      event.preventDefault();
      this.select(Math.min(last, Math.max(0, this.chosen + steps[event.key])));
    } else if ((event.key === "Enter" || event.key === " ") && this.chosen >= 0 && event.target === this.grid) {
      event.preventDefault();
      this.choose(this.rows[this.chosen], true);
    }
  }

  click(event) {
    const at = Number(event.target.closest("tr")?.dataset.at ?? -1);
    if (at < 0 || event.target.closest("a, button")) return;
    this.select(at);
  }
}

/** Where a row is in ascending rows; -1 if it is not. */
function position(rows, row) {
  let low = 0;
  let high = rows.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    if (rows[middle] === row) return middle;
    if (rows[middle] < row) low = middle + 1;
    else high = middle - 1;
  }
  return -1;
}
