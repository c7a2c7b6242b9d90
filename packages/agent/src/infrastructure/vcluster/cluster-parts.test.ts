import { X509Certificate } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { controlPlaneCertificates } from "@gpve/domain/vcluster/certificates.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { ClusterKeys } from "./cluster-keys.ts";
import { ClaimedNetworks } from "./network/claimed-networks.ts";
import { ClusterNetworks } from "./network/cluster-network.ts";
import { ClusterWall, wallRules } from "./network/cluster-wall.ts";
import { GuestFolder } from "../guest-process/guest-folder.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-vc-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe("the keys of a virtual cluster", () => {
  const certificates = (alsoKnownAs: readonly string[] = []) =>
    controlPlaneCertificates({
      serviceCidr: "10.96.0.0/16",
      dnsDomain: "cluster.local",
      address: "100.80.0.2",
      alsoKnownAs,
    });
  const read = (name: string): string => readFileSync(join(folder, "pki", name), "utf8");
  const certificate = (name: string) => new X509Certificate(read(`${name}.crt`));

  test("are signed by the right authority, for the right use, and nobody else reads them", async () => {
    const keys = new ClusterKeys(join(folder, "pki"), new FakeClock());
    await keys.ensure(certificates());
    const [ca, proxy] = [certificate("ca"), certificate("front-proxy-ca")];
    expect(certificate("apiserver").verify(ca.publicKey)).toBe(true);
    expect(certificate("front-proxy-client").verify(proxy.publicKey)).toBe(true);
    expect(certificate("scheduler").subject).toContain("CN=system:kube-scheduler");
    expect(certificate("apiserver").checkIP("10.96.0.1")).toBe("10.96.0.1");
    expect(statSync(join(folder, "pki", "ca.key")).mode & 0o777).toBe(0o600);
    expect(JSON.parse(read("encryption.json"))).toMatchObject({ resources: [{ resources: ["secrets"] }] });
  });

  test("stay as they are, until they near their end or lack a name", async () => {
    const clock = new FakeClock();
    const keys = new ClusterKeys(join(folder, "pki"), clock);
    await keys.ensure(certificates());
    const before = [read("ca.crt"), read("apiserver.crt"), read("sa.key"), read("scheduler.crt")];
    await keys.ensure(certificates());
    expect([read("ca.crt"), read("apiserver.crt"), read("sa.key"), read("scheduler.crt")]).toEqual(before);
    await keys.ensure(certificates(["192.0.2.7"]));
    expect(certificate("apiserver").checkIP("192.0.2.7")).toBe("192.0.2.7");
    const nowhere = join(folder, "none");
    expect(keys.isDue([nowhere])).toBe(false);
    await clock.advance(300 * 86_400_000);
    expect(keys.isDue([nowhere])).toBe(true);
    await keys.ensure(certificates(["192.0.2.7"]));
    expect(keys.isDue([nowhere])).toBe(false);
    expect(read("scheduler.crt")).not.toBe(before[3]);
    expect([read("ca.crt"), read("sa.key")]).toEqual([before[0], before[2]]);
  });

  test("make kubeconfigs for its parts, and certificates for whoever asks", async () => {
    const keys = new ClusterKeys(join(folder, "pki"), new FakeClock());
    await keys.ensure(certificates());
    const path = keys.writeKubeconfig("scheduler", "https://100.80.0.2:6443");
    expect(JSON.parse(readFileSync(path, "utf8"))).toMatchObject({ users: [{ name: "scheduler" }] });
    const { certPem } = await keys.issue(
      { commonName: "joe@pve", organisation: "gpve:kubeconfig:1", usage: "client" },
      3_600_000,
    );
    const issued = new X509Certificate(certPem);
    expect(issued.subject).toBe("O=gpve:kubeconfig:1\nCN=joe@pve");
    expect(issued.verify(certificate("ca").publicKey)).toBe(true);
  });

  test("that were lost are told", () => {
    const keys = new ClusterKeys(join(folder, "pki"), new FakeClock());
    expect(() => keys.caPem).toThrow("the cluster has lost its keys");
  });
});

test("a process of a cluster with a key has a folder, and a socket whose path is not too long", () => {
  const longest = `0-${"n".repeat(17)}-${"k".repeat(12)}.kube-controller-manager`;
  const place = new GuestFolder("/var/lib/gpve/vclusters/run/guests", longest);
  expect(place.socket("control").length).toBeLessThanOrEqual(107);
});

