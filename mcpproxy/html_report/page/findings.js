// Findings by rule, in the order in which to fix them, each with the bytes that prove it.

const OPEN_FINDINGS = 3;

function drawFindings({ findings, captures, nothing }) {
  const place = section("findings");
  if (!findings.length) {
    place.append(el("p", { class: nothing ? "dim" : "fine" }, withoutFindings(nothing)));
    return;
  }
  place.append(...findings.map((group) => ruleElement(group, captures)));
}

function ruleElement(group, captures) {
  const first = group.findings.slice(0, OPEN_FINDINGS);
  const rest = group.findings.slice(OPEN_FINDINGS);
  const more = group.count - group.findings.length;
  return el(
    "article",
    { class: `rule ${group.level}` },
    el(
      "header",
      {},
      badge(group.level),
      el("h3", {}, el("code", {}, group.rule)),
      el(
        "span",
        { class: "dim" },
        [group.impact, group.side, group.count > 1 ? `×${group.count.toLocaleString("en")}` : ""]
          .filter(Boolean)
          .join(" · "),
      ),
    ),
    el("p", { class: "summary" }, prose(group.summary)),
    el(
      "ol",
      { class: "plain" },
      first.map((finding) => findingElement(finding, captures)),
    ),
    rest.length ? moreFindings(rest, captures) : null,
    el(
      "p",
      { class: "dim source" },
      [more > 0 ? `${counted(more, "more violation")} not listed` : "", group.source, `mcpproxy rule ${group.rule}`]
        .filter(Boolean)
        .join(" · "),
    ),
  );
}

/** Further findings, whose elements are created when they are opened. */
function moreFindings(findings, captures) {
  const list = el("ol", { class: "plain" });
  const details = el(
    "details",
    { "data-first": findings[0].number, "data-last": findings[findings.length - 1].number },
    el("summary", {}, counted(findings.length, "more finding")),
    list,
  );
  details.addEventListener("toggle", () => fillMore(details, findings, captures));
  details.fill = () => fillMore(details, findings, captures);
  return details;
}

function fillMore(details, findings, captures) {
  const list = details.lastElementChild;
  if (!list.children.length) list.append(...findings.map((finding) => findingElement(finding, captures)));
}

function findingElement(finding, captures) {
  const where = [
    captures.length > 1 ? captures[finding.capture].name || captures[finding.capture].file : "",
    finding.side,
    finding.session > 1 ? `session ${finding.session}` : "",
    finding.at,
  ];
  return el(
    "li",
    { id: `finding-${finding.number}`, class: "finding", tabindex: -1 },
    el(
      "p",
      {},
      frameLink(finding.capture, finding.frame, finding.where),
      el("span", { class: "dim" }, `  ${where.filter(Boolean).join(" · ")}`),
      el(
        "a",
        { class: "anchor", href: `#finding-${finding.number}`, "aria-label": `Link to finding ${finding.number}` },
        "#",
      ),
    ),
    el(
      "p",
      { class: "message" },
      finding.message,
      finding.pointer ? el("code", { class: "dim" }, ` ${finding.pointer}`) : null,
    ),
    finding.proof ? proofElement(finding.proof, `Bytes of ${finding.where}`) : null,
    finding.others.flatMap(({ frame, proof }) => [
      el("p", { class: "dim other" }, frameLink(finding.capture, frame)),
      proofElement(proof, `Bytes of frame ${frame}`),
    ]),
  );
}

function proofElement([before, place, after], label) {
  return el(
    "pre",
    { class: "proof", tabindex: 0, role: "group", "aria-label": label },
    before,
    place ? el("mark", {}, place) : null,
    after,
  );
}

/** Brings a finding into view; returns whether there is such a finding. */
function showFinding(number) {
  for (const details of section("findings").querySelectorAll("details")) {
    if (number >= Number(details.dataset.first) && number <= Number(details.dataset.last)) {
      details.fill();
      details.open = true;
    }
  }
  const element = document.getElementById(`finding-${number}`);
  for (const other of document.querySelectorAll(".finding.shown")) other.classList.remove("shown");
  if (!element) return false;
  element.classList.add("shown");
  element.scrollIntoView({ block: "center" });
  element.focus({ preventScroll: true });
  return true;
}
