// Clients from npm take a VM through create, change, start, snapshot, clone and delete.
import { copyFileSync, existsSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { clientsFolder, login, npmClients, skipping } from "../../support/foreign-clients.ts";
import { nodeBinary, root, startGpve, type Gpve } from "../../support/gpve.ts";

const lacking = existsSync("/usr/bin/qemu-system-x86_64")
  ? undefined
  : "no QEMU; get it with: apt-get install qemu-system-x86 qemu-utils";

describe.skipIf(skipping("npm clients", lacking))("clients from npm", () => {
  let gpve: Gpve;
  let folder: string;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "gpve-npm-"));
    gpve = await startGpve();
  });
  afterAll(async () => {
    await gpve.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  /** The script runs in a folder of its own, beside the packages it imports. */
  const round = async (client: string, packages: string, how: "password" | "token"): Promise<object> => {
    const place = mkdtempSync(join(folder, "run-"));
    symlinkSync(join(packages, "node_modules"), join(place, "node_modules"));
    const script = join(place, `${client}-round.mjs`);
    copyFileSync(join(clientsFolder, "npm", `${client}-round.mjs`), script);
    const { url, caFile } = gpve.credentials;
    const { hostname, port } = new URL(url);
    const { user, input } = login(gpve.credentials, how);
    const env = { ...MINIMAL_ENV, NODE_EXTRA_CA_CERTS: caFile };
    const argv = [script, hostname, port, how, user];
    const { stdout } = await exec(nodeBinary, argv, { input, env, timeoutMs: 150_000 });
    return JSON.parse(stdout) as object;
  };

  const GONE = /Configuration file 'nodes\/\S+\/qemu-server\/100\.conf' does not exist/;

  test.each([
    { client: "cv4pve", how: "password", exits: 9, packages: npmClients },
    { client: "cv4pve", how: "token", exits: 9, packages: npmClients },
    { client: "proxmox-client", how: "token", exits: 8, packages: npmClients },
    { client: "proxmox-api", how: "password", exits: 8, packages: () => Promise.resolve(root) },
    { client: "proxmox-api", how: "token", exits: 8, packages: () => Promise.resolve(root) },
  ] as const)("$client, by $how", async ({ client, how, exits, packages }) => {
    const seen = await round(client, await packages(), how);
    expect(seen).toMatchObject({
      exits: expect.arrayContaining(["OK"]),
      changed: null,
      config: {
        name: client,
        memory: "48",
        tags: "x;y",
        scsi0: "local:100/vm-100-disk-0.qcow2,size=1G",
      },
      status: "running",
      snapshots: ["one", "current"],
      clone: "local:101/vm-101-disk-0.qcow2,size=1G",
      resources: ["qemu/100", "qemu/101"],
    });
    const { exits: ended, gone } = seen as { exits: string[]; gone: unknown };
    expect([...ended]).toEqual(Array.from({ length: ended.length }, () => "OK"));
    expect(ended.length).toBeGreaterThanOrEqual(exits - 1);
    expect(JSON.stringify(gone)).toMatch(GONE);
  });
});
