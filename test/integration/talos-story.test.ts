// The story of a Talos cluster, told by gpvectl and kubectl: from an empty gpve of three nodes to a cluster of three control planes
// and two workers that runs pods, then its life until nothing is left. Machines are real VMs in which a stand-in answers for
// Talos; Kubernetes is a real one, with a real kubelet for each machine that has joined, so that nodes, pods, drains, backups
// and versions are real. Some applies are killed on its way.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { skipping } from "../support/foreign-clients.ts";
import { Random } from "../support/fuzz/random.ts";
import { threeNodes, type TalosGround } from "../support/talos-ground.ts";
import { TalosKubernetes } from "../support/talos-kubernetes.ts";
import { TalosLab } from "../support/talos-lab.ts";
import { TalosOperator } from "../support/talos-operator.ts";
import { twoVersions, type TwoVersions } from "../support/two-versions.ts";
import { canRunClusters, kubectl } from "../support/vclusters.ts";

const lacking = !existsSync("/usr/bin/qemu-system-x86_64")
  ? "needs QEMU: apt-get install qemu-system-x86 qemu-utils"
  : canRunClusters
    ? undefined
    : "needs root and Kubernetes in this machine's cache: test/integration/vcluster.test.ts brings it";
/** The same number kills at the same lines. */
const seed = Number(process.env["GPVE_TALOS_SEED"] ?? process.env["GPVE_FUZZ_SEED"] ?? 451_233);
const KILLS = Number(process.env["GPVE_TALOS_STORY_KILLS"] ?? 2);
const PLANES = 3;
const WORKERS = 2;
const MORE = 4;
const IMAGE = "gpve.local/busybox:1";
const inside = ["--probe-image", IMAGE];

interface Node {
  readonly metadata: { readonly name: string };
  readonly spec: { readonly unschedulable?: boolean };
  readonly status: {
    readonly conditions: readonly { readonly type: string; readonly status: string }[];
    readonly nodeInfo: { readonly kubeletVersion: string };
  };
}

