// A VM leaves one cluster for another: two products that know nothing of each other but an address, a token and a
// fingerprint.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { exec } from "@gpve/kit/exec.ts";
import { afterAll, beforeAll, expect, test } from "vitest";
import { apiOf, startGpve, type Api, type Gpve } from "../support/gpve.ts";
import { untilAgentAnswers } from "../support/guest.ts";
import { uploadImage } from "../support/images.ts";
import { taskLog, waitTask } from "../support/tasks.ts";

let from: Gpve;
let to: Gpve;
let here: Api;
let there: Api;

beforeAll(async () => {
  from = await startGpve();
  to = await startGpve();
  here = apiOf(from.credentials);
  there = apiOf(to.credentials);
});
afterAll(async () => {
  await from?.stop();
  await to?.stop();
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

test("a VM that is off goes to another cluster, and runs there", { timeout: 400_000 }, async () => {
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
  const { url, token, fingerprint } = to.credentials;
  const { hostname, port } = new URL(url);
  const wanted = (print: string) => ({
    "target-endpoint": `host=${hostname},port=${port},apitoken=PVEAPIToken=${token},fingerprint=${print}`,
    "target-vmid": 300,
    "target-storage": "local",
    "target-bridge": "vmbr0",
    delete: 1,
  });
  const path = `/nodes/${node}/qemu/100/remote_migrate`;
  const wrong = await here("POST", path, wanted(fingerprint.replaceAll(/[0-9A-F]/g, "0")));
  expect((await waitTask(here, wrong.data as string)).exitstatus).toContain("another fingerprint");
  expect((await there("GET", `/nodes/${other}/qemu`)).data).toEqual([]);

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
  await expect.poll(() => existsSync(disk), { timeout: 60_000 }).toBe(false);
  await run(there, `/nodes/${other}/qemu/300/status/start`, {});
  await untilAgentAnswers(there, `/nodes/${other}/qemu/300`);
});
