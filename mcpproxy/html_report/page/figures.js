// Parts of a first screen: a figure, a badge, and what the page leaves out.

/** A figure; if only a part of what it counts is bad, the words below it say so in red. */
function figure({ name, value, more, is_bad: isBad, is_more_bad: isMoreBad }) {
  return el(
    "div",
    { class: isBad ? "figure bad" : "figure" },
    el("dt", {}, name),
    el("dd", {}, el("span", { class: "value" }, value), more ? el("span", { class: isMoreBad ? "more bad" : "more" }, more) : null),
  );
}

function badge(level) {
  return el("span", { class: `badge ${level}` }, level);
}

function leftOut({ left_out: lines }) {
  if (!lines.length) return [];
  return [
    el(
      "div",
      { class: "notice" },
      el("h2", {}, "What this report leaves out"),
      el(
        "ul",
        {},
        lines.map((line) => el("li", {}, line)),
      ),
    ),
  ];
}
