// A VM leaves one cluster for another: two products that know nothing of each other but an address, a token and a
// fingerprint.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { exec } from "@gpve/kit/exec.ts";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { apiOf, mainFile, nodeBinary, startGpve, type Api, type Gpve } from "../support/gpve.ts";
import { runByAgent, untilAgentAnswers } from "../support/guest.ts";
import { uploadImage } from "../support/images.ts";
import { networkTurn, type NetworkTurn } from "../support/network-turn.ts";
import { taskLog, waitTask } from "../support/tasks.ts";

let from: Gpve;
let to: Gpve;
let here: Api;
let there: Api;
let turn: NetworkTurn | undefined;

// One of them makes the bridge that guests of both have their cards on.
beforeAll(async () => {
  turn = await networkTurn();
  from = await startGpve({ network: true });
  to = await startGpve();
  here = apiOf(from.credentials);
  there = apiOf(to.credentials);
});
afterAll(async () => {
  await to?.stop();
  try {
    const down = ["down", "--guests", "--data", from.data];
    await exec(nodeBinary, [mainFile, ...down], { timeoutMs: 300_000 });
  } finally {
    await from?.stop();
    turn?.release();
  }
});

const nodeOf = async (api: Api): Promise<string> =>
  ((await api("GET", "/nodes")).data as readonly { node: string }[])[0]?.node ?? "";
const run = async (api: Api, path: string, params: Record<string, string | number>): Promise<string> => {
  const asked = await api("POST", path, params);
  expect(asked.status, asked.text).toBe(200);
  const upid = asked.data as string;
  const { exitstatus } = await waitTask(api, upid, 180_000);
  const log = await taskLog(api, upid);
  expect(exitstatus, log).toBe("OK");
  return log;
};

/** Where VMs go to, but for what each test says. */
const elsewhere = (print = to.credentials.fingerprint) => {
  const { url, token } = to.credentials;
  const { hostname, port } = new URL(url);
  return {
    "target-endpoint": `host=${hostname},port=${port},apitoken=PVEAPIToken=${token},fingerprint=${print}`,
    "target-storage": "local",
    "target-bridge": "vmbr0",
  };
};
const vmsOf = async (api: Api): Promise<readonly { vmid: number; status: string }[]> =>
  (await api("GET", `/nodes/${await nodeOf(api)}/qemu`)).data as readonly { vmid: number; status: string }[];

// One that counts in its memory, and writes to its disk what it has counted.
const countScript = `(i=0; while usleep 100000; do i=$((i+1)); echo $i > /tmp/count; dd if=/tmp/count of=/dev/sdb bs=512 seek=$((i % 1000)) conv=notrunc 2>/dev/null; done) </dev/null >/dev/null 2>&1 &`;

