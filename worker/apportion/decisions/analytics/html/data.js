// What the page is about: the report's data as rows with names, words for numbers, and elements made of text alone.
const report = JSON.parse(document.getElementById("report").textContent);

function objects(table) {
  return table.rows.map((row) => Object.fromEntries(table.columns.map((name, place) => [name, row[place]])));
}

const answers = Object.fromEntries(Object.entries(report.answers).map(([name, table]) => [name, objects(table)]));
const overview = answers.overview[0];
const listed = objects(report.listed);
const opened = new Map(report.opened.map((one) => [one.decision_id, one]));

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

function count(value) {
  return value === null || value === undefined ? "–" : whole.format(value);
}

function counted(value, noun) {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

function percent(part, total) {
  if (!total) return "–";
  const share = (100 * part) / total;
  return `${share > 0 && share < 10 ? share.toFixed(1) : Math.round(share)} %`;
}

function duration(us) {
  if (us === null || us === undefined) return "–";
  if (us < 1000) return `${count(us)} µs`;
  return us < 1e6 ? `${(us / 1e3).toFixed(us < 1e4 ? 1 : 0)} ms` : `${(us / 1e6).toFixed(1)} s`;
}

function time(text) {
  return text ? text.replace("T", " ").replace(/(\.\d+)?(Z|\+00:00)$/, "") : "–";
}

function named(text) {
  return text === null || text === undefined || text === "" ? "(none)" : text;
}

// Elements. Values become text nodes or attributes that no script reads as code: ids are chosen by clients.
function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "on") Object.entries(value).forEach(([event, listener]) => made.addEventListener(event, listener));
    else if (name === "style") Object.entries(value).forEach(([key, to]) => made.style.setProperty(key, to));
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

function emptyState(text) {
  return element("p", { class: "empty" }, text);
}

function notice(text) {
  return element("p", { class: "notice" }, text);
}

function tiles(pairs) {
  return element("dl", { class: "tiles" }, pairs.map(([name, value, aside]) => element("div", {},
    element("dt", {}, name), element("dd", {}, value, aside && element("small", {}, aside)))));
}

function facts(pairs) {
  return element("dl", { class: "facts" }, pairs.filter(([, value]) => value !== null).map(([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, value))));
}

// A table: columns are [heading, value of a row, is it a number], a value being text or an element.
function table(columns, rows, caption) {
  const cell = (tag, content, number, scope) => element(tag, { class: number && "number", scope }, content);
  return element("div", { class: "scroll" }, element("table", {},
    caption && element("caption", {}, caption),
    element("thead", {}, element("tr", {}, columns.map(([name, , number]) => cell("th", name, number, "col")))),
    element("tbody", {}, rows.map((row) => element("tr", {},
      columns.map(([, value, number]) => cell("td", value(row), number)))))));
}

function meter(used, most, floor, color) {
  const at = (value) => `${Math.min(100, most ? (100 * value) / most : 0)}%`;
  return element("div", { class: "meter", title: `${count(used)} of ${count(most)}` },
    element("i", { style: { width: at(used), ...(color && { background: color }) } }),
    floor ? element("b", { style: { left: `min(${at(floor)}, 100% - 2px)` }, title: `floor ${count(floor)}` }) : null);
}

function segments(label, names, chosen, choose) {
  const buttons = names.map(([value, text]) => element("button", {
    type: "button", "aria-pressed": String(value === chosen),
    on: { click: (event) => {
      buttons.forEach((each) => each.setAttribute("aria-pressed", String(each === event.currentTarget)));
      choose(value);
    } },
  }, text));
  return element("span", { class: "segments", role: "group", "aria-label": label }, buttons);
}

// Colours: a group has the same one in the whole page, and a reason in all pages. Frequent reasons come first.
const PALETTE = Array.from({ length: 10 }, (_, place) => `var(--c${place})`);
const REASONS = [
  "budget_exceeded", "lane_max_reached", "redundant", "below_threshold", "superseded", "history_truncated",
  "category_budget_reached", "source_max_reached", "no_room", "duplicate", "disabled", "exhausted", "excluded_by_policy",
  "no_content", "backoff", "expired", "unsuitable", "displaced_by_prefix", "dropped_after_render", "infeasible",
  "tool_not_relevant", "tools_max_reached", "untrusted_max_reached",
];
const palettes = { reason: new Map(REASONS.map((name, place) => [name, PALETTE[place % PALETTE.length]])), group: new Map(), policy: new Map() };

function colorOf(what, name) {
  const known = palettes[what];
  if (!known.has(name)) known.set(name, PALETTE[known.size % PALETTE.length]);
  return known.get(name);
}

function legend(what, names) {
  return element("ul", { class: "legend" }, names.map((name) => element("li", {},
    element("span", { class: "swatch", style: { background: colorOf(what, name) } }), named(name))));
}
