import { lstatSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { Gpvectl } from "../../testing/run-gpvectl.ts";

const upid = "UPID:n1:1:";
const vc = (phase: string, message?: string) => ({
  apiVersion: "gpve.io/v1",
  kind: "VirtualCluster",
  metadata: { name: "demo", namespace: "default" },
  spec: {},
  status: {
    phase,
    power: "hot",
    kubernetesVersion: "1.36.4",
    node: "n1",
    endpoint: "https://100.80.0.2:6443",
    conditions: [{ type: "Ready", status: "True", reason: phase, message }],
  },
});
const kubeconfig = JSON.stringify({
  apiVersion: "v1",
  kind: "Config",
  clusters: [
    {
      name: "demo",
      cluster: {
        server: "https://x",
        "tls-server-name": "demo.default.vc.gpve",
        "certificate-authority-data": "Q0E=",
      },
    },
  ],
  users: [{ name: "joe@pve@demo", user: { "client-certificate-data": "Q1JU", "client-key-data": "S0VZ" } }],
  contexts: [{ name: "demo", context: { cluster: "demo", user: "joe@pve@demo" } }],
  "current-context": "demo",
});

async function withCluster(phase = "Running", message?: string): Promise<Gpvectl> {
  const ctl = await Gpvectl.create();
  ctl.api
    .pve(`GET /nodes/n1/tasks/${upid}/status`, { status: "stopped", exitstatus: "OK" })
    .pve(`GET /nodes/n1/tasks/${upid}/log`, [], 0)
    .on("GET /api/v1/vclusters", { body: { items: [vc(phase)], metadata: {} } })
    .on("POST /api/v1/vclusters", { status: 201, body: vc("Pending") })
    .on("GET /api/v1/tenants/default/vclusters/demo", { body: vc(phase, message) })
    .on("DELETE /api/v1/tenants/shop/vclusters/demo", { body: vc("Terminating") })
    .on("POST /api/v1/vclusters/demo/stop", { body: { task: upid } })
    .on("POST /api/v1/vclusters/demo/sleep", { body: { task: upid } })
    .on("POST /api/v1/vclusters/demo/wake", { body: { task: upid } })
    .on("POST /api/v1/vclusters/demo/backup", { body: { task: upid } })
    .on("POST /api/v1/vclusters/copy/restore", { body: { task: upid } })
    .on("POST /api/v1/vclusters/demo/restore", { body: { task: upid } })
    .on("POST /api/v1/vclusters/demo/upgrade", { body: { task: upid } })
    .on("POST /api/v1/vclusters/demo/migrate", { body: { task: upid } })
    .on("POST /api/v1/vclusters/demo/rotate-ca", { body: { task: upid } })
    .on("GET /api/v1/vclusters/demo/backups", {
      body: { backups: [{ archive: "local:backup/x", sizeBytes: 2048, time: 1, notes: "first" }] },
    })
    .on("GET /api/v1/vclusters/demo/logs", { body: { lines: ["kube-apiserver: hello"] } })
    .on("GET /api/v1/vclusters/demo/events", {
      body: {
        events: [
          {
            type: "Normal",
            reason: "VCRunning",
            message: "virtual cluster demo is Running, was Initializing",
            node: "n1",
            count: 1,
            firstAt: "2020-01-01T00:00:00.000Z",
            lastAt: "2020-01-01T00:00:00.000Z",
          },
        ],
      },
    })
    .on("GET /api/v1/tenants/shop/vclusters/demo/events", { body: { events: [] } })
    .on("DELETE /api/v1/vclusters/demo/kubeconfigs/abc", { body: {} })
    .on("GET /api/v1/vclusters/demo/kubeconfig", {
      body: { id: "abc", kubeconfig, expiresAt: "2030-01-01T00:00:00Z" },
    });
  return ctl;
}

describe("gpvectl vc", () => {
  test("create waits, tells the phases and what to do next", async () => {
    await using ctl = await withCluster();
    const { code, out, err } = await ctl.run([
      "vc",
      "create",
      "demo",
      "--workers",
      "0",
      "--tier",
      "Starter",
      "--wait",
    ]);
    expect([code, out]).toEqual([
      0,
      expect.stringContaining("runs Kubernetes 1.36.4 at https://100.80.0.2:6443"),
    ]);
    expect(err).toContain("Running");
  });

  test.each([
    ["default", "demo"],
    ["shop", "0-demo-exxaohy25yjl"],
  ])("create of tenant %s tells what its node does meanwhile, once", async (tenant, key) => {
    await using ctl = await withCluster();
    const phases = ["Provisioning", "Provisioning", "Running"];
    ctl.api
      .on("POST /api/v1/vclusters", {
        status: 201,
        body: { ...vc("Pending"), metadata: { name: "demo", namespace: tenant } },
      })
      .on(`GET /api/v1/tenants/${tenant}/vclusters/demo`, () => ({ body: vc(phases.shift() ?? "Running") }))
      .pve("GET /nodes/n1/tasks", [
        { upid: "UPID:n1:other:", id: "other" },
        { upid, id: key },
        { upid: "UPID:n1:older:", id: key },
      ])
      .pve(`GET /nodes/n1/tasks/${upid}/log`, [
        { n: 1, t: "building kubernetes 1.36.4 from Go modules: about 8 min" },
        { n: 2, t: "kubelet: SHA-256 00" },
        { n: 3, t: "TASK OK" },
      ]);
    const { code, err } = await ctl.run(["vc", "create", "demo", "--tenant", tenant, "--wait"]);
    expect(code).toBe(0);
    expect(err.match(/about 8 min/g)).toHaveLength(1);
    expect(err).not.toMatch(/SHA-256|TASK/);
  });

  test("programs hear what was made, which work was done, and the lines of logs", async () => {
    await using ctl = await withCluster();
    const asked = async (...args: string[]): Promise<unknown> =>
      JSON.parse((await ctl.run(["-o", "json", "vc", ...args])).out);
    expect(await asked("create", "demo")).toEqual(vc("Pending"));
    expect(await asked("create", "demo", "--wait")).toEqual(vc("Running"));
    expect(await asked("stop", "demo")).toEqual({ upid });
    expect(await asked("stop", "demo", "--no-wait")).toEqual({ upid });
    expect(await asked("logs", "demo")).toEqual({ lines: ["kube-apiserver: hello"] });
  });

  test("create without waiting says how to look", async () => {
    await using ctl = await withCluster();
    const { code, out } = await ctl.run(["vc", "create", "demo"]);
    expect([code, out]).toEqual([0, expect.stringContaining("get vc demo -w")]);
  });

  test("create without waiting says what its node has to bring first", async () => {
    await using ctl = await withCluster("Provisioning");
    ctl.api
      .pve("GET /nodes/n1/tasks", [{ upid, id: "demo" }])
      .pve(`GET /nodes/n1/tasks/${upid}/log`, [{ n: 1, t: "building kubernetes 1.36.4: about 8 min" }]);
    const { code, out, err } = await ctl.run(["vc", "create", "demo"]);
    expect([code, err.match(/about 8 min/g)?.length]).toEqual([0, 1]);
    expect(out).toContain("is being made");
  });

  test("kubeconfig waits for a cluster that is being made, and for no other one", async () => {
    await using ctl = await withCluster();
    const phases = ["Provisioning", "Initializing", "Running"];
    const refused = {
      status: 409,
      body: { code: "object.conflict", detail: "is Provisioning", status: 409 },
    };
    const answers = [refused, { body: { id: "abc", kubeconfig, expiresAt: "2030-01-01T00:00:00Z" } }];
    ctl.api
      .on("GET /api/v1/vclusters/demo", () => ({ body: vc(phases.shift() ?? "Running") }))
      .on("GET /api/v1/vclusters/demo/kubeconfig", () => answers.shift() ?? refused);
    const { code, out, err } = await ctl.run(["vc", "kubeconfig", "demo"]);
    expect([code, out.trim()]).toEqual([0, kubeconfig]);
    expect(err).toContain("Initializing");
    ctl.api.on("GET /api/v1/vclusters/demo", { body: vc("Stopped") });
    const stopped = await ctl.run(["vc", "kubeconfig", "demo"]);
    expect([stopped.code, stopped.out]).toEqual([7, ""]);
  });

  test("create says how much its volumes may have, and that they may have nothing where nobody said it", async () => {
    await using ctl = await withCluster();
    const bounded = (storage: string) => {
      const made = vc("Pending");
      ctl.api.on("POST /api/v1/vclusters", {
        status: 201,
        body: { ...made, spec: { ...made.spec, quota: { storage } } },
      });
    };
    bounded("20Gi");
    const said = await ctl.run(["vc", "create", "demo", "--volume-quota", "20Gi"]);
    expect(JSON.parse(ctl.api.last("POST /api/v1/vclusters").body)).toMatchObject({
      spec: { quota: { storage: "20Gi" } },
    });
    bounded("0");
    const plain = await ctl.run(["vc", "create", "demo"]);
    expect(JSON.parse(ctl.api.last("POST /api/v1/vclusters").body)).not.toHaveProperty("spec.quota");
    const words = "its claims for persistent volumes wait until its spec.quota.storage says so";
    expect([said.code, plain.code]).toEqual([0, 0]);
    expect(said.err).not.toContain(words);
    expect(plain.err).toContain(words);
  });

  test("create asks for a controller for Ingresses where it is told one", async () => {
    await using ctl = await withCluster();
    await ctl.run(["vc", "create", "demo", "--workers", "1", "--ingress", "traefik"]);
    expect(JSON.parse(ctl.api.last("POST /api/v1/vclusters").body)).toMatchObject({
      spec: { networking: { ingress: "traefik" }, workerNodes: { count: 1 } },
    });
  });

  test("create goes on waiting while the node is silent for a moment, and not for ever", async () => {
    await using ctl = await withCluster();
    const phases = ["Provisioning", "Unknown", "Running"];
    ctl.api.on("GET /api/v1/tenants/default/vclusters/demo", () => ({
      body: vc(phases.shift() ?? "Running"),
    }));
    const { code, err } = await ctl.run(["vc", "create", "demo", "--wait"]);
    expect([code, err]).toEqual([0, expect.stringContaining("Unknown")]);
    ctl.api.on("GET /api/v1/tenants/default/vclusters/demo", { body: vc("Unknown", "n1 does not report") });
    const silent = await ctl.run(["vc", "create", "demo", "--wait"]);
    expect(silent.code).not.toBe(0);
    expect(silent.err).toContain("demo is Unknown: n1 does not report");
  });

  test("create tells why it failed and the ways out", async () => {
    await using ctl = await withCluster("Failed", "no bridge");
    const { code, err } = await ctl.run(["vc", "create", "demo", "--wait"]);
    expect(code).not.toBe(0);
    expect(err).toMatch(/demo is Failed: no bridge.*vc retry demo/);
  });

  test("kubeconfig prints, or merges into kubectl's file", async () => {
    await using ctl = await withCluster();
    const printed = await ctl.run(["vc", "kubeconfig", "demo"]);
    expect([printed.code, printed.out.trim()]).toEqual([0, kubeconfig]);
    expect(printed.err).toContain("vc revoke demo abc");
    const merged = await ctl.run(["vc", "kubeconfig", "demo", "--merge"]);
    expect(merged.out).toContain("the context is");
    const path = /Merged into (\S+);/.exec(merged.out)?.[1] ?? join("nowhere");
    expect(parse(readFileSync(path, "utf8"))).toEqual(JSON.parse(kubeconfig));
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  test("kubeconfig merges into the file that is named, also where a link leads to it, readable to its owner alone", async () => {
    await using ctl = await withCluster();
    const file = join(ctl.home, "real");
    writeFileSync(file, "current-context: lab\ncontexts: [{name: lab, context: {cluster: lab}}]\n", {
      mode: 0o644,
    });
    const link = join(ctl.home, "link");
    symlinkSync(file, link);
    const { code, out } = await ctl.run(["vc", "kubeconfig", "demo", "--merge"], {
      env: { KUBECONFIG: `:${link}:other` },
    });
    expect([code, out]).toEqual([0, expect.stringContaining(`Merged into ${link}`)]);
    expect([lstatSync(link).isSymbolicLink(), statSync(file).mode & 0o777]).toEqual([true, 0o600]);
    expect((parse(readFileSync(file, "utf8")) as { contexts: { name: string }[] }).contexts).toMatchObject([
      { name: "lab" },
      { name: "demo" },
    ]);
  });

  test("sleep is cold unless told, and wake wakes", async () => {
    await using ctl = await withCluster();
    expect((await ctl.run(["vc", "sleep", "demo"])).out).toContain("Virtual cluster demo is cold");
    const warm = await ctl.run(["vc", "sleep", "demo", "--mode", "warm"]);
    expect(warm.out).toContain("Virtual cluster demo is warm");
    expect((await ctl.run(["vc", "sleep", "demo", "--mode", "deep"])).code).not.toBe(0);
    expect((await ctl.run(["vc", "wake", "demo"])).out).toContain("Virtual cluster demo is awake");
    ctl.api.on("POST /api/v1/vclusters/demo/wake?forSeconds=7200", { body: { task: upid } });
    expect((await ctl.run(["vc", "wake", "demo", "--for", "2h"])).out).toContain("demo is awake");
    expect((await ctl.run(["vc", "wake", "demo", "--for", "soon"])).err).toContain("is not a duration");
  });

  test("events are told with what they mean, and none as none", async () => {
    await using ctl = await withCluster();
    expect((await ctl.run(["vc", "events", "demo"])).out).toMatch(
      /Normal +VCRunning +n1 +1 +virtual cluster demo is Running, was Initializing/,
    );
    const none = await ctl.run(["vc", "events", "demo", "--tenant", "shop"]);
    expect(`${none.out}${none.err}`).toContain("No events lately.");
  });

  test("backup, backups and restore; over what is there only with --yes", async () => {
    await using ctl = await withCluster();
    expect((await ctl.run(["vc", "backup", "demo", "--protected"])).out).toContain("demo is backed up");
    expect((await ctl.run(["vc", "backups", "demo"])).out).toMatch(/^local:backup\/x .*first/m);
    ctl.api.on("GET /api/v1/vclusters/gone/backups", { body: { backups: [], away: ["nas"] } });
    expect((await ctl.run(["vc", "backups", "gone"])).err).toContain("Not to be seen now");
    expect((await ctl.run(["vc", "restore", "copy"])).err).toContain("say which backup");
    const odd = await ctl.run(["vc", "restore", "copy", "--from", "x.tar.gz"]);
    expect(odd.err).toContain("'x.tar.gz' is no backup: say it as gpvectl vc backups NAME shows it");
    const made = await ctl.run(["vc", "restore", "copy", "--from", "local:backup/x", "--workers", "0"]);
    expect(made.out).toContain("Virtual cluster copy is restored");
    const over = ["vc", "restore", "demo", "--from", "local:backup/x", "--over"];
    expect((await ctl.run(over)).err).toContain("say --yes");
    expect((await ctl.run([...over, "--yes"])).out).toContain("Virtual cluster demo is restored");
  });

  test("upgrade says to what", async () => {
    await using ctl = await withCluster();
    expect((await ctl.run(["vc", "upgrade", "demo"])).err).toContain("say to what: --to");
    const done = await ctl.run(["vc", "upgrade", "demo", "--to", "1.37", "--drain"]);
    expect(done.out).toContain("Virtual cluster demo runs Kubernetes 1.37");
  });

  test("migrate says where to", async () => {
    await using ctl = await withCluster();
    expect((await ctl.run(["vc", "migrate", "demo"])).err).toContain("say where to: --to");
    const done = await ctl.run(["vc", "migrate", "demo", "--to", "n2"]);
    expect(done.out).toContain("Virtual cluster demo is on node n2");
  });

  test("rotate-ca says until when kubeconfigs of before are good; the old one goes only with --yes", async () => {
    await using ctl = await withCluster();
    const done = await ctl.run(["vc", "rotate-ca", "demo", "--grace", "24"]);
    expect(done.out).toContain("Kubeconfigs of before are good until the old one is dropped");
    expect((await ctl.run(["vc", "rotate-ca", "demo", "--drop-old"])).err).toContain("say --yes");
    const dropped = await ctl.run(["vc", "rotate-ca", "demo", "--drop-old", "--yes"]);
    expect(dropped.out).toContain("knows its new authority alone");
    expect((await ctl.run(["vc", "rotate-ca", "demo", "--grace", "0"])).code).not.toBe(0);
    ctl.api.on("POST /api/v1/tenants/shop/vclusters/demo/rotate-ca", { body: { task: upid } });
    const other = await ctl.run(["vc", "rotate-ca", "demo", "--tenant", "shop"]);
    expect(other.out).toContain("gpvectl vc rotate-ca demo --tenant shop --drop-old --yes");
  });

  test("list, stop, logs, revoke and delete", async () => {
    await using ctl = await withCluster();
    expect((await ctl.run(["vc", "list"])).out).toMatch(/^demo +default +Running +hot +1.36.4 +n1/m);
    expect((await ctl.run(["vc", "stop", "demo"])).out).toContain("Virtual cluster demo is stopped");
    expect((await ctl.run(["vc", "logs", "demo"])).out).toContain("kube-apiserver: hello");
    expect((await ctl.run(["vc", "revoke", "demo", "abc"])).out).toContain("has no rights any more");
    ctl.api.on("DELETE /api/v1/vclusters/demo/kubeconfigs/def", {
      status: 404,
      headers: { "content-type": "application/problem+json" },
      body: { code: "object.not_found", detail: "virtual cluster demo has no kubeconfig 'def'" },
    });
    expect((await ctl.run(["vc", "revoke", "demo", "def"])).err).toContain("gpvectl vc kubeconfigs demo.");
    const unsure = await ctl.run(["vc", "delete", "demo", "--tenant", "shop"]);
    expect([unsure.code === 0, unsure.err]).toEqual([false, expect.stringContaining("--yes")]);
    const sure = await ctl.run(["vc", "delete", "demo", "--tenant", "shop", "--yes"]);
    expect([sure.code, sure.out]).toEqual([0, expect.stringContaining("Deleted virtual cluster demo")]);
    await ctl.run(["vc", "delete", "demo", "--tenant", "shop", "--yes", "--volumes"]);
    expect(ctl.api.requests.at(-1)?.query.get("force")).toBe("1");
  });

  test("show says how one is, why it is not ready, and what its workers do", async () => {
    await using ctl = await withCluster();
    const vnode = { name: "worker-1", node: "n1", running: true, cpu: 2, memoryBytes: 2 ** 31, pods: 3 };
    const shown = {
      ...vc("Failed"),
      spec: {
        controlPlane: { tier: "Starter", backingStore: "sqlite" },
        workerNodes: { count: 1, pools: [{ name: "build", count: 2 }] },
      },
      status: {
        ...vc("Failed").status,
        vnodes: [vnode],
        conditions: [
          { type: "Ready", status: "False", reason: "Failed", message: "no bridge" },
          { type: "StandbyInSync", status: "False", message: "one node" },
        ],
      },
    };
    ctl.api
      .on("GET /api/v1/vclusters/demo", { body: shown })
      .on("GET /api/v1/tenants/shop/vclusters/demo", { body: vc("Running") });
    const { out } = await ctl.run(["vc", "show", "demo"]);
    expect(out).toMatch(/^Phase: +Failed\nWhy: +no bridge$/m);
    expect(out).toMatch(/^Tier: +Starter$/m);
    expect(out).toMatch(/^Workers: +1, build 2$/m);
    expect(out).toMatch(/^Standby: +one node$/m);
    expect(out).toMatch(/^worker-1 +n1 +yes +3 +2 +- +2\.0 GiB +-$/m);
    const other = await ctl.run(["vc", "show", "shop/demo"]);
    expect(other.out).not.toContain("Why");
    expect(other.err).toContain("gpvectl vc kubeconfig demo --tenant shop --merge");
    expect(JSON.parse((await ctl.run(["vc", "show", "demo", "-o", "json"])).out)).toEqual(shown);
  });

  test("show names a standby that is in sync, and says of one that is not what it lacks", async () => {
    await using ctl = await withCluster();
    const withStandby = (status: string, message: string) => ({
      ...vc("Running"),
      status: {
        ...vc("Running").status,
        standby: { node: "n2", inSync: status === "True" },
        conditions: [{ type: "StandbyInSync", status, message }],
      },
    });
    ctl.api.on("GET /api/v1/vclusters/demo", { body: withStandby("True", "node n2 has every write") });
    expect((await ctl.run(["vc", "show", "demo"])).out).toMatch(/^Standby: +n2$/m);
    ctl.api.on("GET /api/v1/vclusters/demo", { body: withStandby("False", "node n2 does not confirm") });
    expect((await ctl.run(["vc", "show", "demo"])).out).toMatch(/^Standby: +node n2 does not confirm$/m);
  });

  test("show says why also of one that goes on after what failed", async () => {
    await using ctl = await withCluster("Running", "it has 2 workers, not 1 as asked for");
    const { out } = await ctl.run(["vc", "show", "demo", "--tenant", "default"]);
    expect(out).toMatch(/^Why: +it has 2 workers, not 1 as asked for$/m);
  });

  test("show says what keeps one awake now", async () => {
    await using ctl = await withCluster();
    const conditions = [{ type: "KeptAwake", status: "True", reason: "InUse", message: "Job default/pi" }];
    const body = { ...vc("Running"), status: { ...vc("Running").status, conditions } };
    ctl.api.on("GET /api/v1/vclusters/demo", { body });
    expect((await ctl.run(["vc", "show", "demo"])).out).toMatch(/^Now awake: +Job default\/pi$/m);
  });

  test("kubeconfigs are listed with whose they are, so that one can be revoked", async () => {
    await using ctl = await withCluster();
    const id = "0123456789abcdef";
    ctl.api
      .on("GET /api/v1/vclusters/demo/kubeconfigs", {
        body: {
          kubeconfigs: [
            { id, user: "joe@pve", expiresAt: "2030-01-01T00:00:00Z" },
            { id: "1123456789abcdef", user: "joe@pve" },
          ],
        },
      })
      .on("GET /api/v1/tenants/shop/vclusters/demo/kubeconfigs", { body: { kubeconfigs: [] } });
    const { out } = await ctl.run(["vc", "kubeconfigs", "demo"]);
    expect(out).toMatch(/^0123456789abcdef +joe@pve +2030-01-01 00:00:00Z$/m);
    expect(out).toMatch(/^1123456789abcdef +joe@pve +unknown$/m);
    expect((await ctl.run(["vc", "kubeconfigs", "demo", "-o", "json"])).out).not.toContain("unknown");
    const none = await ctl.run(["vc", "kubeconfigs", "shop/demo"]);
    expect(none.err).toContain("No kubeconfig is good.");
  });

  test("pod shows where one runs, and node pods what runs on a node", async () => {
    await using ctl = await withCluster();
    const place = {
      vcluster: "demo",
      tenant: "default",
      namespace: "kube-system",
      pod: "dns",
      vnode: "worker-1",
      node: "n1",
    };
    const nodeUsage = { cpu: 0.5, memoryUsedBytes: 1024, memoryTotalBytes: 4096, load: [1.5, 2, 3] };
    ctl.api
      .on("GET /api/v1/vclusters/demo/pods/dns/mapping", { body: { ...place, nodeUsage } })
      .on("GET /api/v1/nodes/n1/pods", { body: { pods: [place] } })
      .on("GET /api/v1/nodes/n2/pods", { body: { pods: [] } });
    const asked = ["vc", "pod", "demo", "dns", "--namespace", "kube-system"];
    const { out } = await ctl.run(asked);
    expect(out).toMatch(
      /^dns +kube-system +demo +default +worker-1 +n1 +50\.0 % +1\.0 KiB +4\.0 KiB +1\.5,2,3$/m,
    );
    expect(ctl.api.requests.at(-1)?.query.get("namespace")).toBe("kube-system");
    expect(JSON.parse((await ctl.run([...asked, "-o", "json"])).out)).toEqual({ ...place, nodeUsage });
    expect((await ctl.run(["node", "pods", "n1"])).out).toMatch(
      /^dns +kube-system +demo +default +worker-1 +n1$/m,
    );
    expect((await ctl.run(["node", "pods", "n2"])).err).toContain("No pods of virtual clusters.");
  });

  test("--yes is taken also where nothing is asked", async () => {
    await using ctl = await withCluster();
    ctl.api.on("POST /api/v1/vclusters/demo/scale", { body: { task: upid } });
    for (const words of ["wake", "stop", "sleep", "backup", "scale --workers 2", "upgrade --to 1.37"]) {
      const [verb = "", ...more] = words.split(" ");
      expect(await ctl.run(["vc", verb, "demo", ...more, "--yes"])).toMatchObject({ code: 0 });
    }
  });

  test("one of several of its name is meant by its tenant, before the name or beside it", async () => {
    await using ctl = await withCluster();
    for (const which of [["shop/demo"], ["demo", "--tenant", "shop"], ["shop/demo", "--tenant", "shop"]])
      expect((await ctl.run(["vc", "delete", ...which, "--yes"])).code).toBe(0);
    const torn = await ctl.run(["vc", "delete", "lab/demo", "--tenant", "shop", "--yes"]);
    expect([torn.code === 0, torn.err]).toEqual([false, expect.stringContaining("say one")]);
    ctl.api.on("GET /api/v1/tenants/lab/eu/vclusters/demo/kubeconfig", {
      body: { id: "abc", kubeconfig, expiresAt: "2030-01-01T00:00:00Z" },
    });
    const { err } = await ctl.run(["vc", "kubeconfig", "lab/eu/demo"]);
    expect(err).toContain("gpvectl vc revoke demo --tenant lab/eu abc");
  });

  test("create where one may not says where one may", async () => {
    await using ctl = await withCluster();
    ctl.api
      .on("POST /api/v1/vclusters", {
        status: 403,
        headers: { "content-type": "application/problem+json" },
        body: { code: "access.denied", detail: "Permission check failed (/pool/default, VC.Audit)" },
      })
      .pve("GET /access/permissions", {
        "/pool/shop": { "VC.Allocate": 1 },
        "/pool/lab": { "VC.Audit": 1 },
        "/vms/1": { "VC.Allocate": 1 },
      });
    const { code, err } = await ctl.run(["vc", "create", "demo"]);
    expect([code === 0, err]).toEqual([
      false,
      expect.stringContaining("You may make clusters in shop: gpvectl vc create demo --tenant shop."),
    ]);
    expect(err).toContain("Permission check failed (/pool/default, VC.Audit)");
    ctl.api.pve("GET /access/permissions", {});
    expect((await ctl.run(["vc", "create", "demo"])).err).toContain("Ask an administrator");
    const named = await ctl.run(["vc", "create", "demo", "--tenant", "default"]);
    expect(named.err).toContain("Ask an administrator");
  });

  test.each([
    ["what a node is missing", "/nodes/n1, Sys.AccessNetwork", "shop"],
    ["who may make clusters in tenant default", "/pool/default, VC.Config", "default"],
  ])("create that is refused for %s names no other tenant", async (_for, missing, pool) => {
    await using ctl = await withCluster();
    ctl.api
      .on("POST /api/v1/vclusters", {
        status: 403,
        headers: { "content-type": "application/problem+json" },
        body: { code: "access.denied", detail: `Permission check failed (${missing})` },
      })
      .pve("GET /access/permissions", { [`/pool/${pool}`]: { "VC.Allocate": 1 } });
    const { code, err } = await ctl.run(["vc", "create", "demo"]);
    expect([code, err]).toEqual([4, expect.stringContaining(missing)]);
    expect(err).not.toContain("You may make clusters in");
  });

  test("create makes one in its tenant, and waits for that one", async () => {
    await using ctl = await withCluster();
    const made = { ...vc("Running"), metadata: { name: "demo", namespace: "shop" } };
    ctl.api
      .on("POST /api/v1/vclusters", { status: 201, body: made })
      .on("GET /api/v1/tenants/shop/vclusters/demo", { body: made });
    const { code, out } = await ctl.run(["vc", "create", "demo", "--tenant", "shop", "--wait"]);
    expect([code, out]).toEqual([0, expect.stringContaining("vc kubeconfig demo --tenant shop --merge")]);
    expect(JSON.parse(ctl.api.last("POST /api/v1/vclusters").body)).toMatchObject({
      metadata: { name: "demo", namespace: "shop" },
    });
  });
});
