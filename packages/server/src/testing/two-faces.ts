// Both faces of a server over one real authoriser, one set of records and one agent with its real methods. Work that an
// agent would start is accepted and not done: what is of interest is who may ask for it.
import { straight } from "./node-calls.ts";
import { plainItems } from "./plain-items.ts";
import { once } from "node:events";
import { Agent, createServer, request, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { createAgent } from "@gpve/agent/application/agent.ts";
import { createBackupExtensions } from "@gpve/agent/presentation/pve/backup/backup-extensions.ts";
import { createBackupHandlers } from "@gpve/agent/presentation/pve/backup/backup-handlers.ts";
import { createTaskHandlers } from "@gpve/agent/presentation/pve/node/task-handlers.ts";
import { createVmExtensions } from "@gpve/agent/presentation/pve/vm/vm-extensions.ts";
import { createVmHandlers } from "@gpve/agent/presentation/pve/vm/vm-handlers.ts";
import { VmWorld } from "@gpve/agent/testing/vm-world.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { PRIVILEGES } from "@gpve/domain/access/builtin-roles.ts";
import { guestCollection, guestRecord } from "@gpve/domain/guest/guest-record.ts";
import { decodeReport } from "@gpve/domain/node/decode-report.ts";
import type { RequestLogger } from "@gpve/domain/request/context.ts";
import { methodByKey } from "@gpve/domain/schema/method-table.ts";
import { requireValidParams } from "@gpve/domain/schema/validate-params.ts";
import type { Task } from "@gpve/domain/task/task.ts";
import { storageCollection } from "@gpve/domain/storage/definition.ts";
import { taskRecordId, taskRecords } from "@gpve/domain/task/task-record.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import type { Records, Tx } from "@gpve/store/records/port.ts";
import {
  aclDef,
  aclId,
  groupsDef,
  poolsDef,
  rolesDef,
  tokensDef,
  usersDef,
} from "@gpve/domain/access/collections.ts";
import { ownedStore } from "../application/fresh-reads.ts";
import { MemoryNodeBoard } from "../application/node/board.ts";
import { NodeCalls } from "../application/node/call-agent.ts";
import type { Membership } from "../application/node/membership.ts";
import { nodeRecords } from "../application/node/collections.ts";
import { StorageDefinitions } from "../application/storage/storage-definitions.ts";
import { storageChecks, storageWork } from "../application/storage/storage-work.ts";
import { applyObjectsOperation } from "../application/v1/apply-objects.ts";
import { eventCollection } from "../application/v1/events.ts";
import { metaCollection } from "../application/v1/object-meta.ts";
import { createKindAdapters } from "../application/v1/kind-adapters.ts";
import { composeQuotas } from "../compose-quota.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { composeGuestReads } from "../compose-guest-reads.ts";
import { composePveHandlers } from "../compose-pve-handlers.ts";
import { composeV1, type V1Parts } from "../compose-v1.ts";
import { LocalAgent } from "../infrastructure/agent-client/local-agent.ts";
import { createConsoleHandlers } from "../presentation/http/console/console-handlers.ts";
import { createEntry } from "../presentation/http/entry.ts";
import { createPveApi } from "../presentation/http/pve/pve-api.ts";
import { actorNamed, openAccessFixture } from "./access-fixture.ts";
import { noPlaces, quietKinds } from "./quiet-kinds.ts";
import { joinedNode } from "./joined-node.ts";

export const UPID = "UPID:n1:00000001:00000002:65000000:qmstart:100:root@pam:";
const EVENT = "01J00000000000000000000000";
const CONF = [
  "agent: 1",
  "boot: order=scsi0",
  "ciuser: joe",
  "cores: 2",
  "description: web",
  "ide2: none,media=cdrom",
  "memory: 64",
  "net0: virtio=BC:24:11:00:00:01,bridge=vmbr0",
  "onboot: 1",
  "scsi0: local:100/vm-100-disk-0.qcow2,size=1M",
  "tags: a",
  "vga: std",
  "",
].join("\n");

/** A role with every privilege there is. */
export const EVERYTHING = "everything";

export interface Answer {
  readonly status: number;
  readonly text: string;
}

export interface TwoFaces {
  readonly records: Records;
  ask(as: string, method: string, path: string, body?: unknown): Promise<Answer>;
  /** How the task of an apply ended. */
  ended(task: string): Promise<string>;
  /** Puts everything back that requests may have changed. */
  reset(): Promise<void>;
  addUser(userid: string, privileges: readonly string[]): Promise<void>;
  /** A user with permissions where they are given, or a token with ones of its own. */
  addSubject(subject: TestSubject): Promise<void>;
  holds(authid: string, path: string, privilege: string): boolean;
  close(): Promise<void>;
}

export interface Grant {
  readonly path: string;
  readonly role: string;
  readonly propagate: boolean;
  /** To a group that the user is in, instead of the user. */
  readonly group?: string;
}

export interface TestSubject {
  /** "joe@pve", or "joe@pve!ci" of a user that is there. */
  readonly authid: string;
  readonly grants: readonly Grant[];
  readonly privsep?: boolean;
}

class Node extends VmWorld {
  constructor(records: Records) {
    super(records);
  }
}

export async function openTwoFaces(): Promise<TwoFaces> {
  const fix = await openAccessFixture();
  const { records, access, clock } = fix;
  const world = new Node(records);
  const { agent, engine: agentEngine } = agentOf(world, fix.access.accessOf);
  const board = new MemoryNodeBoard({ clock, nodes: records.collection(nodeRecords) });
  const directory = { connection: (node: string) => (node === "n1" ? new LocalAgent(agent) : undefined) };
  const quotas = composeQuotas({ records, board, clock, log: silentLogger, owner: "n1" });
  const { gate } = quotas;
  const calls = new NodeCalls({
    agents: () => directory,
    localNode: "n1",
    decide: access.decide,
    ...straight,
    gate,
  });
  const { engine } = testEngine();
  const storages = new StorageDefinitions(records);
  await storages.ensureDefault("/nowhere/local");
  const adapters = createKindAdapters({
    board,
    ...quietKinds,
    quotaUsage: (quota) => quotas.view.usage(quota),
    ownNode: () => undefined,
    storageWork: storageWork(storages, storageChecks({ calls, board, localNode: "n1" })),
    vmActions: {
      callNode: async (node, route, params, ctx) => (await calls.call(node, route, params, ctx)).data,
      withdraw: async () => undefined,
      taskEnd: async () => undefined,
      reported: async () => undefined,
      placement: { guests: noPlaces, rules: { set: async () => undefined } },
    },
  });
  engine.register(
    applyObjectsOperation({
      records,
      clock,
      adapters,
      accessOf: access.accessOf,
      log: quiet,
      seals: plainItems,
    }),
  );
  await engine.start();
  await agentEngine.start();
  let requests = 0;
  const shared = {
    authenticate: ({ authorization }: { readonly authorization: string | undefined }) =>
      Promise.resolve({ actor: actorNamed(authorization?.replace("Test ", "")), via: "ticket" as const }),
    accessOf: access.accessOf,
    audit: async () => undefined,
    observe: () => undefined,
    trace: <T>(_name: string, _attributes: object, run: (parent: undefined) => Promise<T>) => run(undefined),
    log: quiet,
    newRequestId: () => `r${++requests}`,
    delay: async () => undefined,
  };
  const reach = { calls, localNode: "n1", tickets: fix.tickets, certificate: () => "CERT" };
  const parts = {
    records,
    access,
    board,
    storages,
    reads: ownedStore,
    nodeName: "n1",
    clusterName: undefined,
    ha: { effectsOf: () => ({ together: [], blocking: [] }) },
    membership: {} as Membership,
    quotas: quotas.ledger,
  };
  const pve = createPveApi({
    ...shared,
    decide: access.decide,
    calls,
    localNode: "n1",
    knowsNode: (node) => node === "n1",
    uploads: { open: () => Promise.reject(new Error("no uploads here")) },
    fresh: async () => undefined,
    placement: noPlaces,
    ageSeconds: () => undefined,
    ready: () => undefined,
    handlers: {
      ...composePveHandlers({
        ...parts,
        ...composeGuestReads(parts),
        ...reach,
        caPem: () => "CA",
        shown: () => ({ certPem: "", fingerprint: "AA" }),
      }),
      ...createConsoleHandlers(reach),
    },
  });
  const stop = new AbortController();
  const v1 = composeV1({
    shared,
    ...quietKinds,
    records,
    clock,
    engine,
    board,
    calls,
    adapters,
    seals: plainItems,
    ageSeconds: () => undefined,
    shutdown: stop.signal,
    membership: { invite: async () => ({ token: "t", expiresAt: 1 }) },
    pki: { caFingerprint: "AA" },
    audit: { list: async function* () {}, verify: async () => ({ ok: true }) },
    store: {},
  } as unknown as V1Parts);
  const server = createServer(createEntry({ isProxy: () => false, pve, v1, log: quiet }));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const line = new Agent({ keepAlive: true });
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const reset = () => records.transact(putEverything);
  await reset();
  const guests = [{ vmid: 102, type: "qemu", status: "running" }];
  board.accept(decodeReport({ node: "n1", at: clock.now(), usage: {}, guests, storages: [] }).report);
  return {
    records,
    reset,
    ask: async (as, method, path, body) => {
      const payload = body === undefined ? undefined : JSON.stringify(body);
      const headers = {
        authorization: `Test ${as}`,
        ...(payload === undefined
          ? {}
          : { "content-type": "application/json", "content-length": Buffer.byteLength(payload) }),
      };
      // Tens of thousands are asked: `fetch` would take longer than the answers.
      const asked = request(base + path, { method, headers, agent: line });
      asked.end(payload);
      const [response] = (await once(asked, "response")) as [IncomingMessage];
      return { status: response.statusCode ?? 0, text: await textOf(response, path.includes("watch=1")) };
    },
    ended: async (task) => (await engine.wait(task)).exitStatus ?? "",
    addUser: (userid, privileges) =>
      records.transact((tx) => {
        const roleid = userid.replace("@pve", "");
        tx.put(rolesDef, roleid, { roleid, privileges: [...privileges] });
        tx.put(usersDef, userid, { userid, enable: true, expire: 0, groups: [] });
        const entry = { path: "/", type: "user", ugid: userid, roleid, propagate: true } as const;
        tx.put(aclDef, aclId(entry), entry);
      }),
    addSubject: (subject) => records.transact((tx) => putSubject(tx, subject)),
    holds: (authid, path, privilege) => access.accessOf(actorNamed(authid)).has(path, [privilege]),
    close: async () => {
      stop.abort(new Error("the test ends"));
      v1.close();
      quotas.stop();
      line.destroy();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await engine.stop();
      await agentEngine.stop();
      world.remove();
      await fix[Symbol.asyncDispose]();
    },
  };
}

function putSubject(tx: Tx, { authid, grants, privsep }: TestSubject): void {
  const [userid = "", tokenid] = authid.split("!");
  const groups = [...new Set(grants.flatMap(({ group }) => group ?? []))];
  if (tokenid === undefined) tx.put(usersDef, userid, { userid, enable: true, expire: 0, groups });
  else tx.put(tokensDef, authid, { userid, tokenid, privsep: privsep ?? true, expire: 0 });
  for (const groupid of groups) tx.put(groupsDef, groupid, { groupid });
  tx.put(rolesDef, EVERYTHING, { roleid: EVERYTHING, privileges: [...PRIVILEGES].toSorted() });
  for (const { path, role, propagate, group } of grants) {
    const own = tokenid === undefined ? ("user" as const) : ("token" as const);
    const subject =
      group === undefined ? { type: own, ugid: authid } : { type: "group" as const, ugid: group };
    const entry = { path, ...subject, roleid: role, propagate };
    tx.put(aclDef, aclId(entry), entry);
  }
}

/** A watch shows everything first, then says so. */
/** Of what goes on for ever, as much as is there at first. */
async function textOf(response: IncomingMessage, isWatch: boolean): Promise<string> {
  let text = "";
  response.setEncoding("utf8");
  for await (const chunk of response) {
    text += String(chunk);
    if (isWatch && text.includes("BOOKMARK")) break;
  }
  return text;
}

/** What is as it should be is not written: permissions are worked out anew after every write. */
function sparing(tx: Tx): Tx {
  return {
    get: (collection, id) => tx.get(collection, id),
    has: (collection, id) => tx.has(collection, id),
    list: (collection) => tx.list(collection),
    put: (collection, id, value) => {
      const found = tx.get(collection, id)?.value;
      if (JSON.stringify(found) !== JSON.stringify(value)) tx.put(collection, id, value);
    },
    delete: (collection, id) => {
      if (tx.get(collection, id) !== undefined) tx.delete(collection, id);
    },
  };
}

function putEverything(outer: Tx): void {
  const tx = sparing(outer);
  for (const vmid of [100, 102])
    tx.put(guestCollection, String(vmid), guestRecord({ vmid, type: "qemu", node: "n1", conf: CONF }));
  tx.delete(guestCollection, "101");
  tx.put(nodeRecords, "n1", joinedNode("n1"));
  tx.put(poolsDef, "t1", { poolid: "t1", vms: [], storage: [] });
  tx.delete(poolsDef, "t2");
  tx.put(poolsDef, "p1", { poolid: "p1", vms: [100], storage: ["local"] });
  const options = { path: "/nowhere/s1", content: "iso" };
  tx.put(storageCollection, "s1", { storage: "s1", type: "dir", options });
  tx.delete(storageCollection, "s2");
  tx.put(groupsDef, "g1", { groupid: "g1" });
  tx.put(usersDef, "u1@pve", { userid: "u1@pve", enable: true, expire: 0, groups: ["g1"] });
  tx.delete(usersDef, "u2@pve");
  tx.put(rolesDef, "r1", { roleid: "r1", privileges: ["VM.Audit"] });
  tx.delete(rolesDef, "r2");
  const entry = { type: "user", ugid: "u1@pve", roleid: "r1", propagate: true } as const;
  tx.put(aclDef, aclId({ ...entry, path: "/vms/100" }), { ...entry, path: "/vms/100" });
  tx.delete(aclDef, aclId({ ...entry, path: "/vms/102" }));
  for (const { id } of tx.list(metaCollection)) tx.delete(metaCollection, id);
  tx.put(taskRecords, taskRecordId(UPID) ?? "", { upid: UPID, endtime: 2, exitstatus: "OK" });
  tx.put(eventCollection, EVENT, {
    type: "Normal",
    reason: "Started",
    message: "m",
    object: { kind: "Node", name: "n1" },
    node: "n1",
    count: 1,
    firstAt: 1,
    lastAt: 1,
  });
}

function agentOf(world: VmWorld, accessOf: Parameters<typeof createAgent>[0]["accessOf"]) {
  const { engine } = testEngine();
  const accepted = async ({ type, subject, actor }: { type: string; subject?: string; actor: string }) => ({
    upid: `UPID:n1:00000001:00000002:65000000:${type}:${subject ?? ""}:${actor}:`,
  });
  // Everything but the start of work, and work on the spot, is the real engine's.
  const idle = new Proxy(engine, {
    get: (target, name) => {
      if (name === "submit") return accepted;
      if (name === "withResource") return async () => undefined;
      const value: unknown = Reflect.get(target, name);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  }) as OperationEngine;
  const { host } = world;
  const { configs, storages, clock } = host;
  const vzdumpPorts = { configs, storages, clock, clusterName: () => undefined };
  const task = {
    upid: UPID,
    node: "n1",
    type: "qmstart",
    id: "100",
    authid: "root@pam",
    starttime: 1,
    endtime: 2,
    exitstatus: "OK",
  };
  const done = () => "UPID:x";
  const archivedConfig = () => Promise.reject(new Error("nothing was ever saved"));
  const agent = createAgent({
    node: "n1",
    handlers: [
      createVmHandlers({
        host,
        engine: idle,
        sampled: () => undefined,
        imageStorages: () => ["local"],
        defaults: () => ({}),
        archivedConfig,
      }),
      createBackupHandlers({
        host: vzdumpPorts,
        tools: {} as never,
        engine: idle,
        poolMembers: () => undefined,
        settings: () => ({}),
      }),
      createTaskHandlers({
        tasks: {
          get: () => task as unknown as Task,
          list: () => [task as unknown as Task],
          stop: async () => undefined,
        },
        logs: { read: async () => ({ rows: [{ n: 1, t: "x" }], total: 1 }) } as never,
      }),
      // What these need is all declared; what they would do is not of interest here.
      {
        "GET /nodes/{node}/status": () => ({}),
        "PUT /nodes/{node}/dns": () => null,
        "GET /nodes/{node}/storage/{storage}/content": () => [],
        "POST /nodes/{node}/storage/{storage}/download-url": () => "UPID:x",
      },
    ],
    extensions: {
      ...createVmExtensions({
        host,
        engine: idle,
        imageStorages: () => ["local"],
        defaults: () => ({}),
        archivedConfig,
      }),
      ...createBackupExtensions({ host: vzdumpPorts, engine: idle }),
      "POST /gpve/nodes/{node}/probe": done,
      "GET /gpve/nodes/{node}/images": () => [],
      "POST /gpve/nodes/{node}/images/{image}/pull": done,
      "POST /gpve/nodes/{node}/images/{image}/build": done,
      "GET /gpve/nodes/{node}/vms/{vmid}/screenshot": () => ({ png: "" }),
      "GET /gpve/nodes/{node}/vms/{vmid}/log": () => ({ lines: [] }),
      "POST /gpve/nodes/{node}/vms/{vmid}/consoles": () => ({ port: 5900, upid: "UPID:x", password: "p" }),
    },
    validate: (route, params, source) => {
      const method = methodByKey(route);
      if (method === undefined) throw new AppError("internal.error", `no such route: ${route}`);
      return requireValidParams(method, params, { source });
    },
    accessOf,
    logFor: () => quiet,
  });
  return { agent, engine };
}

const quiet: RequestLogger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};
