// The page put together.
function themeButton() {
  const button = document.getElementById("theme");
  const themes = ["auto", "light", "dark"];
  let at = 0;
  const show = () => {
    button.textContent = `Colours: ${themes[at]}`;
    if (at) document.documentElement.dataset.theme = themes[at];
    else delete document.documentElement.dataset.theme;
  };
  button.addEventListener("click", () => { at = (at + 1) % themes.length; show(); });
  show();
}

function put() {
  const pair = (...those) => element("div", { class: "pair" }, those);
  const parts = [
    overviewSection(), utilisationSection(), droppedSection(), nearMissSection(), pair(floorsSection(), refusedSection()),
    pair(sessionsSection(), latencySection()), reuseSection(), heldSection(), queriesSection(), replayedSection(), decisionsSection(),
  ].filter(Boolean);
  document.getElementById("main").replaceChildren(...parts);
  document.getElementById("sections").append(...[...document.querySelectorAll("main section")].map((each) =>
    element("a", { href: `#${each.id}` }, each.querySelector("h2").textContent)));
  document.getElementById("range").textContent = `${time(overview.first_at)} to ${time(overview.last_at)} UTC · ` +
    `${counted(overview.sessions, "session")} of ${counted(overview.tenants, "tenant")}`;
  document.getElementById("footer").textContent = `Apportion, engine ${report.engine_version}. Ids and numbers only: no content and no path. ` +
    "This page loads and sends nothing. Its figures are the named queries that apportion report --sql prints.";
}

themeButton();
put();
window.addEventListener("hashchange", showCurrent);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") close(); });
if (current()) showCurrent();
// what is printed has another width
window.matchMedia("print").addEventListener("change", () => drawn.forEach((each) => each.isConnected && each.redraw()));
document.documentElement.dataset.ready = "true";
