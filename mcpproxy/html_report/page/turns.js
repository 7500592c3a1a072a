// Turns: what each prompt of a user caused, on all servers of its client. A turn opens to its calls.

function drawTurns(model) {
  const { turns, more, without } = model.turns;
  if (!turns.length) return;
  for (const hidden of document.querySelectorAll("[data-part='turns']")) hidden.hidden = false;
  section("turns").append(
    el(
      "p",
      { class: "dim" },
      "A turn is what one prompt of a user caused: the client sends the same id with all its calls. Time in which several calls were waited for counts once. Turns with the most failures come first, then those with the longest waits.",
    ),
    ...turns.map((turn, at) => turnElement(model, turn, at)),
    ...[more ? `${counted(more, "more turn")} not listed.` : "", without && `${without}.`]
      .filter(Boolean)
      .map((text) => el("p", { class: "dim" }, text)),
  );
}

/** A turn, whose calls are drawn when it is opened. */
function turnElement(model, turn, at) {
  const details = el(
    "details",
    { class: "turn", id: `turn-${at + 1}` },
    el(
      "summary",
      {},
      el("code", {}, turn.short),
      el("span", { class: turn.is_bad ? "bad" : "" }, turn.text),
      el("span", { class: "dim" }, [turn.client, turn.servers.join(", ")].join(" · ")),
    ),
  );
  details.addEventListener("toggle", () => {
    if (details.children.length === 1) details.append(...turnParts(model, turn));
  });
  return details;
}

function turnParts(model, turn) {
  const { captures } = model;
  const calls = turn.calls
    .map((call) => ({ ...call, start: model.shared(call.capture, call.from) }))
    .sort((a, b) => a.start - b.start);
  const first = calls[0].start;
  const whole = Math.max(1, ...calls.map((call) => call.start + Math.max(0, call.lasted) - first));
  const hasServers = captures.length > 1;
  const columns = [
    ["frame", "num"],
    ["since the turn began", "num"],
    ...(hasServers ? [["server", ""]] : []),
    ["call", "wide-cell"],
    ["took", "num"],
    ["outcome", ""],
    ["when", "chart"],
  ];
  const rows = calls.map((call) => [
    frameLink(call.capture, call.frame, call.frame.toLocaleString("en")),
    sinceStart(call.start - first),
    ...(hasServers ? [captures[call.capture].name || captures[call.capture].file] : []),
    el("span", { class: "name" }, call.what),
    call.took,
    el("span", { class: call.is_bad ? "bad" : "" }, call.outcome),
    turnBar(call, (100 * (call.start - first)) / whole, (100 * call.lasted) / whole),
  ]);
  const ids = [`turn ${turn.id}`, turn.conversation && `conversation ${turn.conversation}`].filter(Boolean).join(" · ");
  return [
    el("p", { class: "dim" }, ids),
    table(`Calls of turn ${turn.short}`, columns, rows),
    turn.more ? el("p", { class: "dim" }, `${counted(turn.more, "more call")} not listed.`) : null,
  ].filter(Boolean);
}

/** When a call was waited for, as a part of its turn, in percent; to the end of the turn if its wait has no end. */
function turnBar(call, left, width) {
  const bar = el("span", { class: `bar ${call.lasted < 0 ? "lost" : call.is_bad ? "bad" : "fine"}` });
  bar.style.left = `${Math.min(99, left)}%`;
  bar.style.width = `max(2px, ${call.lasted < 0 ? 100 - left : width}%)`;
  return el("div", { class: "turn-bar" }, bar);
}

/** Opens a turn and brings it into view; returns whether there is such a turn. */
function showTurn(number) {
  const details = document.getElementById(`turn-${number}`);
  if (!details) return false;
  details.open = true;
  details.scrollIntoView();
  return true;
}
