// A Talos cluster on real VMs of a real gpve, by gpvectl alone: made, killed again and again and gone on with, used, grown,
// upgraded, destroyed. What runs in the VMs is a stand-in, Kubernetes is a fake API;
// image, machines, addresses and network are real. Only the long run has it, on three nodes; by its name alone it runs on one.
// What every run has of it is in talos-story.test.ts.
import { randomInt } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { openKubernetes } from "../../packages/talos/src/kubernetes/open-kubernetes.ts";
import { skipping } from "../support/foreign-clients.ts";
import { Random } from "../support/fuzz/random.ts";
import { oneNode, threeNodes, type TalosGround } from "../support/talos-ground.ts";
import { TalosLab } from "../support/talos-lab.ts";
import { TalosOperator } from "../support/talos-operator.ts";

const lacking = !existsSync("/usr/bin/qemu-system-x86_64")
  ? "needs QEMU: apt-get install qemu-system-x86 qemu-utils"
  : process.getuid?.() !== 0
    ? "needs root"
    : undefined;
const isLong = process.env["GPVE_TALOS_VMS"] !== undefined;
/** The same number kills at the same lines. */
const seed = Number(process.env["GPVE_TALOS_SEED"] ?? randomInt(1_000_000));

/** Without its VMID and MAC. */
function withoutIdentity(text: string, vmid: number): string {
  return text.replaceAll(String(vmid), "VMID").replace(/(?:[0-9a-f]{2}:){5}[0-9a-f]{2}/gi, "MAC");
}

const sizes = [
  { name: "one node", planes: 1, workers: 1, kills: 2, start: () => oneNode("tbr884", "10.77.84") },
  { name: "three nodes", planes: 3, workers: 2, kills: 8, start: () => threeNodes() },
] as const;

