// Runs inside a Debian guest, as root: real servers of files, and two nodes of the product, each in a network and with
// mounts of its own, whose VMs have disks there. The command line names the product's program.
import { mkdtempSync, openSync, readSync, closeSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { bootSector } from "@gpve/agent/testing/boot-sector.ts";
import { readImage, writeImage } from "@gpve/agent/testing/qemu-io.ts";
import { storageConformance } from "@gpve/agent/testing/storage-conformance.ts";
import { storagePlugin } from "@gpve/agent/infrastructure/storage/storage-plugins.ts";
import { newStorageDefinition } from "@gpve/domain/storage/definition.ts";
import { exec } from "@gpve/kit/exec.ts";
import { startTestCluster, type TestCluster } from "@gpve/kit/testing/cluster/test-cluster.ts";
import {
  fallSilent,
  NFS_FOLDER,
  SHARE,
  SHARE_FOLDER,
  SHARE_PASSWORD,
  SHARE_USER,
  speakAgain,
  startFileServers,
} from "./file-servers.ts";
import { plainPlugins } from "@gpve/agent/testing/plain-plugins.ts";

const [, , program = ""] = process.argv;
/** The product is emulated here, and its guests are twice. */
const PATIENCE_MS = 600_000;
const NAS = { vmid: 300, folder: NFS_FOLDER } as const;
const WIN = { vmid: 301, folder: SHARE_FOLDER } as const;
const storages = { nas: NAS, win: WIN } as const;
type Name = keyof typeof storages;
const names = Object.keys(storages) as Name[];

let cluster: TestCluster;
let server = "";

type Params = Readonly<Record<string, string | number>>;
interface Told {
  readonly status: number;
  readonly reason: string;
  readonly data: unknown;
}

async function ask(method: string, path: string, params?: Params): Promise<Told> {
  const { status, reason, body } = await cluster.api(method, `/api2/json${path}`, params);
  return { status, reason, data: (body as { readonly data?: unknown } | undefined)?.data };
}

async function must(method: string, path: string, params?: Params): Promise<unknown> {
  const { status, reason, data } = await ask(method, path, params);
  if (status !== 200) throw new Error(`${method} ${path}: ${status} ${reason}`);
  return data;
}

async function until(what: string, check: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + PATIENCE_MS;
  while (!(await check())) {
    if (performance.now() > end) throw new Error(`waited in vain until ${what}`);
    await sleep(500);
  }
}

/** A task that must end well. */
async function run(path: string, params: Params = {}): Promise<void> {
  const upid = String(await must("POST", path, params));
  const node = upid.split(":")[1] ?? "";
  const task = `/nodes/${node}/tasks/${encodeURIComponent(upid)}`;
  let exit = "";
  await until(`${path} has ended`, async () => {
    const { status, exitstatus = "" } = (await must("GET", `${task}/status`)) as Record<string, string>;
    exit = exitstatus;
    return status === "stopped";
  });
  if (exit === "OK") return;
  throw new Error(`${path}: ${exit}\n${JSON.stringify(await must("GET", `${task}/log?limit=0`))}`);
}

async function isActive(node: string, storage: string): Promise<boolean> {
  const { data } = await ask("GET", `/nodes/${node}/storage?storage=${storage}`);
  const [row] = (data ?? []) as readonly { readonly active?: number }[];
  return row?.active === 1;
}

async function volumes(node: string, name: Name): Promise<readonly string[]> {
  const rows = (await must("GET", `/nodes/${node}/storage/${name}/content`)) as readonly { volid: string }[];
  return rows.map(({ volid }) => volid).toSorted();
}

const diskFile = (name: Name): string => {
  const { vmid, folder } = storages[name];
  return join(folder, `images/${vmid}/vm-${vmid}-disk-0.raw`);
};

/** Behind the sector that a guest boots from. */
const WRITTEN_AT = 512;
let written = 0;

function byteAtServer(name: Name): number {
  const file = openSync(diskFile(name), "r");
  try {
    const bytes = Buffer.alloc(1);
    readSync(file, bytes, 0, 1, WRITTEN_AT);
    return bytes.readUInt8();
  } finally {
    closeSync(file);
  }
}

/** By the disk of the running VM: its processor is emulated twice here, and would take an hour to come that far by itself. What it
 * wrote is read at the server itself. */
async function writesOn(name: Name, node: string): Promise<void> {
  const byte = (written = (written % 250) + 1);
  const command = `qemu-io -d ide0 "write -P ${byte} ${WRITTEN_AT} 512"`;
  expect(await must("POST", `/nodes/${node}/qemu/${storages[name].vmid}/monitor`, { command })).toBe("");
  await until(
    `the server of ${name} has what was written on ${node}`,
    async () => byteAtServer(name) === byte,
  );
}

beforeAll(async () => {
  await startFileServers();
  cluster = await startTestCluster({ nodes: 2, store: "sqlite", command: [program], startMs: PATIENCE_MS });
  // One kernel is the client of all of them, under one name: a server would take each for the other, begun anew.
  for (const node of ["n1", "n2"]) {
    const name = ["sh", "-c", `echo ${node} > /sys/fs/nfs/net/nfs_client/identifier`];
    await exec("ip", ["netns", "exec", cluster.node(node).machine.namespace, ...name]);
  }
  // Where the test itself is, and the servers.
  server = cluster.server.address.replace(/\d+$/, "1");
  await until("both nodes are online", async () => {
    const rows = (await must("GET", "/nodes")) as readonly { node: string; status: string }[];
    return rows.filter(({ node, status }) => /^n[12]$/.test(node) && status === "online").length === 2;
  });
});

afterAll(async () => cluster.close());

describe("folders of real servers on two nodes", () => {
  it("are mounted by each node, and say why where they cannot be", async () => {
    const content = "images,iso,backup";
    const nas = { storage: "nas", type: "nfs", server, export: NFS_FOLDER, content };
    const win = { storage: "win", type: "cifs", server, share: SHARE, username: SHARE_USER, content };
    await must("POST", "/storage", nas);
    await must("POST", "/storage", { ...win, password: SHARE_PASSWORD });
    for (const node of ["n1", "n2"])
      for (const name of names) await until(`${name} is active on ${node}`, async () => isActive(node, name));
    await must("POST", "/storage", { ...nas, storage: "nowhere", export: "/srv/nothere" });
    await must("POST", "/storage", { ...win, storage: "locked", password: "wrong" });
    const refused = await ask("GET", "/nodes/n1/storage/nowhere/content");
    expect(refused.reason).toContain("storage 'nowhere'");
    expect((await ask("GET", "/nodes/n1/storage/locked/content")).reason).toContain("storage 'locked'");
    expect(await isActive("n1", "nas")).toBe(true);
    for (const each of ["nowhere", "locked"]) await must("DELETE", `/storage/${each}`);
  });

  it("hold disks of VMs that run, and move between nodes as they run", async () => {
    for (const name of names) {
      const { vmid } = storages[name];
      await run("/nodes/n1/qemu", {
        vmid,
        memory: 32,
        kvm: 0,
        ide0: `${name}:0.01,format=raw`,
        boot: "order=ide0",
      });
      writeFileSync(diskFile(name), bootSector("deepSleep"), { flag: "r+" });
      await run(`/nodes/n1/qemu/${vmid}/status/start`);
      await writesOn(name, "n1");
      await run(`/nodes/n1/qemu/${vmid}/migrate`, { target: "n2", online: 1 });
      await writesOn(name, "n2");
      expect((await must("GET", `/nodes/n2/qemu/${vmid}/status/current`)) as object).toMatchObject({
        status: "running",
      });
    }
  });

  it("show both nodes the same, and a name is given once", async () => {
    for (const name of names) {
      expect(await volumes("n1", name)).toEqual(await volumes("n2", name));
      const wanted = { vmid: 310, filename: "vm-310-disk-7.raw", size: "8M", format: "raw" };
      const both = await Promise.all(
        ["n1", "n2"].map(async (node) => ask("POST", `/nodes/${node}/storage/${name}/content`, wanted)),
      );
      expect(both.filter(({ status }) => status === 200).length).toBe(1);
      expect(both.find(({ status }) => status !== 200)?.reason ?? "").toContain("vm-310-disk-7");
      expect((await volumes("n2", name)).includes(`${name}:310/vm-310-disk-7.raw`)).toBe(true);
    }
  });

  it("keep a disk that one node's VM has from being written by another, by NFS's locks", async () => {
    const image = `/mnt/pve/nas/images/${NAS.vmid}/vm-${NAS.vmid}-disk-0.raw`;
    const agent = await exec("ip", ["netns", "pids", cluster.node("n1").machine.namespace]);
    const [pid = ""] = agent.stdout.split("\n");
    const open = ["qemu-io", "-f", "raw", "-c", "write 0 512", image];
    const said = await exec("nsenter", ["--target", pid, "--mount", "--net", "--", ...open], {
      okCodes: [0, 1],
    });
    expect(`${said.stdout}${said.stderr}`).toContain("lock");
    await writesOn("nas", "n2");
  });

  it("hang nothing else when their server falls silent, and are back when it speaks", async () => {
    const silent = cluster.node("n2").address;
    await fallSilent(silent);
    try {
      for (const name of names) {
        await until(`${name} is inactive on n2`, async () => !(await isActive("n2", name)));
        const refused = await ask("GET", `/nodes/n2/storage/${name}/content`);
        expect(refused.status).toBe(500);
        expect(refused.reason).toContain(`storage '${name}'`);
        expect(await isActive("n1", name)).toBe(true);
      }
      // Many ask at once, and nobody waits for the server: the agent answers for all else.
      const asked = Array.from({ length: 12 }, async () => ask("GET", "/nodes/n2/storage/nas/content"));
      await must("GET", "/nodes/n2/status");
      expect(await isActive("n2", "local")).toBe(true);
      await must("POST", "/nodes/n2/storage/local/content", {
        vmid: 320,
        filename: "vm-320-disk-0.raw",
        size: "4M",
        format: "raw",
      });
      expect((await Promise.all(asked)).map(({ status }) => status)).toEqual(asked.map(() => 500));
    } finally {
      await speakAgain(silent);
    }
    for (const name of names) await until(`${name} is active on n2`, async () => isActive("n2", name));
    await writesOn("nas", "n2");
  });

  it("are unmounted when their definitions go", async () => {
    for (const name of names) {
      await run(`/nodes/n2/qemu/${storages[name].vmid}/status/stop`);
      await must("DELETE", `/storage/${name}`);
    }
    for (const node of ["n1", "n2"]) {
      const { stdout } = await exec("ip", ["netns", "pids", cluster.node(node).machine.namespace]);
      const [pid = ""] = stdout.split("\n");
      await until(`${node} has none of them mounted`, async () => {
        const { stdout: table } = await exec("cat", [`/proc/${pid}/mountinfo`]);
        return !/ \/mnt\/pve\/(?:nas|win) /.test(table);
      });
    }
  });
});

for (const type of ["nfs", "cifs"] as const) {
  const folder = mkdtempSync(join(tmpdir(), `gpve-${type}-`));
  storageConformance(`${type} of a real server`, async () => {
    const where =
      type === "nfs" ? { server, export: NFS_FOLDER } : { server, share: SHARE, username: SHARE_USER };
    const plugin = storagePlugin(
      newStorageDefinition("s", type, {
        ...where,
        path: join(folder, "point"),
        content: "images,iso,backup",
      }),
      { ...plainPlugins(), secretFolder: join(folder, "secrets"), secretOf: async () => SHARE_PASSWORD },
    );
    const formatOf = (volname: string): string => plugin.parse(volname).format;
    return {
      plugin,
      formats: ["qcow2", "raw"],
      write: (volname, offset, bytes) => writeImage(plugin.path(volname), formatOf(volname), offset, bytes),
      read: (volname, offset, length) => readImage(plugin.path(volname), formatOf(volname), offset, length),
      close: async () => {
        await plugin.deactivate();
        rmSync(folder, { recursive: true, force: true });
      },
    };
  });
}
