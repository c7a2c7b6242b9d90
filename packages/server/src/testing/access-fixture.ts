// A whole access stack on a store in memory, called the way the HTTP layer calls it: permission first, then
// parameters, then the handler, then the wire.
import { isAppError } from "@gpve/contracts/errors.ts";
import type { HostAccounts } from "@gpve/domain/access/ports.ts";
import {
  actorOf,
  type Actor,
  type RequestContext,
  type RequestLogger,
} from "@gpve/domain/request/context.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { methodByKey } from "@gpve/domain/schema/method-table.ts";
import { toWire } from "@gpve/domain/schema/to-wire.ts";
import { requireValidParams } from "@gpve/domain/schema/validate-params.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { openRecords } from "@gpve/store/records/records.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { type Access, createAccess } from "../application/access/access.ts";
import { type BootstrapDeps, bootstrapAccess } from "../application/access/bootstrap.ts";
import { Pools } from "../application/pool/pools.ts";
import { createPasswordHasher } from "../infrastructure/secrets/password-hasher.ts";
import { createSealer } from "../infrastructure/secrets/sealer.ts";
import { tokenSecrets } from "../infrastructure/secrets/token-secrets.ts";
import { TicketKeys, generatePem } from "../infrastructure/tickets/ticket-keys.ts";
import { type Tickets, openTickets } from "../infrastructure/tickets/tickets.ts";
import { createAccessHandlers } from "../presentation/http/access/access-handlers.ts";
import { createPoolHandlers } from "../presentation/http/pools/pool-handlers.ts";
import { FakeRealmLogin } from "./fake-realm-login.ts";
import { toFailure } from "../presentation/http/pve/failure.ts";

export const ROOT_PASSWORD = "correct horse battery";

export interface LogLine {
  readonly level: string;
  readonly fields: Readonly<Record<string, unknown>>;
  readonly message: string;
}

export interface AccessFixture extends AsyncDisposable {
  readonly access: Access;
  readonly pools: Pools;
  readonly handlers: PveHandlers;
  readonly records: Records;
  readonly tickets: Tickets;
  readonly clock: FakeClock;
  readonly bootstrapDeps: BootstrapDeps;
  /** Passwords of the host's accounts. */
  readonly hostPasswords: Map<string, string>;
  /** Of realms of type `twofold`. */
  readonly twofoldRealm: FakeRealmLogin;
  /** Rows of /cluster/resources by "vm/100" or "storage/local". */
  readonly resources: Map<string, Record<string, unknown>>;
  readonly log: LogLine[];
  /** The data of a success, or "<status> <message>" with parameter errors as JSON after it. */
  call(
    who: string | undefined,
    route: string,
    params?: Record<string, unknown>,
    clientAddress?: string,
  ): Promise<unknown>;
}

/** Made once: a new RSA key for every test would take most of their time. */
let pem: Promise<string> | undefined;

export async function openAccessFixture(): Promise<AccessFixture> {
  const clock = new FakeClock(Date.UTC(2026, 5, 1));
  const store = openSqliteStore({ path: ":memory:" });
  const log: LogLine[] = [];
  const logger = recordingLogger(log);
  const records = await openRecords(store, { prefix: "/gpve/", log: logger });
  const sealer = createSealer(new Uint8Array(32).fill(7));
  const hasher = createPasswordHasher({ memoryKiB: 64, passes: 1, parallelism: 1 });
  const keys = new TicketKeys({ records, sealer, clock, newKey: () => (pem ??= generatePem()) });
  const tickets = await openTickets({ keys, clock });
  const hostPasswords = new Map<string, string>();
  const twofoldRealm = new FakeRealmLogin();
  const access = createAccess({
    records,
    clock,
    hasher,
    sealer,
    secrets: tokenSecrets,
    tickets,
    host: fakeHost(hostPasswords),
    otherRealms: { twofold: twofoldRealm },
    clusterName: () => "testing",
  });
  const resources = new Map<string, Record<string, unknown>>();
  const pools = new Pools({
    requireRoom: () => undefined,
    records,
    directory: access.directory,
    resourceRow: (kind, id) => resources.get(`${kind}/${id}`),
  });
  const handlers: PveHandlers = { ...createAccessHandlers(access), ...createPoolHandlers({ pools }) };
  const bootstrapDeps = { records, hasher, sealer, secrets: tokenSecrets };
  await bootstrapAccess(bootstrapDeps, { rootPassword: ROOT_PASSWORD });

  const run = async (
    who: string | undefined,
    route: string,
    params: Record<string, unknown>,
    clientAddress: string,
  ) => {
    const method = methodByKey(route);
    const handler = handlers[route as keyof PveHandlers] as
      | ((params: unknown, ctx: RequestContext) => unknown)
      | undefined;
    if (method === undefined || handler === undefined) throw new Error(`no handler for ${route}`);
    const actor = actorNamed(who);
    const view = access.accessOf(actor);
    access.decide(route, params, { actor, access: view });
    const valid = requireValidParams(method, params, { source: "form" });
    const ctx: RequestContext = {
      requestId: "test",
      actor,
      access: view,
      signal: new AbortController().signal,
      log: logger,
      clientAddress,
    };
    return toWire(method.returns, await handler(valid, ctx));
  };

  return {
    access,
    pools,
    handlers,
    records,
    tickets,
    clock,
    bootstrapDeps,
    hostPasswords,
    twofoldRealm,
    resources,
    log,
    call: async (who, route, params = {}, clientAddress = "192.0.2.1") => {
      try {
        return await run(who, route, params, clientAddress);
      } catch (err) {
        if (!isAppError(err)) throw err;
        const { status, message, errors } = toFailure(err);
        return `${status} ${message}${errors === undefined ? "" : ` ${JSON.stringify(errors)}`}`;
      }
    },
    [Symbol.asyncDispose]: async () => {
      await records.close();
      await store.close();
    },
  };
}

export function actorNamed(authid: string | undefined): Actor | undefined {
  return authid === undefined ? undefined : actorOf(authid);
}

function fakeHost(passwords: Map<string, string>): HostAccounts {
  return {
    authenticate: (user, password) =>
      Promise.resolve(passwords.get(user) === password ? { ok: true } : { ok: false, reason: "PAM: no" }),
    setPassword: (user, password) => {
      passwords.set(user, password);
      return Promise.resolve();
    },
  };
}

function recordingLogger(lines: LogLine[]): RequestLogger {
  const at =
    (level: string) =>
    (fields: Readonly<Record<string, unknown>>, message: string): void => {
      lines.push({ level, fields, message });
    };
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}
