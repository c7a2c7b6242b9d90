// `./gpve up --nodes 3`: three nodes on this machine with real guests, faults, and nothing left afterwards.
import { copyFileSync, existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { networkProblem } from "@gpve/kit/testing/cluster/test-network.ts";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { openTerminal, runByAgent, untilAgentAnswers } from "../support/guest.ts";
import { loginHeaders, apiOf } from "../support/gpve.ts";
import { tinyImage } from "../support/images.ts";
import { newLab, tracesOf, type TestLab } from "../support/lab.ts";
import { marksOf, upgradeUnderLoad } from "../support/rolling-upgrade.ts";
import { waitTask } from "../support/tasks.ts";

const problem =
  (await networkProblem()) ??
  (existsSync("/usr/bin/etcd") ? undefined : "etcd is missing: apt-get install etcd-server");
if (problem !== undefined) console.warn(`SKIPPED a cluster on one machine: ${problem}`);

describe.skipIf(problem !== undefined)("three nodes on one machine", () => {
  let lab: TestLab;
  const vmids = { n1: 101, n2: 102, n3: 103 } as const;
  const addresses = new Map<string, string>();
  const vm = (node: keyof typeof vmids): string => `/nodes/${node}/qemu/${vmids[node]}`;
  const online = async (url?: string): Promise<string[]> => {
    const rows = (await lab.api(url)("GET", "/nodes")).data as readonly { node: string; status: string }[];
    return rows
      .filter(({ status }) => status === "online")
      .map(({ node }) => node)
      .toSorted();
  };
  const becomes = (nodes: readonly string[], url?: string): Promise<void> =>
    vi.waitFor(async () => expect(await online(url)).toEqual(nodes), { timeout: 150_000, interval: 250 });
  /** What DHCP gave a guest, as any server shows it. */
  const addressOf = async (node: keyof typeof vmids): Promise<string> => {
    const object = await apiOf(
      lab.credentials(),
      undefined,
      "/api/v1",
    )("GET", `/virtualmachines/${vmids[node]}`);
    const { status } = JSON.parse(object.text) as {
      readonly status: { readonly addresses?: readonly string[] };
    };
    expect(status.addresses).toEqual([expect.stringMatching(/^10\.37\./)]);
    return status.addresses?.[0] ?? "";
  };
  const isServed = (node: keyof typeof vmids): Promise<void> =>
    vi.waitFor(
      async () => {
        const answer = await fetch(`http://${addresses.get(node) ?? (await addressOf(node))}/`, {
          signal: AbortSignal.timeout(3_000),
        });
        expect((await answer.text()).trim()).toBe(`guest-${node}`);
      },
      { timeout: 150_000, interval: 500 },
    );

  /** A node is online before every server has its line to it again. */
  const statusOf = async (node: keyof typeof vmids, wanted: string): Promise<unknown> => {
    const end = performance.now() + 180_000;
    for (;;) {
      const { data } = await lab.api()("GET", `${vm(node)}/status/current`);
      const status = (data as { status?: string } | null)?.status;
      if (status === wanted || performance.now() > end) return status;
      await new Promise((done) => setTimeout(done, 250));
    }
  };

  beforeAll(async () => {
    lab = newLab();
    await lab.gpve("up", "--nodes", "3", "--detach", "--listen", "127.0.0.1:0");
  });
  afterAll(async () => {
    await lab?.remove();
  });

  test("every server answers for all nodes, and says which is its own", async () => {
    const { urls, nodes, url } = lab.credentials();
    expect(nodes).toEqual(["n1", "n2", "n3"]);
    expect(urls).toHaveLength(3);
    expect(new Set([...urls, url]).size).toBe(4);
    for (const [at, server] of urls.entries()) {
      await becomes(["n1", "n2", "n3"], server);
      const rows = (await lab.api(server)("GET", "/cluster/status")).data as readonly Record<
        string,
        unknown
      >[];
      expect(rows[0]).toMatchObject({ type: "cluster", nodes: 3, quorate: 1 });
      expect(rows.filter((row) => row["local"] === 1).map((row) => row["name"])).toEqual([nodes[at]]);
      expect(new Set(rows.slice(1).map((row) => row["nodeid"]))).toEqual(new Set([1, 2, 3]));
    }
  });

  test("a client that changes the server with every call reads what it wrote", async () => {
    const apis = lab.credentials().urls.map((url) => lab.api(url));
    for (let at = 0; at < 30; at++) {
      const comment = `write ${at}`;
      const [writer, reader] = [apis[at % 3], apis[(at + 1) % 3]];
      const written = await writer?.("PUT", "/cluster/options", { description: comment });
      expect(written?.status, written?.text).toBe(200);
      expect((await reader?.("GET", "/cluster/options"))?.data).toMatchObject({ description: comment });
    }
  });

  test("a ticket of one server is good at the others", async () => {
    const [first = "", ...others] = lab.credentials().urls;
    const headers = await loginHeaders({ ...lab.credentials(), url: first });
    for (const url of others)
      expect((await apiOf({ ...lab.credentials(), url }, headers)("GET", "/access/permissions")).status).toBe(
        200,
      );
  });

  test("a task that one server runs is seen to end at the others", async () => {
    const [first = "", ...others] = lab.credentials().urls;
    const v1 = apiOf({ ...lab.credentials(), url: first }, undefined, "/api/v1");
    const tenant = { apiVersion: "gpve.io/v1", kind: "Tenant", metadata: { name: "seen" }, spec: {} };
    const body = JSON.stringify({ objects: [tenant] });
    const answer = await v1("POST", "/apply", {}, { "Content-Type": "application/json" }, body);
    const { task } = JSON.parse(answer.text) as { readonly task: string };
    expect(task).toMatch(/^UPID:n1:/);
    for (const url of others) expect((await waitTask(lab.api(url), task)).exitstatus).toBe("OK");
  });

  test("guests are placed by their rules at any server, explained at another, and refused with reasons", async () => {
    const { urls } = lab.credentials();
    const v1 = async (at: number, method: string, path: string, body?: object) => {
      const api = apiOf({ ...lab.credentials(), url: urls[at % 3] ?? "" }, undefined, "/api/v1");
      const type = method === "PATCH" ? "application/merge-patch+json" : "application/json";
      const json = body === undefined ? undefined : JSON.stringify(body);
      const { status, text } = await api(
        method,
        path,
        {},
        json === undefined ? {} : { "Content-Type": type },
        json,
      );
      return { status, text, body: JSON.parse(text) as Record<string, unknown> };
    };
    const taint = async (taints: readonly object[]) =>
      expect((await v1(0, "PATCH", "/nodes/n3", { spec: { taints } })).status).toBe(200);
    await taint([{ key: "special", effect: "NoSchedule" }]);
    const scheduling = { antiAffinity: { required: [{ guests: "app=placed" }] } };
    const place = (at: number) =>
      v1(at, "POST", "/virtualmachines", {
        apiVersion: "gpve.io/v1",
        kind: "VirtualMachine",
        metadata: { name: String(200 + at), labels: { app: "placed" } },
        spec: { node: "auto", memory: { size: "64Mi" }, scheduling },
      });
    const both = await Promise.all([place(0), place(1)]);
    expect(
      both.map(({ status }) => status),
      both.map(({ text }) => text).join("\n"),
    ).toEqual([201, 201]);
    expect(both.map(({ body }) => (body["spec"] as { node: string }).node).toSorted()).toEqual(["n1", "n2"]);
    const third = await place(2);
    expect(third.status, third.text).toBe(507);
    expect(third.body["detail"]).toContain("n3: its taint special:NoSchedule is not tolerated");
    expect(third.body["detail"]).toMatch(/n1: .*must be apart/);
    const story = await v1(2, "GET", "/virtualmachines/200/placement");
    expect(story.body).toMatchObject({
      decision: { explanation: { feasible: expect.any(Number) } },
      violations: [],
    });
    const told = await lab.gpve("ctl", "explain", "vm", "201");
    expect(told).toContain("TaintToleration: its taint special:NoSchedule is not tolerated");
    const pve = await lab.api(urls[2])("POST", "/nodes/n3/qemu", {
      vmid: 203,
      memory: 64,
      placement: "auto",
    });
    expect(pve.data, pve.text).toMatch(/^UPID:n[12]:/);
    expect((await waitTask(lab.api(), String(pve.data))).exitstatus).toBe("OK");
    expect(await lab.gpve("ctl", "simulate", "place", "--count", "2")).toMatch(/simulated-2 +n[12]/);
    for (const vmid of [200, 201, 203])
      expect((await v1(1, "DELETE", `/virtualmachines/${vmid}`)).status).toBe(200);
    await taint([]);
  });

  test("a guest on each node, on the storage that all have, in one network with this machine", async () => {
    mkdirSync(join(lab.data, "shared/import"), { recursive: true });
    copyFileSync(await tinyImage(), join(lab.data, "shared/import/tiny.qcow2"));
    for (const [at, node] of (["n1", "n2", "n3"] as const).entries()) {
      const api = lab.api(lab.credentials().urls[(at + 1) % 3]);
      const made = await api("POST", `/nodes/${node}/qemu`, {
        vmid: vmids[node],
        name: `guest-${node}`,
        memory: 128,
        agent: 1,
        serial0: "socket",
        scsihw: "virtio-scsi-pci",
        scsi0: "shared:0,import-from=shared:import/tiny.qcow2",
        ide2: "shared:cloudinit",
        ipconfig0: "ip=dhcp",
        net0: "virtio,bridge=vmbr0",
        boot: "order=scsi0",
        start: 1,
      });
      expect(made.status, made.text).toBe(200);
      expect((await waitTask(api, made.data as string, 120_000)).exitstatus).toBe("OK");
    }
    for (const node of ["n1", "n2", "n3"] as const) {
      await isServed(node);
      addresses.set(node, await addressOf(node));
    }
    const api = lab.api();
    await untilAgentAnswers(api, vm("n1"));
    for (const other of ["n2", "n3"] as const) {
      const said = await runByAgent(api, vm("n1"), "ping", "-c", "2", await addressOf(other));
      expect(said).toContain(" 0% packet loss");
    }
    // Offered by one server, opened at another, of a node that is neither's.
    const [offering, opening = ""] = lab.credentials().urls;
    const terminal = await openTerminal({ ...lab.credentials(), url: opening }, lab.api(offering), vm("n3"));
    terminal.type("echo on $(hostname)");
    await terminal.until(/on guest-n3/, 60_000);
    terminal.close();
    // The nodes' own network is not the guests'.
    const node = new URL(lab.credentials().urls[1] ?? "").hostname;
    const refused = await runByAgent(api, vm("n1"), "sh", "-c", `ping -c 1 -W 2 ${node} || true`);
    expect(refused).toContain("100% packet loss");
  });

  test("servers and agents restart one by one under load: every request is served, no guest is touched", async () => {
    const guests = lab.credentials().nodes.map((node) => ({ node, vmid: vmids[node as keyof typeof vmids] }));
    const before = await marksOf(lab, guests);
    const { report, sent, served, failed } = await upgradeUnderLoad(lab, guests, {
      rounds: 1,
      perSecond: 20,
    });
    console.log(`rolling upgrade:\n${report}`);
    expect(failed).toEqual([]);
    expect(served).toBe(sent);
    expect(await marksOf(lab, guests)).toEqual(before);
  });

  test("the address follows a living server when one is frozen, and thaws", async () => {
    await lab.fault("freeze", "n1");
    expect(await lab.states()).toMatchObject([
      { node: "n1", power: "frozen" },
      { node: "n2", power: "on" },
      { node: "n3", power: "on" },
    ]);
    // A request that is under way may fail once; the next reaches another server.
    await vi.waitFor(async () => expect((await lab.api()("GET", "/nodes")).status).toBe(200), {
      timeout: 150_000,
      interval: 100,
    });
    await becomes(["n2", "n3"]);
    await lab.fault("thaw", "n1");
    await becomes(["n1", "n2", "n3"]);
    await isServed("n1");
  });

  test("a node without network is offline, its guests run on, and it heals", async () => {
    await lab.fault("cut", "n2");
    await becomes(["n1", "n3"]);
    expect((await lab.states())[1]).toMatchObject({ power: "on", network: "cut" });
    await lab.fault("heal", "n2");
    await becomes(["n1", "n2", "n3"]);
    await isServed("n2");
  });

  test("an agent killed alone leaves its guests; a node killed has nothing left, and boots again", async () => {
    await lab.fault("kill", "n3", "--agent-only");
    expect((await lab.states())[2]).toMatchObject({ power: "on", running: ["etcd", "server", "fence"] });
    await isServed("n3");
    await lab.fault("kill", "n3");
    expect((await lab.states())[2]).toMatchObject({ power: "off", processes: 0, running: [] });
    await becomes(["n1", "n2"]);
    for (const verb of ["freeze", "thaw"])
      expect(await lab.fault(verb, "n3")).toContain("n3 is off (it was killed), and nothing");
    await expect(lab.fault("restart", "n3")).rejects.toThrow(
      "n3 is off (it was killed), and nothing was done",
    );
    await lab.fault("heal", "n3");
    await becomes(["n1", "n2", "n3"]);
    expect(await statusOf("n3", "stopped")).toBe("stopped");
  });

  test("down leaves the guests, up finds them, and down --guests leaves nothing", async () => {
    expect(await lab.gpve("down")).toContain("guests run on: 2");
    await isServed("n1");
    await lab.gpve("up", "--detach", "--listen", "127.0.0.1:0");
    expect(await statusOf("n1", "running")).toBe("running");
    await lab.fault("freeze", "n2");
    expect((await tracesOf(lab.data)).length).toBeGreaterThan(10);
    await lab.gpve("down", "--guests");
    expect(await tracesOf(lab.data)).toEqual([]);
  });
});
