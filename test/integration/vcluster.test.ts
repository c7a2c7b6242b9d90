// A virtual cluster on real Kubernetes: from nothing to kubectl, through a crash of the agent and of the API server, and
// away again. Kubernetes is in the cache of this machine (test/prepare).
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { limitIn, memoryFile } from "@gpve/agent/infrastructure/cgroup/memory-limit.ts";
import { exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { goSettings } from "../support/go-settings.ts";
import { mainFile, nodeBinary, startGpve, type Gpve } from "../support/gpve.ts";
import { endClustersOf, leftOfClusters } from "../support/left-clusters.ts";
import { canRunClusters, components } from "../support/vclusters.ts";

if (!canRunClusters)
  console.warn(
    "SKIPPED: virtual clusters need root, and Kubernetes: `vitest run --config vitest.prepare.config.ts` brings it",
  );

let gpve: Gpve;

async function ctl(...argv: readonly string[]): Promise<{ code: number; out: string; err: string }> {
  const { code, stdout, stderr } = await exec(nodeBinary, [mainFile, "ctl", "--data", gpve.data, ...argv], {
    timeoutMs: 600_000,
    okCodes: Array.from({ length: 131 }, (_none, at) => at),
  });
  return { code, out: stdout, err: stderr };
}

async function kubectl(
  file: string,
  ...argv: readonly string[]
): Promise<{ code: number; out: string; err: string }> {
  const program = join(components, "kubernetes", version(), "kubectl");
  const { code, stdout, stderr } = await exec(program, [...argv, "--request-timeout=60s"], {
    env: { ...MINIMAL_ENV, KUBECONFIG: file, HOME: gpve.data },
    okCodes: [0, 1],
  });
  return { code, out: stdout, err: stderr };
}

/** The one that the cluster runs. */
function version(): string {
  const kept = readFileSync(join(gpve.data, "vclusters/clusters/demo/cluster.json"), "utf8");
  return (JSON.parse(kept) as { version: string }).version;
}

function pidOf(part: string): number {
  const state = readFileSync(join(gpve.data, `vclusters/run/guests/demo.${part}/state`), "utf8");
  return (JSON.parse(state) as { pid: number }).pid;
}

/** In bytes, as the kernel holds it. */
function memoryLimit(pid: number): number {
  const groups = readFileSync(`/proc/${pid}/cgroup`, "utf8");
  const one = /^\d+:(?:[^:]*,)?memory(?:,[^:]*)?:(.*)$/m.exec(groups)?.[1];
  const two = /^0::(.*)$/m.exec(groups)?.[1];
  const folder = one === undefined ? join("/sys/fs/cgroup", two ?? "") : join("/sys/fs/cgroup/memory", one);
  return limitIn(join(folder, memoryFile(one === undefined ? 2 : 1)));
}

describe.skipIf(!canRunClusters)("a virtual cluster", () => {
  const kubeconfig = (): string => join(gpve.data, "demo.kubeconfig");

  beforeAll(async () => {
    gpve = await startGpve({
      env: { GPVE_COMPONENTS: components, HOME: process.env["HOME"] ?? "/", ...goSettings() },
    });
  });
  afterAll(async () => {
    await endClustersOf(gpve.data);
    await gpve.stop();
    rmSync(gpve.data, { recursive: true, force: true });
  });

  test("is made by one command", async () => {
    const made = await ctl("vc", "create", "demo", "--workers", "0", "--wait");
    expect(made).toMatchObject({
      code: 0,
      out: expect.stringContaining("Virtual cluster demo runs Kubernetes 1."),
    });
    console.info(made.err);
  });

  test("has no more of its node than its tier may", () => {
    const limits = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"].map((part) =>
      memoryLimit(pidOf(part)),
    );
    const sum = limits.reduce((all, each) => all + each, 0);
    expect(sum).toBeLessThanOrEqual(2 * 2 ** 30);
    // A kernel counts whole pages.
    expect(sum).toBeGreaterThan(2 * 2 ** 30 - 4 * 4_096);
  });

  test("answers an unmodified kubectl", async () => {
    const { out } = await ctl("vc", "kubeconfig", "demo");
    writeFileSync(kubeconfig(), out, { mode: 0o600 });
    const said = await kubectl(kubeconfig(), "version", "-o", "json");
    expect(JSON.parse(said.out)).toMatchObject({ serverVersion: { gitVersion: `v${version()}` } });
    const ready = await kubectl(kubeconfig(), "get", "--raw", "/readyz?verbose");
    expect(ready.out).toContain("readyz check passed");
    const kinds = await kubectl(kubeconfig(), "api-resources", "-o", "name");
    expect(kinds.out.trim().split("\n").length).toBeGreaterThan(50);
    const secret = await kubectl(
      kubeconfig(),
      "create",
      "secret",
      "generic",
      "s",
      "--from-literal=word=openSesame",
    );
    expect(secret.code).toBe(0);
    const read = await kubectl(kubeconfig(), "get", "secret", "s", "-o", "jsonpath={.data.word}");
    expect(Buffer.from(read.out, "base64").toString()).toBe("openSesame");
    const who = await kubectl(kubeconfig(), "auth", "whoami", "-o", "json");
    expect(who.out).toContain("gpve:kubeconfig:");
    expect(who.out).not.toContain("system:masters");
  });

  test("keeps secrets encrypted in its store, and its keys from other users", async () => {
    const folder = join(gpve.data, "vclusters/store/db/demo");
    const stored = readdirSync(folder).map((name) => readFileSync(join(folder, name)).toString("latin1"));
    expect(stored.join("")).toContain("/registry/secrets/default/s");
    expect(stored.join("")).not.toContain("openSesame");
    const { stdout } = await exec("stat", [
      "-c",
      "%a %u",
      join(gpve.data, "vclusters/clusters/demo/pki/ca.key"),
    ]);
    const [mode, owner] = stdout.trim().split(" ");
    expect([mode, Number(owner) > 1_000_000]).toEqual(["600", true]);
  });

  test("cannot be used to reach this machine, as by a webhook of a tenant", async () => {
    const { stdout } = await exec("ip", ["netns", "list"]);
    const { instanceId } = JSON.parse(readFileSync(join(gpve.data, "instance.json"), "utf8")) as {
      instanceId: string;
    };
    const namespace = stdout.split(/\s/).find((word) => word.startsWith(`gpve-${instanceId}-`)) ?? "";
    // A listener on every address of this machine, the cluster's bridge among them.
    const server = createServer((socket) => socket.end("reached"));
    await new Promise<void>((resolve) => server.listen(0, "0.0.0.0", resolve));
    const { port } = server.address() as AddressInfo;
    const { network } = JSON.parse(
      readFileSync(join(gpve.data, "vclusters/clusters/demo/cluster.json"), "utf8"),
    ) as { network: number };
    const gateway = `100.${80 + Math.floor(network / 256)}.${network % 256}.1`;
    const reach = (args: readonly string[]) =>
      exec(
        args[0] ?? "",
        [...args.slice(1), "curl", "-s", "--http0.9", "-m", "3", `http://${gateway}:${port}/`],
        {
          okCodes: [0, 1, 7, 28, 52, 56],
        },
      );
    expect((await reach(["env"])).stdout).toContain("reached");
    expect((await reach(["ip", "netns", "exec", namespace])).stdout).not.toContain("reached");
    server.close();
  });

  test("runs on while the agent is killed, and is found again", async () => {
    const before = pidOf("kube-apiserver");
    await gpve.kill();
    expect((await kubectl(kubeconfig(), "get", "namespace", "default")).code).toBe(0);
    gpve = await gpve.restart();
    expect(pidOf("kube-apiserver")).toBe(before);
    expect((await ctl("vc", "list")).out).toMatch(/^demo +default +Running +hot/m);
  });

  test("gets a part back that was killed", async () => {
    const before = pidOf("kube-apiserver");
    process.kill(before, "SIGKILL");
    await expect
      .poll(async () => (await kubectl(kubeconfig(), "get", "secret", "s")).code, {
        timeout: 120_000,
        interval: 1_000,
      })
      .toBe(0);
    expect(pidOf("kube-apiserver")).not.toBe(before);
  });

  test("a kubeconfig that is revoked is worth nothing, and no other is touched", async () => {
    const other = join(gpve.data, "other.kubeconfig");
    const { out, err } = await ctl("vc", "kubeconfig", "demo", "--hours", "1");
    writeFileSync(other, out, { mode: 0o600 });
    expect((await kubectl(other, "get", "secret", "s")).code).toBe(0);
    const id = /vc revoke demo ([0-9a-f]{16})/.exec(err)?.[1] ?? "";
    expect((await ctl("vc", "kubeconfigs", "demo")).out).toMatch(new RegExp(`^${id} +root@pam`, "m"));
    // What he bound himself to meanwhile does not outlive it.
    const left = ["clusterrolebinding", "left"];
    const bound = await kubectl(other, "create", ...left, "--clusterrole=cluster-admin", "--user=root@pam");
    expect(bound).toMatchObject({ code: 0 });
    expect(await ctl("vc", "revoke", "demo", id)).toMatchObject({ code: 0 });
    const { out: listed } = await ctl("vc", "kubeconfigs", "demo");
    expect([listed.includes(id), /^[0-9a-f]{16} +root@pam/m.test(listed)]).toEqual([false, true]);
    await expect
      .poll(async () => (await kubectl(other, "get", "secret", "s")).err, { timeout: 150_000 })
      .toContain("belongs-to-the-platform");
    expect((await kubectl(kubeconfig(), "get", "secret", "s")).code).toBe(0);
    expect(await kubectl(kubeconfig(), "delete", ...left)).toMatchObject({ code: 0 });
  });

  test("gets a new authority, also when the agent is killed meanwhile; kubeconfigs of before are good until the old one is dropped", async () => {
    const fresh = join(gpve.data, "fresh.kubeconfig");
    const works = async (file: string): Promise<string> => (await kubectl(file, "get", "secret", "s")).err;
    expect((await ctl("vc", "rotate-ca", "demo", "--drop-old", "--yes")).err).toContain(
      "one authority alone",
    );
    expect(await ctl("vc", "rotate-ca", "demo", "--no-wait")).toMatchObject({ code: 0 });
    await gpve.kill();
    gpve = await gpve.restart();
    await expect
      .poll(async () => (await ctl("vc", "rotate-ca", "demo")).err, { timeout: 120_000, interval: 1_000 })
      .toContain("has a new authority already");
    expect(await works(kubeconfig())).toBe("");
    writeFileSync(fresh, (await ctl("vc", "kubeconfig", "demo")).out, { mode: 0o600 });
    expect(await works(fresh)).toBe("");
    const began = performance.now();
    expect(await ctl("vc", "rotate-ca", "demo", "--drop-old", "--yes")).toMatchObject({ code: 0 });
    console.info(`old authority dropped in ${Math.round(performance.now() - began)} ms`);
    expect(await works(kubeconfig())).toContain("certificate signed by unknown authority");
    expect(await works(fresh)).toBe("");
    // Nor does the API server believe whom the old one signed for.
    const parts = (file: string) =>
      JSON.parse(readFileSync(file, "utf8")) as { clusters: unknown; users: unknown };
    const stale = join(gpve.data, "stale.kubeconfig");
    writeFileSync(stale, JSON.stringify({ ...parts(kubeconfig()), clusters: parts(fresh).clusters }), {
      mode: 0o600,
    });
    expect(await works(stale)).toMatch(/Unauthorized|must be logged in/);
    writeFileSync(kubeconfig(), readFileSync(fresh), { mode: 0o600 });
  });

  test("is seen beside guests in /cluster/resources, and not among VMs", async () => {
    const all = await ctl("api", "get", "/cluster/resources", "-o", "json");
    expect(all.out).toContain('"vcluster/default/demo"');
    const vms = await ctl("api", "get", "/cluster/resources", "type=vm", "-o", "json");
    expect(vms.out).not.toContain("vcluster");
  });

  test("of another tenant may have its name: each kubeconfig leads to its own", async () => {
    const began = performance.now();
    expect(await ctl("pool", "create", "shop")).toMatchObject({ code: 0 });
    expect(await ctl("vc", "create", "demo", "--tenant", "shop", "--wait")).toMatchObject({ code: 0 });
    const listed = (await ctl("vc", "list")).out;
    expect(listed).toMatch(/^demo +default +Running/m);
    expect(listed).toMatch(/^demo +shop +Running/m);
    expect((await ctl("vc", "kubeconfig", "demo")).err).toContain("several tenants have");
    const theirs = join(gpve.data, "shop.kubeconfig");
    const { out } = await ctl("vc", "kubeconfig", "demo", "--tenant", "shop");
    writeFileSync(theirs, out, { mode: 0o600 });
    const secrets = async (file: string, ...more: readonly string[]) =>
      (await kubectl(file, "get", "secrets", "-o", "name", ...more)).out.trim();
    expect([await secrets(kubeconfig()), await secrets(theirs)]).toEqual(["secret/s", ""]);
    expect((await kubectl(theirs, "create", "secret", "generic", "t")).code).toBe(0);
    expect([await secrets(kubeconfig()), await secrets(theirs)]).toEqual(["secret/s", "secret/t"]);
    // Each has the name that clients ask for it by, and answers to no other's.
    const by = (tenant: string) => `--tls-server-name=demo.${tenant}.vc.gpve`;
    expect(await secrets(theirs, by("shop"))).toBe("secret/t");
    expect(await secrets(kubeconfig(), by("default"))).toBe("secret/s");
    expect((await kubectl(theirs, "get", "secrets", by("default"))).err).toContain(
      "certificate is valid for",
    );
    // Neither's key opens the other.
    const server = (JSON.parse(out) as { clusters: [{ cluster: { server: string } }] }).clusters[0].cluster
      .server;
    const stranger = await kubectl(kubeconfig(), "get", "secrets", `--server=${server}`);
    expect([stranger.code, stranger.err]).toEqual([1, expect.stringContaining("certificate")]);
    expect((await ctl("vc", "delete", "shop/demo", "--yes")).code).toBe(0);
    expect(await secrets(kubeconfig())).toBe("secret/s");
    expect((await ctl("vc", "list")).out).not.toMatch(/^demo +shop/m);
    console.info(`a second one of the name, and away again: ${Math.round(performance.now() - began)} ms`);
  });

  test("refuses what it cannot be, with the reason, and leaves nothing of it", async () => {
    const old = await ctl("vc", "create", "old", "--kubernetes-version", "1.30", "--wait");
    expect(old).toMatchObject({
      code: expect.not.stringMatching("0"),
      err: expect.stringContaining("component import"),
    });
    const taken = await ctl("vc", "create", "demo");
    expect(taken.err).toContain("already exists");
    const tier = await ctl("vc", "create", "big", "--tier", "Enterprise");
    expect(tier.err).toContain("3 replicas are on as many nodes");
    expect((await ctl("vc", "list")).out).not.toMatch(/^(old|big)/m);
  });

  test("stops, starts with all that was in it, and is deleted without a trace", async () => {
    expect(await ctl("vc", "stop", "demo")).toMatchObject({ code: 0 });
    expect((await ctl("vc", "list")).out).toMatch(/^demo +default +Stopped +cold/m);
    expect((await ctl("vc", "kubeconfig", "demo")).err).toContain("is Stopped");
    const database = join(gpve.data, "vclusters/store/db/demo/state.db");
    const whole = readFileSync(database);
    writeFileSync(database, "not a database at all, but long enough to be one".repeat(100));
    expect(await ctl("vc", "start", "demo")).toMatchObject({
      code: expect.not.stringMatching("0"),
      err: expect.stringContaining("is damaged"),
    });
    expect((await ctl("vc", "list")).out).toMatch(/^demo +default +Stopped +cold/m);
    expect((await leftOfClusters(gpve.data)).filter((line) => /kube-/.test(line))).toEqual([]);
    writeFileSync(database, whole);
    expect(await ctl("vc", "start", "demo")).toMatchObject({ code: 0 });
    await expect
      .poll(async () => (await kubectl(kubeconfig(), "get", "secret", "s")).code, { timeout: 150_000 })
      .toBe(0);
    expect((await leftOfClusters(gpve.data)).length).toBeGreaterThan(3);
    expect(await ctl("vc", "delete", "demo", "--yes")).toMatchObject({ code: 0 });
    await expect.poll(() => leftOfClusters(gpve.data), { timeout: 60_000 }).toEqual([]);
  });
});
