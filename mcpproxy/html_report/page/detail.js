// The detail of one row: its facts, its findings, its payload and the heads of its HTTP exchange.

class Detail {
  /** words: returns what the filter searches for. close: called by the button. */
  constructor(model, words, close) {
    this.model = model;
    this.words = words;
    this.isLaidOut = true;
    this.row = -1;
    this.title = el("h3", {});
    this.facts = el("dl", { class: "facts" });
    this.findings = el("ul", { class: "plain" });
    this.body = el("div", { class: "body" });
    this.head = el("div", {});
    this.status = el("span", { class: "dim", role: "status" });
    this.mode = this.button("Raw", () => this.setMode(!this.isLaidOut));
    this.copy = this.button("Copy", () => this.copyText());
    this.element = el(
      "aside",
      { class: "detail", "aria-label": "Detail of the selected row", hidden: true },
      el("div", { class: "detail-head" }, this.title, this.mode, this.copy, this.status, this.button("Close", close)),
      this.facts,
      this.findings,
      this.body,
      this.head,
    );
  }

  button(text, act) {
    const element = el("button", { type: "button" }, text);
    element.addEventListener("click", act);
    return element;
  }

  setMode(isLaidOut) {
    this.isLaidOut = isLaidOut;
    this.mode.textContent = isLaidOut ? "Raw" : "Formatted";
    this.show(this.row);
  }

  async copyText() {
    try {
      await navigator.clipboard.writeText(this.text ?? "");
      this.status.textContent = "copied";
    } catch {
      this.status.textContent = "the browser did not allow copying";
    }
  }

  async show(row) {
    const { rows } = this.model;
    this.row = row;
    this.text = null;
    this.element.hidden = false;
    this.status.textContent = "";
    this.title.textContent = titleOf(rows, row);
    this.facts.replaceChildren(
      ...factsOf(this.model, row).flatMap(([name, ...value]) => [el("dt", {}, name), el("dd", {}, value)]),
    );
    this.findings.replaceChildren(...findingsAt(this.model, row));
    const capture = rows.capture[row];
    const headNumber = this.model.headOf[capture].get(rows.exchange[row]);
    const payload = rows.payload[row] < 0 ? null : await this.model.payload(rows.payload[row]);
    const head = headNumber === undefined ? null : await this.model.payload(headNumber);
    if (this.row !== row) return;
    this.text = payload ?? rows.text[row];
    this.mode.hidden = !payload;
    this.body.replaceChildren(...bodyOf(this.model, row, payload, this.isLaidOut, this.words()));
    this.showHit();
    this.head.replaceChildren(
      ...(head === null
        ? []
        : [
            el("h4", {}, `HTTP exchange @${rows.exchange[row]}`),
            el("pre", { tabindex: 0, role: "group", "aria-label": "Heads of the HTTP exchange" }, head),
          ]),
    );
  }

  /** Scrolls to the first word that the filter found, and moves nothing but the detail. */
  showHit() {
    const hit = this.body.querySelector("mark");
    if (!hit) return;
    const { top, bottom } = this.element.getBoundingClientRect();
    const place = hit.getBoundingClientRect();
    if (place.top < top || place.bottom > bottom) this.element.scrollTop += place.top - (top + bottom) / 2;
  }

  hide() {
    this.element.hidden = true;
    this.row = -1;
  }
}

function titleOf(rows, row) {
  const kind = rows.kind[row];
  const record = rows.seq[row] < 0 ? "" : `${isFrame(rows, row) ? "Frame" : "Record"} ${rows.seq[row]}: `;
  const words = [["other", "login", "leg"].includes(kind) ? "" : kind, rows.method[row], rows.id[row], rows.name[row]];
  return `${record}${kind === "remark" ? rows.text[row] : words.filter(Boolean).join(" ")}`;
}

/** Whether a row is that of a frame, not of another record or of a login. */
function isFrame(rows, row) {
  return !["remark", "login", "leg"].includes(rows.kind[row]);
}

function factsOf(model, row) {
  const { rows, captures } = model;
  const place = rows.capture[row];
  const capture = captures[place];
  const facts = [];
  if (captures.length > 1) facts.push(["capture", capture.name || capture.file]);
  const clock = capture.opened_ms === null ? "" : utc(capture.opened_ms + rows.t[row] / 1000);
  facts.push([{ login: "ended", leg: "began" }[rows.kind[row]] ?? "crossed", `${sinceStart(rows.t[row])} s`, clock && el("span", { class: "dim" }, `  ${clock}`)]);
  if (isFrame(rows, row)) facts.push(["direction", rows.way[row] === "→" ? "client → server" : "server → client"]);
  if (rows.session[row] > 0) facts.push(["session", rows.session[row]]);
  if (rows.exchange[row] >= 0) facts.push(["exchange", `@${rows.exchange[row]}`]);
  if (rows.size[row] >= 0) facts.push(["size", bytes(rows.size[row])]);
  const turn = model.turnOf[place].get(rows.seq[row]);
  for (const [name, text, isBad] of rows.facts[row])
    facts.push([
      name,
      name === "turn" && turn
        ? el("a", { href: `#turn-${turn}` }, text)
        : el("span", { class: isBad ? "bad" : "" }, linkedText(place, text)),
    ]);
  if (rows.word[row] && rows.kind[row] !== "request")
    facts.push([
      "outcome",
      el(
        "span",
        { class: rows.is_bad[row] ? "bad" : "" },
        [rows.word[row], rows.kind[row] === "response" ? rows.text[row] : ""].filter(Boolean).join(": "),
      ),
    ]);
  for (let leg = row + 1; rows.login[leg] === row; leg += 1)
    facts.push([rows.method[leg], frameLink(place, rows.seq[leg], rows.word[leg]), `  ${rows.text[leg]}`]);
  if (rows.problem[row]) facts.push(["breaks", el("code", { class: "bad" }, rows.problem[row])]);
  return facts;
}

function findingsAt(model, row) {
  const { rows } = model;
  const found = model.findingsOf[rows.capture[row]];
  const known = [rows.seq[row], rows.request_seq[row]].flatMap((record) => found.get(record) ?? []);
  const listed = new Set(known.map(([rule]) => rule));
  const others = rows.rules[row].split(" ").filter((rule) => rule && !listed.has(rule));
  return [
    ...known.map(([rule, finding]) =>
      el(
        "li",
        {},
        badge(finding.level),
        el("a", { href: `#finding-${finding.number}` }, el("code", {}, rule)),
        ` ${finding.message}`,
      ),
    ),
    ...others.map((rule) => el("li", {}, el("code", {}, rule))),
  ];
}

function bodyOf(model, row, payload, isLaidOut, words) {
  if (!payload) return [];
  const size = model.rows.size[row];
  const note =
    size > model.cut
      ? el(
          "p",
          { class: "notice" },
          `Cut after ${bytes(model.cut)} of ${bytes(size)}. \`mcpproxy show CAPTURE --frame ${model.rows.seq[row]}\` prints all of it.`,
        )
      : null;
  return [note, payloadElement(payload, isLaidOut, words)].filter(Boolean);
}
