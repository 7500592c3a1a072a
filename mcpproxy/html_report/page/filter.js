// The filter: which rows of the traffic are shown. Words are searched in the rows and in the payloads; all must occur.

const SLICE_MS = 12;
const KINDS = [
  ["", "all rows"],
  ["request", "requests"],
  ["response", "responses"],
  ["notification", "notifications"],
  ["batch other", "batches and other frames"],
  ["login leg", "logins"],
  ["remark", "remarks and stderr"],
];

/** Whether a row passes the filter, its words aside. */
function passes(rows, row, { kind, capture, isBadOnly }) {
  if (kind && !kind.split(" ").includes(rows.kind[row])) return false;
  if (capture >= 0 && rows.capture[row] !== capture) return false;
  return !isBadOnly || rows.is_bad[row] || rows.level[row] > 0 || rows.problem[row] !== "";
}

/**
 * The rows that a filter selects. First those whose own words match, at once; then, slice by slice, those whose payload
 * does.
 *
 * show: called with the rows so far and whether they are all. isCurrent: whether the filter is still wanted.
 */
async function filterRows(model, wanted, show, isCurrent) {
  const words = wordsIn(wanted.text);
  const selected = new Uint8Array(model.count);
  const unsure = [];
  for (let row = 0; row < model.count; row += 1) {
    if (!passes(model.rows, row, wanted)) continue;
    if (words.every((word) => model.wordsOf(row).includes(word))) selected[row] = 1;
    else if (model.rows.payload[row] >= 0) unsure.push(row);
  }
  show(listed(selected), !unsure.length);
  let until = performance.now() + SLICE_MS;
  for (const row of unsure) {
    const payload = model.payloadNow(model.rows.payload[row]) ?? (await model.payload(model.rows.payload[row]));
    const lower = payload.toLowerCase();
    if (words.every((word) => model.wordsOf(row).includes(word) || lower.includes(word))) selected[row] = 1;
    if (performance.now() > until) {
      await breath();
      if (!isCurrent()) return;
      until = performance.now() + SLICE_MS;
    }
  }
  if (unsure.length && isCurrent()) show(listed(selected), true);
}

/** The words that a filter searches for, in lower case. */
function wordsIn(text) {
  return text.toLowerCase().split(/\s+/).filter(Boolean);
}

function listed(selected) {
  const rows = [];
  for (let row = 0; row < selected.length; row += 1) if (selected[row]) rows.push(row);
  return rows;
}
