// Charts: Observable Plot draws them into the width that there is, again when that changes.
const drawn = [];

function chart(label, draw) {
  const place = element("div", { class: "chart" });
  let width = 0;
  const redraw = () => {
    const now = Math.floor(place.clientWidth);
    if (!now || now === width) return;
    width = now;
    const figure = Plot.plot({
      width, marginLeft: 48, marginRight: 12, ...draw(width),
      style: { background: "transparent", fontSize: "12px", fontFamily: "inherit", overflow: "visible" },
    });
    figure.setAttribute("role", "img");
    figure.setAttribute("aria-label", label);
    place.replaceChildren(figure);
  };
  place.redraw = () => { width = 0; redraw(); };
  drawn.push(place);
  new ResizeObserver(redraw).observe(place);
  return place;
}

const midnight = d3.utcFormat("%-d %b"), clock = d3.utcFormat("%H:%M"), seconds = d3.utcFormat("%H:%M:%S");

function moment(when) {
  if (when.getUTCSeconds()) return seconds(when);
  return when.getUTCHours() || when.getUTCMinutes() ? clock(when) : midnight(when);
}

// A scale of counts has no ticks between two whole numbers.
function wholeTicks(ticks, most) {
  return Math.max(1, Math.min(ticks, most));
}

const TIP = { fill: "var(--card)", stroke: "var(--line)", fontSize: 12 };

function utilisationChart(rows) {
  const points = rows.map((row) => ({
    since: new Date(row.since), decisions: row.decisions, policy: row.policy_name,
    low: row.share_p10_p50_p90[0] / 10, middle: row.share_p10_p50_p90[1] / 10, high: row.share_p10_p50_p90[2] / 10,
  }));
  const step = d3.min(d3.pairs(d3.sort(new Set(points.map((row) => +row.since))), (one, other) => other - one));
  const broken = d3.groups(points, (row) => row.policy).flatMap(([policy, own]) => own.flatMap((row, place) => {
    const after = own[place + 1];
    const gap = { since: new Date(+row.since + step), policy, low: NaN, middle: NaN, high: NaN };
    return after && after.since - row.since > step ? [row, gap] : [row];
  }));
  const color = (row) => colorOf("policy", row.policy);
  const says = (row) => `${named(row.policy)}\n${time(row.since.toISOString())}\n${counted(row.decisions, "decision")}\n` +
    `median ${row.middle.toFixed(0)} %\none tenth under ${row.low.toFixed(0)} %, one over ${row.high.toFixed(0)} %`;
  return chart("Share of the limit that was used, by policy, over time", (width) => ({
    height: 220, x: { type: "utc", label: null, tickFormat: moment, ticks: Math.max(2, Math.floor(width / 110)) },
    y: { domain: [0, 100], label: "% of the limit", grid: true, ticks: 5 },
    marks: [
      Plot.areaY(broken, { x: "since", y1: "low", y2: "high", z: "policy", fill: color, fillOpacity: 0.15 }),
      Plot.lineY(broken, { x: "since", y: "middle", z: "policy", stroke: color, strokeWidth: 1.8 }),
      Plot.dot(points, { x: "since", y: "middle", fill: color, r: 2 }),
      Plot.ruleY([100], { stroke: "var(--limit)", strokeWidth: 1.5 }),
      Plot.ruleY([0], { stroke: "var(--line)" }),
      Plot.tip(points, Plot.pointer({ x: "since", y: "middle", title: says, ...TIP })),
    ],
  }));
}

function droppedChart(rows, by, measure) {
  const totals = d3.rollups(rows, (some) => d3.sum(some, (row) => row[measure]), (row) => row[by])
    .sort((one, other) => other[1] - one[1]);
  const shown = new Set(totals.slice(0, 16).map(([name]) => name));
  const bars = d3.flatRollup(rows.filter((row) => shown.has(row[by])), (some) => d3.sum(some, (row) => row[measure]),
    (row) => row[by], (row) => row.reason).map(([name, reason, value]) => ({ name: named(name), reason, value }));
  const names = [...shown].map(named);
  const longest = Math.min(170, 16 + 6.6 * d3.max(names, (name) => Math.min(24, name.length)));
  return chart(`What was left out by ${by}, in ${measure}`, (width) => ({
    height: 46 + 26 * names.length, marginBottom: 40, marginLeft: Math.min(longest, width * 0.36), marginTop: 4,
    x: { label: measure, labelOffset: 36, grid: true, tickFormat: (value) => short.format(value), ticks: wholeTicks(width < 500 ? 4 : 8, totals[0][1]) },
    y: { domain: names, label: null, tickSize: 0, tickFormat: (name) => (name.length > 24 ? `${name.slice(0, 23)}…` : name) },
    marks: [
      Plot.barX(bars, Plot.stackX({
        x: "value", y: "name", order: "reason", fill: (row) => colorOf("reason", row.reason), insetTop: 2, insetBottom: 2,
        tip: TIP, title: (row) => `${row.name}\n${row.reason}\n${count(row.value)} ${measure}`,
      })),
      Plot.ruleX([0], { stroke: "var(--quiet)" }),
    ],
  }));
}

