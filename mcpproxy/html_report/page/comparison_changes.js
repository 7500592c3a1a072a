// The changes: a row for each, the worst first, a filter above, the detail of the chosen row next to it.

class Changes {
  constructor(overview, rows, details, place) {
    this.overview = overview;
    this.rows = rows;
    this.count = rows.kind.length;
    this.words = new Array(this.count);
    this.detail = new ChangeDetail(overview, rows, details, () => this.close());
    this.list = new List({
      name: "changes",
      label: "Changes",
      printed: 300,
      columns: this.columns(),
      choose: (row) => this.choose(row),
    });
    this.status = el("p", { class: "dim", role: "status" });
    this.split = el("div", { class: "split" }, this.list.element, this.detail.element);
    place.append(this.form(), this.status, this.split);
    place.addEventListener("keydown", (event) => event.key === "Escape" && this.close());
    this.filter();
  }

  columns() {
    const text = (name) => (cell, row) => (cell.textContent = this.rows[name][row]);
    return [
      {
        title: "severity",
        kind: "severity",
        draw: (cell, row) => cell.replaceChildren(severityBadge(this.overview, this.rows.severity[row])),
      },
      { title: "what", kind: "subject", draw: text("subject") },
      { title: "change", kind: "change-text", draw: text("message") },
      { title: "kind", kind: "kind", draw: text("kind") },
      { title: "frames", kind: "places", draw: text("places") },
    ];
  }

  form() {
    const { severities, kinds } = this.overview;
    this.text = el("input", {
      type: "search",
      id: "filter-text",
      autocomplete: "off",
      spellcheck: "false",
      placeholder: "tool, kind, any word of a change",
    });
    this.severity = choice("filter-severity", "all severities", severities.map(([name]) => name), this.rows.severity);
    this.kind = choice("filter-kind", "all kinds", Object.keys(kinds), this.rows.kind);
    const filterForm = el(
      "form",
      { class: "tools", role: "search", "aria-label": "Filter the changes" },
      el("label", { for: "filter-text" }, "Filter"),
      this.text,
      el("label", { for: "filter-severity", class: "unseen" }, "Severity"),
      this.severity,
      el("label", { for: "filter-kind", class: "unseen" }, "Kind"),
      this.kind,
    );
    filterForm.addEventListener("submit", (event) => event.preventDefault());
    filterForm.addEventListener("input", () => this.filter());
    return filterForm;
  }

  filter() {
    const words = this.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const selected = [];
    for (let row = 0; row < this.count; row += 1) {
      if (this.severity.value && this.rows.severity[row] !== this.severity.value) continue;
      if (this.kind.value && this.rows.kind[row] !== this.kind.value) continue;
      if (words.every((word) => this.wordsOf(row).includes(word))) selected.push(row);
    }
    this.list.show(selected);
    this.status.textContent =
      selected.length === this.count
        ? counted(this.count, "change")
        : `${selected.length.toLocaleString("en")} of ${counted(this.count, "change")}`;
  }

  wordsOf(row) {
    const { severity, kind, subject, message } = this.rows;
    this.words[row] ??= `${severity[row]} ${kind[row]} ${subject[row]} ${message[row]}`.toLowerCase();
    return this.words[row];
  }

  choose(row) {
    setAddress(changeAddress(row));
    this.detail.show(row);
    this.split.classList.add("is-open");
  }

  close() {
    if (this.detail.element.hidden) return;
    this.detail.hide();
    this.split.classList.remove("is-open");
    this.list.grid.focus({ preventScroll: true });
  }

  /** Shows a change, regardless of the filter. */
  showChange(row) {
    if (row < 0 || row >= this.count) {
      this.status.textContent = `Change ${row + 1} is not in this comparison.`;
      return;
    }
    if (position(this.list.rows, row) < 0) {
      this.text.value = this.severity.value = this.kind.value = "";
      this.filter();
    }
    this.choose(row);
    this.list.select(position(this.list.rows, row), { quietly: true });
    this.list.grid.focus({ preventScroll: true });
  }
}

/** A choice of the names that occur in a column, with how often they do. */
function choice(id, all, names, column) {
  const counts = new Map();
  for (const name of column) counts.set(name, (counts.get(name) ?? 0) + 1);
  return el(
    "select",
    { id },
    el("option", { value: "" }, all),
    names
      .filter((name) => counts.has(name))
      .map((name) => el("option", { value: name }, `${name} (${counts.get(name).toLocaleString("en")})`)),
  );
}
