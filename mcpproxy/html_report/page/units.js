// Times and sizes, written as every command of mcpproxy writes them (mcpproxy/wording/units.py).

/** A length of time, in nanoseconds, as `duration` in units.py writes it: `0.42 ms`, `12.3 s`, `2 min 14 s`. */
function duration(ns) {
  if (ns < 999_500_000) return `${figureOf(ns, 1e6)} ms`;
  if (ns < 59_950_000_000) return `${figureOf(ns, 1e9)} s`;
  const seconds = rounded(ns, 1e9);
  if (seconds < 3600) return twoUnits(seconds, 60, "min", "s");
  const minutes = rounded(ns, 60e9);
  return minutes < 24 * 60 ? twoUnits(minutes, 60, "h", "min") : twoUnits(rounded(ns, 3600e9), 24, "d", "h");
}

function twoUnits(count, size, large, small) {
  const whole = Math.floor(count / size).toLocaleString("en");
  return `${whole} ${large} ${String(count % size).padStart(2, "0")} ${small}`;
}

/** So many units, with at most three significant digits, rounded once; halves go up. */
function figureOf(ns, unit) {
  if (ns === 0) return "0";
  for (const [digits, limit] of [
    [3, 100],
    [2, 100],
    [1, 1000],
  ]) {
    const count = rounded(ns, unit / 10 ** digits);
    if (count < limit) return (count / 10 ** digits).toFixed(digits);
  }
  return String(rounded(ns, unit));
}

function rounded(ns, unit) {
  return Math.floor((ns + unit / 2) / unit);
}

/** Microseconds since a capture opened: `+1,234.567`. */
function sinceStart(us) {
  const ms = Math.floor(us / 1000);
  return `+${Math.floor(ms / 1000).toLocaleString("en")}.${String(ms % 1000).padStart(3, "0")}`;
}

/** Bytes: `17 B`, `7.9 kB`, `4.2 MB`. */
function bytes(count) {
  if (count < 1000) return `${count} B`;
  const units = ["kB", "MB", "GB"];
  let value = count / 1000;
  let unit = 0;
  while (value >= 999.95 && unit < 2) {
    value /= 1000;
    unit += 1;
  }
  return `${value.toFixed(1)} ${units[unit]}`;
}

/** A moment of the wall clock in UTC, to the millisecond. */
function utc(ms) {
  return Number.isFinite(ms) && Math.abs(ms) < 8.64e15
    ? new Date(ms).toISOString().replace("T", " ").replace("Z", " UTC")
    : "";
}
