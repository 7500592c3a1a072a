// The start of a comparison: the first screen is drawn while the rest of the file is still being read; then the changes.

const OVERVIEW = plainBlock("data-overview");
drawTheme();
drawComparisonOverview(OVERVIEW);
drawLatencies(OVERVIEW);
drawSizes(OVERVIEW);
drawIgnored(OVERVIEW);
drawGaps(OVERVIEW);

async function start() {
  const place = section("changes");
  if (OVERVIEW.changes) {
    const rows = await packedBlock("data-changes");
    const details = await readDetails(OVERVIEW.blocks);
    const changes = new Changes(OVERVIEW, rows, details, place);
    const follow = () => {
      const row = changeOf(window.location.hash);
      if (row === null) return;
      place.scrollIntoView();
      changes.showChange(row);
    };
    window.addEventListener("hashchange", follow);
    follow();
  } else {
    const isFailure = OVERVIEW.failures.length > 0;
    const text = isFailure ? "No change was found in what could be compared." : "Nothing changed in what was compared.";
    place.append(el("p", { class: isFailure ? "bad" : OVERVIEW.tone || "dim" }, text));
  }
  document.documentElement.dataset.ready = "payloads";
}

/** The details of all changes, in their order. */
async function readDetails(blocks) {
  const details = [];
  for (let at = 0; at < blocks; at += 1) {
    for (const text of await packedBlock(`data-payloads-${at}`)) details.push(JSON.parse(text));
    await breath();
  }
  return details;
}

/** Says that the changes could not be drawn, for example because the browser cannot decompress them. */
function fail(error) {
  section("changes").append(
    el("p", { class: "notice" }, `This browser could not draw the changes: ${error.message}. A newer browser may be able to.`),
  );
  throw error;
}

window.addEventListener("DOMContentLoaded", () => start().catch(fail));
