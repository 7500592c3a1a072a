// The first screen: who talked to whom, how long, what to fix first, which calls were slow or abandoned.

function drawOverview(overview) {
  section("overview").append(
    ...headline(overview),
    el("dl", { class: "figures" }, overview.figures.map(figure)),
    el(
      "div",
      { class: "columns" },
      firstFindings(overview),
      el("div", {}, failedLogins(overview), slowest(overview), withoutAnswer(overview), errors(overview)),
    ),
    ...leftOut(overview),
  );
  section("about").append(
    el("p", {}, `Made by mcpproxy ${overview.version} on ${overview.made}. ${privacy(overview)}`),
  );
}

function privacy({ captures }) {
  const redacted = captures.filter((capture) => capture.is_redacted).length;
  if (redacted === captures.length) return "It was made from redacted copies: all secrets that mcpproxy found are replaced.";
  const some = redacted ? ` Of ${captures.length} captures, ${redacted} are redacted copies.` : "";
  return `This file contains the recorded traffic in plain text: anyone who has the file can read it.${some}`;
}

function headline({ captures, title }) {
  if (captures.length === 1) {
    const [only] = captures;
    return [
      el("h1", { id: "who" }, ...peers(only)),
      el("p", { class: "lead" }, facts(only).join(" · ")),
      only.missing ? el("p", { class: "notice" }, `Incomplete: ${only.missing}`) : null,
    ].filter(Boolean);
  }
  const columns = [
    ["client → server", "wide-cell"],
    ["capture", ""],
    ["transport", ""],
    ["revision", ""],
    ["opened", "num"],
    ["duration", "num"],
    ["frames", "num"],
    ["end", ""],
  ];
  const rows = captures.map((capture) => [
    el("span", {}, ...peers(capture)),
    capture.name,
    capture.transport,
    capture.revisions,
    capture.opened,
    capture.duration,
    capture.frames.toLocaleString("en"),
    el("span", {}, capture.ending, capture.missing ? el("strong", { class: "bad" }, ` ${capture.missing}`) : ""),
  ]);
  return [
    el("h1", { id: "who" }, title),
    el("p", { class: "lead" }, counted(captures.length, "capture")),
    table("Who talked to whom", columns, rows),
  ];
}

function peers(capture) {
  const more = capture.more_peers ? ` and ${capture.more_peers} more` : "";
  return [
    el("span", {}, capture.client || "unknown client"),
    el("span", { class: "dim" }, " → "),
    el("span", {}, capture.server || capture.name || "unknown server", more),
  ];
}

function facts(capture) {
  return [
    capture.transport,
    capture.revisions && `MCP ${capture.revisions}`,
    capture.opened,
    capture.sessions > 1 && counted(capture.sessions, "session"),
    capture.ending,
    capture.is_redacted && "redacted copy",
    capture.endpoint,
    capture.file,
  ].filter(Boolean);
}

function firstFindings({ findings, levels, nothing }) {
  const counts = ["error", "warning", "note"]
    .filter((level) => levels[level])
    .map((level) => counted(levels[level], level));
  const rows = findings.slice(0, 8).map((group) => {
    const [first] = group.findings;
    return el(
      "li",
      {},
      badge(group.level),
      el(
        "div",
        {},
        el("a", { class: "clamped", href: `#finding-${first.number}` }, first.message),
        el(
          "p",
          { class: "what" },
          `${group.impact} · ${group.side}`,
          group.count > 1 ? ` · and ${(group.count - 1).toLocaleString("en")} more` : "",
          " · ",
          el("code", {}, group.rule),
        ),
      ),
    );
  });
  return el(
    "div",
    { class: "first" },
    el("h2", {}, "What to fix first"),
    counts.length
      ? el("p", { class: "dim" }, counts.join(", "))
      : el("p", { class: nothing ? "dim" : "fine" }, withoutFindings(nothing)),
    rows.length ? el("ol", { class: "ranked" }, rows) : null,
    findings.length > 8
      ? el("p", {}, el("a", { href: "#findings" }, `All ${findings.length} rules with findings`))
      : null,
  );
}

function withoutFindings(nothing) {
  return nothing ? `Nothing to check: ${nothing}.` : "No findings: no rule that applies was broken.";
}

function calls(title, rows, more = 0) {
  if (!rows.length) return null;
  if (more) rows.push(el("li", {}, el("span"), el("p", { class: "what" }, `and ${counted(more, "more kind")}`)));
  return el("div", { class: "calls" }, el("h2", {}, title), el("ul", { class: "plain" }, rows));
}

function callRow({ captures }, { what, capture, frame, more, times }, took) {
  const server = captures.length > 1 && capture >= 0 ? captures[capture].name : "";
  const about = [more, server].filter(Boolean).join(" · ");
  return el(
    "li",
    {},
    el("span", { class: "took num" }, took),
    el(
      "div",
      {},
      el("span", { class: "name" }, what),
      times > 1 ? el("span", { class: "dim" }, ` ×${times.toLocaleString("en")}`) : null,
      about ? el("p", { class: "what" }, about) : null,
    ),
    frameLink(capture, frame),
  );
}

function failedLogins(overview) {
  const { failed_logins: failed, unfinished_logins: unfinished } = overview;
  const counts = [
    failed ? `${counted(failed, "login")} failed` : "",
    unfinished ? `${failed ? unfinished.toLocaleString("en") : counted(unfinished, "login")} unfinished` : "",
  ];
  return calls(
    counts.filter(Boolean).join(", "),
    overview.login_failures.map((row) => callRow(overview, row, row.took)),
    overview.more_login_failures,
  );
}

function slowest(overview) {
  return calls(
    "Slowest calls",
    overview.slowest
      .slice(0, 5)
      .map((row) =>
        callRow(
          overview,
          { ...row, more: [row.outcome === "ok" ? "" : row.outcome, row.more].filter(Boolean).join(", ") },
          row.took,
        ),
      ),
  );
}

function withoutAnswer(overview) {
  return [
    calls(
      "Abandoned",
      overview.abandoned.map((row) => callRow(overview, row, row.waited)),
      overview.more_abandoned,
    ),
    calls(
      "Unanswered",
      overview.unanswered.map((row) => callRow(overview, row, row.waited)),
      overview.more_unanswered,
    ),
  ];
}

function errors(overview) {
  const rows = overview.errors.map(({ kind, text, times, ...row }) =>
    callRow(overview, { ...row, more: text ? `${kind}: ${text}` : kind }, `×${times.toLocaleString("en")}`),
  );
  return calls("Errors", rows, overview.more_errors);
}
