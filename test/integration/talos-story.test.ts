// The story of a Talos cluster, told by gpvectl and kubectl: from an empty gpve to a cluster that runs pods, then its life
// until nothing is left. Machines are real VMs in which a stand-in answers for Talos; Kubernetes is a real one, with a real
// kubelet for each machine that has joined, so that nodes, pods, drains, backups and versions are real. Every run has one
// control plane and one worker on one node, and kills apply on its way; the long run three and two, then four, on three nodes,
// and all of its life.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { skipping } from "../support/foreign-clients.ts";
import { Random } from "../support/fuzz/random.ts";
import { oneNode, threeNodes, type GroundEnv, type TalosGround } from "../support/talos-ground.ts";
import { TalosKubernetes } from "../support/talos-kubernetes.ts";
import { TalosLab } from "../support/talos-lab.ts";
import { TalosOperator } from "../support/talos-operator.ts";
import { twoVersions, type TwoVersions } from "../support/two-versions.ts";
import { cachedVersions, canRunClusters, components, kubectl } from "../support/vclusters.ts";

const lacking = !existsSync("/usr/bin/qemu-system-x86_64")
  ? "needs QEMU: apt-get install qemu-system-x86 qemu-utils"
  : canRunClusters
    ? undefined
    : "needs root and Kubernetes in this machine's cache: test/integration/vcluster.test.ts brings it";
const isLong = process.env["GPVE_TALOS_STORY"] !== undefined;
/** The same number kills at the same lines; the long run has another each time. */
const seed = Number(process.env["GPVE_TALOS_SEED"] ?? process.env["GPVE_FUZZ_SEED"] ?? 451_233);
const IMAGE = "gpve.local/busybox:1";
const inside = ["--probe-image", IMAGE];

const sizes = [
  {
    name: "one node",
    planes: 1,
    workers: 1,
    more: 1,
    start: (env: GroundEnv) => oneNode("tbr885", "10.77.85", env),
  },
  { name: "three nodes", planes: 3, workers: 2, more: 4, start: threeNodes },
] as const;

interface Node {
  readonly metadata: { readonly name: string };
  readonly spec: { readonly unschedulable?: boolean };
  readonly status: {
    readonly conditions: readonly { readonly type: string; readonly status: string }[];
    readonly nodeInfo: { readonly kubeletVersion: string };
  };
}

