// JSON laid out for reading: one member on a line, in the exact tokens that crossed. Nothing is parsed into values, so
// numbers keep every digit and members of one name all appear. A string with several lines, or with JSON in it, is
// followed by its text.

const TOKEN = /"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+|"/gs;
const DEEPEST = 40;
const MOST_LINES = 4000;
/** Characters of a string whose text follows. */
const BEGINNING = 80;
const OPENS = /^\s*[{[]/;

/** The lines of a payload, each a list of [text, class]. Other text comes line by line. */
function laidOut(text, isInString = false) {
  if (!OPENS.test(text)) return plainLines(text);
  const lines = [];
  const follows = [];
  let line = [];
  let depth = 0;
  let hasOpened = false;
  const end = () => {
    if (line.length) lines.push(line);
    for (const inner of follows.splice(0)) lines.push(inner);
    line = [];
  };
  for (const [token] of text.matchAll(TOKEN)) {
    const closes = token === "}" || token === "]";
    if (closes) depth -= 1;
    if (hasOpened !== closes) end();
    if (!line.length) line.push(["  ".repeat(Math.min(DEEPEST, Math.max(0, depth))), ""]);
    if (token === ":" && line.length > 1) line[line.length - 1][1] = "key";
    const inside = isInString ? [] : textOf(token);
    if (inside.length) {
      const rail = [`${"  ".repeat(Math.min(DEEPEST, depth + 1))}│ `, "dim"];
      for (const inner of inside) follows.push([rail, ...inner]);
    }
    const shown = inside.length ? beginningOf(token) : token;
    line.push([token === ":" ? ": " : visible(shown), classOf(token)]);
    hasOpened = token === "{" || token === "[";
    if (hasOpened) depth += 1;
    if (token === ",") end();
  }
  end();
  return lines;
}

function plainLines(text) {
  return text.split("\n").map((line) => [[visible(line), ""]]);
}

function beginningOf(token) {
  if (token.length <= BEGINNING) return token;
  // The last character may be half of a surrogate pair.
  return `${Array.from(token.slice(0, BEGINNING)).slice(0, -1).join("")}…`;
}

function classOf(token) {
  if (token[0] === '"') return "string";
  return /^[-\dtfn]/.test(token) ? "value" : "";
}

/** The lines of the text in a string token, if there are several, or if it is JSON that has several. */
function textOf(token) {
  if (token[0] !== '"' || !/\\n|^"\s*[{[]/.test(token)) return [];
  try {
    const text = JSON.parse(token);
    const lines = isJson(text) ? laidOut(text, true) : plainLines(text);
    return lines.length > 1 ? lines : [];
  } catch {
    return [];
  }
}

function isJson(text) {
  if (!OPENS.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** A payload as an element, with the words of the search marked. */
function payloadElement(text, isLaidOut, words) {
  const hits = words.length ? new RegExp(words.map(quoted).join("|"), "giu") : null;
  if (!isLaidOut)
    return el("pre", { tabindex: 0, role: "group", "aria-label": "Raw payload" }, marked(visible(text), hits));
  const lines = laidOut(text);
  const pieceElements = ([piece, kind]) => (kind ? el("span", { class: kind }, marked(piece, hits)) : marked(piece, hits));
  const drawn = lines.slice(0, MOST_LINES).flatMap((line) => [...line.flatMap(pieceElements), "\n"]);
  if (lines.length > MOST_LINES) {
    drawn.push(`… ${counted(lines.length - MOST_LINES, "more line")}; “Raw” shows all of them`);
  }
  return el("pre", { tabindex: 0, role: "group", "aria-label": "Payload" }, drawn);
}

/** A text in pieces: matches of a pattern are marked. */
function marked(text, hits) {
  if (!hits) return [text];
  const pieces = [];
  let end = 0;
  for (const { 0: hit, index } of text.matchAll(hits)) {
    pieces.push(text.slice(end, index), el("mark", { class: "hit" }, hit));
    end = index + hit.length;
  }
  return [...pieces, text.slice(end)];
}

/** A text as a pattern that matches just this text. */
function quoted(text) {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
}
