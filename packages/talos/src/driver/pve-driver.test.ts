import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { GpveClient } from "@gpve/client/client.ts";
import { FakeApi, FakeTransport } from "@gpve/client/testing/fake-api.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { describe, expect, test } from "vitest";
import { driverConformance } from "../testing/driver-conformance.ts";
import { fakePvesh, FakePlatform, PlatformApi } from "../testing/fake-platform.ts";
import { testCluster } from "../testing/test-cluster.ts";
import { openDriver } from "./open-driver.ts";
import { PveDriver } from "./pve-driver.ts";
import { PveshCalls } from "./pvesh-calls.ts";
import { RestCalls } from "./rest-calls.ts";

/** A file of these words, uploaded; what became of it. */
async function uploaded(platform: FakePlatform, driver: PveDriver, sha256?: string) {
  const folder = mkdtempSync(join(tmpdir(), "gpve-talos-upload-"));
  const path = join(folder, "image.qcow2");
  writeFileSync(path, "an image");
  const sum = sha256 ?? createHash("sha256").update("an image").digest("hex");
  try {
    await driver.uploadImage("pve1", "local", { name: "talos.qcow2", content: "import", path, sha256: sum });
    return { volumes: platform.volumes, content: platform.uploads.get("talos.qcow2") };
  } finally {
    rmSync(folder, { recursive: true });
  }
}
const there = { volumes: ["local:import/talos.qcow2"], content: "an image" };

const where = { host: "pve1", storage: "local-lvm", vmid: 4000 };

describe("over REST", () => {
  const transport = new FakeTransport(new PlatformApi(new FakePlatform()));
  const client = new GpveClient({
    transport,
    credentials: { kind: "token", token: "root@pam!t=1" },
    clock: systemClock,
  });
  driverConformance(() => ({ driver: new PveDriver("pve", new RestCalls(client)), ...where }));

  test("an image is uploaded with its checksum, and not kept when it is another one", async () => {
    const platform = new FakePlatform();
    const api = new FakeTransport(new PlatformApi(platform));
    const credentials = { kind: "token", token: "root@pam!t=1" } as const;
    const driver = new PveDriver(
      "pve",
      new RestCalls(new GpveClient({ transport: api, credentials, clock: systemClock })),
    );
    await expect(uploaded(platform, driver, "0".repeat(64))).rejects.toThrow("checksum mismatch");
    expect(platform.volumes).toEqual([]);
    expect(await uploaded(platform, driver)).toEqual(there);
  });

  test("a guest's serial line is heard after the welcome, in whichever pieces it comes", async () => {
    const offer = { port: 5900, ticket: "PVEVNC:1", user: "root@pam!t" };
    const api = new FakeApi().pve("POST /nodes/pve1/qemu/4000/termproxy", offer);
    api.onSocket((message, socket) => {
      expect(String(message)).toBe("root@pam!t:PVEVNC:1\n");
      for (const piece of ["O", "K[talos] ", "no carrier\r\n"]) socket.say(piece);
    });
    const credentials = { kind: "token", token: "root@pam!t=1" } as const;
    const heard = new GpveClient({ transport: new FakeTransport(api), credentials, clock: systemClock });
    const console = await new PveDriver("pve", new RestCalls(heard)).listen({ host: "pve1", vmid: 4000 });
    await expect.poll(() => console?.lines).toEqual(["[talos] no carrier"]);
    console?.close();
    expect(api.requests.at(-1)?.query.get("port")).toBe("5900");
  });

  test("a closed driver has no connections", () => {
    new PveDriver("pve", new RestCalls(client)).close();
    expect(transport.closed).toBe(true);
  });
});

