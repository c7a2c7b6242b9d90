// Tens of thousands of bad requests (a million in the long run) against a real `gpve up`, over raw TLS sockets. Afterwards it must be as healthy as
// before: alive, quick, quiet, flat in memory, and nothing half-written.
//
//   GPVE_FUZZ_REQUESTS=1000000 GPVE_FUZZ_SEED=7 npx vitest run --config vitest.integration.config.ts fuzz-http
import { readFileSync } from "node:fs";
import { connect as connectTcp, type Socket } from "node:net";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { verifySqlite } from "@gpve/store/backup/verify-sqlite.ts";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Random } from "../support/fuzz/random.ts";
import { RawConnection, type Endpoint, type RawAnswer } from "../support/fuzz/raw-connection.ts";
import { fuzzRequest, type FuzzContext } from "../support/fuzz/requests.ts";
import { apiOf, loginHeaders, startGpve, type Gpve } from "../support/gpve.ts";
import { residentMiB } from "../support/process.ts";

const REQUESTS = Number(process.env["GPVE_FUZZ_REQUESTS"] ?? 10_000);
const SEED = Number(process.env["GPVE_FUZZ_SEED"] ?? Date.now() % 1_000_000);
const CONNECTIONS = 16;
/** Answered three seconds late by design, so they wait side by side. */
const REFUSED_LOGINS = 200;
const REFUSED_AT_ONCE = 150;
const SLOW_CLIENTS = 20;
const ANSWER_TIMEOUT_MS = 20_000;

let gpve: Gpve;
let endpoint: Endpoint;
let ctx: FuzzContext;

beforeAll(async () => {
  console.log(`fuzz: ${REQUESTS} requests, GPVE_FUZZ_SEED=${SEED}`);
  gpve = await startGpve({ args: ["--node", "fuzz"] });
  const url = new URL(gpve.credentials.url);
  endpoint = { host: "127.0.0.1", port: Number(url.port), ca: readFileSync(gpve.credentials.caFile) };
  const api = apiOf(gpve.credentials);
  await api("POST", "/access/users", { userid: "nobody@pve" });
  const token = await api("POST", "/access/users/nobody@pve/token/fuzz", { privsep: 0 });
  ctx = {
    admin: `Authorization: PVEAPIToken=${gpve.credentials.token}`,
    nobody: `Authorization: PVEAPIToken=nobody@pve!fuzz=${(token.data as { value: string }).value}`,
    node: "fuzz",
  };
});

afterAll(() => gpve?.stop());

interface Tally {
  sent: number;
  readonly statuses: Map<number, number>;
  readonly unanswered: Map<string, number>;
  readonly suspicious: string[];
}

test("stays healthy under a flood of bad requests", { timeout: 900_000 }, async () => {
  const tally: Tally = { sent: 0, statuses: new Map(), unanswered: new Map(), suspicious: [] };
  const memory: number[] = [];
  const slow = slowClients();
  const probing = probe(() => tally.sent >= REQUESTS);
  const refused = refusals();
  const randoms = Array.from({ length: CONNECTIONS }, (_, worker) => new Random(SEED * 1000 + worker));
  const flood = (until: number): Promise<unknown> =>
    Promise.all(
      randoms.map(async (random) => {
        const connection = new RawConnection(endpoint);
        while (tally.sent < until) await batch(connection, random, tally);
        connection.close();
      }),
    );
  // What the first half fills (compiled code, bounded caches) the second does not fill again. A moment without load lets the
  // collector run: in the middle of a flood, memory is wherever it happens to be.
  for (const until of [REQUESTS / 2, REQUESTS]) {
    await flood(until);
    await new Promise((done) => setTimeout(done, 8_000));
    memory.push(residentMiB(gpve.process.pid));
  }
  const [latencies, refusals401] = [await probing, await refused];
  console.log(`fuzz: answers by status ${JSON.stringify(Object.fromEntries(tally.statuses))}`);
  console.log(`fuzz: closed without an answer ${JSON.stringify(Object.fromEntries(tally.unanswered))}`);

  console.log(`fuzz: resident ${memory.map((mib) => Math.round(mib)).join(" -> ")} MiB`);
  console.log(`fuzz: a plain request in between took at most ${Math.round(Math.max(...latencies))} ms`);

  expect(tally.suspicious.slice(0, 10)).toEqual([]);
  expect(tally.unanswered.get("timeout") ?? 0).toBe(0);
  expect(refusals401.filter((status) => status !== 401)).toEqual([]);
  expect(latencies.toSorted((a, b) => a - b)[Math.floor(latencies.length / 2)]).toBeLessThan(1_000);
  expect((memory[1] ?? 0) - (memory[0] ?? 0)).toBeLessThan(96);
  expect(await slow).toBe(SLOW_CLIENTS);

  const api = apiOf(gpve.credentials);
  for (const path of ["/version", "/cluster/resources", "/access/users", "/nodes/fuzz/status"]) {
    expect({ path, status: (await api("GET", path)).status }).toEqual({ path, status: 200 });
  }
  expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  expect(troubleInLog()).toEqual([]);
});

