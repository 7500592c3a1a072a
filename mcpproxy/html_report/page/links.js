// Links: the address of every frame and finding, so that one can be sent to a colleague.

/** The address of a frame: `#frame-12`, or `#capture-2-frame-12` beyond the first capture. */
function frameAddress(capture, frame) {
  return capture ? `#capture-${capture + 1}-frame-${frame}` : `#frame-${frame}`;
}

function frameLink(capture, frame, text = `frame ${frame}`) {
  return capture < 0 ? el("span", {}, text) : el("a", { href: frameAddress(capture, frame) }, text);
}

/** The report's own text, in which every frame that it names is a link. */
function linkedText(capture, text) {
  const parts = text.split(/\b(frame \d{1,15})\b/);
  return parts.map((part, at) => (at % 2 ? frameLink(capture, Number(part.slice(6)), part) : part));
}

/** Capture and frame of an address; null if the address is not that of a frame. */
function frameOf(address) {
  const match = /^#(?:capture-(\d{1,6})-)?frame-(\d{1,15})$/.exec(address);
  return match ? [match[1] ? Number(match[1]) - 1 : 0, Number(match[2])] : null;
}

/** The number of the finding of an address; null if the address is not that of a finding. */
function findingOf(address) {
  return numberIn(/^#finding-(\d{1,9})$/, address);
}

/** The number of the turn of an address; null if the address is not that of a turn. */
function turnOf(address) {
  return numberIn(/^#turn-(\d{1,9})$/, address);
}

function numberIn(pattern, address) {
  const match = pattern.exec(address);
  return match ? Number(match[1]) : null;
}

/** Puts the address of what is shown in the address bar, without an entry in the history for each. */
function setAddress(address) {
  if (window.location.hash !== address) window.history.replaceState(null, "", address);
}
