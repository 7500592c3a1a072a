// Latencies with the intervals of their ratios, sizes of definitions, ignored values, and what was not compared.

const CHART_WIDTH = 180;
const CHART_HEIGHT = 26;
const WIDEST_RATIO = 32;

function drawLatencies({ latencies }) {
  const place = section("latency");
  if (!latencies.length) {
    place.append(el("p", { class: "dim" }, "No call has latencies on both sides."));
    return;
  }
  const ratios = latencies.flatMap(({ intervals }) => intervals.flatMap(({ low, high }) => [low, high]));
  const reach = Math.min(WIDEST_RATIO, Math.max(1.5, ...ratios.map((ratio) => Math.max(ratio, 1 / ratio))));
  const columns = [
    ["call", "wide-cell"],
    ["verdict", "verdict"],
    ["calls", "num"],
    ["p50", "num"],
    ["p95", "num"],
    [`ratio new / old, ÷${shortRatio(reach)} to ×${shortRatio(reach)}`, "chart"],
    ["intervals", "intervals"],
  ];
  const rows = latencies.map((row) => [
    el("span", { class: "name" }, row.name),
    el("span", { class: { slower: "warn", faster: "fine" }[row.verdict] ?? "dim" }, row.verdict),
    row.calls,
    row.p50,
    row.p95,
    intervalChart(row.intervals, reach),
    el("span", {}, row.intervals.map(({ name, text }) => el("span", { class: "interval" }, `${name} ${text}`))),
  ]);
  place.append(
    el(
      "p",
      { class: "dim" },
      "A bar is the interval of the ratio of the new time to the old one: above for the median (p50), below for the 95th percentile (p95). Right of the line, calls take longer.",
    ),
    table("Latency by call", columns, rows),
  );
}

function shortRatio(ratio) {
  return String(Number(ratio.toPrecision(2)));
}

/** The intervals of a call on a logarithmic scale, with the same ratio in the middle of each row. */
function intervalChart(intervals, reach) {
  const at = (ratio) => {
    const share = ratio > 0 ? Math.log(ratio) / Math.log(reach) : -1;
    return (CHART_WIDTH / 2) * (1 + Math.max(-1, Math.min(1, share)));
  };
  const bars = intervals.map(({ name, low, high, text }) =>
    svg(
      "rect",
      {
        class: low > 1 ? "slower" : high < 1 ? "faster" : "unchanged",
        x: Math.min(at(low), CHART_WIDTH - 2),
        y: name === "p50" ? 4 : 15,
        width: Math.max(2, at(high) - at(low)),
        height: 7,
      },
      svg("title", {}, `${name} ${text}`),
    ),
  );
  const label = intervals.map(({ name, text }) => `${name} ${text}`).join(", ") || "too few calls";
  return svg(
    "svg",
    {
      class: "intervals-chart",
      role: "img",
      "aria-label": label,
      width: CHART_WIDTH,
      height: CHART_HEIGHT,
      viewBox: `0 0 ${CHART_WIDTH} ${CHART_HEIGHT}`,
    },
    svg("line", { x1: CHART_WIDTH / 2, x2: CHART_WIDTH / 2, y1: 0, y2: CHART_HEIGHT }),
    bars,
  );
}

function drawSizes({ sizes }) {
  const columns = [
    ["list", "wide-cell"],
    ["entries", "num"],
    ["size", "num"],
    ["≈ tokens", "num"],
    ["change", "num"],
  ];
  drawRows("sizes", "Size of definitions", columns, sizes, {
    lead: "A model reads every definition in every session; tokens are estimated.",
    nothing: "No list of definitions is on both sides.",
  });
}

function drawIgnored({ ignored }) {
  const columns = [
    ["rule", "wide-cell"],
    ["values ignored", "num"],
    ["of them, differ", "num"],
  ];
  const rows = ignored.map(([rule, ...counts]) => [el("span", { class: "name" }, rule), ...counts]);
  drawRows("ignored", "Ignored values", columns, rows, {
    lead: "Values that vary by themselves, or that the user chose to ignore, are not compared.",
    nothing: "No value was ignored.",
  });
}

function drawGaps({ gaps }) {
  const columns = [
    ["what", "wide-cell"],
    ["why", ""],
  ];
  const rows = gaps.map(({ what, reason, is_failure: isFailure }) => [
    el("span", { class: isFailure ? "bad" : "" }, isFailure ? "failure: " : "", what),
    reason,
  ]);
  drawRows("not-compared", "Not compared", columns, rows, {
    lead: "What one side or both lack, and what is too little to judge.",
    nothing: "Everything that the captures contain was compared.",
  });
}

function drawRows(name, label, columns, rows, { lead, nothing }) {
  const place = section(name);
  if (rows.length) place.append(el("p", { class: "dim" }, lead), table(label, columns, rows));
  else place.append(el("p", { class: "dim" }, nothing));
}