describe
  .skipIf(skipping("the story of a Talos cluster", lacking))
  .each(sizes.filter(({ planes }) => isLong === planes > 1))(
  `the story of a Talos cluster, $name, seed ${seed}`,
  ({ planes, workers, more, start }) => {
    let versions: TwoVersions;
    let ground: TalosGround;
    let kubernetes: TalosKubernetes;
    let lab: TalosLab;
    let operator: TalosOperator;
    const gpvectl = (...args: readonly string[]) => operator.gpvectl(...args);
    const kubeconfig = () => join(operator.folder, "kubeconfig");
    const scratch = () => `${ground.network}.240`;

    /** What was done, of which nothing may fail. */
    const done = async (...args: readonly string[]): Promise<string> => {
      const { code, stdout, stderr } = await gpvectl(...args);
      expect(code, `gpvectl talos ${args.join(" ")}\n${stdout}${stderr}`).toBe(0);
      return stdout;
    };
    /** By name: whether it is Ready and takes pods, and its kubelet's version. */
    const nodes = async (): Promise<Readonly<Record<string, string>>> => {
      const { code, out } = await kubectl(kubeconfig(), "get", "nodes", "-o", "json");
      expect(code).toBe(0);
      const { items } = JSON.parse(out) as { items: readonly Node[] };
      return Object.fromEntries(
        items.map(({ metadata, spec, status }) => {
          const isReady = status.conditions.some(({ type, status: is }) => type === "Ready" && is === "True");
          const state = `${isReady ? "Ready" : "NotReady"}${spec.unschedulable === true ? ",cordoned" : ""}`;
          return [metadata.name, `${state} ${status.nodeInfo.kubeletVersion}`];
        }),
      );
    };
    const allReady = (workerCount: number, version: string): Readonly<Record<string, string>> => {
      const names = (role: string, count: number) =>
        Array.from({ length: count }, (_none, at) => [`lab-${role}-${at + 1}`, `Ready v${version}`] as const);
      return Object.fromEntries([...names("cp", planes), ...names("worker", workerCount)]);
    };
    const guests = async () =>
      (await ground.api("GET", "/cluster/resources", { type: "vm" })).data as readonly {
        name: string;
        vmid: number;
        node: string;
        template?: number;
      }[];
    const podsReachEachOther = (said: string, count: number): void => {
      expect(said).toContain(`✓ pods run on every node (${count} of ${count})`);
      expect(said).toContain(`✓ pods reach pods on other nodes (${count * (count - 1)} ways)`);
      expect(said).toContain("✓ pods reach pods with large packets");
      expect(said).toContain("✓ names are found in pods");
      expect(said).toContain("✓ a volume of the default storage class is bound and written (local)");
      // Pods of a virtual cluster may not be in the host's network, and that is said.
      expect(said).toMatch(/✗ nodes reach each other.*pods are refused/);
    };
    /** Somebody's own, which has to live through all of it. */
    const webIsThere = async (): Promise<void> => {
      const wait = ["wait", "deployment/web", "--for=condition=Available", "--timeout=180s"];
      expect(await kubectl(kubeconfig(), ...wait)).toMatchObject({ code: 0 });
    };
    const begun = performance.now();
    const chapter = (name: string): void =>
      console.info(`${Math.round((performance.now() - begun) / 1000)} s: ${name}`);

    beforeAll(async () => {
      // Only the long run goes from one to the other.
      const [newest = ""] = cachedVersions();
      versions = isLong
        ? await twoVersions()
        : { folder: components, from: newest, to: newest, remove: () => undefined };
      ground = await start({ GPVE_COMPONENTS: versions.folder });
      chapter("gpve is up");
      kubernetes = new TalosKubernetes({ gpve: ground, name: "lab", version: versions.from });
      await kubernetes.create();
      lab = new TalosLab(ground.api, ground.host, kubernetes);
      operator = new TalosOperator(ground);
    }, 900_000);

    afterAll(async () => {
      await lab?.stop();
      await kubernetes?.remove().catch((err: unknown) => console.info(String(err)));
      await ground?.stop();
      operator?.remove();
      versions?.remove();
    }, 600_000);

    test("its file is written, checked and planned", async () => {
      const port = await lab.kubernetesApi(await operator.init(), scratch());
      const factory = await lab.imageFactory(ground.outside);
      operator.want({ planes, workers, port, factory, kubernetes: `v${versions.from}` });
      lab.watch();
      await done("preflight");
      expect(await done("plan")).toContain("+ begin etcd on lab-cp-1");
    });

    test("by REST of gpve, by REST of Proxmox VE and by commands of the node the plan is the same", async () => {
      const plans = await operator.plans();
      expect(plans.gpve.steps.length).toBeGreaterThan(10);
      expect(plans["pve-api"]).toEqual(plans.gpve);
      expect(plans.qm).toEqual(plans.gpve);
    });

    test.runIf(planes === 1)("apply may be killed on its way: the next one goes on", async () => {
      chapter("applies that are killed");
      await operator.killApplies(2, new Random(seed));
      expect(operator.journal().length).toBeGreaterThan(3);
    });

    test("apply makes it, tells the time it took, and its pods reach each other", async () => {
      chapter("apply");
      const said = await done("apply", "--yes", ...inside);
      console.info(
        said
          .split("\n")
          .filter((line) => /^ *\d+:\d\d {2}✓|is as its file says/.test(line))
          .join("\n"),
      );
      expect(said).toMatch(
        /lab is as its file says, after +\d+:\d\d: \d+ s of work on the platform, \d+ s of waiting for boots, pulls and joins/,
      );
      expect(said).toContain(`✓ etcd is healthy (${planes} of ${planes} members)`);
      podsReachEachOther(said, planes + workers);
      expect(lab.clusters.all.map(({ bootstraps }) => bootstraps)).toEqual([1]);
      expect(new Set((await guests()).map(({ node }) => node)).size).toBe(ground.nodes.length);
    }, 1_200_000);

    test("kubectl sees its nodes by the kubeconfig that it wrote, and runs something", async () => {
      chapter("kubectl");
      await done("kubeconfig", "--into", "kubeconfig");
      expect(await nodes()).toEqual(allReady(workers, versions.from));
      // It goes when it is told to: a first process that hears no signal is waited for half a minute, at every drain.
      const serve = "cd /tmp; hostname > index.html; trap 'exit 0' TERM; httpd -f -p 8080 & wait";
      const made = ["create", "deployment", "web", `--image=${IMAGE}`, "--replicas=2"];
      expect(await kubectl(kubeconfig(), ...made, "--", "sh", "-c", serve)).toMatchObject({ code: 0 });
      const budget = ["create", "pdb", "web", "--selector=app=web", "--min-available=1"];
      expect(await kubectl(kubeconfig(), ...budget)).toMatchObject({ code: 0 });
      await webIsThere();
    });

    describe.runIf(planes > 1)("in its life", () => {
      test("it grows to four workers, and nothing is left to do", async () => {
        chapter("scale");
        await done("scale", `worker=${more}`, "--yes", "--outside");
        expect(await nodes()).toEqual(allReady(more, versions.from));
        expect(await done("plan")).toContain("Nothing to do.");
      }, 900_000);

      test("Talos is upgraded, machine by machine", async () => {
        chapter("upgrade of Talos");
        const said = await done("upgrade", "talos", "v1.13.10", "--yes", "--outside");
        expect(said).toContain(`✓ Talos is v1.13.10 (${planes + more} of ${planes + more})`);
        expect(await nodes()).toEqual(allReady(more, versions.from));
        await webIsThere();
      }, 1_800_000);

      test("Kubernetes is upgraded, and every kubelet says so", async () => {
        chapter(`upgrade of Kubernetes from ${versions.from} to ${versions.to}`);
        await done("upgrade", "kubernetes", `v${versions.to}`, "--yes", "--outside");
        await expect.poll(nodes, { timeout: 150_000 }).toEqual(allReady(more, versions.to));
        await webIsThere();
      }, 1_800_000);

      test("a control plane is replaced, and etcd keeps its members", async () => {
        chapter("replace");
        const said = await done("replace", "lab-cp-3", "--yes", "--outside");
        expect(said).toMatch(/✓ .*delete.*lab-cp-3/);
        expect(said).toContain(`✓ etcd is healthy (${planes} of ${planes} members)`);
        await expect.poll(nodes, { timeout: 150_000 }).toEqual(allReady(more, versions.to));
        expect(lab.clusters.all.map(({ bootstraps }) => bootstraps)).toEqual([1]);
      }, 1_200_000);
    });

    test("a snapshot brings it back in a scratch cluster, which goes again", async () => {
      chapter("snapshot and drill");
      await done("etcd", "snapshot");
      const before = await guests();
      const said = await done("etcd", "drill", "--ip", scratch(), "--yes");
      const count = planes + (planes > 1 ? more : workers);
      const version = planes > 1 ? versions.to : versions.from;
      expect(said).toContain(`brings lab back: Kubernetes ${version} with ${count} of its nodes`);
      expect(await guests()).toEqual(before.map((guest) => expect.objectContaining({ vmid: guest.vmid })));
      const status = JSON.parse(await done("status", "-o", "json")) as { drill: unknown; isHealthy: boolean };
      expect(status).toMatchObject({ isHealthy: true, drill: { file: expect.any(String) } });
      await webIsThere();
    }, 900_000);

    test("what somebody changed and deleted is found, and mended", async () => {
      chapter("drift");
      expect(await done("drift")).toContain("No drift");
      const count = planes > 1 ? more : workers;
      const lost = (await guests()).find(({ name }) => name === `lab-worker-${count}`);
      const vm = `/nodes/${lost?.node}/qemu/${lost?.vmid}`;
      await ground.api("POST", `${vm}/status/stop`);
      await expect
        .poll(async () => (await ground.api("DELETE", vm)).status, { timeout: 150_000, interval: 1_000 })
        .toBe(200);
      await expect
        .poll(async () => (await guests()).some(({ vmid }) => vmid === lost?.vmid), { timeout: 150_000 })
        .toBe(false);
      // The number of cores takes a restart, for which a worker is emptied; tags do not, and a single control plane stays.
      const [name, change] =
        planes > 1
          ? (["lab-worker-1", { cores: 2 }] as const)
          : (["lab-cp-1", { tags: "talos;talos-lab;mine" }] as const);
      const changed = (await guests()).find((guest) => guest.name === name);
      const config = `/nodes/${changed?.node}/qemu/${changed?.vmid}/config`;
      expect(await ground.api("PUT", config, change)).toMatchObject({ status: 200 });
      const found = await gpvectl("drift");
      expect(found.code).toBe(2);
      expect(found.stdout).toContain(`lab-worker-${count}: missing`);
      expect(found.stdout).toMatch(new RegExp(`${name}: settings: ${Object.keys(change)[0]} is `));
      await done("drift", "--mend", "--yes", ...inside);
      expect(await done("drift")).toContain("No drift");
      await expect
        .poll(nodes, { timeout: 150_000 })
        .toEqual(allReady(count, planes > 1 ? versions.to : versions.from));
      await webIsThere();
    }, 900_000);

    test("it is destroyed, and nothing is left", async () => {
      chapter("destroy");
      expect(existsSync(join(operator.folder, ".deployer/lab/lock.json"))).toBe(true);
      await done("destroy", "--name", "lab");
      expect(await guests()).toEqual([]);
      await lab.stop();
      await kubernetes.remove();
      await expect.poll(() => ground.left(), { timeout: 150_000 }).toEqual([]);
      chapter("nothing is left");
    }, 600_000);
  },
);
