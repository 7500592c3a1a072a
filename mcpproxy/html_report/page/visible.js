// Untrusted text, made visible: what would hide, reverse or move text becomes a visible escape, by the rules of the
// terminal (mcpproxy/sanitise.py). Rows are escaped before they are stored; this is for payloads, which are stored as
// they crossed.

const MARKS_IN_A_ROW = 8;
const PLAIN = /^[\x20-\x7e\u00a0-\u00ac\u00ae-\u02ff]*$/;
// Controls, format characters (bidirectional, zero-width, tags), lone surrogates, private use and unassigned characters,
// line separators; then characters that are ordinary by class and show nothing, and selectors of variants.
const HIDDEN =
  /[\p{C}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\ufe00-\ufe0d\u{e0100}-\u{e01ef}]/u;
const PRESENTATION = /[\ufe0e\ufe0f]/;
// Characters drawn onto the one before: combining marks, and jamo that end a Hangul syllable.
const MARK = /[\p{M}\u1160-\u11ff\ud7b0-\ud7ff]/u;
// Characters that exist as text and as emoji: after a letter, a selector would be a hidden bit.
const HAS_PRESENTATIONS = /[#*0-9ℹ]|[^\p{L}\x00-\x7f]/u;
// Joins emoji to one, of at most four; anywhere else, it could hide text.
const JOINER = "\u200d";
const JOINERS_IN_A_ROW = 3;
const EMOJI = /[\u2190-\u2bff\u{1f000}-\u{1faff}]/u;
const EMOJI_FORM = /[\u{1f3fb}-\u{1f3ff}\ufe0e\ufe0f]/u;
const SPACE = /\p{Zs}/u;
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
  if (PLAIN.test(text)) return text;
  let shown = "";
  let before = "";
  // Marks that may still join the character before: none at the start, after a space, and after an escape.
  let room = 0;
  let joiners = JOINERS_IN_A_ROW;
  const chars = Array.from(text);
  for (const [index, char] of chars.entries()) {
    const joins = char === JOINER && joiners > 0 && EMOJI.test(before) && EMOJI.test(chars[index + 1] ?? "");
    const isPresentation = PRESENTATION.test(char);
    const isMark = isPresentation || MARK.test(char);
    const fits = isPresentation ? room === MARKS_IN_A_ROW && HAS_PRESENTATIONS.test(before) : !isMark || room > 0;
    if (joins) {
      room = 0;
      joiners -= 1;
      shown += char;
    } else if (HIDDEN.test(char) || !fits) {
      room = 0;
      shown += escaped(char);
    } else {
      room = isMark ? room - 1 : SPACE.test(char) ? 0 : MARKS_IN_A_ROW;
      shown += char;
    }
    if (!joins && before !== JOINER && !EMOJI_FORM.test(char)) joiners = JOINERS_IN_A_ROW;
    // After an emoji, a selector belongs to it.
    if (char !== "\ufe0f" || room === 0) before = char;
  }
  return shown;
}
