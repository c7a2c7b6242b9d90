import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, afterEach, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { DEPLOYER_PRIVILEGES, FakePlatform, platformAnswer } from "@gpve/talos/testing/fake-platform.ts";
import { Gpvectl } from "../../testing/run-gpvectl.ts";

let gpvectl: Gpvectl;
beforeEach(async () => {
  gpvectl = await Gpvectl.create();
});
afterEach(() => gpvectl[Symbol.asyncDispose]());

const at = (...path: readonly string[]) => join(gpvectl.home, ...path);
const read = (...path: readonly string[]) => readFileSync(at(...path), "utf8");
const init = (...more: readonly string[]) =>
  gpvectl.run(["talos", "init", "--yes", "--name", "prod", "--nodes", "pve1,pve2,pve3", ...more]);

describe("init", () => {
  test.each([
    ["lab", "1 control plane and 1 worker,"],
    ["dev", "1 control plane and 2 workers"],
    ["production", "3 control planes and 3 workers"],
  ])("the preset %s makes a valid, commented file", async (preset, counts) => {
    expect((await init("--preset", preset)).code).toBe(0);
    expect(read("cluster.yaml")).toMatch(/^ *# /m);
    const checked = await gpvectl.run(["talos", "validate"]);
    expect(checked.out).toContain(`cluster.yaml is valid: prod, ${counts}`);
  });

  test("five questions, answered or left at what they offer", async () => {
    const ran = await gpvectl.run(["talos", "init", "c.yaml", "--preset", "production"], {
      answers: ["web", "https://pve.example.org:8006", "", "10.1.0.0/16", ""],
    });
    expect(ran.code).toBe(0);
    expect(gpvectl.asked).toHaveLength(5);
    expect(parse(read("c.yaml"))).toMatchObject({
      metadata: { name: "web" },
      providers: [{ type: "pve-api", endpoint: "https://pve.example.org:8006", nodes: ["pve"] }],
      network: { nodeCIDR: "10.1.0.0/16", gateway: "10.1.0.1" },
      endpoint: { vip: "10.1.0.9" },
      placement: { spread: "preferred" },
      secrets: { file: "web.secrets.enc.yaml" },
    });
  });

  test("on a Proxmox host there is no endpoint; small networks have room", async () => {
    const ran = await init("--provider", "qm", "--network", "10.0.0.0/28", "--preset", "production");
    expect(ran.err).toContain("Made an age key");
    expect(parse(read("cluster.yaml"))).toMatchObject({
      providers: [{ type: "qm" }],
      network: { ipam: { controlPlaneOffset: 2, workerOffset: 5 } },
    });
    expect((await gpvectl.run(["talos", "validate"])).code).toBe(0);
  });

  test("names that look like numbers stay names, lists may end with a comma, IPv6 has pods of IPv6", async () => {
    const six = ["--network", "fd00:1::/64", "--storage", "007"];
    const ran = await gpvectl.run(["talos", "init", "--yes", "--name", "1e3", "--nodes", "1, pve2,", ...six]);
    expect(ran).toMatchObject({ code: 0 });
    const cluster = parse(read("cluster.yaml")) as unknown;
    expect(cluster).toMatchObject({
      metadata: { name: "1e3" },
      providers: [{ nodes: ["1", "pve2"], storage: { vm: "007" } }],
      network: { gateway: "fd00:1::1", podCIDRs: ["fd00:10:244::/56"] },
    });
  });

  test("each of several clusters may have a folder of its own, which is made", async () => {
    const ran = await gpvectl.run(["talos", "init", "clusters/web/cluster.yaml", "--name", "web", "--yes"]);
    expect(ran).toMatchObject({ code: 0 });
    expect(readdirSync(at("clusters", "web")).toSorted()).toEqual([".gitignore", "cluster.yaml"]);
  });

  test("a file that is there is not touched, .gitignore is only added to", async () => {
    writeFileSync(at(".gitignore"), "mine\ntalosconfig\n");
    await init();
    expect(read(".gitignore")).toMatch(/^mine\ntalosconfig\n\n# [^\n]+\nkubeconfig\n/);
    const before = read("cluster.yaml");
    const again = await init("--preset", "lab");
    expect(again).toMatchObject({ code: 6 });
    expect(read("cluster.yaml")).toBe(before);
  });

  test.each([
    [["--network", "10.0.0.0"], '"10.0.0.0" is no network'],
    [["--vip", "10.9.9.9"], "the VIP 10.9.9.9 is outside 192.168.1.0/24"],
    [["--control-planes", "2"], "an even number of etcd members"],
    [["--name", "My Cluster"], "lower-case letters"],
    [["--talos-version", "v1.6.0"], "the nearest is v1.11"],
  ])("%j is refused and nothing is written", async (options, message) => {
    const ran = await init(...options);
    expect(ran.code).toBe(2);
    expect(ran.err).toContain(message);
    expect(existsSync(at("cluster.yaml"))).toBe(false);
  });
});

describe("validate", () => {
  test("problems have a line, a key and an id, for people and programs", async () => {
    await init();
    const text = read("cluster.yaml")
      .replace("gateway:", "gatway:")
      .replace("memoryMiB: 4096", "memoryMiB: 4G");
    writeFileSync(at("bad.yaml"), text);
    const ran = await gpvectl.run(["talos", "validate", "-f", "bad.yaml"]);
    expect(ran.code).toBe(2);
    expect(ran.out).toMatch(/bad\.yaml:\d+ +network\.gatway +.*did you mean gateway.* +key-unknown/);
    const json = await gpvectl.run(["talos", "validate", "-f", "bad.yaml", "--output", "json"]);
    const { valid, problems } = JSON.parse(json.out) as { valid: boolean; problems: { id: string }[] };
    expect(valid).toBe(false);
    expect(problems.map(({ id }) => id).toSorted()).toEqual(["key-missing", "key-unknown", "unit-in-number"]);
  });

  test.each([
    ["controlPlane:\n", "controlPlane: { count: 4 }\nx:\n", "key-unknown"],
    ["count: 1\n", "count: 2\n", "control-planes-even"],
    ["  dns:", "  podCIDRs: [192.168.0.0/16]\n  dns:", "networks-overlap"],
    ["endpoint: {}", "endpoint: { vip: 10.0.0.9 }", "vip-outside-network"],
    ["endpoint: {}", "endpoint: { vip: 192.168.1.1 }", "address-twice"],
    ["endpoint: {}", "endpoint: { vip: 192.168.1.9, dns: 192.168.1.8 }", "endpoint-ambiguous"],
    ["protect:", "nodes: { prod-cp-1: { host: pve9 } }\nprotect:", "host-unknown"],
    ["protect:", "nodes: { prod-cp-2: {} }\nprotect:", "node-unknown"],
    ["protect:", "nodes: { prod-cp-1: { vmid: 100 }, prod-worker-1: { vmid: 100 } }\nprotect:", "vmid-twice"],
    ["protect:", "vmids: { worker: 3000-3000 }\nprotect:", "vmids-exhausted"],
    ["nodeCIDR: 192.168.1.0/24", "nodeCIDR: 192.168.1.0/30", "addresses-exhausted"],
    ["talos: v1.13.9", "talos: v1.6.0", "talos-version"],
    ["talos: v1.13.9", "talos: v1.13.9\n  kubernetes: v1.30.0", "kubernetes-version"],
    ["talos: v1.13.9", "talos: ${TALOS_VERSION}", "environment-missing"],
    ["network:", "network: [", "yaml-broken"],
    ["protect:", 'backup: { etcd: { schedule: "99 * * * *" } }\nprotect:', "schedule-invalid"],
    ["protect:", 'backup: { etcd: { schedule: "@daily" } }\nprotect:', "schedule-invalid"],
    ["protect:", "backup: { etcd: { to: [dir, pbs] } }\nprotect:", "value-wrong"],
    ["recipients: [", "recipients: [age1nonsense, ", "recipient-wrong"],
    ["endpoint: https://", "endpoint: http://", "value-wrong"],
    ["endpoint: https://", "endpoint: pve.", "value-wrong"],
    [":8006", ":8006/api2/json", "value-wrong"],
    ["ntp: [", 'ntp: ["a b", ', "value-wrong"],
    ["endpoint: {}", "endpoint: { dns: https://k8s.example.org }", "value-wrong"],
    ["endpoint: {}", "endpoint: { extraSANs: ['not a name'] }", "value-wrong"],
    ["  dns:", "  dnsDomain: -bad-\n  dns:", "value-wrong"],
    ["  dns:", '  podCIDRs: ["fd00:244::/56"]\n  dns:', "network-families"],
    ["  dns:", '  serviceCIDRs: [10.96.0.0/12, "fd00:96::/112"]\n  dns:', "network-families"],
    ["  dns:", "  nodeCIDR6: 10.77.0.0/16\n  dns:", "network-families"],
    ["  - name: worker", "  - name: worker\n    taints: { gpu: 'yes:NoSchedul' }", "label-invalid"],
    ["  - name: worker", "  - name: worker\n    labels: { 'a b': c }", "label-invalid"],
    ["  - name: worker", "  - name: worker\n    labels: { a: b c }", "label-invalid"],
    ["  - name: worker", "  - name: worker\n    extensions: [qemu guest agent]", "value-wrong"],
    ["protect:", "image: { kernelArgs: [a b] }\nprotect:", "value-wrong"],
    ["protect:", "talos: { registries: { mirrors: { docker.io: [nourl] } } }\nprotect:", "value-wrong"],
    ["env: GPVE_TOKEN", "env: GPVE TOKEN", "value-wrong"],
    ["spread: preferred", "spread: required\nx: 1", "key-unknown"],
  ])("%j -> %j gives %s %s", async (from, to, id) => {
    await init();
    const text = read("cluster.yaml");
    expect(text).toContain(from);
    writeFileSync(at("bad.yaml"), text.replace(from, to));
    const ran = await gpvectl.run(["talos", "validate", "-f", "bad.yaml", "-o", "json"]);
    expect(ran.code).toBe(2);
    const { problems } = JSON.parse(ran.out) as { problems: { id: string }[] };
    expect(problems.map((problem) => problem.id)).toContain(id);
    expect((await gpvectl.run(["talos", "explain", id])).out).toContain("Fix:");
  });

  test("patches are tried, and nothing is written", async () => {
    await init();
    const patched = "talos: { patches: [{ file: patches/all.yaml }] }\nprotect:";
    writeFileSync(at("cluster.yaml"), read("cluster.yaml").replace("protect:", patched));
    const missing = await gpvectl.run(["talos", "validate"]);
    expect(missing.code).toBe(2);
    expect(missing.err).toContain("gpvectl talos explain patch-unreadable");
    mkdirSync(at("patches"));
    writeFileSync(at("patches", "all.yaml"), "machine: { sysctls: { a: b } }\n");
    expect((await gpvectl.run(["talos", "validate"])).code).toBe(0);
    expect(existsSync(at("secrets.enc.yaml"))).toBe(false);
  });

  test("a file that is not there says how to get one", async () => {
    const ran = await gpvectl.run(["talos", "validate"]);
    expect(ran.code).toBe(5);
    expect(ran.err).toContain("gpvectl talos init cluster.yaml");
  });
});

describe("render and output", () => {
  test("files are for their owner alone; again, they are the same cluster's", async () => {
    await init("--preset", "production");
    const ran = await gpvectl.run(["talos", "render", "--out", "out"]);
    expect(ran.code).toBe(0);
    expect(readdirSync(at("out")).toSorted()).toEqual([
      ".gitignore",
      "controlplane.yaml",
      "kubeconfig",
      "nodes",
      "talconfig.yaml",
      "talosconfig",
      "worker.yaml",
    ]);
    expect(statSync(at("out", "talosconfig")).mode & 0o777).toBe(0o600);
    expect(statSync(at("secrets.enc.yaml")).mode & 0o777).toBe(0o600);
    const first = read("out", "controlplane.yaml");
    await gpvectl.run(["talos", "set", "pools.worker.count=2"]);
    const again = await gpvectl.run(["talos", "render", "--out", "out"]);
    expect(again.err).toContain("nodes/prod-worker-3.yaml");
    expect(read("out", "controlplane.yaml")).toBe(first);
  });

  test("scripts get one value, everything but secrets, or a secret they ask for", async () => {
    await init("--preset", "production");
    const raw = async (name: string) => (await gpvectl.run(["talos", "output", "-raw", name])).out;
    expect(await raw("endpoint")).toBe("https://192.168.1.9:6443");
    expect(await raw("control_plane_ips")).toBe("192.168.1.10\n192.168.1.11\n192.168.1.12");
    expect(parse(await raw("talosconfig"))).toMatchObject({ context: "prod" });
    expect(parse(await raw("talos_client_configuration"))).toMatchObject({ context: "prod" });
    expect(parse(await raw("kubeconfig"))).toMatchObject({ kind: "Config" });
    expect(parse(await raw("kube_config"))).toMatchObject({ kind: "Config" });
    const json = JSON.parse((await gpvectl.run(["talos", "output", "-json"])).out) as { machines: unknown[] };
    expect(json.machines[0]).toMatchObject({ name: "prod-cp-1", vmid: 2000, host: "pve1" });
    expect(Object.keys(json)).not.toContain("talosconfig");
    const table = await gpvectl.run(["talos", "output"]);
    expect(table.out).toContain("talosconfig = (secret: --raw prints it)");
    expect((await gpvectl.run(["talos", "output", "--raw", "endpont"])).err).toContain(
      "did you mean endpoint?",
    );
  });
});

test("talosconfig and kubeconfig are printed, or merged beside those of other clusters", async () => {
  await init();
  expect(parse((await gpvectl.run(["talos", "kubeconfig"])).out)).toMatchObject({ kind: "Config" });
  const merged = await gpvectl.run(["talos", "talosconfig", "--merge"]);
  expect(merged.out).toContain("the context is prod");
  expect(statSync(at(".talos", "config")).mode & 0o777).toBe(0o600);
  writeFileSync(
    at("mine"),
    "# mine\ncurrent-context: old\nclusters:\n  - name: old\n    cluster: { server: https://old }\n",
  );
  const into = await gpvectl.run(["talos", "kubeconfig", "--into", "mine"]);
  expect(into.out).toContain("the context is admin@prod");
  expect(read("mine")).toContain("# mine");
  expect(parse(read("mine"))).toMatchObject({
    "current-context": "admin@prod",
    clusters: [{ name: "old" }, { name: "prod", cluster: { server: "https://192.168.1.10:6443" } }],
  });
  const elsewhere = await gpvectl.run(["talos", "kubeconfig", "--merge"], {
    env: { KUBECONFIG: at("k", "a") },
  });
  expect(elsewhere).toMatchObject({ code: 0 });
  expect(existsSync(at("k", "a"))).toBe(true);
  writeFileSync(at("broken"), "clusters: nothing\n");
  expect(await gpvectl.run(["talos", "kubeconfig", "--into", "broken"])).toMatchObject({ code: 2 });
  expect(read("broken")).toBe("clusters: nothing\n");
});

describe("secrets", () => {
  test("what was exported can be imported elsewhere, and makes the same cluster", async () => {
    await init();
    await gpvectl.run(["talos", "render", "--out", "a"]);
    expect((await gpvectl.run(["talos", "secrets", "export", "plain.yaml"])).code).toBe(0);
    expect(statSync(at("plain.yaml")).mode & 0o777).toBe(0o600);
    expect((await gpvectl.run(["talos", "secrets", "export", "plain.yaml"])).code).toBe(6);
    await init("second.yaml");
    const other = ["-f", "second.yaml"];
    await gpvectl.run(["talos", "render", "--out", "b", ...other]);
    expect(read("b", "controlplane.yaml")).not.toBe(read("a", "controlplane.yaml"));
    const imported = await gpvectl.run(["talos", "secrets", "import", "plain.yaml", ...other]);
    expect(imported.out).toContain("What was there is kept as prod.secrets.enc.yaml.20260102T030405Z.bak");
    await gpvectl.run(["talos", "render", "--out", "b", ...other]);
    expect(read("b", "controlplane.yaml")).toBe(read("a", "controlplane.yaml"));
    expect(read("prod.secrets.enc.yaml")).toContain("BEGIN AGE ENCRYPTED FILE");
  });

  test("a running cluster's secrets are neither replaced nor made anew", async () => {
    await init();
    await gpvectl.run(["talos", "secrets", "export", "plain.yaml"]);
    const lock = {
      version: 1,
      cluster: "prod",
      appliedAt: "2026-01-01T00:00:00Z",
      contract: "v1.13",
      machines: {},
    };
    mkdirSync(at(".deployer", "prod"), { recursive: true });
    writeFileSync(at(".deployer", "prod", "lock.json"), JSON.stringify(lock));
    const before = read("secrets.enc.yaml");
    const refused = await gpvectl.run(["talos", "secrets", "import", "plain.yaml"]);
    expect(refused).toMatchObject({ code: 7 });
    expect(refused.err).toContain("explain secrets-applied");
    expect(read("secrets.enc.yaml")).toBe(before);
    writeFileSync(at("cluster.yaml"), read("cluster.yaml").replace("secrets.enc.yaml", "gone.enc.yaml"));
    const gone = await gpvectl.run(["talos", "render", "--out", "out"]);
    expect(gone.err).toContain("explain secrets-gone");
    writeFileSync(at(".deployer", "prod", "lock.json"), JSON.stringify({ ...lock, cluster: "dev" }));
    const other = await gpvectl.run(["talos", "output"]);
    expect(other.err).toContain("belongs to the cluster dev, not to prod");
    writeFileSync(at(".deployer", "prod", "lock.json"), "{");
    expect((await gpvectl.run(["talos", "output"])).err).toContain("explain lock-damaged");
  });

  test("a wrong key, no key and a plain file are told apart, and nothing leaks", async () => {
    await init();
    await gpvectl.run(["talos", "secrets", "export", "plain.yaml"]);
    const key = at(".config", "sops", "age", "keys.txt");
    const own = readFileSync(key, "utf8");
    writeFileSync(key, "");
    const none = await gpvectl.run(["talos", "render", "--out", "out"]);
    expect(none).toMatchObject({ code: 4 });
    expect(none.err).toContain("explain age-key-missing");
    const wrong = "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX";
    writeFileSync(key, `${wrong}\n`);
    const refused = await gpvectl.run(["talos", "render", "--out", "out", "--debug"]);
    expect(refused.code).not.toBe(0);
    expect(refused.err).not.toContain(wrong);
    writeFileSync(key, own);
    writeFileSync(at("secrets.enc.yaml"), read("plain.yaml"));
    const plain = await gpvectl.run(["talos", "render", "--out", "out"]);
    expect(plain.err).toContain("explain secrets-plain");
    for (const ran of [none, refused, plain])
      expect(ran.out + ran.err).not.toMatch(/SECRET-KEY-1|BEGIN .*KEY/);
  });

  test("SOPS is written when the file says so", async () => {
    await init();
    writeFileSync(
      at("cluster.yaml"),
      read("cluster.yaml").replace("secrets:\n", "secrets:\n  backend: sops\n"),
    );
    await gpvectl.run(["talos", "render", "--out", "out"]);
    const sealed = parse(read("secrets.enc.yaml")) as {
      cluster: { secret: string };
      sops: { age: unknown[] };
    };
    expect(sealed.cluster.secret).toMatch(/^ENC\[AES256_GCM,/);
    expect(sealed.sops.age).toHaveLength(1);
    const piped = await gpvectl.run(["talos", "secrets", "export", "-"]);
    const back = await gpvectl.run(["talos", "secrets", "import", "-"], { stdin: piped.out });
    expect(back.code).toBe(0);
  });
});

describe("preflight and plan", () => {
  const PATHS = ["/version", "/nodes", "/cluster/resources", "/pools", "/access/permissions"];

  function serve(platform: FakePlatform): void {
    const nodes = [...platform.nodes.keys()].flatMap((node) =>
      ["storage", "network", "storage/local/content"].map((part) => `/nodes/${node}/${part}`),
    );
    const guests = [...platform.guests].map(([vmid, { node }]) => `/nodes/${node}/qemu/${vmid}/config`);
    for (const path of [...PATHS, ...nodes, ...guests]) {
      gpvectl.api.on(`GET /api2/json${path}`, (request) => platformAnswer(platform, request));
    }
  }

  const env = { GPVE_TOKEN: "root@pam!t=VERYSECRET" };
  const talos = (...args: readonly string[]) => gpvectl.run(["talos", ...args], { env });

  test("findings are told with what to do, and end with 1", async () => {
    const platform = new FakePlatform();
    platform.bridges = [];
    platform.privileges = () => [];
    serve(platform);
    await init("--endpoint", "https://127.0.0.1:8006");
    const ran = await talos("preflight");
    expect(ran).toMatchObject({ code: 1 });
    expect(ran.out).toMatch(/error +vmbr0 on pve1 +there: none +bridge-missing/);
    expect(ran.out).toMatch(/\/vms +missing: VM\.Allocate/);
    expect(ran.out + ran.err).not.toContain("VERYSECRET");
    expect(gpvectl.api.requests.every(({ method }) => method === "GET")).toBe(true);
    const json = JSON.parse((await talos("preflight", "-o", "json")).out) as { ok: boolean };
    expect(json.ok).toBe(false);
    expect(await talos("plan")).toMatchObject({ code: 1 });
  });

  test("an address that somebody has is told, unless no machine is to be made", async () => {
    const platform = new FakePlatform();
    platform.privileges = () => DEPLOYER_PRIVILEGES;
    serve(platform);
    await init("--endpoint", "https://127.0.0.1:8006", "--preset", "lab");
    const sign = { how: "port 22 is open", mac: "AA:BB:CC:00:00:01", isSure: true };
    gpvectl.network.answering.set("192.168.1.10", sign);
    const ran = await talos("preflight");
    expect(ran).toMatchObject({ code: 1 });
    expect(ran.out).toMatch(
      /error +prod-cp-1 +192\.168\.1\.10 answers: port 22 is open, MAC \S+ +address-answers/,
    );
    expect(ran.out).toMatch(/warning +v\S+ .*image-source-silent/);
    const bootstrap = await talos("plan", "--only", "bootstrap", "-o", "json");
    expect(bootstrap.out).not.toContain("address-answers");
    expect(platform.done).toEqual([]);
  });

  test("a plan says what would be done, to people, programs and by hand", async () => {
    const platform = new FakePlatform();
    platform.privileges = (path) => (path === "/" ? [] : DEPLOYER_PRIVILEGES);
    serve(platform);
    await init("--endpoint", "https://127.0.0.1:8006", "--preset", "lab");
    expect((await talos("preflight")).out).toContain("prod can be made here.");
    const ran = await talos("plan", "--detailed-exitcode");
    expect(ran).toMatchObject({ code: 2 });
    expect(ran.out).toContain("+ create prod-cp-1: VMID 2000 on pve1, 2 cores, 2048 MiB, ip=192.168.1.10/24");
    expect(ran.out).toContain("Plan: 2 to create, 0 to change, 0 to delete; 16 steps.");
    const commands = await talos("plan", "--print-commands");
    expect(commands).toMatchObject({ code: 0 });
    expect(commands.out).toMatch(/^pvesh create \/nodes\/pve1\/qemu --vmid 2000 --name prod-cp-1 /m);
    expect(commands.out.split("\n").slice(0, 3)).toEqual([
      "gpvectl talos render -f cluster.yaml --out .  # writes nodes/, talosconfig and kubeconfig",
      'export TALOSCONFIG="$PWD/talosconfig"',
      'export KUBECONFIG="$PWD/kubeconfig"',
    ]);
    const machines = await talos("plan", "--print-commands", "--only", "infrastructure");
    expect(machines.out).not.toMatch(/export|render/);
    const { steps } = JSON.parse((await talos("plan", "-o", "json")).out) as { steps: { kind: string }[] };
    expect(steps.map(({ kind }) => kind)).toContain("image.ensure");
    expect(JSON.parse((await talos("plan", "--json")).out)).toMatchObject({ ok: true, steps });
    expect(JSON.parse((await talos("preflight", "--json")).out)).toMatchObject({ ok: true });
    platform.bridges = [];
    const stopped = await talos("plan", "--print-commands");
    expect(stopped).toMatchObject({ code: 1, out: commands.out });
    expect(stopped.err).toContain("vmbr0 on pve1: there: none [bridge-missing]");
  });
});

test("another tool's file becomes a valid one; nothing that is there is overwritten", async () => {
  await init("--preset", "production");
  await gpvectl.run(["talos", "render", "--out", "out"]);
  const run = () => gpvectl.run(["talos", "import", "out/talconfig.yaml", "--out", "back.yaml"]);
  const first = await run();
  expect(first).toMatchObject({ code: 0 });
  expect(first.err).toContain("says nothing of the platform");
  expect((await gpvectl.run(["talos", "validate", "-f", "back.yaml"])).out).toContain(
    "3 control planes and 3 workers",
  );
  expect(await run()).toMatchObject({ code: 6 });
  expect(await gpvectl.run(["talos", "import", "nothing", "--out", "x"])).toMatchObject({ code: 5 });
  const other = await gpvectl.run(["talos", "import", "out/talosconfig", "--out", "x"]);
  expect(other).toMatchObject({ code: 10 });
  expect(other.err).toContain("explain import-unknown");
});

test("patches beside another tool's file are found from the new one", async () => {
  mkdirSync(at("old", "patches"), { recursive: true });
  const talconfig = `clusterName: home
talosVersion: v1.13.9
endpoint: https://10.0.0.11:6443
patches: ["@./patches/a.yaml"]
nodes: [{ hostname: cp-1, ipAddress: 10.0.0.11, controlPlane: true }]
`;
  writeFileSync(at("old", "talconfig.yaml"), talconfig);
  const run = () => gpvectl.run(["talos", "import", "old/talconfig.yaml", "--out", "new/cluster.yaml"]);
  const missing = await run();
  expect(missing).toMatchObject({ code: 2 });
  expect(missing.err).toContain("names the file ./patches/a.yaml, which is not there");
  writeFileSync(at("old", "patches", "a.yaml"), "machine: { sysctls: { a: b } }\n");
  expect(await run()).toMatchObject({ code: 0 });
  expect(read("new", "cluster.yaml")).toContain("file: ../old/patches/a.yaml");
  expect(await gpvectl.run(["talos", "validate", "-f", "new/cluster.yaml"])).toMatchObject({ code: 0 });
});

test("the schema is printed, a change is made in place, findings are listed", async () => {
  expect(JSON.parse((await gpvectl.run(["talos", "schema"])).out)).toMatchObject({ title: "TalosCluster" });
  await init();
  expect((await gpvectl.run(["talos", "set", "pools.worker.count=7"])).out).toContain("Changed");
  expect((await gpvectl.run(["talos", "set", "pools.worker.count=7"])).out).toContain("already");
  expect((await gpvectl.run(["talos", "set", "controlPlane.count=2"])).code).toBe(2);
  expect(read("cluster.yaml")).toContain("count: 7");
  expect((await gpvectl.run(["talos", "explain"])).out).toContain("control-planes-even");
  expect((await gpvectl.run(["talos", "explain", "control-planes-evn"])).err).toContain("did you mean");
});
