// The configuration files as people write them: the commented examples start as they are, and what declares something
// has its effect on a real server and agent. All in a network of their own: the files name their usual ports.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { startChild, type Child } from "@gpve/kit/testing/child.ts";
import { mainFile, nodeBinary, root, untilPrinted } from "../support/gpve.ts";

const isRoot = process.getuid?.() === 0;
if (!isRoot) console.warn("SKIPPED: network namespaces need root");

const dir = mkdtempSync(join(tmpdir(), "gpve-config-"));
const namespace = `gpve-conf-${process.pid}`;
const children: Child[] = [];
afterAll(async () => {
  for (const child of children.toReversed()) await child.stop();
  if (isRoot) {
    // What outlives an agent, too.
    const left = await exec("ip", ["netns", "pids", namespace]).catch(() => ({ stdout: "" }));
    for (const pid of left.stdout.split("\n").filter((line) => line !== ""))
      process.kill(Number(pid), "SIGKILL");
    await exec("ip", ["netns", "delete", namespace]).catch(() => undefined);
  }
  rmSync(dir, { recursive: true, force: true });
});

const inside = (...args: string[]) => exec("ip", ["netns", "exec", namespace, ...args]);
const main = ["--disable-warning=ExperimentalWarning", mainFile];
const start = async (args: readonly string[], printed: string, env: Record<string, string> = {}) => {
  const child = startChild("ip", ["netns", "exec", namespace, nodeBinary, ...main, ...args], {
    env: { ...MINIMAL_ENV, ...env },
  });
  children.push(child);
  await untilPrinted(child, printed);
  return child;
};
const serverData = join(dir, "server");
const agentData = join(dir, "agent");
const ctl = async (...args: string[]): Promise<string> =>
  (await inside(nodeBinary, ...main, "ctl", "--data", serverData, ...args)).stdout;
const json = async (...args: string[]): Promise<never> =>
  JSON.parse(await ctl(...args, "-o", "json")) as never;

