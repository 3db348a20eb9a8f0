// The table of decisions: filtered, sorted, a page at a time; Enter opens one.
const PAGE_ROWS = 25;
const COLUMNS = [
  ["requested_at", "Requested (UTC)", (row) => time(row.requested_at)],
  ["decision_id", "Decision", (row) => element("span", { class: "id" }, row.decision_id.slice(0, 10))],
  ["session_id", "Session", (row) => element("span", { class: "id" }, row.session_id), "wide"],
  ["policy_name", "Policy", (row) => row.policy_name, "wide"],
  ["status", "Status", (row) => row.status],
  ["tokens_used", "Used", (row) => count(row.tokens_used), "number"],
  ["tokens_limit", "Of", (row) => count(row.tokens_limit), "number"],
  ["share", "%", (row) => percent(row.tokens_used, row.tokens_limit), "number wide"],
  ["left_out", "Left out", (row) => count(row.left_out), "number"],
  ["main_reason", "Mainly for", (row) => row.main_reason ?? "", "wide"],
  ["duration_us", "Took", (row) => duration(row.duration_us), "number wide"],
];
listed.forEach((row) => {
  row.share = row.tokens_limit ? row.tokens_used / row.tokens_limit : 0;
  row.left_out = row.candidates_total - row.candidates_selected;
  row.text = [row.decision_id, row.request_id, row.session_id, row.tenant, row.policy_name].join("\n").toLowerCase();
});

const state = { text: "", status: "", policy_name: "", main_reason: "", floors: false, opened: false, sort: "requested_at", down: true, first: 0 };

function matching() {
  const text = state.text.trim().toLowerCase();
  const found = listed.filter((row) => (!text || row.text.includes(text)) && (!state.floors || row.floors_not_met > 0) &&
    (!state.opened || opened.has(row.decision_id)) &&
    ["status", "policy_name", "main_reason"].every((name) => !state[name] || row[name] === state[name]));
  const direction = state.down ? d3.descending : d3.ascending;
  return found.sort((one, other) => direction(one[state.sort], other[state.sort]) || d3.ascending(one.decision_id, other.decision_id));
}

function decisionsSection() {
  const body = element("tbody", {});
  const head = element("tr", {});
  const told = element("span", { class: "quiet small", role: "status" });
  const change = (changes) => { Object.assign(state, { first: 0 }, changes); show(); };
  const page = (by) => { state.first = Math.max(0, state.first + by * PAGE_ROWS); show(); };
  const back = element("button", { type: "button", "aria-label": "Earlier rows", on: { click: () => page(-1) } }, "‹");
  const forth = element("button", { type: "button", "aria-label": "Further rows", on: { click: () => page(1) } }, "›");
  const search = element("input", {
    type: "search", id: "search", placeholder: "Find an id: decision, request, session, tenant", "aria-label": "Find an id",
    on: { input: (event) => change({ text: event.target.value }) },
  });
  const choice = (name, all) => {
    const values = [...new Set(listed.map((row) => row[name]))].filter(Boolean).sort();
    return element("select", { "aria-label": all, id: `by-${name}`, on: { change: (event) => change({ [name]: event.target.value }) } },
      element("option", { value: "" }, all), values.map((value) => element("option", { value }, value)));
  };
  const check = (name, text) => element("label", {}, element("input", {
    type: "checkbox", id: `only-${name}`, on: { change: (event) => change({ [name]: event.target.checked }) },
  }), text);

  function heading([name, title, , kind]) {
    const sorted = state.sort === name ? (state.down ? "descending" : "ascending") : "none";
    return element("th", { class: kind, scope: "col", "aria-sort": sorted }, element("button", {
      type: "button", on: { click: () => {
        change({ sort: name, down: state.sort === name ? !state.down : true });
        [...head.children][COLUMNS.findIndex((one) => one[0] === name)].firstChild.focus();
      } },
    }, title));
  }

  function line(row, place) {
    const can = opened.has(row.decision_id);
    const chosen = row.decision_id === current();
    return element("tr", {
      tabindex: place ? "-1" : "0", "aria-selected": String(chosen), class: !can && "closed", "data-id": row.decision_id,
      title: can ? null : `Its candidates are not on this page: apportion explain ${row.decision_id} shows them.`,
      on: { click: () => can && open(row.decision_id) },
    }, COLUMNS.map(([, , cell, kind]) => element("td", { class: kind }, cell(row))));
  }

  function show() {
    const rows = matching();
    state.first = Math.min(state.first, Math.max(0, Math.floor((rows.length - 1) / PAGE_ROWS) * PAGE_ROWS));
    const shown = rows.slice(state.first, state.first + PAGE_ROWS);
    head.replaceChildren(...COLUMNS.map(heading));
    body.replaceChildren(...shown.map(line));
    if (!shown.length) body.append(element("tr", {}, element("td", { colspan: COLUMNS.length }, emptyState("No decision fits these filters."))));
    told.textContent = shown.length ? `${count(state.first + 1)} to ${count(state.first + shown.length)} of ${count(rows.length)}` : "0 decisions";
    back.disabled = !state.first;
    forth.disabled = state.first + PAGE_ROWS >= rows.length;
  }

  body.addEventListener("keydown", (event) => {
    const row = event.target.closest("tr");
    const to = { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling }[event.key];
    if (to) to.focus();
    else if (event.key === "Enter" && opened.has(row.dataset.id)) open(row.dataset.id);
    else return;
    event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    event.preventDefault();
    search.focus();
  });
  show();
  const beyond = overview.decisions - listed.length;
  return section("decisions", "Decisions",
    beyond ? `${count(listed.length)} of ${count(overview.decisions)} are listed, the latest of every status in turn, and ${count(opened.size)} of these can be opened; the figures above are about all.`
      : opened.size < listed.length ? `All are listed; ${count(opened.size)} can be opened, the latest of every status in turn.` : null,
    element("div", { class: "controls" }, search, choice("status", "any status"), choice("policy_name", "any policy"),
      choice("main_reason", "any main reason"), check("floors", "floors not met"),
      opened.size < listed.length ? check("opened", "can be opened") : null),
    element("div", { class: "scroll" }, element("table", { id: "listed" }, element("thead", {}, head), body)),
    element("div", { class: "controls" }, back, forth, told,
      element("span", { class: "quiet small wide" }, element("kbd", {}, "/"), " find  ", element("kbd", {}, "↑"), element("kbd", {}, "↓"), " move  ",
        element("kbd", {}, "Enter"), " open  ", element("kbd", {}, "Esc"), " close")),
    element("div", { id: "one", hidden: "hidden", tabindex: "-1" }));
}
