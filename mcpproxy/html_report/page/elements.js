// Elements: everything on the page is created here. Text becomes a text node and nothing else, so that no payload is
// markup.

/** An element with attributes and children; children are elements or text, and empty ones are skipped. */
function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** An SVG element, likewise. */
function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== "") {
      element.append(child instanceof Node ? child : document.createTextNode(String(child)));
    }
  }
  return element;
}

/** A table: `columns` are [title, class]; a row is a list of cells, each an element or text. */
function table(label, columns, rows) {
  const head = columns.map(([title, kind]) => el("th", { scope: "col", class: kind }, title));
  const body = rows.map((row) =>
    el(
      "tr",
      {},
      row.map((cell, at) => el(at ? "td" : "th", { class: columns[at][1], scope: at ? null : "row" }, cell)),
    ),
  );
  const drawn = el("table", { "aria-label": label }, el("thead", {}, el("tr", {}, head)), el("tbody", {}, body));
  return el("div", { class: "wide", tabindex: 0, role: "group", "aria-label": label }, drawn);
}

/** A count with its noun. */
function counted(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

/** The report's own prose: text in backticks is code. */
function prose(text) {
  return text.split("`").map((piece, at) => (at % 2 ? el("code", {}, piece) : piece));
}

function section(name) {
  return document.getElementById(name);
}
