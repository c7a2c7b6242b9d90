// The deployer's driver, preflight and plan on a real gpve, by the public API alone.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { GpveClient } from "@gpve/client/client.ts";
import { NodeTransport } from "@gpve/client/node-transport.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { exec, MINIMAL_ENV, type Exec } from "@gpve/kit/exec.ts";
import type { Step } from "../../packages/talos/src/plan/plan-steps.ts";
import type { Driver } from "../../packages/talos/src/driver/driver.ts";
import { PveDriver } from "../../packages/talos/src/driver/pve-driver.ts";
import { PveshCalls } from "../../packages/talos/src/driver/pvesh-calls.ts";
import { RestCalls } from "../../packages/talos/src/driver/rest-calls.ts";
import { driverConformance } from "../../packages/talos/src/testing/driver-conformance.ts";
import { skipping } from "../support/foreign-clients.ts";
import { type Api, apiOf, firstNode, type Gpve, mainFile, nodeBinary, startGpve } from "../support/gpve.ts";
import { uploadImage } from "../support/images.ts";

const bridge = "tbr883";
const network = "10.30.0";
const lacking = process.getuid?.() === 0 ? undefined : "needs root";

describe.skipIf(skipping("Talos on gpve", lacking))("a real gpve", () => {
  let gpve: Gpve;
  let api: Api;
  let driver: Driver;
  let node = "";
  let folder = "";
  let factory: Server;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "gpve-talos-"));
    // One that a killed run left is in the way.
    await exec("ip", ["link", "del", bridge], { okCodes: [0, 1] });
    await exec("ip", ["link", "add", bridge, "type", "bridge"]);
    // Preflight asks addresses of the cluster's network: they are this machine's, where nobody answers.
    await exec("ip", ["addr", "add", `${network}.1/24`, "dev", bridge]);
    await exec("ip", ["link", "set", bridge, "up"]);
    gpve = await startGpve();
    api = apiOf(gpve.credentials);
    factory = createServer((request, response) => {
      const [talos] = /(?<=talos: ["']?)v?\d+\.\d+\.\d+/.exec(fileText()) ?? ["none"];
      response.end(JSON.stringify(request.url === "/versions" ? [`v${talos.replace("v", "")}`] : []));
    });
    await new Promise<void>((resolve) => {
      factory.listen(0, "127.0.0.1", resolve);
    });
    node = await firstNode(api);
    await api("PUT", "/storage/local", { content: "iso,vztmpl,backup,snippets,import,images,rootdir" });
    const { url, fingerprint, token } = gpve.credentials;
    const transport = new NodeTransport({ url, fingerprint });
    const client = new GpveClient({ transport, credentials: { kind: "token", token }, clock: systemClock });
    driver = new PveDriver("gpve", new RestCalls(client));
  });

  afterAll(async () => {
    driver.close();
    factory.close();
    await gpve.stop();
    await exec("ip", ["link", "del", bridge], { okCodes: [0, 1] });
    rmSync(folder, { recursive: true, force: true });
  });

  driverConformance(() => ({ driver, host: node, storage: "local", vmid: 4100 }));

  // A process for each call. In the short run talos-apply makes a cluster that way.
  describe.skipIf(process.env["GPVE_TALOS_QM"] === undefined)("by PVE's commands on the node", () => {
    let qm: Driver;

    beforeAll(async () => {
      const links = join(folder, "bin");
      await exec(nodeBinary, [mainFile, "pve-commands", "install", links]);
      const inLinks: Exec = (program, args, options) => exec(join(links, program), args, options);
      qm = new PveDriver("host", new PveshCalls(inLinks, gpve.data));
    });

    driverConformance(() => ({ driver: qm, uploader: driver, host: node, storage: "local", vmid: 4101 }));

    test("what is seen is what REST shows, so that plans are the same", async () => {
      const place = { host: node, vmid: 4102 };
      await driver.createGuest(place, { name: "seen", memory: "64", tags: "a;b", scsi0: "local:1" });
      const lasting = async (by: Driver) => {
        const { version, guests, pools, nodes } = await by.observe([node]);
        const storages = nodes.flatMap((each) =>
          each.storages.map(({ name, contents }) => ({ name, contents })),
        );
        return { version, guests, pools, storages, bridges: nodes.map(({ bridges }) => bridges) };
      };
      expect(await lasting(qm)).toEqual(await lasting(driver));
      expect(await qm.guestConfig(place)).toEqual(await driver.guestConfig(place));
      expect(await qm.volumes(node, "local", "images")).toEqual(
        await driver.volumes(node, "local", "images"),
      );
      await qm.deleteGuest(place);
    });
  });

  const fileText = () => readFileSync(join(folder, "cluster.yaml"), "utf8");
  const gpvectl = (...args: readonly string[]) =>
    exec(process.execPath, [mainFile, "ctl", "talos", ...args], {
      cwd: folder,
      env: { ...MINIMAL_ENV, HOME: folder, GPVE_TOKEN: gpve.credentials.token },
      okCodes: args[0] === "preflight" || args[0] === "plan" ? [0, 1, 2] : [0],
    });

  test("preflight names what lacks, and is content when nothing does", async () => {
    const { url, fingerprint } = gpve.credentials;
    const init = ["init", "--yes", "--preset", "lab", "--name", "lab", "--network", `${network}.0/24`];
    await gpvectl(
      ...init,
      "--provider",
      "gpve",
      "--endpoint",
      url,
      "--fingerprint",
      fingerprint,
      "--nodes",
      `${node},nowhere`,
    );
    const { port } = factory.address() as AddressInfo;
    // A bridge of the usual name may be somebody else's on this machine.
    // Nor is anybody beyond this machine asked for the time.
    await gpvectl(
      "set",
      `image.factory=http://127.0.0.1:${port}`,
      "network.bridge=vmbr4093",
      "network.ntp=[]",
    );
    const bad = await gpvectl("preflight", "--output", "json");
    const { findings } = JSON.parse(bad.stdout) as { findings: { id: string; evidence: string }[] };
    expect(bad.code).toBe(1);
    expect(findings.map(({ id }) => id).toSorted(), bad.stdout).toEqual(["bridge-missing", "node-missing"]);
    await gpvectl("set", `network.bridge=${bridge}`, `providers.gpve.nodes=[${node}]`);
    // Emulated guests have no host CPU.
    await gpvectl(
      "set",
      "controlPlane.machine.cpu=max",
      "pools.worker.machine.cpu=max",
      "controlPlane.machine.bios=seabios",
      "pools.worker.machine.bios=seabios",
    );
    const good = await gpvectl("preflight");
    expect(good.stdout + good.stderr).toContain("lab can be made here.");
    expect(good.code).toBe(0);
  });

  test("a wrong token and a wrong certificate are told apart", async () => {
    const run = async (args: readonly string[], token: string) => {
      const { stdout } = await exec(process.execPath, [mainFile, "ctl", "talos", ...args, "-o", "json"], {
        cwd: folder,
        env: { ...MINIMAL_ENV, HOME: folder, GPVE_TOKEN: token },
        okCodes: [1],
      });
      expect(stdout).not.toContain(token.split("=")[1]);
      return (JSON.parse(stdout) as { findings: { id: string }[] }).findings.map(({ id }) => id);
    };
    expect(await run(["preflight"], "root@pam!nobody=00000000-0000-0000-0000-000000000000")).toEqual([
      "credentials-wrong",
    ]);
    const { fingerprint } = gpve.credentials;
    const another = fingerprint.replace(/^../, (first) => (first === "00" ? "01" : "00"));
    const text = fileText().replace(fingerprint, another);
    writeFileSync(join(folder, "other.yaml"), text);
    expect(await run(["preflight", "-f", "other.yaml"], gpve.credentials.token)).toEqual([
      "platform-untrusted",
    ]);
  });

  test("a plan that was carried out leaves nothing to do, and drift is seen", async () => {
    const planOf = async () => {
      const { stdout, code } = await gpvectl(
        "plan",
        "--only",
        "infrastructure",
        "--output",
        "json",
        "--detailed-exitcode",
      );
      return { code, ...(JSON.parse(stdout) as { steps: Step[]; findings: unknown[] }) };
    };
    const first = await planOf();
    expect(first.code, JSON.stringify(first.findings)).toBe(2);
    const ofMachine = ["guest.create", "guest.resize", "guest.start"];
    expect(first.steps.map(({ kind }) => kind)).toEqual(["image.ensure", ...ofMachine, ...ofMachine]);
    for (const step of first.steps) await carryOut(step);
    expect(await planOf()).toEqual({ code: 0, ok: true, findings: [], kept: [], steps: [] });

    const [made] = first.steps.filter(({ kind }) => kind === "guest.create");
    const place = made?.kind === "guest.create" ? made.place : { host: node, vmid: 0 };
    await driver.changeGuest(place, { tags: "talos-lab;mine" });
    await driver.stop(place);
    expect((await planOf()).steps).toMatchObject([
      { kind: "guest.change", changes: [{ key: "tags", to: "talos-lab" }] },
      { kind: "guest.start" },
    ]);
    // One that boots is heard on its serial line.
    await driver.start(place);
    const console = await driver.listen(place);
    await expect.poll(() => console?.lines.join("\n"), { timeout: 400_000 }).toMatch(/\w/);
    console?.close();
    const guests = (await driver.observe([node])).guests;
    for (const { vmid, isRunning } of guests) {
      if (isRunning) await driver.stop({ host: node, vmid });
      await driver.deleteGuest({ host: node, vmid });
    }
  });

  async function carryOut(step: Step): Promise<void> {
    // A small Linux under the image's name: there is no Image Factory here.
    if (step.kind === "image.ensure") await uploadImage(gpve, step.subject);
    else if (step.kind === "guest.create") await driver.createGuest(step.place, step.config);
    else if (step.kind === "guest.resize") await driver.resizeDisk(step.place, step.disk, step.gib);
    else if (step.kind === "guest.start") await driver.start(step.place);
    else throw new Error(`${step.kind} was not expected`);
  }
});
