import { GpveClient } from "@gpve/client/client.ts";
import { FakeTransport } from "@gpve/client/testing/fake-api.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { describe, expect, test } from "vitest";
import { driverConformance } from "../testing/driver-conformance.ts";
import { fakePvesh, FakePlatform, PlatformApi } from "../testing/fake-platform.ts";
import { testCluster } from "../testing/test-cluster.ts";
import { openDriver } from "./open-driver.ts";
import { PveDriver } from "./pve-driver.ts";
import { PveshCalls } from "./pvesh-calls.ts";
import { RestCalls } from "./rest-calls.ts";

const where = { host: "pve1", storage: "local-lvm", vmid: 4000 };

describe("over REST", () => {
  const transport = new FakeTransport(new PlatformApi(new FakePlatform()));
  const client = new GpveClient({
    transport,
    credentials: { kind: "token", token: "root@pam!t=1" },
    clock: systemClock,
  });
  driverConformance(() => ({ driver: new PveDriver("pve", new RestCalls(client)), ...where }));

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
