import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { guestCollection, guestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { NodeView } from "@gpve/domain/node/runtime.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { nodeRecords } from "../../application/node/collections.ts";
import { startV1 } from "./testing/v1-server.ts";
import type { V1TestServer } from "./testing/v1-server.ts";
import { joinedNode } from "../../testing/joined-node.ts";

interface Received {
  readonly event: string;
  readonly id: string;
  readonly data: { metadata: { name: string; labels?: object }; code?: string; status?: unknown };
}

/** Reads server-sent events one by one. */
class EventReader {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #decoder = new TextDecoder();
  readonly #abort: AbortController;
  #text = "";
  comments = 0;

  constructor(response: Response, abort: AbortController) {
    if (response.body === null) throw new Error("no body");
    this.#reader = response.body.getReader() as ReadableStreamDefaultReader<Uint8Array>;
    this.#abort = abort;
  }

  /** undefined = the stream has ended. */
  async next(): Promise<Received | undefined> {
    for (;;) {
      const end = this.#text.indexOf("\n\n");
      if (end >= 0) {
        const block = this.#text.slice(0, end);
        this.#text = this.#text.slice(end + 2);
        if (block.startsWith(":")) {
          this.comments++;
          continue;
        }
        const fields = new Map(
          block
            .split("\n")
            .map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]),
        );
        return {
          event: fields.get("event") ?? "",
          id: fields.get("id") ?? "",
          data: JSON.parse(fields.get("data") ?? "null") as Received["data"],
        };
      }
      const { done, value } = await this.#reader.read();
      if (done) return undefined;
      this.#text += this.#decoder.decode(value, { stream: true });
    }
  }

  async take(count: number): Promise<string[]> {
    const texts: string[] = [];
    while (texts.length < count) {
      const event = await this.next();
      if (event === undefined) break;
      if (event.event !== "BOOKMARK") texts.push(`${event.event} ${event.data.metadata.name}`);
    }
    return texts;
  }

  close(): void {
    this.#abort.abort();
  }
}

const tenant = (name: string, labels: object = {}) => ({
  apiVersion: "gpve.io/v1",
  kind: "Tenant",
  metadata: { name, labels },
  spec: {},
});