/** What one process was told, as if it were as many. */
function told(call: string, input: string | Uint8Array = ""): readonly string[] {
  if (!call.endsWith(" -batch -")) return [call];
  const lines = input.toString().trim().split("\n");
  return lines.map((line) => call.replace("-batch -", line));
}

describe("the network of a virtual cluster", () => {
  const calls: string[] = [];
  const exec: Exec = async (program, args, { input } = {}) => {
    const said = [program, ...args].join(" ");
    const lines = input?.toString().trim().split("\n") ?? [];
    calls.push(
      ...(said.endsWith(" -batch -") ? lines.map((line) => said.replace("-batch -", line)) : [said]),
    );
    return { code: 0, stdout: "", stderr: "" };
  };
  beforeEach(() => {
    calls.length = 0;
  });

  test("has a subnet of its own", () => {
    const networks = new ClusterNetworks(exec, "abc123", folder);
    expect(networks.describe(7)).toMatchObject({
      bridge: "vcb7",
      gateway: "100.80.7.1",
      address: "100.80.7.2",
    });
    expect(networks.describe(4095)).toMatchObject({ address: "100.95.255.2" });
    expect(networks.describe(7).namespaceFile).toBe("/run/netns/gpve-abc123-vc7");
  });

  test("is walled before it is up, and the wall goes with the last one", async () => {
    const networks = new ClusterNetworks(exec, "abc123", folder);
    await networks.ensure(3999);
    const wall = calls.findIndex((call) => call.startsWith("nft -f"));
    expect(wall).toBeGreaterThanOrEqual(0);
    expect(wall).toBeLessThan(calls.indexOf("ip link set dev vcb3999 up"));
    expect(readFileSync(join(folder, "wall.nft"), "utf8")).toContain('iifname { "vcb3999" } drop');
    await networks.remove(3999);
    expect(readFileSync(join(folder, "wall.nft"), "utf8")).toBe(wallRules("gpve_vc_abc123", []));
  });

  test("of one that nothing runs of takes no wall, and its number is nobody else's", async () => {
    const taken = new Set(Array.from({ length: 3_999 }, (_none, index) => index));
    const networks = new ClusterNetworks(exec, "abc123", folder, () => ({ first: 3_998, taken }));
    expect(await networks.claim({ name: "demo", tenant: "default" })).toBe(3_999);
    // Making it is what takes it, and is all that is done.
    expect(calls).toEqual(["ip link add name vcb3999 type bridge"]);
    await networks.remove(3_999);
    expect(calls.filter((call) => call.startsWith("nft"))).toEqual([]);
    await networks.ensure(3_999);
    await networks.ensure(3_998);
    await networks.rest(3_999);
    expect(readFileSync(join(folder, "wall.nft"), "utf8")).toContain('iifname { "vcb3998" } drop');
  });

  test("keeps its number from another gpve of this machine while its bridge is gone", async () => {
    const taken = new Set(Array.from({ length: 3_999 }, (_none, index) => index));
    const of = (owner: string): ClusterNetworks => {
      const run = join(folder, owner);
      mkdirSync(run);
      const claims = new ClaimedNetworks(run, join(folder, "claims"));
      return new ClusterNetworks(exec, owner, run, () => ({ taken }), claims);
    };
    const [ours, theirs] = [of("ours"), of("theirs")];
    const demo = { name: "demo", tenant: "default" };
    expect(await ours.claim(demo)).toBe(3_999);
    await ours.clear(3_999);
    expect(await theirs.claim(demo)).toBe(4_000);
    await ours.remove(3_999);
    expect(await theirs.claim(demo)).toBe(3_999);
  });

  test("leads addresses of load balancers to a worker, and those that nobody has nowhere", async () => {
    const shown: Exec = async (program, args) => {
      calls.push([program, ...args].join(" "));
      const stdout = "100.80.7.0/24 proto kernel\n100.80.7.211 via 100.80.7.10 \n";
      return { code: 0, stdout: args.includes("show") ? stdout : "", stderr: "" };
    };
    const networks = new ClusterNetworks(shown, "abc123", folder);
    expect(networks.addresses(7)[0]).toBe("100.80.7.210");
    await networks.lead(7, ["100.80.7.210"], 1);
    expect(calls.slice(1)).toEqual([
      "ip route delete 100.80.7.211/32 dev vcb7",
      "ip route replace 100.80.7.210/32 via 100.80.7.11 dev vcb7",
    ]);
  });

  test("lets out who may go out, in this machine's name, and still to no other cluster", async () => {
    const wall = new ClusterWall({ exec, instanceId: "i", runFolder: folder });
    await wall.add({ bridge: "vcb1", from: "100.80.1.2", out: [], egress: true });
    await wall.add({ bridge: "vcb2", from: "100.80.2.2", out: [] });
    const rules = (): string => readFileSync(join(folder, "wall.nft"), "utf8");
    expect(calls).toContain("sysctl -q -w net.ipv4.ip_forward=1");
    expect(rules()).toContain('iifname "vcb1" oifname != "vcb*" ip daddr != { 100.64.0.0/10');
    expect(rules()).toContain('ip saddr { 100.80.1.0/24 } oifname != "vcb*" masquerade');
    // Nor as a node among nodes: to overlays of others, or from a port that servers take for root's.
    expect(rules()).toContain('iifname { "vcb1", "vcb2" } udp dport 14789 drop');
    expect(rules()).toContain("meta l4proto { tcp, udp } masquerade to :1024-65535");
    expect(rules()).not.toContain('iifname "vcb2" oifname != "vcb*"');
    await wall.add({ bridge: "vcb1", from: "100.80.1.2", out: [] });
    expect(rules()).not.toContain("masquerade");
    await wall.remove("vcb1");
    expect(rules()).toContain('iifname { "vcb2" } drop');
  });

  test("is shut and opened again, also by the next agent, and stays shut where it is put up anew", async () => {
    const put = { bridge: "vcb1", from: "100.80.1.2", out: [], egress: true } as const;
    const wall = new ClusterWall({ exec, instanceId: "i", runFolder: folder });
    await wall.add(put);
    const forward = (): string => /chain forward \{[^}]*\{[^]*?\n  \}/.exec(rules())?.[0] ?? "";
    const rules = (): string => readFileSync(join(folder, "wall.nft"), "utf8");
    const isShut = (): boolean => {
      const [drop, stands] = ['{ "vcb1" } drop', "established"].map((word) => forward().indexOf(word));
      return drop !== undefined && stands !== undefined && drop >= 0 && drop < stands;
    };
    expect(isShut()).toBe(false);
    await wall.shut("vcb1", true);
    // Not even what has begun goes on.
    expect(isShut()).toBe(true);
    await wall.add(put);
    expect(isShut()).toBe(true);
    const next = new ClusterWall({ exec, instanceId: "i", runFolder: folder });
    await next.add(put);
    expect(isShut()).toBe(true);
    await next.shut("vcb1", false);
    expect(isShut()).toBe(false);
    calls.length = 0;
    await next.shut("vcb1", false);
    expect(calls).toEqual([]);
  });

  test("walls of several clusters stand side by side", async () => {
    const wall = new ClusterWall({ exec, instanceId: "i", runFolder: folder });
    await wall.add({ bridge: "vcb1", from: "100.80.1.2", out: [] });
    await wall.add({ bridge: "vcb2", from: "100.80.2.2", out: [] });
    await wall.add({ bridge: "vcb1", from: "100.80.1.2", out: [] });
    expect(readFileSync(join(folder, "wall.nft"), "utf8")).toContain('iifname { "vcb1", "vcb2" } drop');
    // Nobody speaks with an address that is not of his own network.
    const gates = ["vcb1", "vcb300"].map((bridge) => ({ bridge, from: "", out: [] }));
    expect(wallRules("t", gates)).toContain(
      'iifname { "vcb1", "vcb300" } iifname . ip saddr != { "vcb1" . 100.80.1.0/24, "vcb300" . 100.81.44.0/24 } drop',
    );
    await wall.remove("vcb1");
    expect(readFileSync(join(folder, "wall.nft"), "utf8")).toContain('iifname { "vcb2" } drop');
  });

  test("is put up again where it is another or is gone, and not for one that wakes behind it", async () => {
    let tables = "table inet gpve_vc_i\n";
    const seen: Exec = async (program, args) => {
      calls.push([program, ...args].join(" "));
      return { code: 0, stdout: args.includes("tables") ? tables : "", stderr: "" };
    };
    const wall = new ClusterWall({ exec: seen, instanceId: "i", runFolder: folder });
    const built = (): number => calls.filter((call) => call.startsWith("nft -f")).length;
    const gate = { bridge: "vcb1", from: "100.80.1.2", out: [] };
    await wall.add(gate);
    await wall.add(gate);
    expect(built()).toBe(1);
    await wall.add({ ...gate, out: [{ address: "192.0.2.1", port: 2379 }] });
    expect(built()).toBe(2);
    tables = "table inet gpve_vc_if\n";
    await wall.add({ ...gate, out: [{ address: "192.0.2.1", port: 2379 }] });
    expect(built()).toBe(3);
    tables = "table inet gpve_vc_i\n";
    // What stands may be a former release's.
    await new ClusterWall({ exec: seen, instanceId: "i", runFolder: folder }).add(gate);
    expect(built()).toBe(4);
  });

  test("makes packets of others pass no more rules where there are many", () => {
    const rules = (count: number): number =>
      wallRules(
        "t",
        Array.from({ length: count }, (_none, at) => ({ bridge: `vcb${at}`, from: "", out: [] })),
      ).split("\n").length;
    expect(rules(1_000)).toBe(rules(1));
  });

  test("has a way out to the store of its control plane, and to nothing else", async () => {
    const wall = new ClusterWall({ exec, instanceId: "i", runFolder: folder });
    await wall.add({ bridge: "vcb1", from: "100.80.1.2", out: [{ address: "192.0.2.1", port: 2379 }] });
    await wall.add({ bridge: "vcb2", from: "100.80.2.2", out: [] });
    const rules = readFileSync(join(folder, "wall.nft"), "utf8");
    const way = "ip saddr 100.80.1.2 ip daddr 192.0.2.1 tcp dport 2379";
    expect(rules.split(`iifname "vcb1" ${way} accept`)).toHaveLength(3);
    expect(rules).toContain(`${way} oifname != "vcb1" masquerade`);
    expect(rules).not.toContain("100.80.2.2");
    expect(calls).toContain("sysctl -q -w net.ipv4.ip_forward=1");
    await wall.remove("vcb1");
    expect(readFileSync(join(folder, "wall.nft"), "utf8")).not.toContain("masquerade");
  });
});

