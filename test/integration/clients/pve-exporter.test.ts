// prometheus-pve-exporter, as it comes from PyPI: one scrape with every collector, checked against what is there.
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { startChild, type Child } from "@gpve/kit/testing/child.ts";
import { lacksPython, pypiPython, skipping } from "../../support/foreign-clients.ts";
import { type Api, apiOf, firstNode, type Gpve, startGpve } from "../../support/gpve.ts";
import { waitTask } from "../../support/tasks.ts";

const lacking = existsSync("/usr/bin/qemu-system-x86_64")
  ? await lacksPython("venv, ensurepip", "python3-venv")
  : "no QEMU; get it with: apt-get install qemu-system-x86 qemu-utils";

describe.skipIf(skipping("prometheus-pve-exporter", lacking))("prometheus-pve-exporter", () => {
  let gpve: Gpve;
  let api: Api;
  let node: string;
  let folder: string;
  let exporter: Child | undefined;
  let metrics: ReadonlyMap<string, number>;

  const run = async (path: string, params?: Record<string, string | number>): Promise<void> => {
    const answer = await api("POST", `/nodes/${node}${path}`, params);
    expect(answer.status, answer.text).toBe(200);
    expect(await waitTask(api, answer.data as string)).toMatchObject({ exitstatus: "OK" });
  };

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "gpve-exporter-"));
    gpve = await startGpve();
    api = apiOf(gpve.credentials);
    node = await firstNode(api);
    const disk = { scsi0: "local:1,format=qcow2", memory: 32 };
    await run("/qemu", { vmid: 100, name: "up", onboot: 1, tags: "a;b", ...disk });
    await run("/qemu", { vmid: 101, name: "down", ...disk });
    await run("/qemu/100/status/start");
  });
  afterAll(async () => {
    exporter?.signal("SIGTERM");
    await exporter?.exited;
    await gpve.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  test("scrapes the cluster and its nodes", async () => {
    const { url, token, caFile } = gpve.credentials;
    const [, name, value] = /^[^!]+!([^=]+)=(.+)$/.exec(token) ?? [];
    const config = join(folder, "pve.yml");
    const login = { user: "root@pam", token_name: name, token_value: value, verify_ssl: true };
    writeFileSync(config, JSON.stringify({ default: login }), { mode: 0o600 });
    const port = await freePort();
    const listen = `127.0.0.1:${port}`;
    const argv = ["-m", "pve_exporter", "--config.file", config, "--web.listen-address", listen];
    exporter = startChild(await pypiPython(), argv, {
      env: { ...MINIMAL_ENV, REQUESTS_CA_BUNDLE: caFile },
      cwd: folder,
    });
    const target = `http://${listen}/pve?cluster=1&node=1&target=${new URL(url).host}`;
    // Nodes report what runs every few seconds, as PVE's do.
    const scrape = async (): Promise<ReadonlyMap<string, number>> => {
      const answer = await fetch(target).catch(() => undefined);
      return samples(answer?.status === 200 ? await answer.text() : "");
    };
    const isUp = async (): Promise<number | undefined> => {
      metrics = await scrape();
      return metrics.get('pve_up{id="qemu/100"}');
    };
    await expect.poll(isUp, { timeout: 150_000, interval: 250 }).toBe(1);
    expect(metrics.size).toBeGreaterThan(80);
  });

  test("shows guests, storages and the node as they are", async () => {
    const of = (id: string, name: string): number | undefined => metrics.get(`pve_${name}{id="${id}"}`);
    expect([of("qemu/100", "up"), of("qemu/101", "up"), of(`node/${node}`, "up")]).toEqual([1, 0, 1]);
    expect(of(`storage/${node}/local`, "up")).toBe(1);
    expect(of("qemu/100", "disk_size_bytes")).toBe(1024 ** 3);
    expect(of("qemu/100", "memory_size_bytes")).toBe(32 * 1024 ** 2);
    expect(of("qemu/100", "memory_usage_bytes")).toBeGreaterThan(0);
    expect(of("qemu/101", "memory_usage_bytes")).toBe(0);
    expect(of("qemu/100", "cpu_usage_limit")).toBe(1);
    const { maxcpu, maxmem } =
      ((await api("GET", "/nodes")).data as { maxcpu: number; maxmem: number }[])[0] ?? {};
    expect(of(`node/${node}`, "cpu_usage_limit")).toBe(maxcpu);
    expect(of(`node/${node}`, "memory_size_bytes")).toBe(maxmem);
    expect(of(`node/${node}`, "uptime_seconds")).toBeGreaterThan(0);
    expect(of(`storage/${node}/local`, "storage_shared")).toBe(0);
    for (const name of ["network_transmit", "network_receive", "disk_written", "disk_read"])
      expect(of("qemu/100", `${name}_bytes_total`)).toBeGreaterThanOrEqual(0);
    expect(metrics.get(`pve_not_backed_up_total{id="cluster/${node}"}`)).toBe(2);
    expect(metrics.get(`pve_onboot_status{id="qemu/100",node="${node}",type="qemu"}`)).toBe(1);
    expect(metrics.get(`pve_subscription_status{id="node/${node}",status="notfound"}`)).toBe(1);
    const info = `pve_guest_info{id="qemu/100",name="up",node="${node}",tags="a;b",template="0",type="qemu"}`;
    expect(metrics.get(info)).toBe(1);
    const families = new Set([...metrics.keys()].map((key) => key.replace(/\{.*/, "")));
    for (const name of ["ha_state", "lock_state", "node_info", "storage_info", "version_info"])
      expect(families).toContain(`pve_${name}`);
  });
});

/** Name and labels, as they are printed, with the value. */
function samples(text: string): Map<string, number> {
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return new Map(lines.map((line) => [line.slice(0, line.lastIndexOf(" ")), Number(line.split(" ").at(-1))]));
}

function freePort(): Promise<number> {
  return new Promise((done) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => done(port));
    });
  });
}
