// A guest that took over its QEMU writes another name into the header of its own disk. Through the API, with the real
// tools and a real QEMU: nothing that reads disks follows it, each says why, and the disk is as usable as before when the
// header is mended.
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { type Api, apiOf, firstNode, type Gpve, startGpve } from "../support/gpve.ts";
import { taskLog, waitTask } from "../support/tasks.ts";

vi.setConfig({ testTimeout: 300_000 });

const hasQemu = existsSync("/usr/bin/qemu-system-x86_64");
if (!hasQemu) console.warn("SKIPPED: no QEMU; get it with: apt-get install qemu-system-x86 qemu-utils");

const MARK = "only-the-host-may-read-this";
const REFUSED = /the image is refused: it (?:builds on a backing file that is not its own|keeps its data in)/;

let gpve: Gpve;
let api: Api;
let node: string;
let secret: string;

beforeAll(async () => {
  gpve = await startGpve();
  api = apiOf(gpve.credentials);
  node = await firstNode(api);
  secret = join(gpve.data, "..", `secret-of-${process.pid}`);
  writeFileSync(secret, `${MARK}\n`.repeat(4096), { mode: 0o644 });
});
afterAll(async () => {
  await exec("rm", ["-f", secret]);
  await gpve.stop();
});

const run = async (method: string, path: string, params?: Record<string, string | number>) => {
  const answer = await api(method, path, params);
  if (answer.status !== 200) return answer.text;
  const upid = answer.data as string;
  const { exitstatus } = await waitTask(api, upid);
  return exitstatus === "OK" ? exitstatus : `${exitstatus}\n${await taskLog(api, upid)}`;
};
const vm = (vmid: number): string => `/nodes/${node}/qemu/${vmid}`;
const diskOf = (vmid: number): string =>
  join(gpve.data, `storage/local/images/${vmid}/vm-${vmid}-disk-0.qcow2`);

/** What a request that reads the disk answers. */
const readers: readonly [string, () => Promise<string | undefined>][] = [
  ["start", () => run("POST", `${vm(100)}/status/start`)],
  ["full clone", () => run("POST", `${vm(100)}/clone`, { newid: 101, full: 1 })],
  ["clone of a snapshot", () => run("POST", `${vm(100)}/clone`, { newid: 101, full: 1, snapname: "s1" })],
  ["move", () => run("POST", `${vm(100)}/move_disk`, { disk: "scsi0", storage: "local", format: "raw" })],
  ["backup", () => run("POST", `/nodes/${node}/vzdump`, { vmid: 100, storage: "local" })],
  ["snapshot", () => run("POST", `${vm(100)}/snapshot`, { snapname: "s2" })],
  ["rollback", () => run("POST", `${vm(100)}/snapshot/s1/rollback`)],
  ["resize", () => run("PUT", `${vm(100)}/resize`, { disk: "scsi0", size: "+1M" })],
  [
    "import",
    () => {
      const from = "local:0,import-from=local:100/vm-100-disk-0.qcow2";
      return run("POST", `/nodes/${node}/qemu`, { vmid: 101, memory: 32, scsi0: from });
    },
  ],
  ["template", () => run("POST", `${vm(105)}/template`)],
];

const forgeries: readonly [string, (disk: string) => Promise<void>][] = [
  [
    "a backing file",
    async (disk) => void (await exec("qemu-img", ["rebase", "-u", "-F", "raw", "-b", secret, disk])),
  ],
  [
    "a backing file by JSON",
    async (disk) => {
      const name = `json:{"driver":"raw","file":{"driver":"file","filename":"${secret}"}}`;
      await exec("qemu-img", ["rebase", "-u", "-F", "raw", "-b", name, disk]);
    },
  ],
  [
    "a file for its data",
    async (disk) => {
      const made = join(gpve.data, "made.qcow2");
      const content = readFileSync(secret);
      const options = `data_file=${secret},data_file_raw=on`;
      await exec("qemu-img", ["create", "-q", "-f", "qcow2", "-o", options, made, "1M"]);
      writeFileSync(secret, content);
      renameSync(made, disk);
    },
  ],
];

/** Files of the data directory that hold the host's secret. */
function leaks(folder = gpve.data): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return leaks(path);
    if (!entry.isFile() || statSync(path).size > 64 * 1024 * 1024) return [];
    return readFileSync(path).includes(MARK) ? [path] : [];
  });
}