function nearMissChart(points, steps) {
  const says = (row) => `with ${count(row.more)} tokens more of the ${row.reason === "budget_exceeded" ? "limit" : "bound"}\n` +
    `${counted(row.candidates, "candidate")} more\n${row.reason}`;
  return chart("Candidates that so many tokens more would have admitted", (width) => ({
    height: 250, marginLeft: 56, marginRight: 22, marginBottom: 40,
    x: { type: "log", domain: [steps[0], steps[steps.length - 1]], label: "tokens more", labelOffset: 36, tickFormat: (value) => short.format(value), ticks: width < 500 ? 3 : 6 },
    y: { label: "candidates", grid: true, ticks: wholeTicks(5, d3.max(points, (row) => row.candidates)), tickFormat: (value) => short.format(value) },
    marks: [
      Plot.lineY(points, { x: "more", y: "candidates", z: "reason", stroke: (row) => colorOf("reason", row.reason), strokeWidth: 1.8, curve: "step-after" }),
      Plot.dot(points, { x: "more", y: "candidates", fill: (row) => colorOf("reason", row.reason), r: 3, tip: TIP, title: says }),
      Plot.ruleY([0], { stroke: "var(--line)" }),
    ],
  }));
}

function sharesChart(rows) {
  const tenths = d3.range(10).map((tenth) => ({
    tenth, sessions: rows.find((row) => row.tenth === tenth)?.sessions ?? 0,
    name: tenth === 9 ? "90 % and more" : `${10 * tenth} to ${10 * tenth + 10} %`,
  }));
  return chart("Sessions by the share of their tokens that they have spent", () => ({
    height: 190, marginBottom: 38, x: { type: "band", label: "% spent", labelOffset: 34, tickFormat: (tenth) => String(10 * tenth) },
    y: { label: "sessions", grid: true, ticks: wholeTicks(4, d3.max(tenths, (row) => row.sessions)), tickFormat: (value) => short.format(value) },
    marks: [
      Plot.barY(tenths, {
        x: "tenth", y: "sessions", fill: (row) => (row.tenth === 9 ? "var(--limit)" : "var(--accent)"), tip: TIP,
        title: (row) => `${row.name} spent\n${counted(row.sessions, "session")}`,
      }),
      Plot.ruleY([0], { stroke: "var(--quiet)" }),
    ],
  }));
}

function latencyChart(rows) {
  const phases = rows.map((row) => ({
    phase: row.phase ?? "all phases", p50: row.p50_p90_p99_us[0], p90: row.p50_p90_p99_us[1], p99: row.p50_p90_p99_us[2], max: row.max_us,
  }));
  const says = (row) => `${row.phase}\nmedian ${duration(row.p50)}\n90 % within ${duration(row.p90)}\n99 % within ${duration(row.p99)}\nat most ${duration(row.max)}`;
  return chart("How long each phase took", (width) => ({
    height: 44 + 30 * phases.length, marginLeft: 90, marginRight: 24, marginTop: 4,
    x: { type: "log", label: null, grid: true, tickFormat: duration, ticks: width < 500 ? 2 : 4 },
    y: { domain: phases.map((row) => row.phase), label: null, tickSize: 0 },
    marks: [
      Plot.ruleY(phases, { y: "phase", x1: (row) => Math.max(1, row.p50), x2: (row) => Math.max(1, row.p99), stroke: "var(--accent)", strokeOpacity: 0.35, strokeWidth: 8 }),
      Plot.dot(phases, { y: "phase", x: (row) => Math.max(1, row.p50), fill: "var(--accent)", r: 5 }),
      Plot.tickX(phases, { y: "phase", x: (row) => Math.max(1, row.p90), stroke: "var(--accent)", insetTop: 6, insetBottom: 6 }),
      Plot.tickX(phases, { y: "phase", x: (row) => Math.max(1, row.max), stroke: "var(--quiet)", insetTop: 9, insetBottom: 9 }),
      Plot.tip(phases, Plot.pointerY({ y: "phase", x: (row) => Math.max(1, row.p90), title: says, ...TIP })),
    ],
  }));
}
