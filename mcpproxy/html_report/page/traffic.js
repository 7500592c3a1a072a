// The traffic: a row for each message and remark, a filter above, the detail of the chosen row next to it.

class Traffic {
  constructor(model, place) {
    this.model = model;
    this.asked = 0;
    // Logins whose legs are shown, by row. Those that did not succeed are open at first.
    this.unfolded = new Set();
    model.rows.kind.forEach((kind, row) => kind === "login" && model.rows.is_bad[row] && this.unfolded.add(row));
    this.detail = new Detail(
      model,
      () => wordsIn(this.text.value),
      () => this.close(),
    );
    this.list = new List({
      name: "traffic",
      label: "Traffic",
      printed: 300,
      columns: this.columns(),
      choose: (row, isEntered) => (isEntered && this.hasLegs(row) ? this.fold(row) : this.choose(row)),
    });
    this.status = el("p", { class: "dim", role: "status" });
    this.split = el("div", { class: "split" }, this.list.element, this.detail.element);
    place.append(this.form(), this.status, this.split);
    place.addEventListener("keydown", (event) => event.key === "Escape" && this.close());
    this.list.grid.addEventListener("keydown", (event) => this.foldByKey(event));
    this.ready = this.filter();
  }

  columns() {
    const { rows, captures } = this.model;
    return [
      { title: "frame", kind: "num", make: linkCell, draw: (cell, row, tr) => this.drawNumber(cell, row, tr) },
      { title: "time", kind: "num time", draw: (cell, row) => (cell.textContent = sinceStart(rows.t[row])) },
      ...(captures.length > 1
        ? [
            {
              title: "server",
              kind: "server",
              draw: (cell, row) => (cell.textContent = captures[rows.capture[row]].name),
            },
          ]
        : []),
      { title: "way", kind: "way", draw: (cell, row) => this.drawWay(cell, row) },
      {
        title: "message",
        kind: "message",
        make: (cell) =>
          cell.append(
            this.foldButton(),
            el("span", { class: "method" }),
            el("span", { class: "id dim" }),
            el("span", { class: "subject" }),
          ),
        draw: (cell, row) => this.drawMessage(cell, row),
      },
      {
        title: "content",
        kind: "content",
        make: (cell) => cell.append(el("strong"), el("span"), el("code")),
        draw: (cell, row) => this.drawContent(cell, row),
      },
      {
        title: "took",
        kind: "num took",
        draw: (cell, row) => (cell.textContent = rows.took_ns[row] < 0 ? "" : duration(rows.took_ns[row])),
      },
      {
        title: "size",
        kind: "num size",
        draw: (cell, row) => (cell.textContent = rows.size[row] < 0 ? "" : bytes(rows.size[row])),
      },
    ];
  }

  drawNumber(cell, row, tr) {
    const { rows } = this.model;
    setLink(cell, rows.capture[row], rows.seq[row]);
    const levels = ["", "note", "warning", "error"];
    tr.className = [
      rows.kind[row],
      rows.is_bad[row] ? "is-bad" : "",
      levels[rows.level[row]] ? `has-${levels[rows.level[row]]}` : "",
    ]
      .join(" ")
      .trim();
  }

  drawWay(cell, row) {
    const { rows } = this.model;
    cell.textContent = rows.level[row] >= 2 || rows.problem[row] ? `${rows.way[row]}!` : rows.way[row];
  }

  drawMessage(cell, row) {
    const { rows } = this.model;
    const [button, method, id, subject] = cell.children;
    button.hidden = !this.hasLegs(row);
    if (!button.hidden) {
      const isUnfolded = this.unfolded.has(row);
      button.dataset.row = row;
      button.textContent = isUnfolded ? "▾" : "▸";
      button.setAttribute("aria-expanded", isUnfolded);
      button.setAttribute("aria-label", `Requests of ${rows.method[row]}`);
    }
    method.textContent = rows.method[row];
    id.textContent = rows.id[row] ? ` ${rows.id[row]}` : "";
    subject.textContent = rows.name[row] ? ` ${rows.name[row]}` : "";
  }

  drawContent(cell, row) {
    const { rows } = this.model;
    const [word, text, problem] = cell.children;
    word.textContent = rows.word[row];
    text.textContent = rows.word[row] && rows.text[row] ? `  ${rows.text[row]}` : rows.text[row];
    problem.textContent = rows.problem[row] ? `  ${rows.problem[row]}` : "";
  }

