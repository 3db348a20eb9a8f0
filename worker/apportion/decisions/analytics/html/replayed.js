// A replay's differences: the sum, what comes and goes, and each change side by side.
function flows(title, of) {
  const rows = Object.entries(of || {});
  return rows.length ? [element("h3", {}, title), table([
    ["", ([name]) => named(name)],
    ["Gained", ([, flow]) => count(flow.gained), true], ["Lost", ([, flow]) => count(flow.lost), true],
    ["Shrunk", ([, flow]) => count(flow.shrunk), true], ["Grown", ([, flow]) => count(flow.grown), true],
    ["Tokens gained", ([, flow]) => `+${count(flow.tokens_gained)}`, true], ["Tokens lost", ([, flow]) => `−${count(flow.tokens_lost)}`, true],
  ], rows)] : [];
}

function item(one, kind, tokens, aside) {
  return element("li", { class: kind }, element("span", { class: "id" }, one.id),
    ` ${[one.kind, one.group].filter(Boolean).join(" · ")}, ${tokens}`, aside && element("span", { class: "quiet" }, ` ${aside}`));
}

function sides(change) {
  const resized = [...(change.shrunk || []), ...(change.grown || [])];
  const most = Math.max(...[change.before, change.after].flatMap((one) => [one.limit, one.used]));
  const side = (title, one, items) => element("div", {},
    element("h3", {}, `${title}: ${one.status}, ${count(one.used)} of ${count(one.limit)} tokens`), meter(one.used, most),
    items.length ? element("ul", {}, items) : element("p", { class: "quiet small" }, "Nothing stands here alone."));
  return element("div", { class: "sides" },
    side("Before", change.before, [
      ...(change.lost || []).map((one) => item(one, "lost", `${count(one.tokens)} tokens`, one.reason && `goes: ${one.reason}`)),
      ...resized.map((one) => item(one, "", `${one.fidelity_before}, ${count(one.tokens_before)} tokens`)),
    ]),
    side("After", change.after, [
      ...(change.gained || []).map((one) => item(one, "gained", `${count(one.tokens)} tokens`, one.reason && `was out: ${one.reason}`)),
      ...resized.map((one) => item(one, "", `${one.fidelity_after}, ${count(one.tokens_after)} tokens`)),
    ]));
}

function told(change) {
  const moves = ["gained", "lost", "shrunk", "grown"].filter((name) => (change[name] || []).length).map((name) => `${count(change[name].length)} ${name}`);
  if (change.before.status !== change.after.status) moves.unshift(`${change.before.status} > ${change.after.status}`);
  return moves.concat(["reordered", "rewritten"].filter((name) => change[name])).join(", ");
}

function replayedSection() {
  const replayed = report.replayed;
  if (!replayed) return null;
  const all = replayed.sum;
  const cost = all.cost_before === undefined ? [] : [["Cost", `${all.cost_after}`, `was ${all.cost_before}`]];
  const changes = replayed.changes.map((change) => {
    const made = element("details", {}, element("summary", {}, element("span", { class: "id" }, change.decision_id.slice(0, 10)),
      ` ${count(change.before.used)} > ${count(change.after.used)} tokens · ${told(change)}`));
    made.addEventListener("toggle", () => { if (made.open && made.children.length === 1) made.append(sides(change)); });
    return made;
  });
  const place = element("div", {});
  const show = (most) => place.replaceChildren(...changes.slice(0, most), changes.length > most
    ? element("button", { type: "button", on: { click: () => show(changes.length) } }, `Show ${changes.length}`) : "");
  show(20);
  return section("replayed", "What a change would have made", "As apportion replay told it, of the decisions that it replayed.",
    tiles([
      ["Replayed", count(all.replayed), `${count(all.changed)} changed`], ["Tokens", short.format(all.tokens_after), `were ${short.format(all.tokens_before)}`], ...cost,
      ["Gained", count(all.gained), "items"], ["Lost", count(all.lost), "items"], ["Shrunk", count(all.shrunk), `${count(all.grown)} grown`],
      ["Refused under it", count(sum(Object.values(all.misfits || {}), (each) => each)), "requests"],
      ["Not replayed", count(sum(Object.values(all.unverifiable || {}), (each) => each)), "unverifiable"],
    ]),
    flows("By group", all.groups), flows("By kind", all.kinds),
    element("h3", {}, "Side by side, the largest changes first"),
    changes.length ? place : emptyState("No decision would have been another."),
    replayed.changes_left_out ? notice(`${counted(replayed.changes_left_out, "smaller change")} not shown.`) : null,
    replayed.misfits.length ? [element("h3", {}, "Refused under the change"), table([
      ["Decision", (one) => element("span", { class: "id" }, one.decision_id)], ["Code", (one) => one.error.code], ["Place", (one) => one.error.pointer],
    ], replayed.misfits)] : null);
}
