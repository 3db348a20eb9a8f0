// The types of events, generated from the schemas by `npm run types`.

export type ApportionEvent = ContextRequest | ContextArtifact | ContextComposed | ContextDecision;
/**
 * The property that a constraint matches; `pattern` is a glob over the candidate's path.
 */
export type MatchType = "id" | "kind" | "lane" | "pattern";
/**
 * The intensity of work in the workspace.
 */
export type Pressure = "high" | "low" | "normal";
/**
 * The outcome of a request.
 */
export type Status = "composed" | "disabled" | "duplicate" | "empty" | "exhausted" | "infeasible";
/**
 * The form in which a selected candidate is in the context.
 */
export type Fidelity = "cleared" | "excerpt" | "full" | "name" | "shortened" | "shrunk" | "summary" | "truncated";
/**
 * The detail of a stored decision: all of it, selected candidates only, or no candidates.
 */
export type Detail = "full" | "selected" | "summary";
/**
 * The outcome of a candidate.
 */
export type Outcome = "omitted" | "selected";
/**
 * The reason for omitting a candidate, in order of precedence.
 */
export type Reason =
  | "backoff"
  | "below_threshold"
  | "budget_exceeded"
  | "category_budget_reached"
  | "disabled"
  | "displaced_by_prefix"
  | "dropped_after_render"
  | "duplicate"
  | "excluded_by_policy"
  | "exhausted"
  | "expired"
  | "history_truncated"
  | "infeasible"
  | "lane_max_reached"
  | "no_content"
  | "no_room"
  | "redundant"
  | "source_max_reached"
  | "superseded"
  | "tool_not_relevant"
  | "tools_max_reached"
  | "unsuitable"
  | "untrusted_max_reached";
/**
 * The bound that keeps a candidate out of the context. Each has a reason of its own.
 */
export type Bound =
  | "category"
  | "content"
  | "exclusion"
  | "group"
  | "history"
  | "id"
  | "lane"
  | "limit"
  | "prefix"
  | "redundancy"
  | "relevance"
  | "render"
  | "room"
  | "source"
  | "subject"
  | "threshold"
  | "tools"
  | "untrusted";
/**
 * The reason for which a text differs from the session's previous text.
 */
export type PrefixBreakReason =
  | "changed"
  | "cold"
  | "core"
  | "excluded"
  | "floors"
  | "gone"
  | "lane_max"
  | "limit"
  | "max_loss"
  | "policy"
  | "shrunk"
  | "source_max"
  | "worth";
/**
 * The reason for which a conversation does not begin as its session's last text, in precedence.
 */
export type WindowBreak =
  | "cleared"
  | "first"
  | "material_changed"
  | "messages_changed"
  | "pins_changed"
  | "policy_changed"
  | "room"
  | "shortened"
  | "system_changed"
  | "tools_changed"
  | "ttl_expired";

/**
 * Asks for one composition.
 */
export interface ContextRequest {
  type: "context-request";
  /**
   * The id of the request in its session; a repeated request is a duplicate.
   */
  request_id: string;
  /**
   * The session whose ledger counts, under the tenant.
   */
  session_id: string;
  /**
   * The time of the request, at which ages and expiry are measured; no other clock is used.
   */
  requested_at: string;
  /**
   * Keeps sessions apart, and has its own secret.
   */
  tenant?: string;
  /**
   * The name of the policy; without one, the worker's default policy.
   */
  policy?: string;
  /**
   * The model that reads the context. A policy with `counter = "model"` counts by its row of the table.
   */
  model?: string;
  /**
   * The provider of a model that is not named. The decision says if none of its models counts as the policy
   * does.
   */
  provider?: string;
  /**
   * Replaces the policy's total, up to its `budget_tokens_max`; 0 disables.
   */
  budget_tokens?: number;
  trigger?: Trigger;
  /**
   * The candidates (`lanes`, `categories`, `tiers`), in any order.
   */
  candidates?: Candidate[];
  constraints?: Constraints;
  vitals?: Vitals;
  /**
   * The question that the context is for (`lanes`); candidates may then leave out their relevance.
   */
  query?: string;
  /**
   * The layers by name (`layers`).
   */
  layers?: {
    [k: string]: string | SectionedLayer;
  };
  conversation?: Conversation;
  /**
   * The definitions of tools, as the provider takes them (`request`).
   */
  tools?: {
    [k: string]: unknown;
  }[];
  /**
   * The choice of a tool, as the provider takes it (`request`); the tools that it names are sent.
   */
  tool_choice?:
    | string
    | {
        [k: string]: unknown;
      }
    | null;
  /**
   * The greatest answer, which replaces the policy's `response_tokens` (`request`).
   */
  response_tokens?: number;
  /**
   * The tokens that the history leaves to the candidates, which replace the policy's share (`request`).
   */
  material_tokens?: number;
}
/**
 * The cause of the request; instead of `workspace`, only its fingerprint is sent on.
 */
