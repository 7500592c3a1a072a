// Untrusted text for the eye: what would hide, reverse or move text becomes a visible escape, as in the terminal
// (mcpproxy/sanitise.py). Rows are escaped before they are stored; this is for payloads, which are stored as they crossed.

// Controls, format characters (bidirectional, zero-width, tags), lone surrogates, private use and unassigned characters,
// line separators; then characters that are ordinary by class and show nothing.
const HIDDEN =
  /[\p{C}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\ufe00-\ufe0d]|[\u{e0100}-\u{e01ef}]|(?<=(?:^|[\p{L}\p{C}\p{Z}]))[\ufe0e\ufe0f]|(?<=^|[\p{C}])\p{M}|(?<=\p{M}{8})\p{M}/gu;
const SHORT = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** One character as an escape. */
function escaped(char) {
  const code = char.codePointAt(0);
  const hex = code.toString(16);
  if (code < 0x100) return SHORT[char] ?? `\\x${hex.padStart(2, "0")}`;
  return code < 0x10000 ? `\\u${hex.padStart(4, "0")}` : `\\U${hex.padStart(8, "0")}`;
}

/** A text with an escape for everything that is not plainly visible. */
function visible(text) {
  return text.replace(HIDDEN, escaped);
}
