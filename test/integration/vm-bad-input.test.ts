// What goes wrong with VMs on real QEMU and real storages: each answer is PVE's, nothing is left behind, and the VM is
// as it was and goes on.
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { statfsSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { exec } from "@gpve/kit/exec.ts";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { type Api, apiOf, firstNode, type Gpve, loginHeaders, startGpve } from "../support/gpve.ts";
import { taskLog, waitTask } from "../support/tasks.ts";

const missing = [
  ...(process.getuid?.() === 0 ? [] : ["root"]),
  ...(existsSync("/usr/bin/qemu-system-x86_64") ? [] : ["qemu-system-x86"]),
];
if (missing.length > 0) console.warn(`SKIPPED: needs ${missing.join(", ")}`);

type Params = Record<string, string | number>;
const NO_SPACE = /no space/i;
const freeBytes = (folder: string): number => {
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize;
};
const STALE = "0".repeat(40);

describe.skipIf(missing.length > 0)("bad input", () => {
  let gpve: Gpve;
  let api: Api;
  let root: Api;
  let node: string;
  let small: string;
  /** What was there before a test, and must be there after it. */
  let before: unknown;

  const vm = (vmid = 100): string => `${node}/qemu/${vmid}`;
  const images = (vmid: number): string => join(gpve.data, "storage/local/images", String(vmid));
  const submit = async (method: string, path: string, params?: Params): Promise<string> => {
    const answer = await api(method, path, params);
    expect(answer.status, answer.text).toBe(200);
    return answer.data;
  };
  const run = async (method: string, path: string, params?: Params): Promise<string | undefined> =>
    (await waitTask(api, await submit(method, path, params))).exitstatus;
  const refused = async (method: string, path: string, params?: Params): Promise<string> => {
    const answer = await api(method, path, params);
    expect([answer.status, answer.data], answer.text).toEqual([500, null]);
    expect(answer.json.message).toBe(`${answer.reason}\n`);
    return answer.reason;
  };
  const config = async (vmid = 100) => (await api("GET", `${vm(vmid)}/config`)).data as Params;
  const state = async (vmid = 100) =>
    (await api("GET", `${vm(vmid)}/status/current`)).data as Record<string, unknown>;

  /** Guests by their processes and control groups. */
  function processes(): string[] {
    return readdirSync("/proc").filter((pid) => {
      if (!/^\d+$/.test(pid)) return false;
      try {
        const argv = readFileSync(`/proc/${pid}/cmdline`, "utf8");
        return /^(?:qemu-|swtpm|\/usr\/bin\/qemu-)/.test(argv) && argv.includes(gpve.data);
      } catch {
        return false;
      }
    });
  }
  function files(folder: string): string[] {
    return readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .filter((path) => !path.endsWith(".log"))
      .toSorted();
  }
  /** Everything that an operation could leave. */
  async function world(): Promise<unknown> {
    const rows = (await api("GET", `${node}/qemu`)).data as { vmid: number; status: string; lock?: string }[];
    return {
      vms: rows.map(({ vmid, status, lock }) => ({ vmid, status, lock })),
      config: await config(),
      images: [...files(join(gpve.data, "storage/local/images")), ...files(small)],
      processes: processes(),
      sockets: readdirSync(join(gpve.data, "run")).filter((name) => name.startsWith("nbd-")),
      taps: readdirSync("/sys/class/net").filter((name) => name.startsWith("tap9102i")),
    };
  }

  beforeAll(async () => {
    small = mkdtempSync(join(tmpdir(), "gpve-small-"));
    await exec("mount", ["-t", "tmpfs", "-o", "size=12m", "gpve-test", small]);
    gpve = await startGpve();
    api = apiOf(gpve.credentials);
    root = apiOf(gpve.credentials, await loginHeaders(gpve.credentials));
    const name = await firstNode(api);
    node = `/nodes/${name}`;
    const content = "images,iso,backup,import,snippets";
    await api("POST", "/storage", { storage: "small", type: "dir", path: join(small, "a"), content });
    const full = { storage: "full", type: "dir", path: join(small, "b"), preallocation: "full" };
    await api("POST", "/storage", { ...full, content: "images" });
    const disks = { scsi0: "local:0.03,format=raw", scsi1: "local:0.001,format=qcow2" };
    expect(await run("POST", `${node}/qemu`, { vmid: 100, memory: 32, ...disks })).toBe("OK");
    // Half of it random, so that no copy and no archive of it fits.
    const random = await exec("dd", [
      "if=/dev/urandom",
      `of=${join(images(100), "vm-100-disk-0.raw")}`,
      "bs=1M",
      "count=20",
      "conv=notrunc",
    ]);
    expect(random.code).toBe(0);
    // The agent tries out accelerators when it starts, by guests of its own.
    await vi.waitFor(() => expect(processes()).toEqual([]), { timeout: 150_000 });
  });
  afterAll(async () => {
    await gpve.stop();
    await exec("umount", [small]);
    rmSync(small, { recursive: true, force: true });
  });
  beforeEach(async () => {
    before = await world();
  });
  afterEach(async () => {
    expect(await world()).toEqual(before);
  });

  test("ids that are taken and storages that are not there", async () => {
    const taken = `VM 100 already exists on node '${node.slice("/nodes/".length)}'`;
    expect(await refused("POST", `${node}/qemu`, { vmid: 100 })).toBe(`unable to create VM 100 - ${taken}`);
    expect(await refused("POST", `${vm()}/clone`, { newid: 100 })).toBe(
      "unable to create VM 100: config file already exists",
    );
    const gone = "storage 'nowhere' does not exist";
    const wrong: [string, string, Params][] = [
      ["POST", `${node}/qemu`, { vmid: 101, scsi0: "local:0.001", scsi1: "nowhere:1" }],
      ["PUT", `${vm()}/config`, { scsi2: "nowhere:1" }],
      ["POST", `${vm()}/config`, { scsi2: "nowhere:1" }],
      ["POST", `${vm()}/clone`, { newid: 101, full: 1, storage: "nowhere" }],
      ["POST", `${vm()}/move_disk`, { disk: "scsi0", storage: "nowhere" }],
      ["POST", `${node}/vzdump`, { vmid: 100, storage: "nowhere" }],
    ];
    for (const [method, path, params] of wrong) expect(await refused(method, path, params)).toBe(gone);
  });

  test("a storage that fills up under a stopped VM", async () => {
    const disks = { scsi0: "small:0.001,format=qcow2", scsi1: "full:0.05" };
    const moves: [string, Params][] = [
      [`${node}/qemu`, { vmid: 101, ...disks }],
      [`${node}/qemu`, { vmid: 101, scsi0: "small:0,import-from=local:100/vm-100-disk-0.raw" }],
      [`${vm()}/config`, { scsi2: "full:0.05" }],
      [`${vm()}/clone`, { newid: 101, full: 1, storage: "small" }],
      [`${vm()}/move_disk`, { disk: "scsi0", storage: "small", delete: 1 }],
    ];
    for (const [path, params] of moves) expect(await run("POST", path, params), path).toMatch(NO_SPACE);
    for (const compress of ["zstd", "0"]) {
      const upid = await submit("POST", `${node}/vzdump`, { vmid: 100, storage: "small", compress });
      expect((await waitTask(api, upid)).exitstatus).toBe("job errors");
      expect(await taskLog(api, upid)).toMatch(/ERROR: Backup of VM 100 failed - .*no space left/);
    }
  });

  test("archives that do not fit, are cut, or are none", async () => {
    expect(await run("POST", `${node}/vzdump`, { vmid: 100, storage: "local", compress: "zstd" })).toBe("OK");
    const dumps = join(gpve.data, "storage/local/dump");
    const name = readdirSync(dumps).find((each) => each.endsWith(".vma.zst")) ?? "";
    const archive = `local:backup/${name}`;
    const cut = name.replace(/-\d{4}_/, "-2001_");
    const restores: Params[] = [{ vmid: 101 }, { vmid: 101, "live-restore": 1 }, { vmid: 100, force: 1 }];
    for (const params of restores)
      expect(await run("POST", `${node}/qemu`, { archive, storage: "small", ...params })).toMatch(NO_SPACE);
    copyFileSync(join(dumps, name), join(dumps, cut));
    truncateSync(join(dumps, cut), 5_000_000);
    for (const params of restores) {
      const ended = await run("POST", `${node}/qemu`, { archive: `local:backup/${cut}`, ...params });
      expect(ended).toMatch(/archive .* is damaged: unexpected end of file/);
    }
    writeFileSync(join(dumps, cut), "no archive at all");
    for (const params of restores)
      expect(await run("POST", `${node}/qemu`, { archive: `local:backup/${cut}`, ...params })).toMatch(
        /is damaged/,
      );
  });

  test("images that are broken or point elsewhere", async () => {
    const folder = join(gpve.data, "storage/local/import");
    mkdirSync(folder, { recursive: true });
    const make = async (name: string, size: string, ...options: string[]): Promise<void> => {
      await exec("qemu-img", ["create", "-q", "-f", "qcow2", ...options, join(folder, name), size]);
    };
    await make("backed.qcow2", "1M", "-b", "/etc/passwd", "-F", "raw");
    await make("elsewhere.qcow2", "1M", "-o", `data_file=${join(small, "data")}`);
    rmSync(join(small, "data"));
    await make("huge.qcow2", "1M");
    const huge = readFileSync(join(folder, "huge.qcow2"));
    huge.writeBigUInt64BE(2n ** 50n, 24);
    writeFileSync(join(folder, "huge.qcow2"), huge);
    await make("cut.qcow2", "10M");
    truncateSync(join(folder, "cut.qcow2"), 100_000);
    writeFileSync(join(folder, "text.qcow2"), "no image");
    writeFileSync(join(folder, "text.ova"), "no archive");
    writeFileSync(join(folder, "d.vmdk"), "x");
    writeFileSync(join(folder, "d.ovf"), "x");
    const trick = ["--transform", "s,d.vmdk,../../../../etc/evil.vmdk,"];
    await exec("tar", ["-P", "-cf", join(folder, "trick.ova"), "-C", folder, ...trick, "d.ovf", "d.vmdk"]);
    const expected: [string, RegExp][] = [
      ["backed.qcow2", /builds on a backing file/],
      ["elsewhere.qcow2", /keeps its data in another file/],
      ["huge.qcow2", /virtual size of .* is absurd/],
      ["cut.qcow2", /the image is refused: it is damaged/],
      ["text.qcow2", /volume_size_info on 'local:import\/text.qcow2' failed/],
      ["text.ova/d.vmdk", /holds no OVF description/],
      ["trick.ova/d.vmdk", /forbidden name: '..\/..\/..\/..\/etc\/evil.vmdk'/],
    ];
    for (const [name, why] of expected) {
      const scsi0 = `local:0,import-from=local:import/${name}`;
      expect(await run("POST", `${node}/qemu`, { vmid: 101, scsi0 }), name).toMatch(why);
    }
    const traversal = { vmid: 101, scsi0: "local:0,import-from=local:import/../../../../etc/passwd" };
    expect(await refused("POST", `${node}/qemu`, traversal)).toContain(
      "unable to parse directory volume name",
    );
  });

  test("arguments that QEMU refuses, bridges that are gone, disks that are none", async () => {
    const start = () => run("POST", `${vm(9102)}/status/start`);
    await run("POST", `${node}/qemu`, { vmid: 9102, memory: 32, scsi0: "local:0.001,format=qcow2" });
    const change = async (params: Params) =>
      expect((await root("PUT", `${vm(9102)}/config`, params)).text).toBe('{"data":null}');
    const failures: [Params, RegExp][] = [
      [{ args: "-rubbish yes" }, /^start failed: .*-rubbish: invalid option$/],
      [{ args: "-device nonsense" }, /'nonsense' is not a valid device model name/],
      [{ args: "'unclosed" }, /^args: no closing '/],
      [{ delete: "args", memory: 90_000_000 }, /Cannot allocate memory/],
      [{ memory: 32, machine: "pc-i440fx-99.0" }, /too old to run machine type 'pc-i440fx-99.0\+pve0'/],
      [{ delete: "machine", net0: "virtio,bridge=vmbr77" }, /^bridge 'vmbr77' does not exist$/],
    ];
    for (const [params, why] of failures) {
      await change(params);
      expect(await start()).toMatch(why);
      expect(await state(9102)).toMatchObject({ status: "stopped" });
    }
    await change({ delete: "net0" });
    const cpu = await api("PUT", `${vm(9102)}/config`, { cpu: "nosuch" });
    expect([cpu.status, cpu.reason]).toEqual([400, "Parameter verification failed."]);
    expect(cpu.json.errors?.["cpu"]).toContain("Built-in cputype 'nosuch' is not defined");
    const disk = join(images(9102), "vm-9102-disk-0.qcow2");
    const whole = readFileSync(disk);
    writeFileSync(disk, "no image");
    expect(await start()).toMatch(/Image is not in qcow2 format$/);
    expect(await run("POST", `${vm(9102)}/snapshot`, { snapname: "one" })).toContain("vm-9102-disk-0.qcow2");
    expect(await run("POST", `${vm(9102)}/clone`, { newid: 101 })).toContain("not in qcow2 format");
    writeFileSync(disk, whole);
    expect(processes()).toEqual([]);
    expect(await start()).toBe("OK");
    expect(await run("POST", `${vm(9102)}/status/stop`)).toBe("OK");
    expect(await run("DELETE", vm(9102))).toBe("OK");
  });

  test("snapshots for which there is no room", async () => {
    const filler = join(small, "filler");
    const take = (snapname: string, vmstate: number) =>
      run("POST", `${vm(9102)}/snapshot`, { snapname, vmstate });
    const snapshots = async () =>
      ((await api("GET", `${vm(9102)}/snapshot`)).data as { name: string }[]).map(({ name }) => name);
    const disk = { scsi0: "small:0.002,format=qcow2", vmstatestorage: "small" };
    await run("POST", `${node}/qemu`, { vmid: 9102, memory: 32, ...disk });
    expect(await run("POST", `${vm(9102)}/status/start`)).toBe("OK");
    const values = await config(9102);
    // As much as there is: neither the RAM nor another table of the disk fits.
    await exec("dd", ["if=/dev/zero", `of=${filler}`, "bs=64k"], { okCodes: [0, 1] });
    const held = files(small);
    expect(await take("ram", 1)).toMatch(NO_SPACE);
    expect(await take("disk", 0)).not.toBe("OK");
    expect(await snapshots()).toEqual(["current"]);
    expect(files(small)).toEqual(held);
    expect(await config(9102)).toEqual(values);
    expect(await state(9102)).toMatchObject({ status: "running", qmpstatus: "running" });
    rmSync(filler);
    expect(await take("ram", 1)).toBe("OK");
    expect(await snapshots()).toEqual(["ram", "current"]);
    expect(await run("POST", `${vm(9102)}/status/stop`)).toBe("OK");
    expect(await run("DELETE", vm(9102))).toBe("OK");
  });

  test("two clients at once", async () => {
    await run("POST", `${node}/qemu`, { vmid: 9102, memory: 32, name: "shared" });
    const { digest = "" } = await config(9102);
    const all = async (requests: readonly (readonly [string, string, Params?])[]) => {
      const answers = await Promise.all(requests.map(([...request]) => api(...request)));
      return Promise.all(
        answers.map(async ({ status, data, reason }) =>
          status === 200 && typeof data === "string"
            ? ((await waitTask(api, data)).exitstatus ?? "")
            : reason,
        ),
      );
    };
    const numbers = [1, 2, 3, 4];
    const changes = numbers.map((i) => ["PUT", `${vm(9102)}/config`, { name: `n${i}`, digest }] as const);
    const mismatch = "checksum mismatch (file change by other user?)";
    expect((await all(changes)).toSorted()).toEqual(["OK", mismatch, mismatch, mismatch]);
    expect(await refused("POST", `${vm(9102)}/config`, { name: "x", digest: STALE })).toBe(mismatch);
    // Without a digest nothing of them is lost.
    const disks = numbers.map((i) => ["PUT", `${vm(9102)}/config`, { [`scsi${i}`]: "local:0.001" }] as const);
    expect(await all(disks)).toEqual(["OK", "OK", "OK", "OK"]);
    const values = await config(9102);
    expect(new Set(numbers.map((i) => values[`scsi${i}`])).size).toBe(4);
    const clones = numbers.map(() => ["POST", `${vm(9102)}/clone`, { newid: 101 }] as const);
    const exists = "unable to create VM 101: config file already exists";
    expect((await all(clones)).toSorted()).toEqual(["OK", exists, exists, exists]);
    const ended = await all([
      ["DELETE", vm(101)],
      ["POST", `${vm(101)}/status/start`],
      ["POST", `${vm(101)}/snapshot`, { snapname: "late" }],
    ]);
    // Whoever was first: it runs and is not destroyed, or is destroyed and does not run.
    const gone = (await api("GET", `${vm(101)}/config`)).status === 500;
    expect([ended[0] === "OK", ended[1] === "OK"]).toEqual([gone, !gone]);
    if (!gone) await run("POST", `${vm(101)}/status/stop`);
    if (!gone) expect(await run("DELETE", vm(101))).toBe("OK");
    await api("POST", "/cluster/backup", {
      id: "both",
      schedule: "02:00",
      vmid: "100,9102",
      storage: "local",
    });
    await api("POST", "/cluster/backup", { id: "one", schedule: "02:00", vmid: "9102", storage: "local" });
    expect(await run("DELETE", vm(9102), { purge: 1 })).toBe("OK");
    expect((await api("GET", "/cluster/backup")).data).toEqual([
      expect.objectContaining({ id: "both", vmid: "100" }),
    ]);
  });

  describe("a running VM without KVM, agent or an ear for ACPI", () => {
    beforeAll(async () => {
      await api("PUT", `${vm()}/config`, { agent: "1", vmstatestorage: "full" });
      const upid = await submit("POST", `${vm()}/status/start`);
      expect((await waitTask(api, upid)).exitstatus).toBe("OK");
      if ((await state())["gpve-accelerator"] === "tcg")
        expect(await taskLog(api, upid)).toContain("the guest is emulated by TCG");
    });

    test("on a storage that fills up", async () => {
      expect(await run("POST", `${vm()}/move_disk`, { disk: "scsi0", storage: "small" })).toMatch(NO_SPACE);
      expect(await run("POST", `${vm()}/clone`, { newid: 101, full: 1, storage: "small" })).toMatch(NO_SPACE);
      expect(await run("POST", `${node}/vzdump`, { vmid: 100, storage: "small" })).toBe("job errors");
      for (const vmstatestorage of ["full", "small"]) {
        const old = (await config())["vmstatestorage"] ?? "";
        const filler = join(small, "filler");
        // Room to begin with, but not for what a guest has in its RAM before it did anything: its firmware.
        if (vmstatestorage === "small") writeFileSync(filler, Buffer.alloc(freeBytes(small) - 64 * 1024));
        await api("PUT", `${vm()}/config`, { vmstatestorage });
        // Without room for the RAM the raw disk is never reached.
        expect(await run("POST", `${vm()}/status/suspend`, { todisk: 1 })).toMatch(NO_SPACE);
        await api("PUT", `${vm()}/config`, { vmstatestorage: old });
        rmSync(filler, { force: true });
      }
      expect(await state()).toMatchObject({ status: "running", qmpstatus: "running" });
    });

    test("answers nobody, and is ended only by force", async () => {
      expect(await refused("POST", `${vm()}/agent/ping`)).toBe("QEMU guest agent is not running");
      const late = "VM quit/powerdown failed - got timeout";
      expect(await run("POST", `${vm()}/status/shutdown`, { timeout: 1 })).toBe(late);
      expect(await state()).toMatchObject({ status: "running", qmpstatus: "running" });
    });

    afterAll(async () => {
      expect(await run("POST", `${vm()}/status/shutdown`, { timeout: 1, forceStop: 1 })).toBe("OK");
      expect(processes()).toEqual([]);
    });
  });
});
