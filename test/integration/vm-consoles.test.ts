// Consoles of a real guest through the API of a real `gpve up`: websocket, ticket, VNC, serial line, keys, monitor.
import { existsSync, openSync, writeSync, closeSync, readFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { WebSocket } from "ws";
import { bootSector } from "@gpve/agent/testing/boot-sector.ts";
import { type Api, apiOf, firstNode, type Gpve, loginHeaders, startGpve } from "../support/gpve.ts";
import { waitTask } from "../support/tasks.ts";

const hasQemu = existsSync("/usr/bin/qemu-system-x86_64");
if (!hasQemu) console.warn("SKIPPED: no QEMU; get it with: apt-get install qemu-system-x86 qemu-utils");

interface Proxy {
  readonly port: number;
  readonly ticket: string;
  readonly upid: string;
  readonly user: string;
  readonly password?: string;
  readonly cert?: string;
}

let gpve: Gpve;
let api: Api;
let vm: string;

beforeAll(async () => {
  gpve = await startGpve();
  api = apiOf(gpve.credentials);
  const node = await firstNode(api);
  vm = `/nodes/${node}/qemu/100`;
  if (!hasQemu) return;
  const values = { vmid: 100, memory: 64, ide0: "local:1,format=raw", serial0: "socket", agent: "1" };
  // A node that has just come up may still be looking at its QEMU.
  await vi.waitFor(
    async () => {
      const made = await api("POST", `/nodes/${node}/qemu`, values);
      expect((await waitTask(api, made.data)).exitstatus).toBe("OK");
    },
    { timeout: 150_000, interval: 1_000 },
  );
  const disk = openSync(join(gpve.data, "storage/local/images/100/vm-100-disk-0.raw"), "r+");
  writeSync(disk, bootSector("serialEcho", 512));
  closeSync(disk);
  expect((await waitTask(api, (await api("POST", `${vm}/status/start`)).data)).exitstatus).toBe("OK");
});
afterAll(async () => {
  if (hasQemu) await waitTask(api, (await api("POST", `${vm}/status/stop`)).data);
  await gpve.stop();
});

function open(proxy: Pick<Proxy, "port" | "ticket">, owner = vm, headers = tokenHeaders()): WebSocket {
  const url = new URL(`${gpve.credentials.url}/api2/json${owner}/vncwebsocket`);
  url.protocol = "wss:";
  url.searchParams.set("port", String(proxy.port));
  url.searchParams.set("vncticket", proxy.ticket);
  return new WebSocket(url, ["binary"], { ca: readFileSync(gpve.credentials.caFile), headers });
}

function tokenHeaders(): Record<string, string> {
  return { Authorization: `PVEAPIToken=${gpve.credentials.token}` };
}

function collect(socket: WebSocket): { text: () => string; closed: Promise<void> } {
  let text = "";
  socket.on("message", (data: Buffer) => (text += data.toString("latin1")));
  return { text: () => text, closed: new Promise((resolve) => socket.once("close", () => resolve())) };
}

const refusal = (socket: WebSocket): Promise<string> =>
  new Promise((resolve, reject) => {
    socket.on("error", () => undefined);
    socket.on("unexpected-response", (_req, res) => {
      resolve(`${res.statusCode} ${res.statusMessage}`);
      socket.terminate();
    });
    socket.on("open", () => reject(new Error("it opened")));
  });

describe.skipIf(!hasQemu)("a running VM", () => {
  test("shows its screen to whoever has the ticket, once, with a password", async () => {
    const wanted = { websocket: 1, "generate-password": 1 };
    const proxy = (await api("POST", `${vm}/vncproxy`, wanted)).data as Proxy;
    expect(proxy).toMatchObject({
      user: expect.stringContaining("root@pam!"),
      ticket: `${proxy.password}:${proxy.ticket.slice(9)}`,
      cert: expect.stringContaining("BEGIN CERTIFICATE"),
      upid: expect.stringContaining(":vncproxy:100:"),
    });
    expect(proxy.port).toBeGreaterThanOrEqual(5900);
    const socket = open(proxy);
    const seen = collect(socket);
    await expect.poll(seen.text, { timeout: 150_000 }).toBe("RFB 003.008\n");
    expect(socket.protocol).toBe("binary");
    socket.send(Buffer.from("RFB 003.008\n"));
    // One kind of authentication, and it is VNC's password.
    await expect.poll(seen.text).toBe("RFB 003.008\n\u0001\u0002");
    expect(await refusal(open(proxy))).toBe(`500 the console on port ${proxy.port} is in use`);
    socket.close();
    expect(await waitTask(api, proxy.upid)).toMatchObject({ exitstatus: "OK", type: "vncproxy" });
    expect(await refusal(open(proxy))).toBe(`500 no console waits on port ${proxy.port}`);
  });

  test("shows it over a websocket without being told so, and on no open port", async () => {
    const proxy = (await api("POST", `${vm}/vncproxy`, { websocket: 0 })).data as Proxy;
    // PVE listens here for everybody, without TLS.
    const plain = new Promise((resolve) => {
      connect(proxy.port, "127.0.0.1")
        .once("connect", () => resolve("open"))
        .once("error", (err: NodeJS.ErrnoException) => resolve(err.code));
    });
    expect(await plain).toBe("ECONNREFUSED");
    const socket = open(proxy);
    const seen = collect(socket);
    await expect.poll(seen.text, { timeout: 150_000 }).toBe("RFB 003.008\n");
    socket.close();
    expect(await waitTask(api, proxy.upid)).toMatchObject({ exitstatus: "OK" });
  });

  test("refuses tickets of others, other ports and other VMs", async () => {
    const proxy = (await api("POST", `${vm}/vncproxy`, { websocket: 1 })).data as Proxy;
    const denied = "401 permission denied - invalid PVEVNC ticket";
    expect(await refusal(open({ ...proxy, port: 5999 }))).toBe(denied);
    expect(await refusal(open({ ...proxy, ticket: "PVEVNC:00000000::aaaa" }))).toBe(denied);
    expect((await api("GET", `${vm}/vncwebsocket`, { port: proxy.port, vncticket: "x" })).status).toBe(401);
    // Nobody came: the offer ends by itself.
    expect((await waitTask(api, proxy.upid)).exitstatus).toBe("connection timed out");
  });

  test("speaks over its serial line in PVE's framing", async () => {
    const proxy = (await api("POST", `${vm}/termproxy`)).data as Proxy;
    const socket = open(proxy);
    const seen = collect(socket);
    await new Promise((resolve) => socket.once("open", resolve));
    socket.send(`${proxy.user}:${proxy.ticket}\n`);
    await expect.poll(seen.text, { timeout: 150_000 }).toBe("OK");
    socket.send("1:80:24:");
    socket.send("2");
    await expect
      .poll(
        () => {
          socket.send("0:5:hello");
          return seen.text();
        },
        { timeout: 150_000, interval: 500 },
      )
      .toContain("hello");
    socket.close();
    expect((await waitTask(api, proxy.upid)).exitstatus).toBe("OK");
    expect(await api("POST", `${vm}/termproxy`, { serial: "serial1" })).toMatchObject({
      status: 500,
      reason: "unable to find serial interface 'serial1'",
    });
  });

  test("closes a terminal whose client cannot say who it is", async () => {
    const proxy = (await api("POST", `${vm}/termproxy`)).data as Proxy;
    const socket = open(proxy);
    const { closed, text } = collect(socket);
    await new Promise((resolve) => socket.once("open", resolve));
    socket.send("root@pam:PVEVNC:00000000::aaaa\n");
    await closed;
    expect(text()).toBe("");
  });

  test("takes keys and monitor commands, and has no agent that answers", async () => {
    expect((await api("PUT", `${vm}/sendkey`, { key: "ctrl-alt-delete" })).text).toBe('{"data":null}');
    expect((await api("POST", `${vm}/monitor`, { command: "info status" })).data).toContain("VM status");
    expect(await api("GET", `${vm}/agent/network-get-interfaces`)).toMatchObject({
      status: 500,
      reason: "QEMU guest agent is not running",
    });
  });
});

describe.skipIf(process.getuid?.() !== 0 || !existsSync("/bin/login"))("a node", () => {
  test("has a shell for root, of the size the client has", async () => {
    const node = vm.split("/qemu/")[0] ?? "";
    const headers = await loginHeaders(gpve.credentials);
    const proxy = (await api("POST", `${node}/termproxy`, {}, headers)).data as Proxy;
    expect(proxy).toMatchObject({ user: "root@pam", upid: expect.stringContaining(":vncshell::root@pam:") });
    const socket = open(proxy, node, { Cookie: headers["Cookie"] ?? "" });
    const seen = collect(socket);
    await new Promise((resolve) => socket.once("open", resolve));
    socket.send(`${proxy.user}:${proxy.ticket}\n1:111:33:`);
    await expect.poll(seen.text, { timeout: 150_000 }).toContain("OK");
    const command = "echo $(stty size) $(id -un)\n";
    socket.send(`0:${command.length}:${command}`);
    await expect.poll(seen.text, { timeout: 150_000 }).toContain("33 111 root");
    socket.send("0:5:exit\n");
    await seen.closed;
    expect(await waitTask(api, proxy.upid)).toMatchObject({ exitstatus: "OK", type: "vncshell" });
  });

  test("asks everybody else to log in, and lets only root upgrade", async () => {
    const node = vm.split("/qemu/")[0] ?? "";
    const proxy = (await api("POST", `${node}/termproxy`)).data as Proxy;
    const socket = open(proxy, node);
    const seen = collect(socket);
    await new Promise((resolve) => socket.once("open", resolve));
    socket.send(`${proxy.user}:${proxy.ticket}\n`);
    await expect.poll(seen.text, { timeout: 150_000 }).toMatch(/login: /);
    socket.close();
    expect(await api("POST", `${node}/termproxy`, { cmd: "upgrade" })).toMatchObject({ status: 403 });
  });
});