export interface Trigger {
  /**
   * The event, such as `file_saved`.
   */
  event?: string;
  /**
   * The workspace; only its fingerprint is sent on, or nothing without a secret.
   */
  workspace?: string;
  /**
   * The commit.
   */
  commitish?: string;
  /**
   * The digest of the rules.
   */
  rules_digest?: string;
}
/**
 * A piece of content that may be selected for the context. Its required fields depend on the strategy.
 */
export interface Candidate {
  /**
   * The id, up to 256 characters, copied unchanged. Without one, it is made from the path.
   */
  id?: string;
  /**
   * The path of its file. Globs match it, and it gives the id if none is given.
   */
  path?: string;
  /**
   * The part of the file at `path`, from 0; used if the id is made from the path.
   */
  chunk_index?: number;
  /**
   * The text for the context; an empty text is never selected.
   */
  content?: string;
  /**
   * The kind, such as `local_diff`; `lanes` and `tiers` define the kinds.
   */
  kind?: string;
  /**
   * The lane in which it competes (`lanes`).
   */
  lane?: string;
  /**
   * The category that pays for it (`categories`).
   */
  category?: string;
  /**
   * The time of its creation; its age is measured at the request's `requested_at`.
   */
  created_at?: string;
  /**
   * The recency, with 5 as the most recent, if `created_at` is unknown (`lanes`).
   */
  recency_bucket?: number;
  /**
   * The relevance to the task.
   */
  relevance?: number;
  /**
   * The specificity to the task (`lanes`).
   */
  specificity?: number;
  /**
   * The relevance to risks of the task (`lanes`).
   */
  risk_alignment?: number;
  /**
   * The agreement of sources on it, from which diversity follows (`categories`).
   */
  weighted_agreement?: number;
  /**
   * A score that replaces relevance, recency and diversity (`categories`).
   */
  priority?: number;
  /**
   * The activation of a behavior, which determines its tier (`tiers`).
   */
  activation?: number;
  /**
   * The text if only a name fits (`tiers`), up to 256 characters; by default the id.
   */
  name?: string;
  /**
   * The text if the content does not fit (`tiers`); by default the content's first line.
   */
  summary?: string;
  /**
   * Tags beside the name (`tiers`): up to 32, with up to 64 characters each.
   */
  tags?: string[];
  /**
   * The language of the content, for shrinking; by default it follows from the path's extension.
   */
  language?: string;
  /**
   * The way to shrink it (`lanes`); by default that of its kind.
   */
  shrink?: string;
  /**
   * The tokens that the selection charges for it; by default its exact count.
   */
  token_estimate?: number;
  /**
   * The origin, such as a file. A lane may bound the items and tokens of each source (`lanes`).
   */
  source?: string;
  /**
   * A line before whatever is shown of it, such as a title, path or page. It is counted, and never cut.
   */
  source_label?: string;
  /**
   * The thing that the content states a fact about. Only the newest candidate of a subject counts.
   */
  subject?: string;
  /**
   * The trust in its author, from 0 to 3; by default, the policy's for its kind (`request`).
   */
  trust?: number;
}
/**
 * Constraints on candidates. Exclusion wins over pin, and pin wins over must-include.
 */
export interface Constraints {
  /**
   * Candidates that are never selected.
   */
  must_exclude?: Constraint[];
  /**
   * Candidates that are always selected (`lanes`).
   */
  pinned?: Constraint[];
  /**
   * More candidates that are always selected (`lanes`).
   */
  must_include?: Constraint[];
  /**
   * Higher floors of lanes for this request (`lanes`).
   */
  lane_requirements?: LaneRequirement[];
}
/**
 * A match and its reason; the reason is the client's own note and is not used.
 */
export interface Constraint {
  match: Match;
  /**
   * The client's own note; it goes nowhere.
   */
  reason?: string;
}
/**
 * Matches candidates by a property.
 */
