// A VM's disks are copied to a second node while it works; its node is lost, and it goes on from the copy.
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startTestCluster, type TestCluster } from "@gpve/kit/testing/cluster/test-cluster.ts";
import { networkProblem } from "@gpve/kit/testing/cluster/test-network.ts";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { apiOf, mainFile, nodeBinary, nodeOptions, type Api } from "../support/gpve.ts";
import { runByAgent, untilAgentAnswers } from "../support/guest.ts";
import { tinyImage } from "../support/images.ts";
import { endGuestsOf } from "../support/left-guests.ts";
import { taskLog, waitTask } from "../support/tasks.ts";

const problem = (await networkProblem()) ?? (process.getuid?.() === 0 ? undefined : "root is needed");
if (problem !== undefined) console.warn(`SKIPPED replication between nodes: ${problem}`);

interface Status {
  readonly last_sync: number;
  readonly fail_count: number;
  readonly error?: string;
  readonly target: string;
}

/** The same path is another folder on each node, as on machines of their own. */
const WRAPPER = `#!/bin/sh
if [ "$1" != agent ]; then exec NODE "$@"; fi
own="BASE/$(basename "$3" .yaml)"
mkdir -p "$own/import"
exec unshare --mount sh -c 'own=$1; shift; mount --bind "$own" BASE/disks && exec NODE "$@"' sh "$own" "$@"
`;

