// One decision opened: its facts, its groups, and its candidates as a waterfall against the budget line.
const WORDS = ["id", "kind", "group", "outcome", "fidelity", "reason", "bound", "constraint"];
const NUMBERS = ["score", "tokens", "full_tokens", "needed", "left", "more", "limit_left"];

function candidatesOf(one) {
  return (one.candidates || []).map((row, place) => ({
    rank: place + 1, ...Object.fromEntries([...WORDS, ...NUMBERS].map((name, at) => [name, row[at] ?? null])),
  }));
}

function current() {
  const found = /^#decision=(.+)$/.exec(location.hash);
  return found && decodeURIComponent(found[1]);
}

function open(id) {
  if (current() === id) showCurrent();
  else location.hash = `decision=${encodeURIComponent(id)}`;
}

function close() {
  const id = current();
  if (!id) return;
  history.pushState(null, "", "#decisions");
  showCurrent();
  const row = [...document.querySelectorAll("#listed tbody tr")].find((each) => each.dataset.id === id);
  (row || document.getElementById("search")).focus();
}

function showCurrent() {
  const place = document.getElementById("one");
  const id = current();
  document.querySelectorAll("#listed tbody tr").forEach((row) => row.setAttribute("aria-selected", String(row.dataset.id === id)));
  const row = listed.find((each) => each.decision_id === id);
  place.hidden = !id;
  if (!id) return place.replaceChildren();
  if (row && opened.has(id)) place.replaceChildren(...decision(row, opened.get(id)));
  else place.replaceChildren(emptyState("This decision is not on this page; apportion explain shows it."));
  place.scrollIntoView();
  return place.focus({ preventScroll: true });
}

function decision(row, one) {
  const candidates = candidatesOf(one);
  const groups = one.groups || [];
  groups.forEach((group) => colorOf("group", group.name));
  const neighbours = [...document.querySelectorAll("#listed tbody tr")].map((each) => each.dataset.id).filter((id) => opened.has(id));
  const at = neighbours.indexOf(row.decision_id);
  const step = (by, text) => element("button", { type: "button", disabled: !neighbours[at + by] && "disabled", on: { click: () => open(neighbours[at + by]) } }, text);
  const session = `${count(one.session_before_spent_tokens)} > ${count(one.session_after_spent_tokens)}` +
    (one.limits_max_tokens ? ` of ${count(one.limits_max_tokens)}` : "");
  return [
    element("div", { class: "controls" }, step(-1, "‹ above"), step(1, "below ›"), element("button", { type: "button", id: "close", on: { click: close } }, "Close")),
    element("h2", {}, `${row.status}: ${count(row.candidates_selected)} of ${count(row.candidates_total)} candidates, ${count(row.tokens_used)} of ${count(row.tokens_limit)} tokens`),
    facts([
      ["Decision", element("span", { class: "id" }, row.decision_id)], ["Request", element("span", { class: "id" }, row.request_id)],
      ["Session", element("span", { class: "id" }, `${row.tenant}/${row.session_id}`)], ["Requested (UTC)", time(row.requested_at)],
      ["Policy", `${row.policy_name} ${row.policy_version}, ${row.policy_strategy}`], ["Counter", row.counter_name],
      ["Model", row.model_name && (row.counter_mismatch ? `${row.model_name}, which counts with another counter` : row.model_name)],
      ["Tokens of the session", session], ["Its prompts", count(one.session_after_prompts)],
      ["It expires", one.session_after_expires_at ? time(one.session_after_expires_at) : "never"],
      ["Set aside", row.tokens_reserved ? count(row.tokens_reserved) : null],
      ["First answered by", one.duplicate_of ? element("span", { class: "id" }, one.duplicate_of) : null],
      ["Took", row.duration_us === null ? null : `${duration(row.duration_us)} (${(one.run_phases || []).map((phase) => `${phase.name} ${duration(phase.duration_us)}`).join(", ")})`],
      ["Composition", row.run_cache_hit === null ? null : row.run_cache_hit ? "from the cache" : "made anew"],
      ["Pushed out of the pool", one.evicted ? counted(one.evicted, "artifact") : null],
      ["Constraints", (one.constraints || []).length ? one.constraints.map((each) => `${each.name} ${each.matched} of ${each.given} matched`).join(", ") : null],
    ]),
    (one.parts || []).length ? partsBar(one.parts, row) : null,
    groups.length ? groupsTable(groups, row) : null,
    element("h3", {}, "Candidates by rank"),
    ...(candidates.length ? waterfall(candidates, row, one) : [emptyState("This decision lists no candidates.")]),
  ].filter(Boolean);
}