export interface Match {
  type: MatchType;
  /**
   * The value of the property, up to 256 characters; for `pattern`, a glob over the whole path.
   */
  value: string;
}
/**
 * Raises a lane's floor for one request.
 */
export interface LaneRequirement {
  /**
   * The lane whose floor is raised.
   */
  lane: string;
  /**
   * The floor in tokens, at most the lane's max.
   */
  min_tokens: number;
  /**
   * The client's own note; it goes nowhere.
   */
  reason?: string;
}
/**
 * The state of the workspace, which adjusts relevance.
 */
export interface Vitals {
  pressure?: Pressure;
  /**
   * Above 30 it raises lane `local`.
   */
  pulse_bpm?: number;
  /**
   * Below 0.5 it raises lanes `rules` and `policy`.
   */
  oxygen?: number;
}
/**
 * A layer with structure: an optional preamble, then sections.
 */
export interface SectionedLayer {
  /**
   * The sections, in order.
   */
  sections: Section[];
  /**
   * A text before the sections.
   */
  preamble?: string;
}
/**
 * A titled list; `preserve` keeps its entries from being cut.
 */
export interface Section {
  /**
   * The heading.
   */
  title: string;
  /**
   * The entries, a line each.
   */
  entries?: string[];
  /**
   * Keeps the entries from being cut.
   */
  preserve?: boolean;
}
/**
 * A chat history in OpenAI's format; messages keep unknown fields.
 */
export interface Conversation {
  /**
   * The user's new message: a text, or a message object.
   */
  new_message:
    | string
    | {
        [k: string]: unknown;
      };
  /**
   * The system prompt; it is cut at its end if it exceeds its part.
   */
  system_prompt?: string;
  /**
   * The history, oldest first; unknown fields of messages are kept.
   */
  messages?: {
    [k: string]: unknown;
  }[];
  /**
   * Indices of messages that are always sent, with their groups, before the rest of the history.
   */
  pinned?: number[];
  /**
   * If true, pinned messages are sent at their places in the history, not before it.
   */
  pinned_in_place?: boolean;
  /**
   * The stable window of a chat without a session.
   *
   * `full` leaves no slack, for a chat that no call continues. `steps` begins at a step that is counted from
   * the first message, so that it moves seldom.
   */
  window?: "full" | "steps";
  /**
   * If true, no old result and no old medium is cleared, because the provider clears them.
   */
  keep_results?: boolean;
  /**
   * The trust in messages; by default, the policy's for their role (`request`).
   */
  trust?: MessageTrust[];
}
/**
 * The trust in the author of a message.
 */
export interface MessageTrust {
  /**
   * The index of the message; the new message follows the last of `messages`.
   */
  index: number;
  /**
   * From 0 to 3.
   */
  trust: number;
}
/**
 * Publishes a candidate for all later requests of a session.
 */
export interface ContextArtifact {
  type: "context-artifact";
  /**
   * The session whose pool it joins, under the tenant.
   */
  session_id: string;
  /**
   * The time of publication, which counts as an event of the session.
   */
  published_at: string;
  /**
   * Which source sent it.
   */
  source: string;
  artifact: Candidate;
  /**
   * Keeps sessions apart, and has its own secret.
   */
  tenant?: string;
  /**
   * The time from which it is no longer used; by default it lasts as long as the session.
   */
  expires_at?: string;
}
/**
 * The answer to a request: the context itself. `items` are in the order of the text.
 *
 * If the policy holds prefixes, `prefix_tokens` is the exact count of the beginning that is unchanged since
 * the session's previous text (0 without a text). `breakpoints` are the places at which a provider may
 * cache, ascending.
 */
export interface ContextComposed {
  type: "context-composed";
  request_id: string;
  session_id: string;
  tenant: string;
  decision_id: string;
  policy: PolicyRef;
  status: Status;
  text?: string;
  tools?: {
    [k: string]: unknown;
  }[];
  system_prompt?: string;
  messages?: {
    [k: string]: unknown;
  }[];
  items: ComposedItem[];
  tokens: ComposedTokens;
  session: ComposedSession;
  duplicate_of?: string;
  truncated_messages?: number;
  prefix_tokens?: number;
  breakpoints?: Breakpoint[];
}
/**
 * The policy that was used; `digest` covers all of its keys.
 */