describe("a watch", () => {
  let v1: V1TestServer;
  let clock: FakeClock;
  const open: EventReader[] = [];
  beforeEach(async () => {
    clock = new FakeClock();
    v1 = await startV1({ clock });
  });
  afterEach(async () => {
    for (const reader of open.splice(0)) reader.close();
    await v1.close();
  });

  async function watch(
    path: string,
    as = "root@pam",
    headers: Record<string, string> = {},
    url = v1.url,
  ): Promise<EventReader> {
    const abort = new AbortController();
    const response = await fetch(`${url}/api/v1${path}`, {
      headers: { authorization: `Test ${as}`, ...headers },
      signal: abort.signal,
    });
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("text/event-stream");
    const reader = new EventReader(response, abort);
    open.push(reader);
    return reader;
  }

  it("tells all objects first, then every change, and is resumed without loss", async () => {
    await v1.ask("POST", "/tenants", { body: tenant("a") });
    const reader = await watch("/tenants?watch=1");
    expect(await reader.take(1)).toEqual(["ADDED a"]);
    const bookmark = await reader.next();
    expect(bookmark).toMatchObject({ event: "BOOKMARK" });
    await v1.ask("POST", "/tenants", { body: tenant("b") });
    await v1.ask("PATCH", "/tenants/a", { body: { spec: { comment: "x" } } });
    await v1.ask("DELETE", "/tenants/b");
    const added = await reader.next();
    expect(added).toMatchObject({ event: "ADDED", data: { metadata: { name: "b" } } });
    expect(await reader.take(2)).toEqual(["MODIFIED a", "DELETED b"]);
    reader.close();

    const resumed = await watch("/tenants?watch=true", "root@pam", { "last-event-id": added?.id ?? "" });
    expect(await resumed.take(2)).toEqual(["MODIFIED a", "DELETED b"]);
    const late = await watch(`/tenants?watch=1&resourceVersion=${bookmark?.id ?? ""}`);
    expect(await late.take(3)).toEqual(["ADDED b", "MODIFIED a", "DELETED b"]);
  });

  it("says 410 when the changes are not known any more, and 400 when the version is nonsense", async () => {
    const future = await v1.ask("GET", "/tenants?watch=1&resourceVersion=999999");
    expect(future.body).toMatchObject({ status: 410, code: "store.compacted" });
    expect((await v1.ask("GET", "/tenants?watch=1&resourceVersion=abc")).status).toBe(400);
    expect((await v1.ask("GET", "/tenants?watch=1&limit=2")).status).toBe(400);
  });

  it("is resumed at a server that was not there, by the difference between then and now", async () => {
    await v1.ask("POST", "/tenants", { body: tenant("stays") });
    await v1.ask("POST", "/tenants", { body: tenant("goes") });
    await v1.ask("POST", "/tenants", { body: tenant("changes") });
    const then = String(v1.records.revision());
    await v1.ask("DELETE", "/tenants/goes");
    await v1.ask("PATCH", "/tenants/changes", { body: { spec: { comment: "x" } } });
    await v1.ask("POST", "/tenants", { body: tenant("comes") });
    const other = await startV1({ store: v1.store });
    const reader = await watch("/tenants?watch=1", "root@pam", { "last-event-id": then }, other.url);
    expect((await reader.take(3)).toSorted()).toEqual(["ADDED comes", "DELETED goes", "MODIFIED changes"]);
    expect(await reader.next()).toMatchObject({ event: "BOOKMARK", id: String(v1.records.revision()) });
    await v1.ask("DELETE", "/tenants/stays");
    expect(await reader.take(1)).toEqual(["DELETED stays"]);
    await v1.store.compact(v1.records.revision());
    expect((await other.ask("GET", `/tenants?watch=1&resourceVersion=${then}`)).body).toMatchObject({
      status: 410,
    });
    const first = await v1.ask("POST", "/tenants", { body: tenant("zz") });
    expect(first.status).toBe(201);
    reader.close();
    await other.close();
  });

  it("turns what enters and leaves a selection into ADDED and DELETED", async () => {
    const reader = await watch("/tenants?watch=1&labelSelector=tier%3Dgold");
    await reader.next();
    await v1.ask("POST", "/tenants", { body: tenant("a", { tier: "iron" }) });
    await v1.ask("PATCH", "/tenants/a", { body: { metadata: { labels: { tier: "gold" } } } });
    await v1.ask("PATCH", "/tenants/a", { body: { spec: { comment: "x" } } });
    await v1.ask("PATCH", "/tenants/a", { body: { metadata: { labels: { tier: null } } } });
    expect(await reader.take(3)).toEqual(["ADDED a", "MODIFIED a", "DELETED a"]);
  });

  it("follows permission: what is taken away is told as deleted, and the last loss ends it", async () => {
    await v1.ask("POST", "/tenants", { body: tenant("a") });
    await v1.ask("POST", "/tenants", { body: tenant("b") });
    await v1.addUser("joe@pve", { grants: [["/pool/a", "PVEPoolUser"]] });
    const reader = await watch("/tenants?watch=1", "joe@pve");
    expect(await reader.take(1)).toEqual(["ADDED a"]);
    await v1.addUser("joe@pve", { grants: [["/pool/b", "PVEPoolUser"]] });
    expect(await reader.take(1)).toEqual(["ADDED b"]);
    await v1.ask("DELETE", `/bindings/${encodeURIComponent("PVEPoolUser@/pool/a")}`);
    expect(await reader.take(1)).toEqual(["DELETED a"]);
    await v1.ask("DELETE", `/bindings/${encodeURIComponent("PVEPoolUser@/pool/b")}`);
    const end = await reader.next();
    expect(end).toMatchObject({ event: "ERROR", data: { code: "access.denied" } });
    expect(await reader.next()).toBeUndefined();
  });

  it("beats, gives bookmarks, and ends when the credentials do", async () => {
    const reader = await watch("/tenants?watch=1");
    await reader.next();
    await v1.addUser("x@pve");
    await clock.advance(16_000);
    expect(await reader.next()).toMatchObject({ event: "BOOKMARK" });
    expect(reader.comments).toBeGreaterThan(0);
    v1.revoked.add("root@pam");
    const ended = reader.next();
    await clock.advance(16_000);
    expect(await ended).toMatchObject({ event: "ERROR", data: { code: "auth.failed" } });
  });

  it("tells of virtual machines: their configuration, whether they run, and only to those who may see them", async () => {
    const put = (vmid: number, conf: string) =>
      v1.records.transact((tx) =>
        tx.put(guestCollection, String(vmid), guestRecord({ vmid, type: "qemu", node: "n1", conf })),
      );
    await v1.addUser("joe@pve", { grants: [["/vms/101", "PVEAuditor"]] });
    await put(100, "name: web\n");
    const reader = await watch("/virtualmachines?watch=1&fieldSelector=metadata.name%3D100");
    expect((await reader.next())?.data).toMatchObject({ status: { name: "web", state: "unknown" } });
    await reader.next();
    const joe = await watch("/virtualmachines?watch=1", "joe@pve");
    await put(100, "name: shop\n");
    expect(await reader.next()).toMatchObject({ event: "MODIFIED", data: { status: { name: "shop" } } });
    const guests = [{ vmid: 100, type: "qemu", status: "running", uptimeSeconds: 5, cpu: 0, mem: 7 }];
    v1.views.set("n1", { node: "n1", health: "online", report: { guests } } as unknown as NodeView);
    await clock.advance(2_500);
    expect(await reader.next()).toMatchObject({ event: "MODIFIED", data: { status: { state: "running" } } });
    await put(101, "name: theirs\n");
    expect(await joe.take(1)).toEqual(["ADDED 101"]);
    await v1.records.transact((tx) => tx.delete(guestCollection, "100"));
    expect(await reader.take(1)).toEqual(["DELETED 100"]);
  });

  it("shows live figures of nodes that are in no store", async () => {
    await v1.records.transact((tx) => tx.put(nodeRecords, "n1", joinedNode("n1")));
    const reader = await watch("/nodes?watch=1");
    expect((await reader.next())?.data).toMatchObject({
      metadata: { name: "n1" },
      status: { health: "unknown" },
    });
    await reader.next();
    const view: NodeView = {
      nodeid: 1,
      node: "n1",
      health: "online",
      address: "10.0.0.1",
      lastSeen: 5,
      certFingerprint: "AA",
      report: undefined,
      facts: undefined,
    };
    v1.views.set("n1", view);
    await clock.advance(2_500);
    expect(await reader.next()).toMatchObject({ event: "MODIFIED", data: { status: { health: "online" } } });
    const resumed = await watch(`/nodes?watch=1&resourceVersion=${v1.records.revision()}`);
    expect(await resumed.take(1)).toEqual(["MODIFIED n1"]);
    const patched = await v1.ask("PATCH", "/nodes/n1", {
      body: { metadata: { labels: { zone: "a" } }, spec: { taints: ["gpu=only:NoSchedule"] } },
    });
    expect(patched.body).toMatchObject({
      metadata: { labels: { zone: "a" } },
      spec: { taints: [{ key: "gpu", value: "only", effect: "NoSchedule" }] },
    });
    expect(v1.records.collection(nodeRecords).get("n1")?.value).toMatchObject({
      labels: { zone: "a" },
      taints: ["gpu=only:NoSchedule"],
    });
    expect((await v1.ask("GET", "/nodes/n1/capabilities")).body).toMatchObject({
      status: 503,
      code: "node.unavailable",
    });
    expect((await v1.ask("POST", "/nodes/n1/probe")).body).toEqual({ task: "UPID:n1:probe" });
    expect((await v1.ask("POST", "/nodes/nope/probe")).status).toBe(404);
    expect((await v1.ask("GET", "/nodes/n1/images?storage=fast")).body).toEqual({
      images: [{ name: "of n1 in fast" }],
    });
    const pulled = await v1.ask("POST", "/nodes/n1/images/alpine/pull");
    expect([pulled.status, pulled.body]).toEqual([202, { task: "UPID:n1:pull:alpine:local" }]);
    const built = await v1.ask("POST", "/nodes/n1/images/tiny/build?storage=fast");
    expect(built.body).toEqual({ task: "UPID:n1:build:tiny:fast" });
    expect((await v1.ask("GET", "/nodes/n1/vms/100/log")).body).toEqual({ lines: ["of n1/100"] });
  });
});
