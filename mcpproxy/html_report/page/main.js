// The start: the first screen is drawn while the rest of the file is still being read; then come the lists.

const OVERVIEW = plainBlock("data-overview");
drawTheme();
drawOverview(OVERVIEW);
drawFindings(OVERVIEW);
drawStartup(OVERVIEW);
drawLatency(OVERVIEW);
drawTools(OVERVIEW);
performance.mark("mcpproxy-overview");

async function start() {
  const model = await Model.read(OVERVIEW);
  new Waterfall(model, section("waterfall"));
  drawTurns(model);
  drawStderr(model, section("stderr"));
  const traffic = new Traffic(model, section("traffic"));
  await traffic.ready;
  performance.mark("mcpproxy-traffic");
  const follow = () => followAddress(traffic);
  window.addEventListener("hashchange", follow);
  await follow();
  document.documentElement.dataset.ready = "lists";
  await model.readAll();
  performance.mark("mcpproxy-payloads");
  document.documentElement.dataset.ready = "payloads";
}

async function followAddress(traffic) {
  const address = window.location.hash;
  const frame = frameOf(address);
  const finding = findingOf(address);
  const turn = turnOf(address);
  if (frame) {
    section("traffic").scrollIntoView();
    await traffic.showFrame(...frame);
  } else if (finding !== null) {
    showFinding(finding);
  } else if (turn !== null) {
    showTurn(turn);
  }
}

/** Says that the lists could not be drawn, for example because the browser cannot decompress them. */
function fail(error) {
  section("traffic").append(
    el("p", { class: "notice" }, `This browser could not draw the lists: ${error.message}. A newer browser may be able to.`),
  );
  throw error;
}

window.addEventListener("DOMContentLoaded", () => start().catch(fail));
