// What the servers wrote to stderr.

function drawStderr(model, place) {
  const { stderr, captures } = model;
  if (!stderr.text.length) {
    place.append(el("p", { class: "dim" }, "These captures contain no stderr."));
    return null;
  }
  const list = new List({
    name: "stderr",
    label: "Lines of stderr",
    printed: 200,
    columns: [
      {
        title: "record",
        kind: "num",
        make: linkCell,
        draw: (cell, line) => setLink(cell, stderr.capture[line], stderr.seq[line]),
      },
      {
        title: "time",
        kind: "num",
        draw: (cell, line) => (cell.textContent = sinceStart(model.shared(stderr.capture[line], stderr.t[line]))),
      },
      ...(captures.length > 1
        ? [
            {
              title: "server",
              kind: "server",
              draw: (cell, line) => (cell.textContent = captures[stderr.capture[line]].name),
            },
          ]
        : []),
      { title: "line", kind: "mono", draw: (cell, line) => (cell.textContent = stderr.text[line]) },
    ],
    choose: (line, isEntered) => {
      if (isEntered) window.location.hash = frameAddress(stderr.capture[line], stderr.seq[line]);
    },
  });
  list.show(stderr.text.map((_, line) => line));
  place.append(el("p", { class: "dim" }, counted(stderr.text.length, "line")), list.element);
  return list;
}