test("a VM that runs goes on in another cluster", { timeout: 1_200_000 }, async () => {
  const node = await nodeOf(here);
  const vm = `/nodes/${node}/qemu/200`;
  await run(here, `/nodes/${node}/qemu`, {
    vmid: 200,
    memory: 128,
    agent: 1,
    scsihw: "virtio-scsi-single",
    scsi0: `local:0,import-from=${await uploadImage(from, "tiny.qcow2")}`,
    scsi1: "local:0.05,format=raw",
    net0: "virtio,bridge=vmbr0",
    boot: "order=scsi0",
    start: 1,
  });
  await untilAgentAnswers(here, vm);
  const guest = (api: Api, path: string, script: string): Promise<string> =>
    runByAgent(api, path, "/bin/sh", "-c", script);
  await guest(here, vm, countScript);
  const boot = await guest(here, vm, "cat /proc/sys/kernel/random/boot_id");
  const wanted = { ...elsewhere(), "target-vmid": 400, online: 1 };
  expect((await here("POST", `${vm}/remote_migrate`, { ...wanted, online: 0 })).text).toContain("--online");

  // Called off in the midst of it: it runs on here, and nothing is left there.
  const slow = await here("POST", `${vm}/remote_migrate`, { ...wanted, bwlimit: 1_000 });
  expect(slow.status, slow.text).toBe(200);
  const upid = slow.data as string;
  await vi.waitFor(
    async () => expect(await taskLog(here, upid)).toMatch(/is ready for it|TASK ERROR/),
    300_000,
  );
  expect(await taskLog(here, upid)).toContain("is ready for it");
  expect((await vmsOf(there)).map(({ vmid }) => vmid)).toEqual([400]);
  await here("DELETE", `/nodes/${node}/tasks/${encodeURIComponent(upid)}`);
  expect((await waitTask(here, upid, 300_000)).exitstatus).not.toBe("OK");
  expect(await taskLog(here, upid)).toContain("runs on here");
  await vi.waitFor(async () => expect(await vmsOf(there)).toEqual([]), 300_000);
  expect(await guest(here, vm, "cat /proc/sys/kernel/random/boot_id")).toBe(boot);

  const before = Number(await guest(here, vm, "cat /tmp/count"));
  const log = await run(here, `${vm}/remote_migrate`, wanted);
  expect(log).toMatch(/VM 400 goes on there, \d+ ms after it last ran here/);
  expect(log).not.toContain(to.credentials.token.split("=")[1]);
  const far = `/nodes/${await nodeOf(there)}/qemu/400`;
  expect(await guest(there, far, "cat /proc/sys/kernel/random/boot_id")).toBe(boot);
  const counted = Number(await guest(there, far, "cat /tmp/count"));
  expect(counted).toBeGreaterThan(before);
  // Every number that it wrote is on its disk: none was lost on the way.
  const written = await guest(
    there,
    far,
    `i=${Math.max(1, counted - 300)}; while [ $i -le ${counted} ]; do n=$(dd if=/dev/sdb bs=512 count=1 skip=$((i % 1000)) 2>/dev/null | head -n 1 | tr -d '\\0'); [ "$n" = $i ] || echo "$i: $n"; i=$((i+1)); done`,
  );
  expect(written).toBe("");
  const { data } = await here("GET", `${vm}/status/current`);
  expect(data).toMatchObject({ status: "stopped", lock: "migrate" });
  const again = await here("POST", `${vm}/status/start`);
  expect((await waitTask(here, again.data as string)).exitstatus).toContain("VM is locked (migrate)");
  await run(there, `${far}/status/stop`, {});
});

test("a VM that is off goes to another cluster, and runs there", async () => {
  const node = await nodeOf(here);
  const other = await nodeOf(there);
  await run(here, `/nodes/${node}/qemu`, {
    vmid: 100,
    name: "traveller",
    memory: 128,
    agent: 1,
    tags: "moved",
    scsihw: "virtio-scsi-single",
    scsi0: `local:0,import-from=${await uploadImage(from, "tiny.qcow2")},discard=on`,
    scsi1: "local:0.05,format=raw",
    ide2: "local:cloudinit",
    boot: "order=scsi0",
  });
  const disk = join(from.data, "storage/local/images/100/vm-100-disk-0.qcow2");
  const copy = join(from.data, "before.qcow2");
  await exec("cp", [disk, copy]);
  const { token, fingerprint } = to.credentials;
  const wanted = (print: string) => ({ ...elsewhere(print), "target-vmid": 300, delete: 1 });
  const path = `/nodes/${node}/qemu/100/remote_migrate`;
  const wrong = await here("POST", path, wanted(fingerprint.replaceAll(/[0-9A-F]/g, "0")));
  expect((await waitTask(here, wrong.data as string)).exitstatus).toContain("another fingerprint");
  expect((await vmsOf(there)).map(({ vmid }) => vmid)).not.toContain(300);

  const log = await run(here, path, wanted(fingerprint));
  expect(log).toContain("it is VM 300 there");
  expect(log).not.toContain(token.split("=")[1]);
  const { data } = await there("GET", `/nodes/${other}/qemu/300/config`);
  expect(data).toMatchObject({ name: "traveller", tags: "moved", memory: "128", boot: "order=scsi0" });
  const images = join(to.data, "storage/local/images/300");
  await exec("qemu-img", [
    "compare",
    "-f",
    "qcow2",
    "-F",
    "qcow2",
    copy,
    join(images, "vm-300-disk-0.qcow2"),
  ]);
  const left = (await there("GET", `/nodes/${other}/storage/local/content`, { content: "import" })).data;
  expect(left).toEqual([]);
  await expect.poll(() => existsSync(disk), { timeout: 150_000 }).toBe(false);
  await run(there, `/nodes/${other}/qemu/300/status/start`, {});
  await untilAgentAnswers(there, `/nodes/${other}/qemu/300`);
});