describe("by pvesh", () => {
  const platform = new FakePlatform();
  const seen: string[][] = [];
  driverConformance(() => ({
    driver: new PveDriver("host", new PveshCalls(fakePvesh(platform, seen))),
    ...where,
  }));

  test("values are arguments of their own, and root needs no privileges", async () => {
    expect(seen).toContainEqual(
      expect.arrayContaining(["pvesh", "create", "/nodes/pve1/qemu", "--scsi0", "local-lvm:1"]),
    );
    expect(seen).toContainEqual(expect.arrayContaining(["delete", "/nodes/pve1/qemu/4000", "--purge", "1"]));
    const driver = new PveDriver("host", new PveshCalls(fakePvesh(platform)));
    expect(await driver.privileges("/vms")).toBeUndefined();
    driver.close();
  });

  test("a task that failed is a failure, though pvesh ends well", async () => {
    const upid = "UPID:pve1:1:2:3:qmstart:100:root@pam:";
    const answers: Record<string, string> = {
      create: `starting\n"${upid}"\n`,
      get: JSON.stringify({ status: "stopped", exitstatus: "no such bridge" }),
    };
    const seen: string[][] = [];
    const calls = new PveshCalls(async (program, args) => {
      seen.push([program, ...args]);
      return { code: 0, stdout: answers[args[0] ?? ""] ?? "", stderr: "" };
    });
    const start = () => calls.work("POST", "/nodes/pve1/qemu/100/status/start");
    await expect(start()).rejects.toMatchObject({ code: "operation.failed", message: "no such bridge" });
    expect(seen.at(-1)).toContain(`/nodes/pve1/tasks/${upid}/status`);
    answers["get"] = JSON.stringify({ status: "stopped", exitstatus: "OK" });
    await expect(start()).resolves.toBeUndefined();
  });

  test("a guest that is not there is told apart from one that is not told of", async () => {
    const answers = ["Configuration file 'nodes/pve1/qemu-server/100.conf' does not exist", "no quorum"];
    const calls = new PveshCalls(async () => {
      throw new AppError("internal.error", `pvesh failed with exit code 2: ${answers.shift()}`);
    });
    const config = () => calls.read("/nodes/pve1/qemu/100/config");
    await expect(config()).rejects.toMatchObject({ code: "object.not_found" });
    await expect(config()).rejects.toMatchObject({ code: "internal.error" });
  });

  test("an image is put where Proxmox VE takes files from, and taken away again", async () => {
    const platform = new FakePlatform();
    const spool = mkdtempSync(join(tmpdir(), "gpve-talos-spool-"));
    const seen: string[][] = [];
    const driver = new PveDriver("host", new PveshCalls(fakePvesh(platform, seen), undefined, spool));
    expect(await uploaded(platform, driver)).toEqual(there);
    expect(seen[0]?.join(" ")).toMatch(/--content import .*--tmpfilename \S+\/pveupload-[0-9a-f]{32} /);
    await expect(uploaded(platform, driver, "0".repeat(64))).rejects.toThrow("checksum mismatch");
    expect(readdirSync(spool)).toEqual([]);
    rmSync(spool, { recursive: true });
  });

  test("a command of gpve may name no files: nothing is tried", async () => {
    const platform = new FakePlatform();
    const driver = new PveDriver("host", new PveshCalls(fakePvesh(platform), "/srv/gpve"));
    await expect(uploaded(platform, driver)).rejects.toMatchObject({
      code: "feature.unsupported",
      data: { finding: "image-upload-impossible" },
    });
    expect(platform.done).toEqual([]);
  });

  test("a gpve elsewhere on the machine is named to pvesh", async () => {
    const seen: unknown[] = [];
    const calls = new PveshCalls(async (_program, _args, options) => {
      seen.push(options?.env?.["GPVE_DATA"]);
      return { code: 0, stdout: "{}", stderr: "" };
    }, "/srv/gpve");
    await calls.read("/version");
    expect(seen).toEqual(["/srv/gpve"]);
  });

  test("what is no JSON is told as such", async () => {
    const calls = new PveshCalls(async () => ({ code: 0, stdout: "hello", stderr: "" }));
    await expect(calls.read("/version")).rejects.toThrow("pvesh get /version did not print JSON");
  });
});

describe("a provider of the file", () => {
  const [qm] = testCluster().providers;
  const provider = (more: object) => ({
    ...qm,
    name: "pve",
    type: "pve-api",
    endpoint: "https://pve:8006",
    tokenRef: { env: "TOKEN" },
    ...more,
  });
  const open = (given: object) => {
    const connections: unknown[] = [];
    const opened = openDriver(given as never, {
      connect: (options) => {
        connections.push(options);
        return new FakeTransport(new PlatformApi(new FakePlatform()));
      },
      clock: systemClock,
      folder: import.meta.dirname,
      keys: { env: { TOKEN: "root@pam!t=1" }, homeDir: "/nowhere" },
    });
    return { opened, connections };
  };

  test("pins the certificate it names", async () => {
    const tls = { fingerprint: "AA:BB", caFile: null, insecure: false };
    const { opened, connections } = open(provider({ tls }));
    expect((await (await opened).observe(["pve1"])).nodes).toHaveLength(1);
    expect(connections).toEqual([{ url: "https://pve:8006", fingerprint: "AA:BB" }]);
    expect((await open(qm ?? {}).opened).name).toBe("pve");
  });

  test.each([
    [{ tls: { fingerprint: null, caFile: null, insecure: true } }, "platform-untrusted"],
    [{ tls: { fingerprint: null, caFile: "none.pem", insecure: false } }, "platform-untrusted"],
    [{ tokenRef: { env: "NONE" } }, "secret-reference"],
  ])("%j is refused", async (more, finding) => {
    await expect(open(provider(more)).opened).rejects.toMatchObject({ data: { finding } });
  });
});
