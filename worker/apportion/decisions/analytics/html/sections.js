// The sections: each says one thing about all decisions, or that there is nothing to say.
const sum = (rows, of) => rows.reduce((total, row) => total + of(row), 0);

function section(id, title, lead, ...content) {
  return element("section", { id, "aria-labelledby": `${id}-title` },
    element("h2", { id: `${id}-title` }, title), lead && element("p", { class: "quiet small" }, lead), content);
}

function overviewSection() {
  const one = overview;
  const letters = sum(answers.dead_letters, (row) => row.records);
  const whole_run = answers.latency.find((row) => row.phase === null);
  const hits = sum(answers.policies, (row) => row.cache_hits);
  const known = sum(answers.policies, (row) => row.cache_known);
  const omitted = one.candidates_total - one.candidates_selected;
  return section("overview", "At a glance", null, tiles([
    ["Decisions", count(one.decisions), `of ${counted(one.sessions, "session")}`],
    ["Tokens used", percent(one.tokens_used, one.tokens_limit), `${short.format(one.tokens_used)} of ${short.format(one.tokens_limit)}`],
    ["Candidates left out", percent(omitted, one.candidates_total), `${short.format(omitted)} of ${short.format(one.candidates_total)}`],
    ["Floors not met", percent(one.floors_not_met, one.decisions), counted(one.floors_not_met, "decision")],
    ["Exhausted", count(one.exhausted), "the session had no tokens left"],
    ["Infeasible", count(one.infeasible), "what must stand did not fit"],
    ["Duplicates", count(one.duplicates), "were answered before"],
    ["Remembered", known ? percent(hits, known) : "–", known ? "compositions from the cache" : "no worker told"],
    ["Median time", whole_run ? duration(whole_run.p50_p90_p99_us[0]) : "–", whole_run ? `99 % within ${duration(whole_run.p50_p90_p99_us[2])}` : "no worker told"],
    ["Refused", count(letters), "dead letters, unreadable"],
  ]));
}

function utilisationSection() {
  const rows = answers.utilisation;
  return section("utilisation", "Utilisation",
    "The share of its limit that a decision used, by policy: the median, and the band in which eight of ten lie. The red line is the limit.",
    rows.length ? utilisationChart(rows) : emptyState("No decision had a limit above 0."),
    legend("policy", [...new Set(rows.map((row) => row.policy_name))].sort()),
    element("h3", {}, "By policy"),
    table([
      ["Policy", (row) => `${row.policy_name} ${row.policy_version}`],
      ["Strategy", (row) => row.policy_strategy],
      ["Decisions", (row) => count(row.decisions), true],
      ["Tokens used", (row) => percent(row.tokens_used, row.tokens_limit), true],
      ["Duplicates", (row) => count(row.duplicates), true],
      ["From the cache", (row) => percent(row.cache_hits, row.cache_known), true],
    ], answers.policies),
    cut("policies"));
}

function cut(name) {
  const left = report.answers[name].left_out;
  return left ? notice(`${counted(left, "row")} more had no room on this page; the query ${name} gives all.`) : null;
}

function droppedSection() {
  const rows = answers.dropped;
  const totals = answers.reasons;
  let by = "group", measure = "candidates";
  const place = element("div", {});
  const show = () => place.replaceChildren(droppedChart(rows, by, measure));
  const reasons = d3.groupSort(rows, (some) => -d3.sum(some, (row) => row.candidates), (row) => row.reason);
  if (rows.length) show();
  return section("left-out", "Left out, and why",
    "A group is a lane, category, section or layer. Tokens are what the candidates would have cost.",
    rows.length ? [
      element("div", { class: "controls" },
        segments("Show by", [["group", "by group"], ["kind", "by kind"]], by, (value) => { by = value; show(); }),
        segments("Measure", [["candidates", "candidates"], ["tokens", "tokens"]], measure, (value) => { measure = value; show(); })),
      legend("reason", reasons), place,
    ] : emptyState(totals.length ? "No left-out candidate has a row of its own." : "Nothing was left out."),
    totals.length ? [element("h3", {}, "All reasons"), table([
      ["Reason", (row) => row.reason],
      ["Candidates", (row) => count(row.candidates), true],
      ["Decisions", (row) => count(row.decisions), true],
      ["", (row) => meter(row.candidates, totals[0].candidates, 0, colorOf("reason", row.reason))],
    ], totals)] : null,
    overview.candidates_unlisted ? notice(`${counted(overview.candidates_unlisted, "candidate")} left out without a row of their own: in the reasons, not by group and kind.`) : null,
    notice("Which source published a candidate is not in the decision record; its kind is what comes nearest."), cut("dropped"));
}

function nearMissSection() {
  const rows = answers.near_misses;
  const steps = [10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000];
  const points = d3.groups(rows, (row) => row.reason).flatMap(([reason, some]) => steps.map((more) => ({
    reason, more, candidates: sum(some.filter((row) => row.more_at_most !== null && row.more_at_most <= more), (row) => row.candidates),
  })));
  const reasons = [...new Set(rows.map((row) => row.reason))];
  const at = (more) => sum(points.filter((one) => one.reason === "budget_exceeded" && one.more === more), (one) => one.candidates);
  return section("near-misses", "Near misses",
    "How many candidates would stand with so many tokens more of the bound that refused them, all else as it was.",
    rows.length ? [
      element("p", {}, `With 500 tokens more of the limit in every decision: ${counted(at(500), "candidate")} more. With 2,000: ${count(at(2000))}.`),
      legend("reason", reasons), nearMissChart(points, steps), cut("near_misses"),
    ] : emptyState("No decision tells a near miss. Strategy lanes does, where tokens of the limit or of a lane were what was short."));
}

