// The load balancer's machine, as a real VM: told by its drive which address it has and by its SMBIOS who is behind it, it
// passes connections on to API servers that answer, and to nobody else.
import { once } from "node:events";
import { existsSync } from "node:fs";
import { createServer, get, type Server } from "node:https";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { serverCertificate } from "../../packages/talos/src/testing/kubernetes-certificate.ts";
import { testBundle } from "../../packages/talos/src/testing/test-bundle.ts";
import { skipping } from "../support/foreign-clients.ts";
import { apiOf } from "../support/gpve.ts";
import { runByAgent, untilAgentAnswers } from "../support/guest.ts";
import { oneNode, type TalosGround } from "../support/talos-ground.ts";
import { TalosLab } from "../support/talos-lab.ts";
import { TalosOperator } from "../support/talos-operator.ts";
import { waitTask } from "../support/tasks.ts";

const lacking =
  existsSync("/usr/bin/qemu-system-x86_64") && process.getuid?.() === 0
    ? undefined
    : "needs root and QEMU: apt-get install qemu-system-x86 qemu-utils";
const VMID = 100;

describe.skipIf(skipping("the load balancer's machine", lacking))("the load balancer's machine", () => {
  let ground: TalosGround;
  let lab: TalosLab;
  let operator: TalosOperator;
  const servers = new Map<string, Server>();
  let pair: { readonly cert: string; readonly key: string };
  const vm = () => `/nodes/${ground.nodes[0]}/qemu/${VMID}`;

  /** An API server that knows no strangers, as Talos has them, answers 401; one that does, 200. */
  const begin = async (name: string, port: number, ready: number): Promise<void> => {
    const server = createServer(pair, (request, response) => {
      response.writeHead(request.url === "/readyz" ? ready : 200, { connection: "close" }).end(name);
    });
    servers.set(name, server);
    server.listen(port, ground.host);
    await once(server, "listening");
  };
  const end = async (name: string): Promise<void> => {
    const server = servers.get(name);
    servers.delete(name);
    server?.closeAllConnections();
    await new Promise<void>((done) => (server === undefined ? done() : server.close(() => done())));
  };
  /** Who answers a new connection to the machine. */
  const who = (host = `${ground.network}.10`, port = 6443): Promise<string> =>
    new Promise((done) => {
      const asked = get({ host, port, path: "/", rejectUnauthorized: false, agent: false }, (response) => {
        let text = "";
        response.on("data", (piece: Buffer) => (text += piece.toString()));
        response.on("end", () => done(text));
        response.on("error", () => done("cut off"));
      });
      asked.setTimeout(10_000, () => asked.destroy(new Error("silent")));
      asked.on("error", () => done("nobody"));
    });
  const several = async (): Promise<string> => {
    const heard = new Set<string>();
    for (let at = 0; at < 6; at += 1) heard.add(await who());
    return [...heard].toSorted().join(" ");
  };

  beforeAll(async () => {
    ground = await oneNode("tbr887", "10.77.87");
    lab = new TalosLab(ground.api, ground.host);
    operator = new TalosOperator(ground);
    pair = await serverCertificate((await testBundle()).certs.k8s, [ground.host]);
  });
  afterAll(async () => {
    for (const name of servers.keys()) await end(name);
    await lab?.stop();
    await ground?.stop();
    operator?.remove();
  });

  test("is built by name, and boots with an address of its drive", async () => {
    const v1 = apiOf(ground.credentials, undefined, "/api/v1");
    const started = await v1("POST", `/nodes/${ground.nodes[0]}/images/lb/build`);
    expect(started.status).toBe(202);
    const { task } = started.json as unknown as { task: string };
    expect(await waitTask(ground.api, task, 600_000)).toMatchObject({ exitstatus: "OK" });
    const behind = `gpve-lb 6443 ${ground.host}:7001 ${ground.host}:7002`;
    const made = await ground.api("POST", `/nodes/${ground.nodes[0]}/qemu`, {
      vmid: VMID,
      name: "prod-lb",
      memory: 384,
      scsihw: "virtio-scsi-pci",
      scsi0: `${ground.storage}:0,import-from=${ground.storage}:import/lb.qcow2`,
      ide2: `${ground.storage}:cloudinit`,
      net0: `virtio,bridge=${ground.bridge}`,
      ipconfig0: `ip=${ground.network}.10/24,gw=${ground.host}`,
      smbios1: `uuid=6ab37a3b-0000-4000-8000-000000000001,base64=1,serial=${Buffer.from(behind).toString("base64")}`,
      serial0: "socket",
      agent: 1,
    });
    expect(await waitTask(ground.api, String(made.data))).toMatchObject({ exitstatus: "OK" });
    await begin("one", 7001, 401);
    await begin("two", 7002, 200);
    const start = await ground.api("POST", `${vm()}/status/start`);
    expect(await waitTask(ground.api, String(start.data))).toMatchObject({ exitstatus: "OK" });
    await untilAgentAnswers(ground.api, vm());
    const told = (await ground.api("GET", `${vm()}/agent/get-host-name`)).data;
    expect(told).toMatchObject({ result: { "host-name": "prod-lb" } });
  }, 900_000);

  test("passes connections on to both who are behind it", async () => {
    await expect.poll(several, { timeout: 150_000, interval: 1_000 }).toBe("one two");
  });

  test("leaves out who is gone or says that he is not ready, and takes him back", async () => {
    await end("one");
    await expect.poll(several, { timeout: 150_000, interval: 1_000 }).toBe("two");
    await begin("one", 7001, 500);
    for (let at = 0; at < 4; at += 1) expect(await several()).toBe("two");
    await end("one");
    await begin("one", 7001, 200);
    await expect.poll(several, { timeout: 150_000, interval: 1_000 }).toBe("one two");
  }, 600_000);

  test("is made by apply before a cluster, told of another port, and destroyed with it", async () => {
    const stop = await ground.api("POST", `${vm()}/status/stop`);
    expect(await waitTask(ground.api, String(stop.data))).toMatchObject({ exitstatus: "OK" });
    const gone = await ground.api("DELETE", vm());
    expect(await waitTask(ground.api, String(gone.data))).toMatchObject({ exitstatus: "OK" });
    const done = async (...args: readonly string[]): Promise<string> => {
      const { code, stdout, stderr } = await operator.gpvectl(...args);
      expect(code, `gpvectl talos ${args.join(" ")}\n${stdout}${stderr}`).toBe(0);
      return stdout;
    };
    await operator.init();
    const factory = await lab.imageFactory(ground.outside);
    operator.want({ planes: 1, workers: 0, port: 6443, factory });
    const front = `${ground.network}.5`;
    await done("set", `endpoint={ loadBalancer: { address: ${front}, backendsManaged: vm } }`);
    await done("preflight");
    expect(await done("plan")).toContain("+ create the load balancer lab-lb: VMID 9099");
    await done("apply", "--only", "infrastructure", "--yes", "--outside");
    const guests = async () =>
      (await ground.api("GET", "/cluster/resources", { type: "vm" })).data as {
        name: string;
        vmid: number;
      }[];
    const plane = `/nodes/${ground.nodes[0]}/qemu/${(await guests()).find(({ name }) => name === "lab-cp-1")?.vmid}`;
    await untilAgentAnswers(ground.api, plane);
    // Where Talos has its API server.
    const passOn = `nc -ll -p 6443 -e nc ${ground.host} 7001 </dev/null >/dev/null 2>&1 &`;
    await runByAgent(ground.api, plane, "/bin/sh", "-c", passOn);
    await expect.poll(() => who(front), { timeout: 300_000, interval: 1_000 }).toBe("one");
    await done("set", "endpoint.port=7443");
    expect(await done("plan")).toMatch(/behind it gpve-lb 6443 \S+:6443 -> gpve-lb 7443 \S+:6443/);
    await done("apply", "--only", "infrastructure", "--yes", "--outside");
    await expect.poll(() => who(front, 7443), { timeout: 300_000, interval: 1_000 }).toBe("one");
    expect(await who(front)).toBe("nobody");
    expect(await done("plan", "--only", "infrastructure")).toContain("Nothing to do.");
    await done("destroy", "--name", "lab");
    expect(await guests()).toEqual([]);
  }, 1_800_000);
});