  /** The button that shows and hides the legs of a login; the keys of the list do the same. */
  foldButton() {
    const button = el("button", { type: "button", class: "fold", tabindex: -1 });
    button.addEventListener("click", () => this.fold(Number(button.dataset.row)));
    return button;
  }

  hasLegs(row) {
    return this.model.rows.login[row + 1] === row;
  }

  fold(row) {
    if (!this.unfolded.delete(row)) this.unfolded.add(row);
    return this.filter();
  }

  foldByKey(event) {
    const row = this.list.rows[this.list.chosen];
    if (row === undefined || !["ArrowRight", "ArrowLeft"].includes(event.key)) return;
    const login = this.model.rows.login[row];
    const isUnfolding = event.key === "ArrowRight";
    if (!isUnfolding && login >= 0) this.list.select(position(this.list.rows, login));
    else if (this.hasLegs(row) && this.unfolded.has(row) !== isUnfolding) this.fold(row);
    else return;
    event.preventDefault();
  }

  /** The rows to show: without a search, the legs of a login that is folded are hidden. */
  withoutFolded(rows) {
    const { login } = this.model.rows;
    if (this.text.value.trim() || this.bad.checked) return rows;
    return rows.filter((row) => login[row] < 0 || this.unfolded.has(login[row]));
  }

  form() {
    const { captures } = this.model;
    this.text = el("input", {
      type: "search",
      id: "filter-text",
      autocomplete: "off",
      spellcheck: "false",
      placeholder: "tool, method, id, any text of a payload",
    });
    this.kind = el(
      "select",
      { id: "filter-kind" },
      KINDS.map(([value, text]) => el("option", { value }, text)),
    );
    this.capture = el(
      "select",
      { id: "filter-capture" },
      el("option", { value: -1 }, "all captures"),
      captures.map((capture, at) => el("option", { value: at }, `${capture.name || capture.file} ${capture.opened}`)),
    );
    this.bad = el("input", { type: "checkbox", id: "filter-bad" });
    const filterForm = el(
      "form",
      { class: "tools", role: "search", "aria-label": "Filter the traffic" },
      el("label", { for: "filter-text" }, "Filter"),
      this.text,
      el("label", { for: "filter-kind", class: "unseen" }, "Kind"),
      this.kind,
      captures.length > 1 ? [el("label", { for: "filter-capture", class: "unseen" }, "Capture"), this.capture] : [],
      el("span", { class: "check" }, this.bad, el("label", { for: "filter-bad" }, "only errors and findings")),
    );
    filterForm.addEventListener("submit", (event) => event.preventDefault());
    filterForm.addEventListener("input", () => this.filter());
    return filterForm;
  }

  get wanted() {
    return {
      text: this.text.value,
      kind: this.kind.value,
      capture: Number(this.capture.value),
      isBadOnly: this.bad.checked,
    };
  }

  async filter() {
    this.asked += 1;
    const own = this.asked;
    const show = (selected, isAll) => {
      const rows = this.withoutFolded(selected);
      this.list.show(rows);
      const isEverything = selected.length === this.model.count;
      const count = isEverything
        ? counted(rows.length, "row")
        : `${rows.length.toLocaleString("en")} of ${counted(this.model.count, "row")}`;
      this.status.textContent = isAll ? count : `${count}, searching payloads…`;
    };
    await filterRows(this.model, this.wanted, show, () => own === this.asked);
    if (own === this.asked && this.detail.row >= 0) this.detail.show(this.detail.row);
  }

  choose(row) {
    const { rows } = this.model;
    if (rows.seq[row] >= 0) setAddress(frameAddress(rows.capture[row], rows.seq[row]));
    this.detail.show(row);
    this.split.classList.add("is-open");
  }

  close() {
    if (this.detail.element.hidden) return;
    this.detail.hide();
    this.split.classList.remove("is-open");
    this.list.grid.focus({ preventScroll: true });
  }

  /** Shows a frame, regardless of the filter; returns whether it has a row. */
  async showFrame(capture, seq) {
    const row = this.model.nearest(capture, seq);
    if (row < 0) {
      this.status.textContent = `Frame ${seq} is not in this report.`;
      return false;
    }
    if (position(this.list.rows, row) < 0) {
      this.text.value = this.kind.value = "";
      this.capture.value = "-1";
      this.bad.checked = false;
      if (this.model.rows.login[row] >= 0) this.unfolded.add(this.model.rows.login[row]);
      await this.filter();
    }
    this.choose(row);
    this.list.select(position(this.list.rows, row), { quietly: true });
    this.list.grid.focus({ preventScroll: true });
    return true;
  }
}