function floorsSection() {
  const rows = answers.floors;
  return section("floors", "Floors not met", "A group was to have so many tokens at least, and got fewer: it had too little, or the limit did.",
    rows.length ? [table([
      ["Group", (row) => named(row.group)],
      ["Policy", (row) => row.policy_name],
      ["Decisions", (row) => count(row.decisions), true],
      ["Had no candidate", (row) => count(row.without_candidates), true],
      ["Missing on average", (row) => count(Math.round((row.tokens_requested - row.tokens_used) / row.decisions)), true],
    ], rows), cut("floors")] : emptyState("Every floor was met."));
}

function heldSection() {
  const rows = answers.held;
  if (!rows.length) return null;
  return section("held", "Held beginnings", "How much of the texts began as the session's last text, which a provider's cache can serve.",
    [table([
      ["Policy", (row) => row.policy_name],
      ["Broken by", (row) => row.broken || "–"],
      ["Decisions", (row) => count(row.decisions), true],
      ["Held", (row) => percent(row.tokens_held, row.tokens_used), true],
      ["Cleared tokens", (row) => count(row.tokens_cleared), true],
    ], rows), cut("held")]);
}

function queriesSection() {
  const rows = answers.queries;
  if (!rows.length) return null;
  return section("queries", "Queries", "How much of the queries occurred in the candidates, and how much of large candidates was shown as excerpts.",
    [table([
      ["Policy", (row) => row.policy_name],
      ["Decisions", (row) => count(row.decisions), true],
      ["Terms found", (row) => percent(row.terms_matched, row.terms), true],
      ["Found nothing", (row) => count(row.unmatched), true],
      ["Passages each", (row) => count(Math.round(row.passages / row.decisions)), true],
      ["Excerpts", (row) => count(row.excerpts), true],
      ["Shown of them", (row) => percent(row.excerpt_tokens, row.excerpt_full_tokens), true],
    ], rows), cut("queries")]);
}

function sessionsSection() {
  const rows = answers.sessions;
  const place = element("div", {});
  const show = (most) => place.replaceChildren(table([
    ["Session", (row) => element("span", { class: "id" }, `${row.tenant}/${row.session_id}`)],
    ["Spent", (row) => percent(row.spent_tokens, row.max_tokens), true],
    ["", (row) => meter(row.spent_tokens, row.max_tokens, 0, row.spent_tokens >= 0.9 * row.max_tokens ? "var(--limit)" : null)],
    ["Prompts left", (row) => (row.prompts_left === null ? "–" : row.prompts_left ? `about ${count(row.prompts_left)}` : "none"), true],
    ["Exhausted", (row) => count(row.exhausted), true],
  ], rows.slice(0, most)), rows.length > most ? element("button", { type: "button", on: { click: () => show(rows.length) } }, `Show ${rows.length}`) : "");
  if (rows.length) show(8);
  return section("running-out", "Sessions running out",
    "Of sessions with a bound: what they have spent of it, and for how many prompts the rest lasts at their average.",
    rows.length ? [sharesChart(answers.session_shares), element("h3", {}, "Nearest to their end"), place]
      : emptyState("No session has a bound."));
}

function latencySection() {
  const rows = answers.latency;
  return section("latency", "Latency by phase", "Dot: the median. Bar: up to 99 of 100. Ticks: 90 of 100, and the longest.",
    rows.length ? [latencyChart(rows), table([
      ["Phase", (row) => row.phase ?? "all phases"],
      ["Median", (row) => duration(row.p50_p90_p99_us[0]), true],
      ["90 %", (row) => duration(row.p50_p90_p99_us[1]), true],
      ["99 %", (row) => duration(row.p50_p90_p99_us[2]), true],
      ["Longest", (row) => duration(row.max_us), true],
    ], rows)] : emptyState("No decision tells its phases: a worker fills them in, apportion compose does not."));
}

function reuseSection() {
  const known = sum(answers.policies, (row) => row.cache_known);
  const hits = sum(answers.policies, (row) => row.cache_hits);
  const rows = [
    ["Composed anew", known - hits, "var(--accent)"], ["From the cache", hits, "var(--gain)"],
  ];
  return section("reuse", "Cache and duplicates",
    "A remembered composition gives the same bytes; a duplicate is a request that was answered before, and charges nothing.",
    known ? table([
      ["", (row) => row[0]], ["Decisions", (row) => count(row[1]), true], ["Share", (row) => percent(row[1], known), true],
      ["", (row) => meter(row[1], known, 0, row[2])],
    ], rows) : emptyState("No decision tells of a cache: a worker fills it in."),
    element("h3", {}, "How requests were answered"),
    table([
      ["Status", (row) => row.status], ["Decisions", (row) => count(row.decisions), true],
      ["Share", (row) => percent(row.decisions, overview.decisions), true],
      ["", (row) => meter(row.decisions, overview.decisions)],
    ], answers.statuses));
}

function refusedSection() {
  const rows = answers.dead_letters;
  const most = Math.max(...rows.map((row) => row.records), 0);
  return section("refused", "Refused", "Dead letters by code, and records that are no decision of this version.",
    rows.length ? [table([
      ["Code", (row) => element("code", {}, row.error_code)], ["What", (row) => row.what],
      ["Records", (row) => count(row.records), true], ["", (row) => meter(row.records, most, 0, "var(--limit)")],
    ], rows), cut("dead_letters")] : emptyState("Nothing was refused in what was given."));
}