describe
  .skipIf(skipping("a Talos cluster on real VMs", lacking))
  .each(sizes.filter(({ planes }) => isLong === planes > 1))(
  `a Talos cluster on real VMs, $name, seed ${seed}`,
  ({ planes, workers, kills, start }) => {
    let ground: TalosGround;
    let lab: TalosLab;
    let operator: TalosOperator;
    const gpvectl = (...args: readonly string[]) => operator.gpvectl(...args);

    /** Without what makes it that machine. */
    const configOf = async (name: string): Promise<unknown> => {
      const guests = (await ground.api("GET", "/cluster/resources", { type: "vm" })).data as {
        name: string;
        node: string;
        vmid: number;
      }[];
      const { node, vmid } = guests.find((guest) => guest.name === name) ?? {};
      const { data } = await ground.api("GET", `/nodes/${node}/qemu/${vmid}/config`);
      const own = ["name", "digest", "meta", "vmgenid", "smbios1", "ipconfig0", "description"];
      return Object.fromEntries(
        Object.entries(data as Record<string, unknown>)
          .filter(([key]) => !own.includes(key))
          .map(([key, value]) => [key, withoutIdentity(String(value), vmid ?? 0)]),
      );
    };

    beforeAll(async () => {
      ground = await start();
      lab = new TalosLab(ground.api, ground.host);
      operator = new TalosOperator(ground);
    }, 600_000);

    afterAll(async () => {
      await lab?.stop();
      await ground?.stop();
      operator?.remove();
    });

    test("its file is written, checked and planned", async () => {
      const port = await lab.kubernetesApi(await operator.init());
      operator.want({ planes, workers, port, factory: await lab.imageFactory(ground.outside) });
      lab.watch();
      const checked = await gpvectl("preflight");
      expect(checked.code, checked.stdout + checked.stderr).toBe(0);
      const { stdout } = await gpvectl("plan");
      expect(stdout).toContain("+ begin etcd on lab-cp-1");
      expect(stdout).toMatch(/\+ clone lab-cp-1 from lab-tpl-cp-v1-13-\d+-\w+ \(linked\): VMID 2000/);
    });

    test("by REST of gpve, by REST of Proxmox VE and by commands of the node the plan is the same", async () => {
      const plans = await operator.plans();
      expect(plans.gpve.steps.length).toBeGreaterThan(10);
      expect(plans["pve-api"]).toEqual(plans.gpve);
      expect(plans.qm).toEqual(plans.gpve);
    });

    test("apply is killed again and again, and the next one goes on to the end", async () => {
      await operator.killApplies(kills, new Random(seed));
      const { stdout, stderr, code } = await gpvectl("apply", "--yes");
      expect(code, stdout + stderr).toBe(0);
      expect(stdout).toContain("lab is as its file says");
      const verified = await gpvectl("verify");
      expect(verified.stdout).toContain(`✓ etcd is healthy (${planes} of ${planes} members)`);
      expect(lab.clusters.all.map(({ bootstraps }) => bootstraps)).toEqual([1]);
      const guests = (await ground.api("GET", "/cluster/resources", { type: "vm" })).data as {
        node: string;
        vmid: number;
        template?: number;
      }[];
      const templates = guests.filter(({ template }) => template === 1).map(({ vmid }) => vmid);
      expect(templates).toEqual(expect.arrayContaining([998, 999]));
      expect(new Set(guests.map(({ node }) => node)).size).toBe(ground.nodes.length);
    }, 1_200_000);

    test("its kubeconfig shows the nodes", async () => {
      await gpvectl("kubeconfig", "--into", "kubeconfig");
      const { clusters, users } = parse(readFileSync(join(operator.folder, "kubeconfig"), "utf8")) as {
        clusters: { cluster: Record<string, string> }[];
        users: { user: Record<string, string> }[];
      };
      const { server = "", "certificate-authority-data": ca = "" } = clusters[0]?.cluster ?? {};
      const { "client-certificate-data": crt = "", "client-key-data": key = "" } = users[0]?.user ?? {};
      const kubernetes = openKubernetes({ server, ca, crt, key });
      const nodes = await kubernetes.nodes();
      kubernetes.close();
      const names = (pool: string, count: number) =>
        Array.from({ length: count }, (_, at) => ({ name: `lab-${pool}-${at + 1}`, isReady: true }));
      expect(nodes.map(({ name, isReady }) => ({ name, isReady }))).toEqual(
        expect.arrayContaining([...names("cp", planes), ...names("worker", workers)]),
      );
      expect(nodes).toHaveLength(planes + workers);
    });

    test("it grows by a worker, by the commands of the node, and nothing is left to do for any way", async () => {
      await operator.reach("qm");
      const { stdout, code } = await gpvectl("scale", `worker=${workers + 1}`, "--yes");
      expect(code, stdout).toBe(0);
      expect(stdout).toContain(`✓ nodes are ready (${planes + workers + 1} of ${planes + workers + 1})`);
      expect(JSON.parse((await gpvectl("status", "-o", "json")).stdout)).toMatchObject({ isHealthy: true });
      for (const type of ["pve-api", "gpve"] as const) {
        await operator.reach(type);
        expect((await gpvectl("plan")).stdout, type).toContain("Nothing to do.");
      }
      expect(await configOf(`lab-worker-${workers + 1}`)).toEqual(await configOf("lab-worker-1"));
    }, 600_000);

    test("Talos is upgraded, a single control plane only with leave to be away", async () => {
      if (planes === 1) {
        const refused = await gpvectl("upgrade", "talos", "v1.13.10", "--yes");
        expect(refused.stdout).toContain("quorum-at-risk");
      }
      const { stdout, code } = await gpvectl("upgrade", "talos", "v1.13.10", "--yes", "--accept-downtime");
      expect(code, stdout).toBe(0);
      // Machines still read from the disks of the old version's templates.
      const { stdout: after } = await gpvectl("plan");
      expect(after).toMatch(/keep the template lab-tpl-cp-.* \(VMID 998 on .*\): .*lab-cp-1/);
      const all = planes + workers + 1;
      expect(stdout).toContain(`✓ Talos is v1.13.10 (${all} of ${all})`);
      expect(readFileSync(join(operator.folder, ".deployer/lab/lock.json"), "utf8")).toContain(
        ".snapshot.age",
      );
      expect(lab.clusters.all.map(({ bootstraps }) => bootstraps)).toEqual([1]);
    }, 900_000);

    test("it is destroyed, and nothing is left on the platform", async () => {
      expect(await gpvectl("destroy", "--name", "lab")).toMatchObject({ code: 0 });
      expect((await ground.api("GET", "/cluster/resources", { type: "vm" })).data).toEqual([]);
    });
  },
);
