import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { GuestMove } from "@gpve/domain/guest/guest-move.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { FileClusterLuggage } from "./file-cluster-luggage.ts";

const end = { node: "", address: "", port: 0, fingerprints: [] };
const move: GuestMove = {
  vmid: 0,
  id: "m",
  from: end,
  to: end,
  at: 0,
  purpose: "vcluster",
  vcluster: "demo",
};
const cluster: KeptCluster = {
  name: "demo",
  tenant: "default",
  spec: readVirtualClusterSpec({}),
  version: "1.36.4",
  phase: "Migrating",
  isWanted: true,
};
const quiet = new AbortController().signal;
const text = (said: string) =>
  (async function* () {
    yield Buffer.from(said);
  })();

let folder: string;
let asked: string[];
const luggageIn = (name: string) =>
  new FileClusterLuggage({ folder: join(folder, name), closed: async (each) => void asked.push(each) });
const write = (path: string, said: string): void => {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), said);
};
const read = (path: string): string => readFileSync(join(folder, path), "utf8");

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-luggage-"));
  asked = [];
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe("what a control plane takes along", () => {
  test("is its keys, its store and its audit log, and lies where it belongs when it is unpacked", async () => {
    write("a/clusters/demo/pki/ca.key", "KEY");
    write("a/clusters/demo/pki/scheduler.kubeconfig", "made anew");
    write("a/clusters/demo/audit/audit.log", "who");
    write("a/clusters/demo/etcd/member/wal/0.wal", "wal");
    write("a/store/db/demo/state.db", "rows");
    symlinkSync("/etc/passwd", join(folder, "a/clusters/demo/pki/link"));
    const [from, to] = [luggageIn("a"), luggageIn("b")];
    const files = await from.pack(cluster, quiet);
    expect(asked).toEqual(["demo"]);
    expect(files.map(({ name, size }) => `${name} ${size}`)).toEqual([
      "pki/ca.key 3",
      "audit/audit.log 3",
      "etcd/member/wal/0.wal 3",
      "db/state.db 4",
    ]);
    // A worker of it was there before, with what signs alone.
    write("b/clusters/demo/pki/old", "");
    write("b/clusters/demo/vnodes/worker-2/vnode.json", "{}");
    to.announce({ moveId: "m", cluster });
    expect([to.arrival("demo")?.moveId, to.isWhole("demo")]).toEqual(["m", false]);
    const writer = await to.begin(move);
    for (const file of files) await writer.take(file);
    await writer.finish();
    expect(to.isWhole("demo")).toBe(true);
    to.unpack(cluster);
    to.unpack(cluster);
    expect([read("b/clusters/demo/pki/ca.key"), read("b/store/db/demo/state.db")]).toEqual(["KEY", "rows"]);
    expect(read("b/clusters/demo/etcd/member/wal/0.wal")).toBe("wal");
    expect(existsSync(join(folder, "b/clusters/demo/pki/old"))).toBe(false);
    expect(existsSync(join(folder, "b/clusters/demo/vnodes/worker-2/vnode.json"))).toBe(true);
    to.forget("demo");
    expect(to.arrival("demo")).toBeUndefined();
  });

  test("comes only where it is expected, once, and leads nowhere else", async () => {
    const to = luggageIn("b");
    await expect(to.begin(move)).rejects.toThrow("is not expected here");
    to.announce({ moveId: "m", cluster });
    await expect(to.begin({ ...move, id: "other" })).rejects.toThrow("is not expected here");
    const writer = await to.begin(move);
    for (const name of ["../x", "pki/../../x", "/etc/x", "vnodes/worker-1/x", "pki", "db/.hidden"])
      await expect(writer.take({ name, size: 1, body: text("x") })).rejects.toThrow("takes along");
    await writer.take({ name: "pki/ca.key", size: 1, body: text("x") });
    await expect(writer.take({ name: "pki/ca.key", size: 1, body: text("y") })).rejects.toThrow("EEXIST");
    await writer.abandon();
    expect(to.isWhole("demo")).toBe(false);
    // Another move of the same cluster begins anew.
    to.announce({ moveId: "n", cluster });
    const second = await to.begin({ ...move, id: "n" });
    await second.finish();
    await expect(to.begin({ ...move, id: "n" })).rejects.toThrow("is not expected here");
  });
});
