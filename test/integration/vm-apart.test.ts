// A guest whose node is another process than the server that clients talk to: what is more than a question and an answer
// (uploads, downloads, consoles, screenshots) crosses both.
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { GpveClient } from "@gpve/client/client.ts";
import { NodeTransport } from "@gpve/client/node-transport.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { exec } from "@gpve/kit/exec.ts";
import { apiOf, type Api } from "../support/gpve.ts";
import { runByAgent } from "../support/guest.ts";
import { tinyImage } from "../support/images.ts";
import { endGuestsOf } from "../support/left-guests.ts";
import { startParts, type Parts } from "../support/parts.ts";
import { listedAfter, staleRounds } from "../support/listed-states.ts";
import { runTask, type TaskCall, waitTask } from "../support/tasks.ts";
import { testBridge, type TestBridge } from "../support/test-bridge.ts";

const hasQemu = existsSync("/usr/bin/qemu-system-x86_64") && process.getuid?.() === 0;
if (!hasQemu) console.warn("SKIPPED guests of another node: needs root and apt-get install qemu-system-x86");

const VM = "/nodes/n1/qemu/6400";

describe.skipIf(!hasQemu)("a guest on another node than the server", () => {
  let parts: Parts;
  let api: Api;
  let bridge: TestBridge | undefined;

  const run = async (...call: TaskCall) => {
    expect(await runTask(api, ...call)).toMatchObject({ exitstatus: "OK" });
  };
  const curl = (...args: string[]) => {
    const { caFile, token, url } = parts.credentials;
    const header = `header = "Authorization: PVEAPIToken=${token}"\n`;
    const all = [
      "--silent",
      "--show-error",
      "--fail-with-body",
      "--cacert",
      caFile,
      "--config",
      "-",
      ...args,
    ];
    return exec("curl", [...all.slice(0, -1), `${url}${all.at(-1)}`], {
      input: header,
      timeoutMs: 120_000,
    });
  };
  const open = (proxy: { port: number; ticket: string }): { socket: WebSocket; text: () => string } => {
    const url = new URL(`${parts.credentials.url}/api2/json${VM}/vncwebsocket`);
    url.protocol = "wss:";
    url.searchParams.set("port", String(proxy.port));
    url.searchParams.set("vncticket", proxy.ticket);
    const socket = new WebSocket(url, ["binary"], {
      ca: readFileSync(parts.credentials.caFile),
      headers: { Authorization: `PVEAPIToken=${parts.credentials.token}` },
    });
    let text = "";
    socket.on("message", (data: Buffer) => (text += data.toString("latin1")));
    return { socket, text: () => text };
  };

  beforeAll(async () => {
    bridge = await testBridge({ guestsFrom: 6400 });
    await exec("ip", ["address", "add", "10.99.9.1/24", "dev", bridge.name]);
    parts = await startParts(undefined);
    api = apiOf(parts.credentials);
  });
  afterAll(async () => {
    endGuestsOf(parts.agentData);
    await parts.stop();
    await bridge?.remove();
  });

  test("is made of an image that was uploaded through the server", async () => {
    const image = await tinyImage();
    const checksum = createHash("sha256").update(readFileSync(image)).digest("hex");
    const fields = ["content=import", "checksum-algorithm=sha256", `checksum=${checksum}`];
    const { stdout } = await curl(
      ...fields.flatMap((field) => ["--form", field]),
      "--form",
      `filename=@${image};filename=tiny.qcow2`,
      "/api2/json/nodes/n1/storage/local/upload",
    );
    const { data: upid } = JSON.parse(stdout) as { data: string };
    expect(await waitTask(api, upid)).toMatchObject({ exitstatus: "OK" });
    await run("POST", "/nodes/n1/qemu", {
      vmid: 6400,
      memory: 256,
      agent: 1,
      serial0: "socket",
      scsi0: "local:0,import-from=local:import/tiny.qcow2,format=qcow2",
      net0: `virtio,bridge=${bridge?.name ?? ""}`,
      start: 1,
    });
  });

  test("is used over its serial line", async () => {
    const proxy = (await api("POST", `${VM}/termproxy`)).data as {
      port: number;
      ticket: string;
      user: string;
      upid: string;
    };
    const { socket, text } = open(proxy);
    await new Promise((resolve, reject) => socket.once("open", resolve).once("error", reject));
    socket.send(`${proxy.user}:${proxy.ticket}\n`);
    const line = "echo $((6 * 7))x\n";
    await expect
      .poll(
        () => {
          socket.send(`0:${line.length}:${line}`);
          return text();
        },
        { timeout: 150_000, interval: 1_000 },
      )
      .toMatch(/^OK[^]*42x/);
    socket.close();
    expect((await waitTask(api, proxy.upid)).exitstatus).toBe("OK");
  });

  test("shows its screen, and a picture of it", async () => {
    const proxy = (await api("POST", `${VM}/vncproxy`, { websocket: 1 })).data as {
      port: number;
      ticket: string;
    };
    const { socket, text } = open(proxy);
    await expect.poll(text, { timeout: 150_000 }).toBe("RFB 003.008\n");
    socket.close();
    const { stdout } = await curl(
      "--output",
      "-",
      "--dump-header",
      "-",
      "/api/v1/nodes/n1/vms/6400/screenshot",
    );
    expect(stdout).toContain("image/png");
  });

  test("runs commands through its agent", async () => {
    await expect
      .poll(async () => (await api("POST", `${VM}/agent/ping`)).status, { timeout: 150_000, interval: 500 })
      .toBe(200);
    const { pid } = (await api("POST", `${VM}/agent/exec`, { command: "hostname" })).data as { pid: number };
    // An agent tells the end of a command once.
    let out: string | undefined;
    const ended = async (): Promise<boolean> => {
      const { data } = await api("GET", `${VM}/agent/exec-status`, { pid });
      const { exited, "out-data": text } = data as { exited: boolean | number; "out-data"?: string };
      out = text;
      return Boolean(exited);
    };
    await expect.poll(ended, { timeout: 150_000 }).toBe(true);
    expect(out?.trim()).toMatch(/^\S+$/);
  });

  test("is reached at a port of its own, at an address that its node sees at its card", async () => {
    const script =
      "kill $(cat /run/udhcpc-eth0.pid); ip link set eth0 up && ip addr add 10.99.9.2/24 dev eth0";
    await runByAgent(api, VM, "/bin/sh", "-c", script);
    const { url, fingerprint, token } = parts.credentials;
    const transport = new NodeTransport({ url, fingerprint });
    const client = new GpveClient({ transport, credentials: { kind: "token", token }, clock: systemClock });
    try {
      const line = await client.v1.openTunnel(6400, 80, { address: "10.99.9.2" });
      await line.send("GET / HTTP/1.0\r\n\r\n");
      let text = "";
      for await (const piece of line.messages) text += Buffer.from(piece).toString();
      expect(text).toContain("200 OK");
      await expect(client.v1.openTunnel(6400, 80, { address: "10.99.9.1" })).rejects.toMatchObject({
        code: "access.denied",
        message: expect.stringContaining("is node n1 itself"),
      });
    } finally {
      client.close();
    }
  });

  test("runs on while its node is thrown out, and is managed again when the machine has rejoined", async () => {
    const v1 = apiOf(parts.credentials, undefined, "/api/v1");
    const current = async () => (await api("GET", `${VM}/status/current`)).data as { pid?: number };
    const { pid = 0 } = await current();
    expect(pid).toBeGreaterThan(0);
    const refused = await v1("DELETE", "/nodes/n1");
    expect(refused.status).toBe(423);
    expect(refused.text).toContain("VM 6400");
    expect((await v1("DELETE", "/nodes/n1?force=1")).status).toBeLessThan(300);
    expect(((await api("GET", "/nodes")).data as { node: string }[]).map(({ node }) => node)).not.toContain(
      "n1",
    );
    expect((await api("POST", `${VM}/status/stop`)).status).toBeGreaterThanOrEqual(400);
    expect(existsSync(`/proc/${pid}`)).toBe(true);
    await parts.rejoin();
    await expect.poll(current, { timeout: 150_000, interval: 500 }).toMatchObject({ status: "running", pid });
    await expect
      .poll(async () => (await api("POST", `${VM}/agent/ping`)).status, { timeout: 150_000, interval: 500 })
      .toBe(200);
  });

  test("is saved, destroyed and restored", async () => {
    await run("POST", "/nodes/n1/vzdump", {
      vmid: 6400,
      storage: "local",
      mode: "snapshot",
      compress: "zstd",
    });
    const rows = (await api("GET", "/nodes/n1/storage/local/content", { content: "backup" })).data as {
      volid: string;
    }[];
    expect(await listedAfter(api, { node: "n1", vmid: 6400 }, "stop")).toMatchObject({
      exitstatus: "OK",
      listed: ["stopped", "stopped"],
    });
    expect(await staleRounds(api, { node: "n1", vmid: 6400 }, 4)).toEqual([]);
    await run("DELETE", VM);
    await run("POST", "/nodes/n1/qemu", { vmid: 6400, archive: rows[0]?.volid ?? "", start: 1 });
    expect((await api("GET", `${VM}/status/current`)).data).toMatchObject({ status: "running" });
    await run("POST", `${VM}/status/stop`);
    await run("DELETE", VM);
  });
});
