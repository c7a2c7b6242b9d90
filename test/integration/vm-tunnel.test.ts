// Lines to ports of real guests through the API of a real `gpve up`: opened, refused, ended.
import { existsSync, readFileSync } from "node:fs";
import { get } from "node:http";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { WebSocket } from "ws";
import { GpveClient } from "@gpve/client/client.ts";
import { NodeTransport } from "@gpve/client/node-transport.ts";
import type { MessageSocket } from "@gpve/client/transport.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { startChild } from "@gpve/kit/testing/child.ts";
import { Jumps } from "../../packages/talos/src/client/jumps.ts";
import type { Dial } from "../../packages/talos/src/client/ssh-jump.ts";
import { machinesOf } from "../../packages/talos/src/cluster/machines.ts";
import { openClient } from "../../packages/talos/src/driver/open-driver.ts";
import { testCluster } from "../../packages/talos/src/testing/test-cluster.ts";
import {
  type Api,
  apiOf,
  firstNode,
  type Gpve,
  loginHeaders,
  mainFile,
  nodeBinary,
  startGpve,
  untilPrinted,
} from "../support/gpve.ts";
import { runByAgent, untilAgentAnswers } from "../support/guest.ts";
import { uploadImage } from "../support/images.ts";
import { networkTurn, type NetworkTurn } from "../support/network-turn.ts";
import { waitTask } from "../support/tasks.ts";

const missing = [
  ...(process.getuid?.() === 0 ? [] : ["root"]),
  ...(existsSync("/usr/bin/qemu-system-x86_64") ? [] : ["qemu-system-x86"]),
  ...(existsSync("/usr/sbin/dnsmasq") ? [] : ["dnsmasq-base"]),
  ...(existsSync("/usr/sbin/nft") ? [] : ["nftables"]),
];
if (missing.length > 0)
  console.warn(`SKIPPED lines to guests: needs ${missing.join(", ")}; get packages with apt-get install`);

const MINUTES = 60_000;
const REQUEST = "GET / HTTP/1.0\r\n\r\n";