describe("the network of a cluster on several nodes", () => {
  const calls: string[] = [];
  const says = new Map<string, string>();
  const exec: Exec = async (program, args, { input } = {}) => {
    const call = [program, ...args].join(" ");
    calls.push(...told(call, input));
    const [, stdout = ""] = [...says].find(([begin]) => call.startsWith(begin)) ?? [];
    if (stdout.startsWith("!")) throw new Error(stdout.slice(1));
    return { code: 0, stdout, stderr: "" };
  };
  const nodes = ["a", "b", "c"].map((node, at) => ({ node, address: `192.0.2.${at + 1}` }));
  beforeEach(() => {
    calls.length = 0;
    says.clear();
    says.set("ip -o -4 address show to 192.0.2.2/32", "3: eth7    inet 192.0.2.2/24 scope global eth7");
    says.set("ip -o link show dev vcx", "9: vcx3999: <BROADCAST> mtu 1450 qdisc noqueue");
  });

  test("goes to all the others through its own card, and has no control plane on the second node", async () => {
    says.set(
      "bridge fdb show",
      "00:00:00:00:00:00 dst 192.0.2.1 self permanent\n00:00:00:00:00:00 dst 192.0.2.9 self",
    );
    const networks = new ClusterNetworks(exec, "abc123", folder);
    await networks.ensure(3999, { overlay: { nodes, at: 1 } });
    expect(calls).toEqual(
      expect.arrayContaining([
        "ip link add name vcx3999 type vxlan id 6754207 dstport 14789 local 192.0.2.2 dev eth7",
        "ip link set dev vcx3999 master vcb3999 up",
        "bridge fdb append 00:00:00:00:00:00 dev vcx3999 dst 192.0.2.3",
        "bridge fdb delete 00:00:00:00:00:00 dev vcx3999 dst 192.0.2.9",
        "ip link set dev vcb3999 mtu 1450",
        "ip address replace 100.95.159.254/24 dev vcb3999",
      ]),
    );
    expect(calls.filter((call) => call.includes("netns add"))).toEqual([]);
    expect(readFileSync(join(folder, "wall.nft"), "utf8")).toContain(
      "udp dport 14789 ip saddr != { 192.0.2.1, 192.0.2.3 } drop",
    );
    await networks.ensureWorker(3999, 4, { nodes, at: 1 });
    expect(calls.some((call) => call.endsWith("link set dev eth0 up mtu 1450"))).toBe(true);
  });

  test("is refused on a node that has not the address, or whose kernel lacks it", async () => {
    const networks = new ClusterNetworks(exec, "abc123", folder);
    await expect(networks.ensure(3999, { overlay: { nodes, at: 2 } })).rejects.toThrow(
      "has no address 192.0.2.3",
    );
    expect(await networks.overlayRefusal()).toBeUndefined();
    says.set("ip link add name vcxtry", "!Error: Unknown device type.");
    expect(await networks.overlayRefusal()).toMatch(/VXLAN device.*Unknown device type.*CONFIG_VXLAN/);
  });
});