test("has written nothing by halves", async () => {
  gpve.process.signal("SIGTERM");
  await gpve.process.exited;
  expect(verifySqlite(join(gpve.data, "server", "store.db")).problems).toEqual([]);
  gpve = await gpve.restart();
  expect((await apiOf(gpve.credentials)("GET", "/access/users")).status).toBe(200);
});

async function batch(connection: RawConnection, random: Random, tally: Tally): Promise<void> {
  const requests = Array.from({ length: random.chance(0.2) ? 1 + random.below(6) : 1 }, () =>
    fuzzRequest(random, ctx),
  );
  const bytes = Buffer.concat(requests.map((request) => request.bytes));
  const { answers, end } = await connection.exchange(bytes, requests.length, ANSWER_TIMEOUT_MS);
  // What was pipelined behind an answer that closes the connection was never read.
  tally.sent += Math.max(1, answers.length);
  for (const [at, answer] of answers.entries()) {
    tally.statuses.set(answer.status, (tally.statuses.get(answer.status) ?? 0) + 1);
    if (isSuspicious(answer)) {
      const request = requests[at]?.bytes.toString("latin1").slice(0, 300) ?? "";
      tally.suspicious.push(`${answer.status} ${answer.reason} ${answer.body.slice(0, 300)} <- ${request}`);
    }
  }
  if (answers.length === 0) {
    const first = requests[0]?.bytes.toString("latin1") ?? "";
    const isWatch = end === "timeout" && /[?&]watch=/.test(first);
    const why = isWatch ? "watch" : end;
    tally.unanswered.set(why, (tally.unanswered.get(why) ?? 0) + 1);
    if (why === "timeout") console.log(`fuzz: no answer to ${JSON.stringify(first.slice(0, 400))}`);
  }
}

