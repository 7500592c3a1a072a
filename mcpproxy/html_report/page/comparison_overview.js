// The first screen of a comparison: the verdict, both sides, and the worst changes.

const SIDES = ["old", "new"];

function drawComparisonOverview(overview) {
  section("overview").append(
    el("p", { class: "lead" }, "What changed between two recordings, the worst first"),
    el("h1", { id: "verdict", class: overview.tone }, overview.verdict),
    ...failureNotice(overview),
    el("dl", { class: "sides" }, overview.sides.map(sideElement)),
    ...warningNotice(overview),
    el("dl", { class: "figures" }, overview.figures.map(figure)),
    el("p", { class: "lead" }, overview.compared ? `Compared: ${overview.compared}` : "Nothing was compared"),
    ...worstChanges(overview),
    ...leftOut(overview),
  );
  section("about").append(
    el("p", {}, `Made by mcpproxy ${overview.version} on ${overview.made}. This file contains definitions and values of the recorded traffic in plain text: anyone who has the file can read them.`),
  );
}

function failureNotice({ failures, more_failures: more }) {
  if (!failures.length) return [];
  return [
    el(
      "div",
      { class: "notice failure" },
      el("h2", {}, "This comparison failed: it must not be read as one without changes"),
      el(
        "ul",
        {},
        failures.map((text) => el("li", {}, text)),
        more ? el("li", {}, el("a", { href: "#not-compared" }, `and ${more.toLocaleString("en")} more`)) : null,
      ),
    ),
  ];
}

function warningNotice({ sides }) {
  const lines = sides.flatMap(({ warnings }, at) => warnings.map((text) => `${SIDES[at]}: ${text}`));
  if (!lines.length) return [];
  return [el("div", { class: "notice" }, el("ul", {}, lines.map((text) => el("li", {}, text))))];
}

function sideElement({ name, facts }, at) {
  return el(
    "div",
    { class: "side" },
    el("dt", {}, SIDES[at]),
    el("dd", {}, el("strong", {}, name), el("span", { class: "dim" }, facts.join(" · "))),
  );
}

function worstChanges(overview) {
  const { first, changes } = overview;
  if (!first.length) return [];
  const rows = first.map(({ number, severity, text, kind }) =>
    el(
      "li",
      {},
      severityBadge(overview, severity),
      el(
        "div",
        {},
        el("a", { class: "clamped", href: changeAddress(number) }, text),
        el("p", { class: "what" }, el("code", {}, kind)),
      ),
    ),
  );
  return [
    el("h2", { class: "worst" }, changes > first.length ? "The worst changes" : "All changes"),
    el("ol", { class: "ranked" }, rows),
    changes > first.length ? el("p", {}, el("a", { href: "#changes" }, `All ${counted(changes, "change")}`)) : null,
  ].filter(Boolean);
}

/** A severity in its colour. */
function severityBadge({ severities }, severity) {
  const [, tone] = severities.find(([name]) => name === severity);
  return el("span", { class: `badge ${tone}` }, severity);
}

/** The address of a change, by its number from 0. */
function changeAddress(number) {
  return `#change-${number + 1}`;
}

/** The number of the change of an address, from 0; null if the address is not that of a change. */
function changeOf(address) {
  const number = numberIn(/^#change-(\d{1,9})$/, address);
  return number === null ? null : number - 1;
}