describe.skipIf(problem !== undefined)("a VM whose disks are copied to another node", () => {
  const base = mkdtempSync(join(tmpdir(), "gpve-replica-"));
  let cluster: TestCluster;
  let api: Api;
  let v1: Api;
  let node = "n1";

  beforeAll(async () => {
    const wrapper = join(base, "start.sh");
    const product = [nodeBinary, ...nodeOptions, mainFile].join(" ");
    mkdirSync(join(base, "disks"));
    mkdirSync(join(base, "n1/import"), { recursive: true });
    copyFileSync(await tinyImage(), join(base, "n1/import/tiny.qcow2"));
    writeFileSync(wrapper, WRAPPER.replaceAll("NODE", product).replaceAll("BASE", base));
    cluster = await startTestCluster({ nodes: 2, store: "sqlite", command: ["/bin/sh", wrapper] });
    api = apiOf(cluster.credentials());
    v1 = apiOf(cluster.credentials(), undefined, "/api/v1");
    await online("n1");
    await online("n2");
    const made = await api("POST", "/storage", {
      storage: "disks",
      type: "dir",
      path: join(base, "disks"),
      content: "images,import",
    });
    expect(made.status, made.text).toBe(200);
  });
  afterAll(async () => {
    for (const { dataDir } of cluster?.nodes ?? []) endGuestsOf(dataDir);
    await cluster?.close();
    rmSync(base, { recursive: true, force: true });
  });

  const vm = (): string => `/nodes/${node}/qemu/100`;
  const imagesAt = (name: string): string[] => {
    const folder = join(base, name, "images/100");
    return existsSync(folder) ? readdirSync(folder).toSorted() : [];
  };
  /** Its QEMU there, whatever anybody says of it. */
  const runsAt = (name: string): boolean => {
    const file = join(cluster.node(name).dataDir, "run/guests/100/state");
    if (!existsSync(file)) return false;
    const { pid } = JSON.parse(readFileSync(file, "utf8")) as { readonly pid: number };
    return existsSync(`/proc/${pid}`);
  };
  const online = (name: string): Promise<void> =>
    vi.waitFor(
      async () => {
        const { data } = await api("GET", "/nodes");
        const row = (data as readonly { node: string; status: string }[]).find((each) => each.node === name);
        expect(row?.status).toBe("online");
        expect((await api("GET", `/nodes/${name}/storage`)).status).toBe(200);
      },
      { timeout: 150_000, interval: 250 },
    );
  const run = async (path: string, params: Record<string, string | number> = {}): Promise<void> => {
    const asked = await api("POST", path, params);
    expect(asked.status, asked.text).toBe(200);
    const upid = asked.data as string;
    const { exitstatus } = await waitTask(api, upid, 120_000);
    expect(exitstatus, await taskLog(api, upid)).toBe("OK");
  };
  const status = async (): Promise<Status> => {
    const { data, status: code, text } = await api("GET", `/nodes/${node}/replication/100-0/status`);
    expect(code, text).toBe(200);
    return data as Status;
  };
  /** Until a run has ended well; its log. */
  const sync = async (): Promise<string> => {
    const before = (await status()).last_sync;
    // Two runs of one second could not be told apart.
    await vi.waitFor(() => expect(Math.floor(Date.now() / 1000)).toBeGreaterThan(before), {
      timeout: 150_000,
      interval: 50,
    });
    const asked = await api("POST", `/nodes/${node}/replication/100-0/schedule_now`);
    expect(asked.status, asked.text).toBe(200);
    await vi.waitFor(
      async () => {
        const now = await status();
        expect([now.error, now.fail_count]).toEqual([undefined, 0]);
        expect(now.last_sync).toBeGreaterThan(before);
      },
      { timeout: 150_000, interval: 100 },
    );
    const { data } = await api("GET", `/nodes/${node}/replication/100-0/log`);
    return (data as readonly { t: string }[]).map(({ t }) => t).join("\n");
  };
  const sentMiB = (log: string): number => Number(/sent ([\d.]+) MiB/.exec(log)?.[1]);
  /** The small disk is the one that is written to. */
  const onDisk = (command: string): Promise<string> => {
    const find = "for d in sda sdb; do test $(cat /sys/block/$d/size) -lt 200000 && disk=/dev/$d; done";
    return runByAgent(api, vm(), "sh", "-c", `${find}; ${command}`);
  };
  const write = (text: string): Promise<string> =>
    onDisk(`printf "%-512s" "${text}" | dd of=$disk bs=512 seek=8 conv=notrunc,fsync 2>/dev/null`);
  const read = async (): Promise<string> =>
    (await onDisk("dd if=$disk bs=512 skip=8 count=1 2>/dev/null")).trim();
  const failover = (body: object) => {
    const headers = { "Content-Type": "application/json" };
    return v1("POST", "/virtualmachines/100/failover", {}, headers, JSON.stringify(body));
  };

  test("sends only what changed, and goes on from the copy when its node is lost", async () => {
    await run("/nodes/n1/qemu", {
      vmid: 100,
      memory: 128,
      agent: 1,
      scsihw: "virtio-scsi-single",
      scsi0: "disks:0,import-from=disks:import/tiny.qcow2",
      scsi1: "disks:0.05,format=raw",
      ide2: "disks:cloudinit",
      boot: "order=scsi0",
      start: 1,
    });
    await untilAgentAnswers(api, vm());
    const job = { id: "100-0", type: "local", target: "n2", schedule: "2000-01-01" };
    const made = await api("POST", "/cluster/replication", job);
    expect(made.status, made.text).toBe(200);
    expect((await api("GET", "/cluster/replication")).data).toEqual([
      expect.objectContaining({
        id: "100-0",
        guest: 100,
        jobnum: 0,
        source: "n1",
        target: "n2",
        type: "local",
      }),
    ]);

    await write("first");
    const first = await sync();
    expect(first).toContain("all of every disk is sent: this is the first copy");
    expect(imagesAt("n2")).toEqual(imagesAt("n1"));
    await write("second");
    const second = await sync();
    expect(second).toContain("changed");
    expect(sentMiB(second)).toBeLessThan(sentMiB(first) / 2);
    console.log(`replication: the first run sent ${sentMiB(first)} MiB, the second ${sentMiB(second)} MiB`);
    await write("lost with the node");

    // The copy is nobody's to remove while the job keeps it.
    const volid = `disks:100/${imagesAt("n2").find((name) => name.endsWith(".raw")) ?? ""}`;
    const removing = await api("DELETE", `/nodes/n2/storage/disks/content/${encodeURIComponent(volid)}`);
    expect(removing.status, removing.text).toBe(200);
    const { exitstatus } = await waitTask(api, removing.data as string);
    expect(exitstatus).toContain("is the copy that replication job '100-0' keeps");

    const early = await failover({});
    expect([early.status, early.text]).toEqual([409, expect.stringContaining("is online and has VM 100")]);
    // Whoever says that the node is off is mistaken: its guest runs on.
    const lost = cluster.node("n1");
    await lost.kill();
    expect(runsAt("n1")).toBe(true);
    await vi.waitFor(
      async () => expect((await failover({})).text).toContain("make sure that the node is off"),
      { timeout: 150_000, interval: 250 },
    );
    const answer = await failover({ nodeIsOff: true, start: true });
    expect(answer.status, answer.text).toBe(200);
    const said = JSON.parse(answer.text) as { to: string; ageSeconds: number; age: string; task: string };
    expect(said).toMatchObject({ vmid: 100, from: "n1", to: "n2", left: [] });
    expect(said.ageSeconds).toBeGreaterThan(0);
    console.log(`failover to node ${said.to} from a copy that is ${said.age} old`);
    node = "n2";
    expect((await waitTask(api, said.task, 60_000)).exitstatus).toBe("OK");
    await untilAgentAnswers(api, vm());
    expect(await read()).toBe("second");

    // And the way back: what is now is copied to the node that was lost, over what it had.
    await write("on the second node");
    expect(runsAt("n1")).toBe(true);
    await lost.start();
    // Its record names another node: it is ended before it can be in anybody's way, and that is told.
    await vi.waitFor(() => expect(runsAt("n1")).toBe(false), { timeout: 150_000, interval: 100 });
    await online("n1");
    await vi.waitFor(
      async () => {
        const { text } = await v1("GET", "/events");
        expect(text).toContain("VMEndedNotOwned");
      },
      { timeout: 150_000, interval: 250 },
    );
    expect(runsAt("n2")).toBe(true);
    expect(await read()).toBe("on the second node");
    expect((await status()).target).toBe("n1");
    await sync();
    await run(`${vm()}/status/stop`);
    const stopped = await sync();
    expect(stopped).not.toBe("");
    expect(imagesAt("n1")).toEqual(imagesAt("n2"));

    // To the node that has the copy, cloud-init drive and all; the job turns with it.
    await run(`${vm()}/migrate`, { target: "n1" });
    node = "n1";
    expect((await status()).target).toBe("n2");
    await run(`${vm()}/status/start`);
    await untilAgentAnswers(api, vm());
    expect(await read()).toBe("on the second node");
    await sync();
    await vi.waitFor(() => expect(imagesAt("n1")).toHaveLength(3), { timeout: 150_000, interval: 250 });

    const removed = await api("DELETE", "/cluster/replication/100-0");
    expect(removed.status, removed.text).toBe(200);
    await vi.waitFor(
      async () => {
        expect((await api("GET", "/cluster/replication")).data).toEqual([]);
        expect(imagesAt("n2")).toEqual([]);
      },
      { timeout: 150_000, interval: 100 },
    );
    expect(imagesAt("n1")).toHaveLength(3);
  });
});
