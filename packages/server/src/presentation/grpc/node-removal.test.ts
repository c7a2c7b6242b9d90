// A removed node: its certificate opens nothing, at any server, and what it had open ends; it may come back as a new one.
import { randomBytes } from "node:crypto";
import { mkdirSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient, type Transport } from "@connectrpc/connect";
import { IdentityStore } from "@gpve/agent/infrastructure/server-link/identity.ts";
import { ServerService } from "@gpve/contracts/gen/proto/gpve/agent/v1/server_pb.ts";
import { guestCollection, guestRecord } from "@gpve/domain/guest/guest-record.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { appErrorOf } from "@gpve/kit/grpc/app-error.ts";
import { createChannel } from "@gpve/kit/grpc/channel.ts";
import { readCertificate } from "@gpve/kit/pki/x509.ts";
import { etcdStoreOver } from "@gpve/store/etcd/etcd-store.ts";
import { linkOver } from "@gpve/store/etcd/link.ts";
import type { Store } from "@gpve/store/port.ts";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openTestStore, startAgentFace, type AgentFace } from "../../testing/agent-face.ts";

let dir = "";
let store: Store;
const masterKey = randomBytes(32);
const faces: AgentFace[] = [];
const server = async (name: string): Promise<AgentFace> => {
  const place = join(dir, name);
  mkdirSync(place);
  const face = await startAgentFace({ dir: place, store, masterKey });
  faces.push(face);
  return face;
};
let one: AgentFace;
let two: AgentFace;
const code = (work: Promise<unknown>): Promise<string | undefined> =>
  work.then(
    () => "fine",
    (err: unknown) => appErrorOf(err)?.code,
  );

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "gpve-removal-"));
  store = await openTestStore(dir);
  one = await server("one");
  two = await server("two");
});

afterAll(async () => {
  for (const face of faces) await face.close();
  await store.close();
  await rm(dir, { recursive: true, force: true });
});

const storeOver = (transport: Transport): Store => etcdStoreOver([linkOver(one.endpoint, () => transport)]);

describe("a node that was removed", () => {
  test("is refused by every server, also by one that starts later; its open streams end at once", async () => {
    const identity = await one.joinAs("n1");
    const channels = [one, two].map((face) => face.channelOf(identity));
    const ended = channels.map(async ({ transport }) => {
      const { signal } = new AbortController();
      const guests = { key: Buffer.from("/gpve/guests/"), end: Buffer.from("/gpve/guests0") };
      for await (const batch of storeOver(transport).watch({ ...guests, signal })) {
        if (batch.type === "events") return "told";
      }
      return "ended";
    });
    const beat = { node: "n1", sentAtMs: 0n };
    for (const { transport } of channels) {
      expect(await code(createClient(ServerService, transport).heartbeat(beat))).toBe("fine");
    }
    await one.membership.remove("n1");
    const outcomes = await Promise.race([
      Promise.allSettled(ended),
      systemClock.sleep(3_000).then(() => "still open"),
    ]);
    expect(outcomes).toEqual([
      expect.objectContaining({ status: "rejected" }),
      expect.objectContaining({ status: "rejected" }),
    ]);
    const later = await server("three");
    for (const face of [one, two, later]) {
      const again = face.channelOf(identity);
      expect(await code(createClient(ServerService, again.transport).heartbeat(beat))).toBe("access.denied");
      expect(await code(storeOver(again.transport).revision())).toBe("access.denied");
      again.close();
    }
    for (const channel of channels) channel.close();
  });

  test("cannot repeat its join with the token it used; with a new one it is a new node", async () => {
    const identities = new IdentityStore({ dir: join(dir, "n2"), clock: systemClock });
    const joining = async (token: string) =>
      identities.join({
        endpoint: one.endpoint,
        token,
        node: "n2",
        address: "127.0.0.1",
        port: 1,
        agentVersion: "1",
      });
    const invite = async () => (await one.membership.invite({ ttlMs: 60_000, createdBy: "root@pam" })).token;
    const used = await invite();
    const first = await joining(used);
    await one.membership.remove("n2");
    await expect(joining(used)).rejects.toThrow(/unknown, used or expired/);
    const second = await joining(await invite());
    expect(second.keyPem).not.toBe(first.keyPem);
    expect(readCertificate(second.certPem).fingerprint).not.toBe(readCertificate(first.certPem).fingerprint);
    const beat = { node: "n2", sentAtMs: 0n };
    for (const [identity, expected] of [
      [first, "access.denied"],
      [second, "fine"],
    ] as const) {
      const channel = createChannel({ url: one.endpoint, tls: identity, clock: systemClock });
      expect(await code(createClient(ServerService, channel.transport).heartbeat(beat))).toBe(expected);
      channel.close();
    }
  });

  test("a node with guests stays, unless it is forced; the node of this process stays in any case", async () => {
    await one.joinAs("n3");
    await one.records.transact((tx) => {
      for (const vmid of [300, 301]) {
        const conf = `name: guest-${vmid}\n`;
        tx.put(guestCollection, String(vmid), guestRecord({ vmid, type: "qemu", node: "n3", conf }));
      }
    });
    await expect(one.membership.remove("n3")).rejects.toMatchObject({
      code: "resource.busy",
      message: expect.stringContaining("VM 300 (guest-300), VM 301 (guest-301)"),
      data: { guests: [300, 301] },
    });
    await one.membership.remove("n3", true);
    expect(one.records.collection(guestCollection).get("300")?.value.node).toBe("n3");
    await one.membership.enrolLocal("self", "127.0.0.1", 8444, "AA");
    await expect(one.membership.remove("self", true)).rejects.toThrow(/part of the server/);
    await expect(one.membership.remove("nobody")).rejects.toThrow(/no such node/);
  });

  test("goes although its record, and a guest's, cannot be read", async () => {
    const identity = await one.joinAs("n4");
    const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
    const put = (key: string) => ({ type: "put" as const, key: bytes(key), value: bytes("{}") });
    await store.txn({ compare: [], success: [put("/gpve/nodes/n4"), put("/gpve/guests/900")] });
    await one.records.fresh();
    await one.membership.remove("n4");
    const channel = two.channelOf(identity);
    const beat = { node: "n4", sentAtMs: 0n };
    expect(await code(createClient(ServerService, channel.transport).heartbeat(beat))).toBe("access.denied");
    channel.close();
  });
});