function partsBar(parts, row) {
  const taken = parts.map((part) => ({ ...part, tokens: part.name === "response" ? part.fixed : part.used }));
  const free = { name: "not used", tokens: Math.max(0, row.tokens_limit - sum(taken, (part) => part.tokens)) };
  const whole = Math.max(1, sum([...taken, free], (part) => part.tokens));
  const fill = (part) => ({ background: part === free ? "var(--track)" : colorOf("group", part.name), ...(part.name === "response" && { opacity: 0.4 }) });
  const says = (part) => `${part.name}${part.name === "response" ? ", kept free" : ""}: ${count(part.tokens)} (${percent(part.tokens, whole)})`;
  return element("div", {}, element("h3", {}, "What fills the window"),
    element("div", { class: "parts" }, [...taken, free].map((part) => element("i", { title: says(part), style: { width: `${(100 * part.tokens) / whole}%`, ...fill(part) } }))),
    element("ul", { class: "legend" }, [...taken, free].map((part) => element("li", {}, element("span", { class: "swatch", style: fill(part) }), says(part)))));
}

function groupsTable(groups, row) {
  return element("div", {}, element("h3", {}, "Groups"), table([
    ["Group", (group) => element("span", { class: "name" }, element("span", { class: "swatch", style: { background: colorOf("group", group.name) } }), named(group.name))],
    ["", (group) => meter(group.used, group.max ?? row.tokens_limit, group.min, colorOf("group", group.name))],
    ["Used", (group) => count(group.used), true], ["Of", (group) => count(group.max ?? row.tokens_limit), true],
    ["Floor", (group) => (group.shortfall_requested === null ? count(group.min) : `${count(group.min)}, had ${count(group.shortfall_available)}`), true],
    ["Selected", (group) => `${count(group.selected)} of ${count(group.selected + group.rejected)}`, true],
  ], groups));
}

function why(row) {
  if (row.outcome === "selected") {
    const full = row.full_tokens ? ` of ${count(row.full_tokens)}` : "";
    return [row.fidelity && row.fidelity !== "full" ? `${row.fidelity}${full}` : "in full", row.constraint && `by ${row.constraint}`].filter(Boolean).join(", ");
  }
  return [
    row.reason, row.bound && row.reason === "infeasible" && `bound ${row.bound}`, row.constraint && `by ${row.constraint}`,
    row.left !== null && `needed ${count(row.needed ?? row.tokens)}, left ${count(row.left)}`,
    row.more !== null && `${count(row.more)} more admit it`,
    row.limit_left !== null && `limit had ${count(row.limit_left)}`,
  ].filter(Boolean).join(" · ");
}

function waterfall(candidates, row, one) {
  const total = sum(candidates, (each) => (each.outcome === "selected" ? each.tokens || 0 : 0));
  const most = Math.max(1, row.tokens_limit, row.tokens_used, total) * 1.12;
  const at = (tokens) => `${(100 * tokens) / most}%`;
  let stands = 0;
  const body = element("tbody", {}, candidates.map((each) => {
    const from = stands;
    const selected = each.outcome === "selected";
    if (selected) stands += each.tokens || 0;
    const size = each.tokens || 0;
    const label = `${count(from)} to ${count(from + size)} tokens; limit ${count(row.tokens_limit)}`;
    const color = colorOf("group", each.group);
    return element("tr", { class: each.outcome, "data-outcome": each.outcome },
      element("td", { class: "number quiet" }, count(each.rank)),
      element("td", { class: "what" }, element("div", { class: "id" }, each.id),
        element("div", { class: "kind" }, element("span", { class: "swatch", style: { background: color } }), [each.kind, each.group].filter(Boolean).join(" · "))),
      element("td", { class: "place" }, element("div", { class: "track", title: label },
        selected && each.full_tokens > size ? element("i", { class: "full", style: { left: at(from), width: at(each.full_tokens), background: color } }) : null,
        size ? element("i", { class: each.outcome, style: { left: at(from), width: at(size), background: color } }) : null),
        element("div", { class: "line" }, element("b", { style: { left: at(row.tokens_limit) } }))),
      element("td", { class: "number" }, count(each.tokens)),
      element("td", { class: "why small" }, why(each)),
      element("td", { class: "number quiet wide" }, each.score === null ? "" : (each.score / 1000).toFixed(3)));
  }));
  const only = (outcome) => [...body.children].forEach((each) => { each.hidden = outcome !== "" && each.dataset.outcome !== outcome; });
  const beyond = row.candidates_total - candidates.length;
  return [
    element("div", { class: "controls" }, segments("Which candidates", [["", "all"], ["selected", "selected"], ["omitted", "left out"]], "", only)),
    element("div", { class: "scroll" }, element("table", { class: "waterfall" },
      element("thead", {}, element("tr", {}, ["", "Candidate", `Tokens, added up by rank; the red line is the limit, ${count(row.tokens_limit)}`, "Tokens", "Why", "Score"].map((name, place) =>
        element("th", { scope: "col", class: place === 3 ? "number" : place === 5 ? "number wide" : place === 2 ? "place" : null }, name)))), body)),
    notice("A dashed bar is a candidate that was left out, as large as it would have been, at the sum of those before it by rank. " +
      "“Left” is what its bound had when it was considered last, which need not be the order of ranks."),
    beyond > 0 ? notice(`${counted(beyond, "candidate")} more without a row here${one.unlisted ? "; the record counts them by reason" : ""}.`) : null,
  ].filter(Boolean);
}
