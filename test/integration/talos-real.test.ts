// The deployer on what somebody has: a Proxmox VE (or a gpve) at an address that is given, and an image that Talos itself has
// published. Both change what is there: machines with the VMIDs that are named, and an account driver-test.
//
//   GPVE_PVE_URL=https://pve1:8006 GPVE_PVE_TOKEN='root@pam!try=…'   the driver's contract suite
//     GPVE_PVE_FINGERPRINT=AA:BB:…   where no authority that this machine knows has signed the certificate
//     GPVE_PVE_NODE=pve1 GPVE_PVE_STORAGE=local-lvm GPVE_PVE_VMID=990100   the first node, local-lvm, this and the one after
//   GPVE_TALOS_IMAGE=nocloud-amd64.raw.xz   and a cluster of one machine from that image, to its end
//     GPVE_TALOS_VERSION=v1.13.9            the image's
//     GPVE_TALOS_NETWORK=192.0.2.0/24       the machine's, which reaches the Internet and is reached from here
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { GpveClient } from "@gpve/client/client.ts";
import { NodeTransport } from "@gpve/client/node-transport.ts";
import { given } from "@gpve/contracts/given.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import type { Driver } from "../../packages/talos/src/driver/driver.ts";
import { PveDriver } from "../../packages/talos/src/driver/pve-driver.ts";
import { RestCalls } from "../../packages/talos/src/driver/rest-calls.ts";
import { driverConformance } from "../../packages/talos/src/testing/driver-conformance.ts";
import { skipping } from "../support/foreign-clients.ts";
import { mainFile, nodeBinary, nodeOptions } from "../support/gpve.ts";

const { env } = process;
const url = env["GPVE_PVE_URL"];
const token = env["GPVE_PVE_TOKEN"];
const fingerprint = env["GPVE_PVE_FINGERPRINT"];
const storage = env["GPVE_PVE_STORAGE"] ?? "local-lvm";
const vmid = Number(env["GPVE_PVE_VMID"] ?? 990_100);
const image = env["GPVE_TALOS_IMAGE"];
const network = env["GPVE_TALOS_NETWORK"];
const noPlatform =
  url === undefined || token === undefined
    ? "nothing is given: GPVE_PVE_URL and GPVE_PVE_TOKEN, as test/integration/talos-real.test.ts says"
    : undefined;
const noImage =
  image === undefined || network === undefined || !existsSync(image)
    ? "no image is given: GPVE_TALOS_IMAGE (a file) and GPVE_TALOS_NETWORK"
    : undefined;

describe.skipIf(skipping("a Proxmox VE of one's own", noPlatform))("a platform that is given", () => {
  let driver: Driver;
  let node = "";

  beforeAll(async () => {
    const transport = new NodeTransport({ url: url ?? "", ...given({ fingerprint }) });
    const credentials = { kind: "token", token: token ?? "" } as const;
    const client = new GpveClient({ transport, credentials, clock: systemClock });
    driver = new PveDriver("given", new RestCalls(client));
    const nodes = (await client.pve.call("GET", "/nodes", {})).data as readonly { readonly node: string }[];
    node = env["GPVE_PVE_NODE"] ?? nodes[0]?.node ?? "";
  });
  afterAll(() => driver?.close());

  driverConformance(() => ({ driver, host: node, storage, vmid }));

  test.skipIf(skipping("an image of Talos", noImage))(
    "a cluster of one machine is made from a published image, is well, and goes",
    async () => {
      const folder = mkdtempSync(join(tmpdir(), "gpve-talos-real-"));
      const gpvectl = (...args: readonly string[]) =>
        exec(nodeBinary, [...nodeOptions, mainFile, "ctl", "talos", ...args], {
          cwd: folder,
          env: { ...MINIMAL_ENV, HOME: folder, PVE_TOKEN: token ?? "" },
          timeoutMs: 3_000_000,
        });
      try {
        const place = [
          "--provider",
          "pve-api",
          "--endpoint",
          url ?? "",
          "--nodes",
          node,
          "--storage",
          storage,
        ];
        const sizes = ["--preset", "lab", "--control-planes", "1", "--workers", "0"];
        const told = [
          ...(fingerprint === undefined ? [] : ["--fingerprint", fingerprint]),
          ...(env["GPVE_TALOS_VERSION"] === undefined ? [] : ["--talos-version", env["GPVE_TALOS_VERSION"]]),
        ];
        const named = ["--yes", "--name", "gpve-try", "--network", network ?? ""];
        await gpvectl("init", ...named, ...sizes, ...place, ...told);
        await gpvectl("set", `image.archive=${resolve(image ?? "")}`);
        await gpvectl("apply", "--yes");
        await gpvectl("verify");
        const { stdout } = await gpvectl("status", "-o", "json");
        expect(JSON.parse(stdout)).toMatchObject({ isHealthy: true });
        await gpvectl("destroy", "--name", "gpve-try");
        const { guests } = await driver.observe([node]);
        expect(guests.filter(({ tags }) => tags.includes("talos-gpve-try"))).toEqual([]);
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    },
    3_600_000,
  );
});