export interface PolicyRef {
  name: string;
  version: string;
  strategy: string;
  digest: string;
}
/**
 * A selected candidate; `tokens` is the exact count of its text alone.
 *
 * `lines` are the first and the last line of each range that an excerpt shows, from 1.
 */
export interface ComposedItem {
  id: string;
  kind: string;
  group: string;
  fidelity: Fidelity;
  tokens: number;
  lines?: [number, number][];
}
/**
 * The tokens of the context: `used` is the exact count of everything emitted, and at most `limit`.
 */
export interface ComposedTokens {
  counter: string;
  limit: number;
  used: number;
  /**
   * The row of the model, if the policy counts by it.
   */
  model?: string;
}
/**
 * The session after this request; `max_tokens` is 0 if there is no bound.
 */
export interface ComposedSession {
  prompts: number;
  spent_tokens: number;
  max_tokens: number;
}
/**
 * A place in the context at the end of an item: the number of items before it, and of code points.
 *
 * A conversation has no code points of its own, so `characters` is absent there.
 */
export interface Breakpoint {
  items: number;
  characters?: number;
  /**
   * The time to live of a mark, such as `5m`, if the policy counts by a model that has marks.
   *
   * A breakpoint without it only ends a block of such a body.
   */
  ttl?: string;
}
/**
 * The record of a decision, to audit, count and replay it; it has no content and no path.
 *
 * Empty fields and fields that do not apply are left out. Times are RFC 3339 in UTC. A time before the year
 * 1 or after 9999 is the nearest time that can be written.
 */
export interface ContextDecision {
  type: "context-decision";
  schema_version: number;
  detail?: Detail;
  decision_id: string;
  request_id: string;
  session_id: string;
  tenant: string;
  requested_at: string;
  engine_version: string;
  policy: PolicyRef;
  counter: CounterRef;
  model?: ModelRef;
  /**
   * True if the model, or else the provider, counts by another counter than the policy.
   */
  counter_mismatch?: boolean;
  digests: Digests;
  /**
   * The name of the secret from which ids were made; absent if there is none.
   */
  fingerprint_key_id?: string;
  status: Status;
  /**
   * The decision in one line.
   */
  summary: string;
  trigger?: Trigger;
  limits: Limits;
  tokens: DecisionTokens;
  session: SessionLedger;
  groups?: Group[];
  /**
   * The parts of a whole request, and the answer that it leaves room for (`request`).
   */
  parts?: PartTokens[];
  certificate?: Certificate;
  /**
   * The names of the candidates' `parts`, in order.
   */
  score_parts?: string[];
  /**
   * Candidates by rank: all selected ones, and omitted ones up to a bound. Beyond it, only expired
   * artifacts are listed, because they leave the pool.
   */
  candidates?: Entry[];
  candidates_total: number;
  candidates_selected: number;
  /**
   * The number of omitted candidates for each reason: highest number first, ties by name.
   */
  reasons?: ReasonCount[];
  /**
   * The omitted candidates that `candidates` does not list, by reason.
   */
  unlisted?: ReasonCount[];
  constraints?: ConstraintCount[];
  /**
   * The id of the decision that answered the request first.
   */
  duplicate_of?: string;
  /**
   * The artifacts that were evicted from the pool since the session's last decision; of very many, the
   * last ones.
   */
  evicted?: string[];
  /**
   * The number of earlier evicted artifacts.
   */
  evicted_unlisted?: number;
  /**
   * The key under which the composition may be cached.
   */
  cache_key?: string;
  prefix?: Prefix;
  window?: ChatWindow;
  tool_results?: ToolResults;
  query?: QueryMatch;
  run?: Run;
}
/**
 * The counter that was used; `digest` pins its rule or vocabulary.
 */
export interface CounterRef {
  name: string;
  digest: string;
}
/**
 * The row of the table of models that a request was counted by, or compared with.
 */
export interface ModelRef {
  name: string;
  /**
   * The version of the table.
   */
  table: string;
  /**
   * The digest of the row.
   */
  digest: string;
}
/**
 * SHA-256 digests over canonical JSON, as `sha256:…`.
 */
export interface Digests {
  /**
   * The request without `requested_at`.
   */
  input: string;
  candidates: string;
  constraints: string;
  session_before: string;
  session_after: string;
  /**
   * The composed event.
   */
  output: string;
  /**
   * Only in a decision without full detail: the digest of the full decision with this `detail`, without
   * this digest and without `run`.
   */
  record?: string;
}
/**
 * The limits of the request and its session. An absent number is 0: no bound, except for the total.
 */
