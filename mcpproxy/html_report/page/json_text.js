// JSON laid out for reading: one member on a line, in the exact tokens that crossed. Nothing is parsed into values, so
// numbers keep every digit and members of one name all appear.

const TOKEN = /"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+|"/gs;
const DEEPEST = 40;
const MOST_LINES = 4000;

/** The lines of a payload, each a list of [text, class]. What is not JSON comes line by line. */
function laidOut(text) {
  if (!/^\s*[{[]/.test(text)) return text.split("\n").map((line) => [[visible(line), ""]]);
  const lines = [];
  let line = [];
  let depth = 0;
  let hasOpened = false;
  const end = () => {
    if (line.length) lines.push(line);
    line = [];
  };
  for (const [token] of text.matchAll(TOKEN)) {
    const closes = token === "}" || token === "]";
    if (closes) depth -= 1;
    if (hasOpened !== closes) end();
    if (!line.length) line.push(["  ".repeat(Math.min(DEEPEST, Math.max(0, depth))), ""]);
    if (token === ":" && line.length > 1) line[line.length - 1][1] = "key";
    line.push([token === ":" ? ": " : visible(token), classOf(token)]);
    hasOpened = token === "{" || token === "[";
    if (hasOpened) depth += 1;
    if (token === ",") end();
  }
  end();
  return lines;
}

function classOf(token) {
  if (token[0] === '"') return "string";
  return /^[-\dtfn]/.test(token) ? "value" : "";
}

/** A payload as an element. */
function payloadElement(text, isLaidOut) {
  if (!isLaidOut)
    return el("pre", { tabindex: 0, role: "group", "aria-label": "Raw payload" }, visible(text));
  const lines = laidOut(text);
  const drawn = lines
    .slice(0, MOST_LINES)
    .flatMap((line) => [...line.map(([piece, kind]) => (kind ? el("span", { class: kind }, piece) : piece)), "\n"]);
  if (lines.length > MOST_LINES) {
    drawn.push(`… ${counted(lines.length - MOST_LINES, "more line")}; “Raw” shows all of them`);
  }
  return el("pre", { tabindex: 0, role: "group", "aria-label": "Payload" }, drawn);
}
