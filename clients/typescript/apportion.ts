// A client of Apportion's gateway for Node.js 20 or later. Copy it with types.ts, which has the types of all events.
import type { Candidate, ContextArtifact, ContextComposed, ContextDecision, ContextRequest, Status } from "./types.js";

export type * from "./types.js";

type Optional<Event, Fields extends keyof Event> = Omit<Event, Fields> & Partial<Pick<Event, Fields>>;

/** A request. The client fills in what is left out, before the first attempt. */
export type ComposeRequest = Optional<ContextRequest, "type" | "request_id" | "requested_at">;

/** An artifact, likewise. */
export type PublishedArtifact = Optional<ContextArtifact, "type" | "published_at">;

export type Format = "openai" | "anthropic" | "text";

/** A composed context in a provider's format. `body` is absent if nothing was composed. */
export interface Shaped {
  request_id: string;
  session_id: string;
  tenant: string;
  decision_id: string;
  status: Status;
  body?: Record<string, unknown>;
}

/** Options of `fit`; the page `docs/fit.md` of Apportion describes them. */
export interface FitOptions {
  pinned?: number[];
  begins_with_user?: boolean;
  continues?: boolean;
  artifacts_tokens?: number;
  policy?: string;
  artifacts_policy?: string;
  tenant?: string;
  request_id?: string;
  requested_at?: string;
  [option: string]: unknown;
}

/** Without `limit_tokens`, it is the window of the model less its answer. */
export interface FitCall {
  limit_tokens?: number;
  model?: string;
  session_id?: string;
  artifacts?: (Partial<Candidate> & { content: string })[];
  options?: FitOptions;
}

/** A fitted body. `sources` has the index of the caller's message for each message; null: it was added. */
export interface Fitted<Body> {
  body: Body;
  used_tokens: number;
  limit_tokens: number;
  sources: (number | null)[];
  decision: ContextDecision;
  artifacts_decision?: ContextDecision;
}

/** A failed call. `temporary` says that the same call can succeed: repeat it with the same `request_id`. */
export class GatewayError extends Error {
  override name = "GatewayError";

  constructor(
    readonly code: string,
    detail: string,
    readonly temporary: boolean,
    readonly requestId: string,
    readonly status?: number,
    readonly pointer?: string,
    readonly retryAfterMs = 0,
  ) {
    super(`${code}: ${detail}${pointer === undefined ? "" : ` (at ${pointer})`}`);
  }
}

export interface ClientOptions {
  /** The bearer token. */
  token?: string;
  /** The time within which a call ends, all repetitions included; 30 s by default. */
  deadlineMs?: number;
  /** The bound of the first pause between two attempts, which then doubles; 100 ms by default. */
  backoffMs?: number;
}

interface Call {
  method: "POST" | "DELETE";
  path: string;
  body?: string;
  requestId: string;
}

const RETRIED = new Set([429, 502, 503, 504]);
const PAUSE_MAX_MS = 5_000;

/** A client of a gateway at a URL, such as `http://localhost:8080`. It repeats calls that got no answer. */
export class GatewayClient {
  readonly #url: string;
  readonly #token: string | undefined;
  readonly #deadlineMs: number;
  readonly #backoffMs: number;

  constructor(url: string, { token, deadlineMs = 30_000, backoffMs = 100 }: ClientOptions = {}) {
    if (!/^https?:\/\/./.test(url)) throw new TypeError("give the URL of a gateway, such as http://localhost:8080");
    this.#url = url.replace(/\/+$/, "");
    this.#token = token;
    this.#deadlineMs = deadlineMs;
    this.#backoffMs = backoffMs;
  }

