// Light and dark: as the system is set, unless the reader chooses.

const THEMES = ["system", "light", "dark"];

function drawTheme() {
  const button = document.getElementById("theme");
  let at = 0;
  button.addEventListener("click", () => {
    at = (at + 1) % THEMES.length;
    button.textContent = `Theme: ${THEMES[at]}`;
    if (at) document.documentElement.dataset.theme = THEMES[at];
    else delete document.documentElement.dataset.theme;
  });
}