export interface Limits {
  /**
   * The total: the request's own, up to the policy's maximum, or else the policy's. 0 disables.
   */
  budget_tokens?: number;
  /**
   * The tokens that the session may spend.
   */
  max_tokens?: number;
  max_tokens_per_request?: number;
  /**
   * The number of prompts that an injected id waits, for each time that it was injected.
   */
  backoff_prompts?: number;
  idle_timeout_s?: number;
}
/**
 * The tokens of the answer as a whole.
 */
export interface DecisionTokens {
  /**
   * The least of the total, the cap for a request, and the rest of the session's total.
   */
  limit: number;
  reserved: number;
  /**
   * The sum that the selection charged.
   */
  estimated: number;
  /**
   * The exact count of everything emitted.
   */
  used: number;
  /**
   * `limit` minus `used`.
   */
  remaining: number;
}
/**
 * The session's row before and after the request.
 */
export interface SessionLedger {
  before: Ledger;
  after: Ledger;
}
/**
 * The fixed-size part of a session's row. Times are event times; an absent number is 0.
 */
export interface Ledger {
  /**
   * The number of accepted requests, without duplicates.
   */
  prompts?: number;
  /**
   * The number of answers, with duplicates.
   */
  sequence?: number;
  spent_tokens?: number;
  started_at: string;
  last_event_at: string;
  /**
   * The time at which the session expires; absent if it never does.
   */
  expires_at?: string | null;
  /**
   * The number of ids that are remembered as injected.
   */
  injections?: number;
  pool_artifacts?: number;
  /**
   * The bytes of the contents of the pool's artifacts.
   */
  pool_bytes?: number;
}
/**
 * A lane, category, section or layer, in tokens and candidates; `max` is absent if there is none.
 */
export interface Group {
  name: string;
  min: number;
  max?: number;
  /**
   * The exact count of its selected candidates.
   */
  used: number;
  /**
   * The cost of all of its candidates together.
   */
  available: number;
  selected: number;
  rejected: number;
  shortfall?: Shortfall;
}
/**
 * A floor that could not be met: the requested tokens, and the tokens that its candidates had.
 */
export interface Shortfall {
  requested: number;
  available: number;
}
/**
 * A part of a request, in tokens as the model counts them.
 *
 * `room` is the most that it may have, `fixed` what must be in it, `used` what is in it, and `available` the
 * cost of all that was given for it; what is not counted costs nothing.
 */
export interface PartTokens {
  name: string;
  room: number;
  fixed: number;
  used: number;
  available: number;
}
/**
 * The quality of the selection before rendering. A value is Σ score · cost, in thousandths of score.
 *
 * `bound` is at least the `value` of every selection that stays within limit and ceilings, has the protected
 * candidates, and fills each lane's floor at least as far as this one. `gap` is the difference to the bound,
 * in thousandths of the bound, rounded up. `price` is the worth of one more token of the limit.
 * `undiscounted` is true if the policy discounts scores for overlap and the certificate does not.
 * `without_quotas` is true if candidates have quotas of sources, which the certificate does not count.
 */
export interface Certificate {
  value: number | string;
  bound: number | string;
  gap: number;
  price: number | string;
  /**
   * The groups with a ceiling or floor price, in the order of the decision's groups.
   */
  groups: GroupPrice[];
  undiscounted?: boolean;
  without_quotas?: boolean;
}
/**
 * The price of a token of a lane or category relative to a token of the limit, in thousandths of score.
 *
 * It is higher by `ceiling` if the ceiling keeps candidates out, and lower by `floor` if the floor lets
 * candidates in.
 */
export interface GroupPrice {
  name: string;
  ceiling?: number | string;
  floor?: number | string;
}
/**
 * The entry of a candidate in a decision; fields that do not apply are left out.
 */
