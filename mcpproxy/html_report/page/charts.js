// Start-up paths, distributions of latencies, and tools with their costs and changes.

const PARTS = ["process", "initialize", "ready", "first list"];

function drawStartup({ sessions, startup, captures, more_sessions: more }) {
  const place = section("startup");
  const timed = sessions.filter((row) => row.total_ms !== null);
  if (!timed.length) {
    place.append(el("p", { class: "dim" }, "No session in these captures was recorded from its start."));
    return;
  }
  const longest = Math.max(...timed.map((row) => row.total_ms), 0.001);
  const columns = [
    ["session", "wide-cell"],
    ["path", "chart"],
    ...PARTS.map((part) => [part, "num"]),
    ["total", "num"],
  ];
  const rows = timed.map((row) => {
    const who =
      captures.length > 1 ? captures[row.capture].name || captures[row.capture].file : row.server || "session";
    const bar = el("div", {
      class: "stack",
      role: "img",
      "aria-label": PARTS.map((part, at) => row.part_texts[at] && `${part} ${row.part_texts[at]}`)
        .filter(Boolean)
        .join(", "),
    });
    row.parts.forEach((ms, at) => {
      const piece = el("span", { class: `part-${at}` });
      piece.style.width = `${(100 * ms) / longest}%`;
      bar.append(piece);
    });
    return [el("span", {}, who, el("span", { class: "dim" }, ` #${row.session}`)), bar, ...row.part_texts, row.total];
  });
  place.append(
    el(
      "p",
      { class: "dim" },
      `${startup}. “process” ends with the first output of the server, “initialize” with its result, “ready” with the notification from the client, and “first list” with the first result of tools/list.`,
    ),
    el(
      "ul",
      { class: "legend" },
      PARTS.map((part, at) => el("li", {}, el("span", { class: `swatch part-${at}` }), part)),
    ),
    table("Start-up by session", columns, rows),
  );
  if (timed.some((row) => row.is_silent)) {
    place.append(
      el(
        "p",
        { class: "dim" },
        "If “process” is empty, the server wrote nothing before its first response, so “initialize” includes its start.",
      ),
    );
  }
  if (more) place.append(el("p", { class: "dim" }, `${counted(more, "more session")} not listed.`));
}

function drawLatency({ latencies, more_latencies: more, captures }) {
  const place = section("latency");
  if (!latencies.length) {
    place.append(el("p", { class: "dim" }, "These captures contain no requests."));
    return;
  }
  const all = latencies.flatMap(({ buckets }) => buckets.map(([bucket]) => bucket));
  const low = Math.min(...all);
  const high = Math.max(...all);
  const span = all.length ? `${bucketText(low)[0]} – ${bucketText(high)[1]}` : "";
  const hasServers = captures.length > 1;
  const columns = [
    ["call", "wide-cell"],
    ...(hasServers ? [["server", ""]] : []),
    [`distribution ${span}`, "chart"],
    ["n", "num"],
    ["errors", "num"],
    ["p50", "num"],
    ["p95", "num"],
    ["p99", "num"],
    ["max", "num"],
    ["total", "num"],
  ];
  const rows = latencies.map((row) => [
    el("span", { class: "name" }, row.what || "–"),
    ...(hasServers ? [row.server] : []),
    histogram(row.buckets, low, high),
    row.calls.toLocaleString("en"),
    row.errors ? el("span", { class: "bad" }, `${row.errors.toLocaleString("en")} (${row.share})`) : "",
    row.p50,
    row.p95,
    row.p99,
    row.max,
    row.total,
  ]);
  place.append(
    el(
      "p",
      { class: "dim" },
      "Each bar covers twice the time of the one before it; all rows share one scale. Calls without a response have no latency.",
    ),
    table("Latency by call", columns, rows),
  );
  if (more)
    place.append(el("p", { class: "dim" }, `${counted(more, "more row")} not listed; \`mcpproxy stats\` lists all.`));
}

function bucketText(bucket) {
  return [bucket === -10 ? "0" : duration(2 ** bucket * 1e6), duration(2 ** (bucket + 1) * 1e6)];
}

function histogram(buckets, low, high) {
  const width = 12;
  const height = 26;
  const most = Math.max(...buckets.map(([, count]) => count));
  const label =
    buckets.map(([bucket, count]) => `${count} from ${bucketText(bucket).join(" to ")}`).join(", ") || "no responses";
  const bars = buckets.map(([bucket, count]) => {
    const tall = Math.max(1.5, (count / most) * height);
    return svg(
      "rect",
      { x: (bucket - low) * width, y: height - tall, width: width - 1, height: tall },
      svg("title", {}, `${bucketText(bucket).join(" to ")}: ${count}`),
    );
  });
  const whole = Math.max(1, high - low + 1) * width;
  return svg(
    "svg",
    { class: "histogram", role: "img", "aria-label": label, width: whole, height, viewBox: `0 0 ${whole} ${height}` },
    svg("line", { x1: 0, x2: whole, y1: height, y2: height }),
    bars,
  );
}

function drawTools({ tools, changes, captures }) {
  const place = section("tools");
  if (!tools.length) {
    place.append(el("p", { class: "dim" }, "No tools were listed or called."));
    return;
  }
  const hasServers = captures.length > 1;
  const columns = [
    ["tool", "wide-cell"],
    ...(hasServers ? [["server", ""]] : []),
    ["definition", "num"],
    ["≈ tokens", "num"],
    ["calls", "num"],
    ["errors", "num"],
    ["results", "num"],
    ["largest", "num"],
    ["definitions", "num"],
  ];
  const rows = tools.map((tool) => [
    el("span", { class: "name" }, tool.name),
    ...(hasServers ? [tool.server] : []),
    tool.size || "not listed",
    tool.tokens === null ? "" : tool.tokens.toLocaleString("en"),
    tool.calls.toLocaleString("en"),
    tool.errors ? el("span", { class: "bad" }, tool.errors.toLocaleString("en")) : "",
    tool.results,
    tool.largest,
    tool.definitions > 1 ? el("span", { class: "warn" }, `${tool.definitions} – changed`) : tool.definitions || "",
  ]);
  place.append(
    el("p", { class: "dim" }, "A model reads every definition in every session; tokens are estimated as bytes / 4."),
    table("Tools and their costs", columns, rows),
  );
  if (changes.length) place.append(el("h3", {}, counted(changes.length, "changed definition")), ...changes.map(change));
}

function change(changed) {
  const isChanged = changed.before !== changed.after;
  return el(
    "article",
    { class: "change" },
    el("h4", {}, el("span", { class: "name" }, changed.name), el("span", { class: "dim" }, ` ${changed.server}`)),
    el("p", {}, `${changed.what}; ${changed.versions}; ${changed.sizes}; `, frameLink(changed.capture, changed.frame)),
    isChanged
      ? el(
          "dl",
          { class: "before-after" },
          el("dt", {}, "before"),
          el("dd", {}, changed.before || "–"),
          el("dt", {}, "after"),
          el("dd", {}, changed.after || "–"),
        )
      : null,
  );
}
