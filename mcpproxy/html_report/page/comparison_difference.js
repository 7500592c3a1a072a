// The values of both sides, line by line next to each other, with what differs marked.

const INDENT = 2;
const DEEPEST_INDENT = 12;

/** The lines as a table; a line is [depth, old text, new text, are they equal, how many equal lines it replaces]. */
function differenceTable(lines) {
  const rows = lines.map((line) => (line[4] ? omittedRow(line[4]) : differenceRow(line)));
  return el(
    "table",
    { class: "difference", "aria-label": "Values of both sides" },
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "was"), el("th", { scope: "col" }, "now"))),
    el("tbody", {}, rows),
  );
}

function omittedRow(count) {
  return el("tr", { class: "omitted" }, el("td", { colspan: 2 }, `… ${counted(count, "equal line")}`));
}

function differenceRow([depth, before, after, isEqual]) {
  const indent = " ".repeat(INDENT * Math.min(DEEPEST_INDENT, depth));
  if (isEqual) {
    const texts = [before, after].map((text) => el("td", {}, text === null ? null : indent + text));
    return el("tr", { class: "equal" }, texts);
  }
  const [start, oldEnd, newEnd] = differentPart(before, after);
  return el(
    "tr",
    {},
    differentCell("del", indent, before, start, oldEnd),
    differentCell("ins", indent, after, start, newEnd),
  );
}

function differentCell(tag, indent, text, start, end) {
  if (text === null) return el("td", { class: "nothing" });
  return el(
    "td",
    { class: tag },
    indent,
    text.slice(0, start),
    end > start ? el(tag, {}, text.slice(start, end)) : null,
    text.slice(end),
  );
}

/** Where two texts begin to differ, and where the different part of each ends; all of a text that is alone. */
function differentPart(before, after) {
  if (before === null || after === null) return [0, before?.length ?? 0, after?.length ?? 0];
  // A comma that only one side has is no part of the values.
  if (before.endsWith(",") !== after.endsWith(",")) {
    return differentPart(before.replace(/,$/, ""), after.replace(/,$/, ""));
  }
  const shorter = Math.min(before.length, after.length);
  let start = 0;
  while (start < shorter && before[start] === after[start]) start += 1;
  let shared = 0;
  while (shared < shorter - start && before.at(-1 - shared) === after.at(-1 - shared)) shared += 1;
  // Neither end may split a character that is a pair of code units.
  if (start && /[\ud800-\udbff]/.test(before[start - 1])) start -= 1;
  if (shared && /[\udc00-\udfff]/.test(before.at(-shared))) shared -= 1;
  return [start, before.length - shared, after.length - shared];
}