describe.skipIf(!hasQemu)("a disk whose header was forged", () => {
  test("names a file of the host, and nobody reads that", async () => {
    for (const vmid of [100, 105]) {
      const created = { vmid, memory: 32, scsi0: "local:0.01,format=qcow2" };
      expect(await run("POST", `/nodes/${node}/qemu`, created)).toBe("OK");
    }
    expect(await run("POST", `${vm(100)}/snapshot`, { snapname: "s1" })).toBe("OK");
    const honest = new Map([100, 105].map((vmid) => [diskOf(vmid), readFileSync(diskOf(vmid))]));
    for (const [forgery, forge] of forgeries) {
      for (const disk of honest.keys()) await forge(disk);
      for (const [reader, read] of readers) expect(await read(), `${forgery}, ${reader}`).toMatch(REFUSED);
      for (const [disk, content] of honest) writeFileSync(disk, content);
      // It is marked before its disks are touched, as in PVE.
      await api("PUT", `${vm(105)}/config`, { delete: "template" });
    }
    expect(leaks()).toEqual([]);
    expect(readdirSync(join(gpve.data, "storage/local/images"))).toEqual(["100", "105"]);
  });

  test("is of use again when it is mended: started, copied, saved, made a template", async () => {
    for (const [what, read] of readers.filter(([name]) => name === "start" || name === "full clone"))
      expect(await read(), what).toBe("OK");
    expect(await run("POST", `${vm(100)}/status/stop`)).toBe("OK");
    const backup = { vmid: 100, storage: "local", compress: "zstd" };
    expect(await run("POST", `/nodes/${node}/vzdump`, backup)).toBe("OK");
    expect(await run("DELETE", `${vm(100)}/snapshot/s1`)).toBe("OK");
    expect(await run("POST", `${vm(100)}/template`)).toBe("OK");
    expect(await run("POST", `${vm(100)}/clone`, { newid: 102 })).toBe("OK");
    expect(await run("POST", `${vm(102)}/status/start`)).toBe("OK");
    expect(await run("POST", `${vm(102)}/status/stop`)).toBe("OK");
    expect(await run("POST", `${vm(102)}/clone`, { newid: 103, full: 1 })).toBe("OK");
  });
});

describe.skipIf(!hasQemu)("a volume that is a link to a file of the host", () => {
  const BACKUP = "vzdump-qemu-110-2024_01_02-03_04_05.vma";
  const links = [
    "template/iso/a.iso",
    "import/a.raw",
    "import/a.ovf",
    "snippets/a.yml",
    "template/cache/a.tar.gz",
    `dump/${BACKUP}`,
    `dump/${BACKUP}.notes`,
  ];
  const content = (volume: string): string =>
    `/nodes/${node}/storage/local/content/${encodeURIComponent(`local:${volume}`)}`;

  const uses: readonly [string, () => Promise<string | undefined>][] = [
    ["attached disc", () => run("POST", `${vm(110)}/config`, { ide2: "local:iso/a.iso,media=cdrom" })],
    [
      "disc that became a link",
      async () => {
        const path = join(gpve.data, "storage/local/template/iso/later.iso");
        writeFileSync(path, "disc");
        const set = await run("POST", `${vm(110)}/config`, { ide2: "local:iso/later.iso,media=cdrom" });
        expect(set).toBe("OK");
        rmSync(path);
        symlinkSync(secret, path);
        const started = await run("POST", `${vm(110)}/status/start`);
        await api("PUT", `${vm(110)}/config`, { delete: "ide2" });
        return started;
      },
    ],
    [
      "import-from",
      () =>
        run("POST", `/nodes/${node}/qemu`, { vmid: 111, scsi0: "local:0,import-from=local:import/a.raw" }),
    ],
    ["import-metadata", () => run("GET", `/nodes/${node}/storage/local/import-metadata?volume=import/a.ovf`)],
    ["facts", () => run("GET", content("iso/a.iso"))],
    [
      "cicustom",
      async () => {
        const custom = { cicustom: "user=local:snippets/a.yml", scsi1: "local:cloudinit" };
        const set = await run("POST", `${vm(110)}/config`, custom);
        const started = set === "OK" ? await run("POST", `${vm(110)}/status/start`) : set;
        await api("PUT", `${vm(110)}/config`, { delete: "cicustom,scsi1" });
        return started;
      },
    ],
    ["restore", () => run("POST", `/nodes/${node}/qemu`, { vmid: 112, archive: `local:backup/${BACKUP}` })],
    [
      "configuration of a backup",
      () => run("GET", `/nodes/${node}/vzdump/extractconfig?volume=local:backup/${BACKUP}`),
    ],
  ];

  test("is refused wherever a volume is read, is not listed, and the file keeps its owner and mode", async () => {
    const all = { content: "images,iso,import,snippets,vztmpl,backup" };
    expect((await api("PUT", "/storage/local", all)).status).toBe(200);
    expect(await run("POST", `/nodes/${node}/qemu`, { vmid: 110, memory: 32 })).toBe("OK");
    for (const name of links) {
      const path = join(gpve.data, "storage/local", name);
      mkdirSync(dirname(path), { recursive: true });
      symlinkSync(secret, path);
    }
    const before = statSync(secret);
    for (const [use, read] of uses) expect(await read(), use).toMatch(/is a link/);
    const listed = (await api("GET", `/nodes/${node}/storage/local/content`)).data as { volid: string }[];
    expect(listed.map(({ volid }) => volid).filter((volid) => /\/(?:a|later)\.|-110-/.test(volid))).toEqual(
      [],
    );
    const { uid, gid, mode } = statSync(secret);
    expect({ uid, gid, mode }).toEqual({ uid: before.uid, gid: before.gid, mode: before.mode });
    expect(leaks()).toEqual([]);
  });
});