  /** Returns the composed context. */
  async compose(request: ComposeRequest): Promise<ContextComposed> {
    return (await this.#send(composeCall(request, ""))) as ContextComposed;
  }

  /** Returns the composed context, and the record of the decision. */
  async composeWithDecision(
    request: ComposeRequest,
  ): Promise<{ composed: ContextComposed; decision: ContextDecision }> {
    const answer = await this.#send(composeCall(request, "?decision=true"));
    return answer as { composed: ContextComposed; decision: ContextDecision };
  }

  /** Returns the composed context as the body of a provider's request. */
  async composeAs(format: Format, request: ComposeRequest): Promise<Shaped> {
    return (await this.#send(composeCall(request, `?format=${format}`))) as Shaped;
  }

  /** Returns a provider's body, or its list of messages, fitted to a limit of tokens. */
  async fit<Body extends object>(body: Body, call: FitCall): Promise<Fitted<Body>> {
    const requestId = call.options?.request_id ?? crypto.randomUUID();
    const sent = JSON.stringify({ ...call, body, options: { ...call.options, request_id: requestId } });
    return (await this.#send({ method: "POST", path: "/v1/fit", body: sent, requestId })) as Fitted<Body>;
  }

  /** Publishes an artifact for later requests of its session. */
  async publish(artifact: PublishedArtifact): Promise<void> {
    const event = {
      ...artifact,
      type: artifact.type ?? "context-artifact",
      published_at: artifact.published_at ?? new Date().toISOString(),
    };
    await this.#send({ method: "POST", path: "/v1/artifacts", body: JSON.stringify(event), requestId: "" });
  }

  /** Takes a published artifact back. */
  async retract(id: string, from: { session_id: string; source: string; tenant?: string }): Promise<void> {
    // Clients and proxies change other ids in a path, such as `..`.
    const path = /^[\w~-][\w.~-]*$/.test(id)
      ? `/v1/artifacts/${id}?${new URLSearchParams(from)}`
      : `/v1/artifacts?${new URLSearchParams({ id, ...from })}`;
    await this.#send({ method: "DELETE", path, requestId: "" });
  }

  /** Returns the answer of a call, which it repeats within the deadline. */
  async #send(call: Call): Promise<unknown> {
    const end = performance.now() + this.#deadlineMs;
    for (let bound = this.#backoffMs; ; bound = Math.min(2 * bound, PAUSE_MAX_MS)) {
      try {
        return await this.#attempt(call, Math.max(0, end - performance.now()));
      } catch (error) {
        if (!(error instanceof GatewayError && error.temporary)) throw error;
        const pause = error.retryAfterMs + Math.random() * bound;
        if (performance.now() + pause >= end) throw error;
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
    }
  }

  async #attempt(call: Call, leftMs: number): Promise<unknown> {
    const headers: Record<string, string> = { Prefer: `wait=${Math.max(1, Math.floor(leftMs / 1000))}` };
    if (call.body !== undefined) headers["Content-Type"] = "application/json";
    if (this.#token !== undefined) headers["Authorization"] = `Bearer ${this.#token}`;
    let response: Response, text: string;
    try {
      response = await fetch(this.#url + call.path, {
        method: call.method,
        headers,
        body: call.body ?? null,
        redirect: "manual",
        signal: AbortSignal.timeout(Math.ceil(leftMs)),
      });
      text = await response.text();
    } catch (error) {
      const kind = error instanceof Error ? error.name : "error";
      const detail = `the gateway did not respond (${kind}); repeat the call with the same request_id`;
      throw new GatewayError("no_response", detail, true, call.requestId);
    }
    if (!response.ok) throw errorOf(response, text, call.requestId);
    return text === "" ? undefined : parsed(text) ?? fail(response, call.requestId);
  }
}

function composeCall(request: ComposeRequest, query: string): Call {
  const event = {
    ...request,
    type: request.type ?? "context-request",
    request_id: request.request_id ?? crypto.randomUUID(), // also if it is there, but undefined
    requested_at: request.requested_at ?? new Date().toISOString(),
  };
  const path = `/v1/compose${query}`;
  return { method: "POST", path, body: JSON.stringify(event), requestId: event.request_id };
}

function errorOf(response: Response, text: string, requestId: string): GatewayError {
  const { code, detail, pointer, request_id } = (parsed(text) ?? {}) as Record<string, unknown>;
  if (typeof code !== "string") return unexpected(response, requestId);
  const seconds = /^\d+$/.exec(response.headers.get("Retry-After") ?? "")?.[0] ?? "0";
  return new GatewayError(
    code,
    String(detail),
    RETRIED.has(response.status),
    typeof request_id === "string" ? request_id : requestId,
    response.status,
    typeof pointer === "string" ? pointer : undefined,
    Number(seconds) * 1000,
  );
}

function unexpected(response: Response, requestId: string): GatewayError {
  const detail = `status ${response.status} without a body of a gateway; check the URL, and proxies before the gateway`;
  return new GatewayError("unexpected_response", detail, RETRIED.has(response.status), requestId, response.status);
}

function fail(response: Response, requestId: string): never {
  throw unexpected(response, requestId);
}

/** Returns the object of a text of JSON; undefined if it is none. */
function parsed(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}