export interface Entry {
  id: string;
  kind: string;
  group: string;
  /**
   * From 1, in the strategy's canonical order.
   */
  rank: number;
  outcome: Outcome;
  /**
   * In thousandths; decimal digits if above 2**53 - 1.
   */
  score?: number | string;
  /**
   * The parts of the score in thousandths, in the order of the decision's `score_parts`.
   */
  parts?: number[];
  /**
   * If selected (or infeasible): the exact count of its form. If omitted: what it would have cost.
   */
  tokens?: number;
  fidelity?: Fidelity;
  /**
   * The exact count of the whole candidate, if its form is smaller and the whole was counted.
   */
  full_tokens?: number;
  reason?: Reason;
  bound?: Bound;
  /**
   * The tokens that it needed when it was considered last, if they differ from `tokens`.
   */
  needed?: number;
  /**
   * The tokens that the bound had left then; absent if the bound is not in tokens.
   */
  left?: number;
  /**
   * The extra tokens in that bound alone that would have admitted it, all else equal.
   */
  more?: number;
  /**
   * The tokens that the overall limit had left then. Present only if another bound rejected the candidate
   * and the limit was too small as well.
   */
  limit_left?: number;
  /**
   * The place of the constraint that decided, such as `must_exclude[2]`.
   */
  constraint?: string;
  redundant?: Redundant;
  /**
   * The id of the newest candidate of its subject, which counts instead.
   */
  superseded_by?: string;
  /**
   * The relevance of its best passage to the query, in thousandths.
   */
  lexical?: number;
  excerpt?: Excerpt;
  /**
   * True if a message is sent at another place than the request has it, directly before its results.
   */
  moved?: boolean;
}
/**
 * The overlap of a candidate when it was considered last: the covering candidate, and thousandths.
 */
export interface Redundant {
  covered_by: string;
  permille: number;
}
/**
 * The passages of a candidate that the context shows.
 *
 * `passages` is how many the candidate has. `lines` are the first and the last line of each range shown,
 * from 1; neighbours are merged.
 */
export interface Excerpt {
  passages: number;
  lines: [number, number][];
}
/**
 * The number of candidates that were omitted for a reason.
 */
export interface ReasonCount {
  reason: Reason;
  count: number;
}
/**
 * The constraints of a list: how many were given, matched a candidate, or matched none.
 */
export interface ConstraintCount {
  /**
   * The name of the list, such as `must_exclude`.
   */
  name: string;
  given: number;
  matched: number;
  unmatched: number;
}
/**
 * The beginning that a text shares with the session's previous text, and its price.
 *
 * `previous_items` is the number of items in full at the beginning of the previous text. `held_items` of
 * them are in the same place again. `prefix_tokens` is the exact count up to the end of the last held item.
 * `held_only` are the ids that are selected only to hold the prefix, in order. `displaced` are the ids that
 * the prefix displaced, by rank. `value` is the value of the selection, in thousandths of score times
 * tokens; `value_without` is the value without holding the prefix. `tried` is the number of tried
 * selections. `cold` is true if the previous text is too old for a cache, or is of a later time.
 */
export interface Prefix {
  previous_items: number;
  held_items: number;
  prefix_tokens: number;
  cold: boolean;
  break: PrefixBreak | null;
  held_only: string[];
  displaced: string[];
  value: number;
  value_without: number;
  tried: number;
}
/**
 * The end of the unchanged beginning: the place and id of the first item that differs, and why.
 */
export interface PrefixBreak {
  at: number;
  id: string | null;
  why: PrefixBreakReason;
}
/**
 * The part of a history that is sent, and the beginning that it shares with the session's last text.
 *
 * `tokens` is the exact count of the unchanged beginning, which ends with the history of the last text;
 * `share` is its share of the text in thousandths. `cut` is the index of the first kept message. `since` is
 * the number of the answer that set the cut.
 */
export interface ChatWindow {
  tokens: number;
  share: number;
  cut: number;
  since: number;
  break?: WindowBreak;
}
/**
 * The cleared tool results of a conversation: how many, and how many tokens that freed.
 */
export interface ToolResults {
  cleared: number;
  freed_tokens: number;
}
/**
 * The match of a query with the candidates; it holds no term of the query.
 *
 * `terms` is the number of the query's distinct terms, and `matched` the number of terms that occur in a
 * candidate. `passages` is the number of passages of all candidates.
 */
export interface QueryMatch {
  terms: number;
  matched: number;
  passages: number;
}
/**
 * The fields that may differ between two runs of the same event; the shell fills them in.
 */
export interface Run {
  source?: Source;
  worker?: string;
  phases?: Phase[];
  cache_hit?: boolean;
}
/**
 * The record of the event.
 */
export interface Source {
  topic: string;
  partition: number;
  offset: number;
}
/**
 * The duration of a phase, in microseconds.
 */
export interface Phase {
  name: string;
  duration_us: number;
}