describe.skipIf(missing.length > 0)("a line to a guest's port", { timeout: 15 * MINUTES }, () => {
  let turn: NetworkTurn | undefined;
  let gpve: Gpve;
  let api: Api;
  let v1: Api;
  let node = "";
  let client: GpveClient;
  let joe: GpveClient;
  /** The node's own, on the guests' bridge. */
  let gateway = "";
  const addresses = new Map<number, string>();
  const vm = (vmid: number): string => `/nodes/${node}/qemu/${vmid}`;

  const done = async (method: string, path: string, params?: Record<string, string | number>) => {
    const answer = await api(method, path, params);
    expect(answer.status, answer.text).toBe(200);
    if (!String(answer.data).startsWith("UPID:")) return;
    expect((await waitTask(api, answer.data, 10 * MINUTES)).exitstatus).toMatch(/^(?:OK|WARNINGS: \d+)$/);
  };
  const clientOf = (token: string): GpveClient => {
    const { url, fingerprint } = gpve.credentials;
    const transport = new NodeTransport({ url, fingerprint });
    return new GpveClient({ transport, credentials: { kind: "token", token }, clock: systemClock });
  };
  const readAll = async (socket: MessageSocket, words: string): Promise<string> => {
    await socket.send(words);
    let text = "";
    for await (const piece of socket.messages) text += Buffer.from(piece).toString();
    return text;
  };
  const refusal = (opening: Promise<MessageSocket>): Promise<{ code: string; message: string }> =>
    opening.then(
      (socket) => {
        socket.close();
        throw new Error("it opened");
      },
      (err: unknown) => err as { code: string; message: string },
    );

  beforeAll(async () => {
    turn = await networkTurn();
    gpve = await startGpve({ network: true });
    api = apiOf(gpve.credentials);
    v1 = apiOf(gpve.credentials, undefined, "/api/v1");
    node = await firstNode(api);
    client = clientOf(gpve.credentials.token);
    const log = readFileSync(join(gpve.data, "log/gpve.jsonl"), "utf8");
    const bridge = /"bridge":"([^"]+)"/.exec(log)?.[1];
    const rows = (await api("GET", `/nodes/${node}/network`, { type: "bridge" })).data as {
      iface: string;
      cidr: string;
    }[];
    gateway = (rows.find(({ iface }) => iface === bridge)?.cidr ?? "").split("/")[0] ?? "";
    const image = await uploadImage(gpve, "tiny.qcow2");
    for (const vmid of [100, 101, 102]) {
      const values = { vmid, name: `guest-${vmid}`, memory: 128, agent: 1, boot: "order=scsi0" };
      const hardware = {
        scsihw: "virtio-scsi-pci",
        scsi0: `local:0,import-from=${image}`,
        ide2: "local:cloudinit",
        ipconfig0: "ip=dhcp",
        net0: "virtio,bridge=vmbr0",
      };
      await done("POST", `/nodes/${node}/qemu`, { ...values, ...hardware });
    }
    for (const vmid of [100, 101]) await done("POST", `${vm(vmid)}/status/start`);
    for (const vmid of [100, 101]) {
      await untilAgentAnswers(api, vm(vmid));
      await vi.waitFor(
        async () => {
          const said = await runByAgent(api, vm(vmid), "/bin/sh", "-c", "ip -4 addr show scope global");
          const address = /inet ([\d.]+)\//.exec(said)?.[1];
          expect(address).toBeDefined();
          addresses.set(vmid, address ?? "");
        },
        { timeout: 5 * MINUTES, interval: 1_000 },
      );
    }
    await done("POST", "/access/users", { userid: "joe@pve" });
    const made = await api("POST", "/access/users/joe@pve/token/line", { privsep: 0 });
    joe = clientOf(`joe@pve!line=${(made.data as { value: string }).value}`);
  }, 30 * MINUTES);

  afterAll(async () => {
    client?.close();
    joe?.close();
    try {
      const down = ["down", "--guests", "--data", gpve.data];
      await exec(nodeBinary, [mainFile, ...down], { timeoutMs: 5 * MINUTES });
    } finally {
      await gpve.stop();
      turn?.release();
    }
  }, 6 * MINUTES);

  test("leads to its service, by the address that the node sees or a named one, and is in the audit log", async () => {
    expect(await readAll(await client.v1.openTunnel(100, 80), REQUEST)).toMatch(/^HTTP\/1\.\d 200/);
    const address = addresses.get(100) ?? "";
    expect(await readAll(await client.v1.openTunnel(100, 80, { address }), REQUEST)).toContain("200 OK");
    const page = await v1("GET", "/audit", { resource: "/api/v1/virtualmachines/{vmid}/tunnel" });
    const { entries } = page.json as unknown as { entries: { [key: string]: unknown }[] };
    expect(JSON.stringify(entries[0])).toContain(address);
    expect(entries).toHaveLength(2);
  });

  test("is a port of one's own machine with gpvectl", async () => {
    const args = ["vm", "tunnel", "guest-100", "80", "--listen", "127.0.0.1:0"];
    const child = startChild(nodeBinary, [mainFile, "ctl", "--data", gpve.data, ...args], {
      env: { ...MINIMAL_ENV, HOME: gpve.data },
    });
    try {
      await untilPrinted(child, "127.0.0.1:");
      const at = /127\.0\.0\.1:\d+/.exec(child.output())?.[0] ?? "";
      const status = await new Promise((resolve, reject) =>
        get(`http://${at}/`, (res) => resolve(res.resume().statusCode)).on("error", reject),
      );
      expect(status).toBe(200);
    } finally {
      await child.stop();
    }
  });

  test("is refused to whoever may not use the console, and ends with that right", async () => {
    expect(await refusal(joe.v1.openTunnel(100, 80))).toMatchObject({
      code: "access.denied",
      message: expect.stringContaining("VM.Console"),
    });
    // Not even whether there is such a VM.
    expect(await refusal(joe.v1.openTunnel(999, 80))).toMatchObject({ code: "access.denied" });
    const acl = { path: "/vms/100", roles: "PVEVMUser", users: "joe@pve" };
    await done("PUT", "/access/acl", acl);
    const line = await joe.v1.openTunnel(100, 80);
    await line.send("GET / HT");
    const ended = (async () => {
      for await (const piece of line.messages) expect(piece.length).toBe(0);
    })();
    await done("PUT", "/access/acl", { ...acl, delete: 1 });
    await ended;
    expect(await refusal(joe.v1.openTunnel(100, 80))).toMatchObject({ code: "access.denied" });
  });

  test("needs more than a browser's cookie", async () => {
    const { Cookie, CSRFPreventionToken } = await loginHeaders(gpve.credentials);
    const url = `${gpve.credentials.url.replace("https", "wss")}/api/v1/virtualmachines/100/tunnel?port=80`;
    const outcome = (headers: Record<string, string>): Promise<string> =>
      new Promise((resolve) => {
        const socket = new WebSocket(url, ["binary"], {
          ca: readFileSync(gpve.credentials.caFile),
          headers,
        });
        socket.on("error", () => undefined);
        socket.on("unexpected-response", (_req, res) => {
          resolve(String(res.statusCode));
          socket.terminate();
        });
        socket.on("open", () => {
          resolve("open");
          socket.close();
        });
      });
    expect(await outcome({ Cookie: Cookie ?? "" })).toBe("401");
    expect(await outcome({ Cookie: Cookie ?? "", CSRFPreventionToken: CSRFPreventionToken ?? "" })).toBe(
      "open",
    );
  });

  test.each([
    ["the node itself", () => gateway, "access.denied", "itself"],
    ["another guest", () => addresses.get(101) ?? "", "access.denied", "no card of VM 100"],
    ["loopback", () => "127.0.0.1", "request.invalid", "loopback"],
    ["what tells machines about themselves", () => "169.254.169.254", "request.invalid", "link-local"],
    ["a network elsewhere", () => "198.51.100.9", "access.denied", "never routed on"],
  ])("is refused to %s", async (_name, address, code, words) => {
    expect(await refusal(client.v1.openTunnel(100, 80, { address: address() }))).toMatchObject({
      code,
      message: expect.stringContaining(words),
    });
  });

  test("is refused where nothing listens, to a VM that does not run, and to none", async () => {
    expect(await refusal(client.v1.openTunnel(100, 81))).toMatchObject({
      code: "node.unavailable",
      message: expect.stringContaining("Connection refused"),
    });
    expect(await refusal(client.v1.openTunnel(102, 80))).toMatchObject({
      code: "object.conflict",
      message: expect.stringContaining("does not run"),
    });
    expect(await refusal(client.v1.openTunnel(103, 80))).toMatchObject({ code: "object.not_found" });
    expect((await v1("GET", "/virtualmachines/100/tunnel", { port: 80 })).text).toContain("websocket");
  });

  test("believes neither the guest nor its owner about addresses of others", async () => {
    // It takes the address of the other one, and says so to everybody.
    const other = addresses.get(101) ?? "";
    const script = `ip addr add ${other}/24 dev eth0 && arping -U -c 3 -I eth0 ${other} || true`;
    await runByAgent(api, vm(100), "/bin/sh", "-c", script);
    const [own, theirs] = await Promise.all(
      [100, 101].map((vmid) =>
        client.v1.openTunnel(vmid, 80, { address: other }).then(
          (socket) => readAll(socket, REQUEST).then(() => "opened"),
          (err: unknown) => (err as { code: string }).code,
        ),
      ),
    );
    // Whoever is believed, it is one at a time, and the line of the other one does not come to it.
    expect([own, theirs].filter((each) => each === "opened").length).toBeLessThanOrEqual(1);
    await runByAgent(api, vm(100), "/bin/sh", "-c", `ip addr del ${other}/24 dev eth0`);
    // The node hears of whose it is when its owner asks for it the next time.
    const asking = `ip neigh flush dev eth0; ping -c 1 ${gateway} || true`;
    await vi.waitFor(
      async () => {
        await runByAgent(api, vm(101), "/bin/sh", "-c", asking);
        (await client.v1.openTunnel(101, 80, { address: other })).close();
      },
      { timeout: 3 * MINUTES, interval: 1_000 },
    );
  });

  test("is the jump to Talos' machines, each of them and the address that one of them holds", async () => {
    const { url, fingerprint, token } = gpve.credentials;
    const provider = {
      name: "home",
      type: "gpve",
      endpoint: url,
      tls: { fingerprint },
      tokenRef: { env: "TOKEN" },
      nodes: [node],
      storage: { image: "local", vm: "local", efi: "local", cloudinit: "local" },
      jump: { kind: "platform" },
    };
    const cluster = testCluster({ providers: [provider], controlPlane: { count: 3 } });
    const machines = machinesOf(cluster).map((machine, at) => ({ ...machine, vmid: 100 + at }));
    // DHCP gives away .100 to .250.
    const vip = gateway.replace(/\d+$/, "20");
    await runByAgent(api, vm(101), "/bin/sh", "-c", `ip addr add ${vip}/24 dev eth0`);
    const jumps = await Jumps.open(
      { cluster, machines },
      {
        exec,
        folder: "/",
        env: {},
        openClient: (each) =>
          openClient(each, {
            connect: (options) => new NodeTransport(options),
            clock: systemClock,
            folder: "/",
            keys: { env: { TOKEN: token }, homeDir: "/" },
          }),
      },
    );
    const ask = async (dial: Dial | undefined, host: string): Promise<string> => {
      const stream = dial?.({ host, port: 80 });
      stream?.write(REQUEST);
      let text = "";
      for await (const piece of stream ?? []) text += String(piece);
      return text;
    };
    try {
      expect(await ask(jumps.dialOf("prod-cp-1"), addresses.get(100) ?? "")).toContain("200 OK");
      expect(await ask(jumps.endpoint(), vip)).toContain("200 OK");
      await expect(ask(jumps.dialOf("prod-cp-3"), addresses.get(101) ?? "")).rejects.toThrow("does not run");
    } finally {
      await jumps.close();
    }
  });

  test("ends with the guest", async () => {
    const line = await client.v1.openTunnel(101, 80, { address: addresses.get(101) ?? "" });
    await line.send("GET / HT");
    const ended = (async () => {
      for await (const piece of line.messages) expect(piece.length).toBe(0);
    })();
    await done("POST", `${vm(101)}/status/stop`);
    await ended;
    // Its last words are waited for, for some seconds; then nothing of it stays in the kernel.
    await vi.waitFor(
      async () => expect((await exec("nft", ["list", "tables"])).stdout).not.toContain("_lines"),
      { timeout: MINUTES, interval: 500 },
    );
  });
});
