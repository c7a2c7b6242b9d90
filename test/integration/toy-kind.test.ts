// A kind of guest is its own folder and a line in each of the two tables: here the lines are added to what gpve runs
// with, and a toy goes through everything that any guest has. Nothing of the product is replaced.
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { startNode, type RunningNode } from "@gpve/bin/compose-node.ts";
import { openDataDir } from "@gpve/kit/data-dir.ts";
import { exec } from "@gpve/kit/exec.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { apiOf, mainFile, readCredentials, type Api } from "../support/gpve.ts";
import { taskLog, waitTask } from "../support/tasks.ts";

const seen = vi.hoisted(() => ({ engine: undefined as unknown }));

vi.mock(import("@gpve/domain/guest/guest-kinds.ts"), async (original) => {
  const { toyRow } = await import("@gpve/agent/testing/toy-kind/toy-row.ts");
  const { guestKinds } = await original();
  return { guestKinds: { ...guestKinds, toy: toyRow } };
});
vi.mock(import("@gpve/agent/node-kinds.ts"), async (original) => {
  const { composeToys } = await import("@gpve/agent/testing/toy-kind/compose-toys.ts");
  const { nodeKinds } = await original();
  const toy: typeof composeToys = (parts) => {
    seen.engine = parts.engine;
    return composeToys(parts);
  };
  return { nodeKinds: { ...nodeKinds, toy } };
});

const missing = ["/usr/bin/cc", "/usr/bin/qemu-img", "/usr/bin/tar"].filter((file) => !existsSync(file));
if (missing.length > 0)
  console.warn(`SKIPPED: no ${missing.join(", ")}; get them with: apt-get install gcc libc6-dev qemu-utils`);

const VMID = 200;

describe.skipIf(missing.length > 0)("a kind of guest that is added to the tables", () => {
  let folder: string;
  let node: RunningNode;
  let api: Api;

  const open = async (): Promise<void> => {
    node = await startNode({
      data: openDataDir(folder),
      listen: { host: "127.0.0.1", port: 0 },
      metrics: undefined,
      nodeName: "n1",
      otlpEndpoint: undefined,
      makeNetwork: false,
    });
    api = apiOf(readCredentials(folder));
  };
  const run = async (type: string, args: object): Promise<void> => {
    const engine = seen.engine as OperationEngine;
    const { operation } = await engine.submit({
      type,
      resources: [`vm/${VMID}`],
      args: { vmid: VMID, ...args },
      actor: "root@pam",
      subject: String(VMID),
    });
    const ended = await engine.wait(operation.id);
    expect(`${ended.state} ${ended.error ?? ""}`).toBe("done ");
  };
  const post = async (path: string, params: Record<string, string | number> = {}) => {
    const answer = await api("POST", path, params);
    expect(answer.status, answer.text).toBe(200);
    return waitTask(api, answer.data as string);
  };
  const row = async () => {
    const rows = (await api("GET", "/cluster/resources", { type: "vm" })).data as Record<string, unknown>[];
    return rows.find(({ vmid }) => vmid === VMID);
  };
  const status = async () => (await row())?.["status"];
  /** As qemu-img shows them. */
  const snapshots = async () => {
    const disk = join(folder, "storage/local/images/200/vm-200-disk-0.qcow2");
    return (await exec("qemu-img", ["snapshot", "-l", "-U", disk])).stdout;
  };
  const archives = () => {
    const dump = join(folder, "storage/local/dump");
    return existsSync(dump) ? readdirSync(dump).filter((name) => name.endsWith(".tar")) : [];
  };

  beforeAll(async () => {
    // Stands in for the program's own entry: the supervisor's sources are looked for beside it.
    process.argv[1] = mainFile;
    folder = mkdtempSync(join(tmpdir(), "gpve-toy-"));
    await open();
  });
  afterAll(async () => {
    // Guests outlive gpve: one that a failed test left behind is ended here.
    await waitTask(api, (await api("POST", "/nodes/n1/stopall")).data as string);
    await node.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  test("is created, and listed with the others", async () => {
    await run("toycreate", { name: "bear", storage: "local" });
    expect(await row()).toMatchObject({ id: "toy/200", type: "toy", name: "bear", node: "n1", maxcpu: 1 });
    expect(await status()).toBe("stopped");
    const volumes = (await api("GET", "/nodes/n1/storage/local/content", { vmid: VMID })).data;
    expect(volumes).toMatchObject([{ content: "images", vmid: VMID }]);
  });

  test("starts with the node, and stays when gpve does not", async () => {
    expect(await post("/nodes/n1/startall")).toMatchObject({ exitstatus: "OK" });
    await expect.poll(status).toBe("running");
    await node.stop();
    await open();
    await expect.poll(status).toBe("running");
  });

  test("is snapshotted while it runs, gone back to, and the snapshot deleted", async () => {
    await run("toysnapshot", { name: "before", withState: false });
    expect(await snapshots()).toContain(" before ");
    await run("toyrollback", { name: "before", start: true });
    await expect.poll(status).toBe("running");
    await run("toydelsnapshot", { name: "before", force: false });
    expect(await snapshots()).not.toContain(" before ");
  });

  test("is saved by a backup job, beside a VM that runs nothing", async () => {
    await post("/nodes/n1/qemu", { vmid: 100, memory: 16 });
    const job = { id: "toys", schedule: "*:*:0/2", all: 1, storage: "local" };
    expect((await api("POST", "/cluster/backup", job)).status).toBe(200);
    const volumes = (await api("GET", "/cluster/backup/toys/included_volumes")).data;
    const children = (volumes as { readonly children: readonly object[] }).children;
    expect(children).toContainEqual(expect.objectContaining({ id: VMID, type: "toy", name: "bear" }));
    await expect.poll(archives, { timeout: 150_000 }).not.toEqual([]);
    await api("DELETE", "/cluster/backup/toys");
    expect(archives()[0]).toMatch(/^vzdump-toy-200-.*\.tar$/);
    const dump = readdirSync(join(folder, "storage/local/dump"));
    expect(dump.some((name) => name.startsWith("vzdump-qemu-100-"))).toBe(true);
  });

  test("is saved by hand with notes, and its old backups are pruned by their own rules", async () => {
    const params = {
      vmid: "200",
      storage: "local",
      "notes-template": "{{guestname}}",
      "prune-backups": "keep-last=1",
    };
    const task = await post("/nodes/n1/vzdump", params);
    const log = await taskLog(api, task.upid);
    expect(task.exitstatus, log).toBe("OK");
    expect(log).toContain("INFO: Starting Backup of VM 200 (toy)");
    expect(archives()).toHaveLength(1);
    const [backup] = (await api("GET", "/nodes/n1/storage/local/content", { content: "backup", vmid: VMID }))
      .data as Record<string, unknown>[];
    expect(backup).toMatchObject({ subtype: "toy", notes: "bear", format: "tar" });
  });

  test("stops with the node, and what it does at its end is done", async () => {
    expect(await post("/nodes/n1/stopall")).toMatchObject({ exitstatus: "OK" });
    await expect.poll(status).toBe("stopped");
    const log = join(folder, "log/gpve.jsonl");
    await expect.poll(() => readFileSync(log, "utf8")).toContain("a toy is put away");
  });
});
