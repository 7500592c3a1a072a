// Times and sizes, written as every command of mcpproxy writes them.

/** Microseconds in few characters: `341µs`, `9.4ms`, `1.9s`, `3m`. */
function brief(us) {
  if (us < 999.5) return `${Math.round(us)}µs`;
  const ms = us / 1000;
  if (ms < 999.5) return ms >= 9.95 ? `${Math.round(ms)}ms` : `${ms.toFixed(1)}ms`;
  return ms < 999500 ? `${(ms / 1000).toFixed(1)}s` : `${Math.round(ms / 60000).toLocaleString("en")}m`;
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