describe.skipIf(skipping("the story of a Talos cluster", lacking))(
  `the story of a Talos cluster, seed ${seed}`,
  () => {
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
      return Object.fromEntries([...names("cp", PLANES), ...names("worker", workerCount)]);
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
      versions = await twoVersions();
      ground = await threeNodes({ GPVE_COMPONENTS: versions.folder });
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
      operator.want({ planes: PLANES, workers: WORKERS, port, factory, kubernetes: `v${versions.from}` });
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

    test("apply may be killed on its way: the next one goes on", async () => {
      chapter("applies that are killed");
      await operator.killApplies(KILLS, new Random(seed));
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
      expect(said).toContain(`✓ etcd is healthy (${PLANES} of ${PLANES} members)`);
      podsReachEachOther(said, PLANES + WORKERS);
      expect(lab.clusters.all.map(({ bootstraps }) => bootstraps)).toEqual([1]);
      expect(new Set((await guests()).map(({ node }) => node)).size).toBe(ground.nodes.length);
    }, 1_200_000);

    test("kubectl sees its nodes by the kubeconfig that it wrote, and runs something", async () => {
      chapter("kubectl");
      await done("kubeconfig", "--into", "kubeconfig");
      expect(await nodes()).toEqual(allReady(WORKERS, versions.from));
      // It goes when it is told to: a first process that hears no signal is waited for half a minute, at every drain.
      const serve = "cd /tmp; hostname > index.html; trap 'exit 0' TERM; httpd -f -p 8080 & wait";
      const made = ["create", "deployment", "web", `--image=${IMAGE}`, "--replicas=2"];
      expect(await kubectl(kubeconfig(), ...made, "--", "sh", "-c", serve)).toMatchObject({ code: 0 });
      const budget = ["create", "pdb", "web", "--selector=app=web", "--min-available=1"];
      expect(await kubectl(kubeconfig(), ...budget)).toMatchObject({ code: 0 });
      await webIsThere();
    });

    describe("in its life", () => {
      test("it grows to four workers, and nothing is left to do", async () => {
        chapter("scale");
        await done("scale", `worker=${MORE}`, "--yes", "--outside");
        expect(await nodes()).toEqual(allReady(MORE, versions.from));
        expect(await done("plan")).toContain("Nothing to do.");
      }, 900_000);

      test("Talos is upgraded, machine by machine", async () => {
        chapter("upgrade of Talos");
        const said = await done("upgrade", "talos", "v1.13.10", "--yes", "--outside");
        expect(said).toContain(`✓ Talos is v1.13.10 (${PLANES + MORE} of ${PLANES + MORE})`);
        expect(await nodes()).toEqual(allReady(MORE, versions.from));
        await webIsThere();
      }, 1_800_000);

      test("Kubernetes is upgraded, and every kubelet says so", async () => {
        chapter(`upgrade of Kubernetes from ${versions.from} to ${versions.to}`);
        await done("upgrade", "kubernetes", `v${versions.to}`, "--yes", "--outside");
        await expect.poll(nodes, { timeout: 150_000 }).toEqual(allReady(MORE, versions.to));
        await webIsThere();
      }, 1_800_000);

      test("a control plane is replaced, and etcd keeps its members", async () => {
        chapter("replace");
        const said = await done("replace", "lab-cp-3", "--yes", "--outside");
        expect(said).toMatch(/✓ .*delete.*lab-cp-3/);
        expect(said).toContain(`✓ etcd is healthy (${PLANES} of ${PLANES} members)`);
        await expect.poll(nodes, { timeout: 150_000 }).toEqual(allReady(MORE, versions.to));
        expect(lab.clusters.all.map(({ bootstraps }) => bootstraps)).toEqual([1]);
      }, 1_200_000);
    });

    test("a snapshot brings it back in a scratch cluster, which goes again", async () => {
      chapter("snapshot and drill");
      await done("etcd", "snapshot");
      const before = await guests();
      const said = await done("etcd", "drill", "--ip", scratch(), "--yes");
      expect(said).toContain(`brings lab back: Kubernetes ${versions.to} with ${PLANES + MORE} of its nodes`);
      expect(await guests()).toEqual(before.map((guest) => expect.objectContaining({ vmid: guest.vmid })));
      const status = JSON.parse(await done("status", "-o", "json")) as { drill: unknown; isHealthy: boolean };
      expect(status).toMatchObject({ isHealthy: true, drill: { file: expect.any(String) } });
      await webIsThere();
    }, 900_000);

    test("what somebody changed and deleted is found, and mended", async () => {
      chapter("drift");
      expect(await done("drift")).toContain("No drift");
      const lost = (await guests()).find(({ name }) => name === `lab-worker-${MORE}`);
      const vm = `/nodes/${lost?.node}/qemu/${lost?.vmid}`;
      await ground.api("POST", `${vm}/status/stop`);
      await expect
        .poll(async () => (await ground.api("DELETE", vm)).status, { timeout: 150_000, interval: 1_000 })
        .toBe(200);
      await expect
        .poll(async () => (await guests()).some(({ vmid }) => vmid === lost?.vmid), { timeout: 150_000 })
        .toBe(false);
      // It takes a restart, for which the worker is emptied.
      const changed = (await guests()).find(({ name }) => name === "lab-worker-1");
      const config = `/nodes/${changed?.node}/qemu/${changed?.vmid}/config`;
      expect(await ground.api("PUT", config, { cores: 2 })).toMatchObject({ status: 200 });
      const found = await gpvectl("drift");
      expect(found.code).toBe(2);
      expect(found.stdout).toContain(`lab-worker-${MORE}: missing`);
      expect(found.stdout).toContain("lab-worker-1: settings: cores is ");
      await done("drift", "--mend", "--yes", ...inside);
      expect(await done("drift")).toContain("No drift");
      await expect.poll(nodes, { timeout: 150_000 }).toEqual(allReady(MORE, versions.to));
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
