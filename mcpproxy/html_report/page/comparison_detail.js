// The detail of a change: its facts, the value that proves it, the values of both sides, and the page of its kind.

class ChangeDetail {
  /** details: the details of all changes. close: called by the button. */
  constructor(overview, rows, details, close) {
    this.overview = overview;
    this.rows = rows;
    this.details = details;
    this.row = -1;
    this.title = el("h3", {});
    this.body = el("div", { class: "body" });
    const button = el("button", { type: "button" }, "Close");
    button.addEventListener("click", close);
    this.element = el(
      "aside",
      { class: "detail", "aria-label": "Detail of the selected change", tabindex: 0, hidden: true },
      el("div", { class: "detail-head" }, this.title, button),
      this.body,
    );
  }

  show(row) {
    const { severity, kind, subject, message } = this.rows;
    const detail = this.details[row];
    this.row = row;
    this.element.hidden = false;
    this.element.scrollTop = 0;
    this.title.replaceChildren(severityBadge(this.overview, severity[row]), subject[row]);
    this.body.replaceChildren(
      el("p", {}, message[row]),
      el(
        "dl",
        { class: "facts" },
        changeFacts(detail, kind[row], severity[row]).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]),
      ),
      ...witnessElements(detail),
      ...valueElements(detail),
      ...kindElements(this.overview.kinds[kind[row]]),
    );
  }

  hide() {
    this.element.hidden = true;
    this.row = -1;
  }
}

function changeFacts(detail, kind, severity) {
  const facts = [["kind", el("code", {}, kind)]];
  if (detail.lowered)
    facts.push(["severity", `${severity}, not ${detail.lowered}, because nothing proves it`]);
  if (detail.unproved) facts.push(["not proved", detail.unproved]);
  if (detail.old) facts.push(["was in", detail.old]);
  if (detail.new) facts.push(["is in", detail.new]);
  return facts;
}

function witnessElements({ witness, fits_old: fitsOld }) {
  if (!witness) return [];
  const words = fitsOld ? "was valid before and is not now" : "is valid now and was not before";
  const drawn = payloadElement(witness, true, []);
  drawn.setAttribute("aria-label", "Witness");
  return [el("h4", {}, "Witness"), el("p", { class: "dim" }, `This value, created by mcpproxy, ${words}.`), drawn];
}

function valueElements({ lines, is_cut: isCut, is_omitted: isOmitted }) {
  const elements = [];
  if (lines.length) elements.push(el("h4", {}, "Values"), differenceTable(lines));
  if (isCut) elements.push(el("p", { class: "notice" }, "The values have more lines; the frames show all of them."));
  if (isOmitted) elements.push(el("p", { class: "notice" }, "The values are left out; the frames show them."));
  return elements;
}

/** The page of a kind, as `mcpproxy compare --explain` prints it. */
function kindElements({ id, severity, title, why, example, fail_on: words }) {
  return [
    el("h4", {}, `What ${id} means`),
    el("p", {}, `${title[0].toUpperCase()}${title.slice(1)}. `, prose(why)),
    el("p", { class: "dim" }, `Severity: ${severity}. --fail-on: ${words.length ? words.join(", ") : "never fails"}. Example:`),
    el("pre", { tabindex: 0, role: "group", "aria-label": "Example" }, example),
  ];
}