test.skipIf(!isRoot)(
  "the examples start as they are, and every section of the files does what it says",
  async () => {
    await exec("ip", ["netns", "add", namespace]);
    await inside("ip", "link", "set", "lo", "up");
    await inside("ip", "link", "add", "eth1", "type", "veth", "peer", "name", "far1");
    await inside("ip", "link", "add", "try", "type", "bridge");
    const knowsVlans = await inside("ip", "link", "set", "try", "type", "bridge", "vlan_filtering", "1").then(
      () => true,
      () => false,
    );
    await inside("ip", "link", "delete", "try");
    const example = (name: string): string => join(root, "examples/config", name);
    const server = await start(
      ["server", "--config", example("server.yaml"), "--data", serverData],
      "is ready at https://127.0.0.1:8006",
    );
    const { token } = await json("node", "join-command", "--node", "node-01");
    const agent = await start(
      ["agent", "--config", example("agent.yaml"), "--data", agentData],
      "runs node node-01 on 127.0.0.1:8444",
      { GPVE_BOOTSTRAP_TOKEN: token },
    );
    await until(async () => (await ctl("node", "list")).match(/node-01 +online/) !== null);
    await agent.stop();
    await server.stop();

    // The same machines with more in their files.
    mkdirSync(join(dir, "fast"));
    const more = (name: string, text: string): string => {
      const file = join(dir, name);
      writeFileSync(file, `${readFileSync(example(name), "utf8")}\n${text}`);
      return file;
    };
    const serverFile = more(
      "server.yaml",
      "storage: { defaults: { vmDisk: fast, iso: fast, backup: fast } }\n",
    );
    const agentFile = more(
      "agent.yaml",
      [
        "qemu: { defaultMachine: q35, defaultCPU: x86-64-v3 }",
        `storage: { plugins: [{ name: fast, type: dir, config: { path: ${join(dir, "fast")}, content: "images,backup,import,iso" } }] }`,
        "network:",
        "  defaultBridge: vmbr1",
        "  bridges:",
        "    - { name: vmbr0, address: 192.0.2.1/24 }",
        "    - { name: vmbr1, vlanAware: true, ports: [eth1, eth9] }",
        "resources: { reservedCPU: 500m, reservedMemory: 1Mi, overcommit: { cpu: 2.0 } }",
      ].join("\n"),
    );
    await start(["server", "--config", serverFile, "--data", serverData], "is ready at");
    const again = await start(["agent", "--config", agentFile, "--data", agentData], "runs node node-01");
    await until(async () => (await ctl("storage", "list")).includes("fast"));

    const links = JSON.parse((await inside("ip", "-j", "-d", "address", "show")).stdout) as Link[];
    const link = (name: string) => links.find(({ ifname }) => ifname === name);
    expect(link("vmbr0")?.addr_info[0]).toMatchObject({ local: "192.0.2.1", prefixlen: 24 });
    const capabilities = await ctl("node", "capabilities", "node-01");
    if (knowsVlans) expect(link("vmbr1")?.linkinfo?.info_data["vlan_filtering"]).toBe(1);
    else expect(capabilities).toContain("'vmbr1' cannot filter by VLAN, which this kernel may lack");
    expect(link("eth1")?.master).toBe("vmbr1");
    expect(capabilities).toMatch(/bridge vmbr0 +yes/);
    expect(capabilities).toMatch(/bridge vmbr1 +no .*port 'eth9' of 'vmbr1' does not exist/);
    expect(again.output()).toContain("network.bridges: port 'eth9' of 'vmbr1' does not exist");

    await until(async () => (await json("api", "get", "/storage/fast"))["nodes"] === "node-01");
    const defaults = { machine: "q35", cpu: "x86-64-v3" };
    await ctl("api", "post", "/nodes/node-01/qemu", "vmid=100");
    await until(async () => (await ctl("vm", "list")).includes("100"));
    expect(await json("api", "get", "/nodes/node-01/qemu/100/config")).toMatchObject(defaults);
    // What is asked for is not replaced.
    await ctl("api", "post", "/nodes/node-01/qemu", "vmid=101", "machine=pc", "cpu=kvm64");
    await until(async () => (await ctl("vm", "list")).includes("101"));
    expect(await json("api", "get", "/nodes/node-01/qemu/101/config")).toMatchObject({
      machine: "pc",
      cpu: "kvm64",
    });

    const document = join(dir, "vm.yaml");
    writeFileSync(
      document,
      [
        "apiVersion: gpve.io/v1",
        "kind: VirtualMachine",
        'metadata: { name: "102" }',
        "spec:",
        "  memory: { size: 64Mi }",
        "  disks: [{ name: scsi0, size: 16Mi }]",
        "  networks: [{ name: net0, model: virtio }]",
      ].join("\n"),
    );
    await ctl("apply", "-f", document);
    expect(await json("api", "get", "/nodes/node-01/qemu/102/config")).toMatchObject({
      ...defaults,
      scsi0: expect.stringMatching(/^fast:/) as string,
      net0: expect.stringContaining("bridge=vmbr1") as string,
    });
    // The same again changes nothing.
    expect(await ctl("diff", "-f", document)).not.toMatch(/^[+-]/m);
    await ctl("vm", "backup", "102");
    const backups = await json("api", "get", "/nodes/node-01/storage/fast/content", "content=backup");
    expect(backups).toMatchObject([{ vmid: 102 }]);

    const { status } = (await json("get", "node", "node-01")) as NodeObject;
    const cpus = status.capacity.cpu;
    expect(status.allocatable.cpu).toBe((cpus - 0.5) * 2);
  },
);

interface Link {
  readonly ifname: string;
  readonly master?: string;
  readonly addr_info: readonly unknown[];
  readonly linkinfo?: { readonly info_data: Readonly<Record<string, unknown>> };
}

interface NodeObject {
  readonly status: { readonly capacity: { cpu: number }; readonly allocatable: { cpu: number } };
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + 60_000;
  while (!(await holds().catch(() => false))) {
    if (performance.now() > end) throw new Error("it never came to hold");
    await new Promise((done) => setTimeout(done, 250));
  }
}