/** PVE answers many things with 500 and a sentence. What only a broken program says is not among them. */
function isSuspicious({ status, reason, body }: RawAnswer): boolean {
  if (status === 0) return true;
  const text = `${reason} ${body.slice(0, 2_000)}`;
  const failed = status >= 500 || /"status":5\d\d/.test(body) || /"code":"internal/.test(body);
  return (
    failed &&
    /internal.error|TypeError|RangeError|ReferenceError|call stack|is not (?:a function|iterable|defined)|Cannot (?:read|convert|set|destructure)|undefined|\[object|ERR_|SQLITE|node:|file:\/\/|\bat .*\.ts:/i.test(
      text,
    )
  );
}

/** A plain request now and then, from someone who did nothing wrong. */
async function probe(done: () => boolean): Promise<number[]> {
  const api = apiOf(gpve.credentials);
  const took: number[] = [];
  do {
    const start = performance.now();
    expect((await api("GET", "/version")).status).toBe(200);
    took.push(performance.now() - start);
    await new Promise((next) => setTimeout(next, 500));
  } while (!done());
  return took;
}

/** Forged, garbled and expired credentials, and writes without or with someone else's CSRF token. */
async function refusals(): Promise<number[]> {
  const good = await loginHeaders(gpve.credentials);
  const ticket = decodeURIComponent((good["Cookie"] ?? "").replace("PVEAuthCookie=", ""));
  const [secret = ""] = gpve.credentials.token.split("=").slice(1);
  const bad = [
    ["GET", "Cookie: PVEAuthCookie=PVE:root@pam:00000000::AAAA"],
    ["GET", `Cookie: PVEAuthCookie=${encodeURIComponent(ticket.replace("root@pam", "joe@pve"))}`],
    ["GET", `Cookie: PVEAuthCookie=${encodeURIComponent(`${ticket.slice(0, -4)}AAAA`)}`],
    ["GET", "Cookie: PVEAuthCookie=%ff%00%"],
    ["GET", `Authorization: PVEAPIToken=root@pam!up=${secret.replace(/^./, "!")}`],
    ["GET", "Authorization: PVEAPIToken=root@pam!nope=x"],
    ["GET", "Authorization: PVEAPIToken="],
    ["GET", "Authorization: Bearer x"],
    ["GET", "X: y"],
    ["POST", `Cookie: ${(good["Cookie"] ?? "").replace("PVEAuthCookie=", "PVEAuthCookie=")}`],
    ["POST", `Cookie: ${good["Cookie"] ?? ""}\r\nCSRFPreventionToken: 00000000:AAAA`],
  ] as const;
  const statuses: number[] = [];
  const random = new Random(SEED + 1);
  let left = REFUSED_LOGINS;
  await Promise.all(
    Array.from({ length: REFUSED_AT_ONCE }, async () => {
      const connection = new RawConnection(endpoint);
      while (left-- > 0) {
        const [verb, header] = random.pick(bad);
        const line = verb === "GET" ? "GET /api2/json/access/users" : "POST /api2/json/pools";
        const request = `${line} HTTP/1.1\r\nHost: x\r\n${header}\r\n\r\n`;
        const { answers } = await connection.exchange(Buffer.from(request), 1, 60_000);
        statuses.push(answers[0]?.status ?? 0);
      }
      connection.close();
    }),
  );
  return statuses;
}

/** Says little and never finishes: resolves with how many of them the server ended by itself. */
async function slowClients(): Promise<number> {
  const { host, port, ca } = endpoint;
  const ended = Array.from({ length: SLOW_CLIENTS }, (_, at) => {
    const half = at % 2 === 0;
    const socket: Socket = half ? connectTcp(port, host) : connectTls({ host, port, ca });
    const text = "GET /api2/json/version HTTP/1.1\r\nX-Slow: ";
    let sent = 0;
    const drip = setInterval(() => {
      if (half) socket.write(Buffer.from([22, 3, 1][sent] === undefined ? [1] : [[22, 3, 1][sent] ?? 1]));
      else socket.write(text[sent] ?? "x");
      sent++;
    }, 500);
    return new Promise<boolean>((done) => {
      const stop = (byServer: boolean): void => {
        clearInterval(drip);
        clearTimeout(limit);
        socket.destroy();
        done(byServer);
      };
      const limit = setTimeout(() => stop(false), 60_000);
      socket.on("error", () => undefined);
      socket.on("end", () => stop(true));
      socket.on("close", () => stop(true));
    });
  });
  return (await Promise.all(ended)).filter(Boolean).length;
}

/** Lines that say that a program was surprised. */
function troubleInLog(): string[] {
  return [join(gpve.data, "log", "gpve.jsonl")]
    .flatMap((file) => readFileSync(file, "utf8").split("\n"))
    .filter((line) => /handler failed|outside its handler|unhandled|uncaught|request failed/i.test(line))
    .slice(0, 10);
}
