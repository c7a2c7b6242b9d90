// A cluster's whole life on a world in memory, by the code that gpvectl runs, and stopped at every line of its journal.
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { parse, stringify } from "yaml";
import type { Clock } from "@gpve/kit/clock.ts";
import { machinesOf } from "../cluster/machines.ts";
import { parseCluster } from "../cluster/parse-cluster.ts";
import type { JournalLine } from "../folder/journal.ts";
import { readLock } from "../folder/lock-file.ts";
import { stepName } from "../plan/plan-steps.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";
import { FakeWorld } from "../testing/fake-world.ts";
import { instantClock } from "../testing/instant-clock.ts";
import { testBundle } from "../testing/test-bundle.ts";
import { minimalFile } from "../testing/test-cluster.ts";
import { type ApplyOptions, OpenCluster } from "./open-cluster.ts";

let secrets: SecretsBundle;
beforeAll(async () => {
  secrets = await testBundle();
});

class Killed extends Error {}

/** Ends its writer after so many lines; what was written stays. */
class TestJournal {
  readonly written: JournalLine[] = [];
  left = Number.POSITIVE_INFINITY;

  append(line: JournalLine): void {
    if (this.left <= 0) throw new Killed("after a line of the journal");
    this.written.push(line);
    this.left -= 1;
    if (this.left <= 0) throw new Killed("after a line of the journal");
  }

  lines(): readonly JournalLine[] {
    return this.written;
  }
}

interface Stage {
  readonly file: Readonly<Record<string, unknown>>;
  readonly replace?: readonly string[];
  readonly reset?: readonly string[];
  /** What others did before it. */
  readonly drift?: (world: FakeWorld) => void;
  /** Nothing may be left in the end. */
  readonly isEnd?: true;
}

class Story {
  readonly world = new FakeWorld();
  readonly journal = new TestJournal();
  readonly folder = mkdtempSync(join(tmpdir(), "gpve-talos-story-"));
  readonly clock: Clock = instantClock();
  snapshots = 0;
  /** Images of the newer version that a factory was told of. */
  readonly registered: string[] = [];

  open(file: Readonly<Record<string, unknown>> = {}): OpenCluster {
    const text = stringify({ ...(parse(minimalFile) as object), ...file });
    const cluster = parseCluster(text, "cluster.yaml");
    const lock = readLock(this.folder, cluster.metadata.name);
    return new OpenCluster({
      place: {
        file: "cluster.yaml",
        folder: this.folder,
        text,
        cluster,
        lock,
        machines: machinesOf(cluster, lock.machines),
        patches: new Map(),
      },
      secrets,
      secretsFile: join(this.folder, "secrets.enc.yaml"),
      drivers: new Map([["pve", this.world.driver(this.clock)]]),
      talos: this.world.talos,
      kubernetes: this.world.kubernetes,
      clock: this.clock,
      journal: this.journal,
      prepareImage: async (url) => {
        if (url.includes("v1.13.10")) this.registered.push(url);
        return url;
      },
      urlDigest: async () => "0".repeat(64),
      keepSnapshot: async (bytes) => {
        this.snapshots += 1;
        return { at: this.clock.now(), file: `${this.snapshots}`, sha256: String(bytes.length) };
      },
    });
  }

  async apply(file: Readonly<Record<string, unknown>> = {}, options: ApplyOptions = {}) {
    const result = await this.open(file).apply(options);
    expect(result.findings).toEqual([]);
    return result.steps.map(stepName);
  }

  /** From the beginning to the end of a stage, whatever was done of it before. */
  async stage({ file, replace = [], reset = [], drift, isEnd }: Stage): Promise<void> {
    const cluster = this.open(file);
    if (drift !== undefined && !this.#asked.has("drift")) {
      drift(this.world);
      this.#asked.add("drift");
    }
    if (isEnd === true) {
      await cluster.destroy();
      return;
    }
    if (replace.length > 0 && !this.#asked.has(replace.join())) {
      cluster.change((lock) => ({ ...lock, replacing: [...replace] }));
      this.#asked.add(replace.join());
    }
    if (reset.length > 0 && !this.#asked.has(`reset ${reset.join()}`)) {
      cluster.change((lock) => ({ ...lock, resetting: [...reset] }));
      this.#asked.add(`reset ${reset.join()}`);
    }
    const { findings } = await cluster.apply();
    expect(findings).toEqual([]);
  }
  readonly #asked = new Set<string>();

  end(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

let story: Story;
beforeEach(() => {
  story = new Story();
});
afterEach(() => story.end());

const workers = (count: number, more: object = {}) => ({ pools: [{ name: "worker", count, ...more }] });
const newer = { versions: { talos: "v1.13.10", kubernetes: "v1.36.3" } };

const newest = { versions: { talos: "v1.13.10", kubernetes: "v1.36.4" } };

/** What a cluster goes through, in the words of its file. */
const life: readonly Stage[] = [
  { file: workers(2) },
  { file: workers(4) },
  { file: { ...workers(4), ...newer } },
  { file: { ...workers(4), ...newest } },
  { file: { ...workers(4), ...newest }, replace: ["prod-cp-1"] },
  { file: { ...workers(4), ...newest }, reset: ["prod-cp-2"] },
  { file: { ...workers(4), ...newest }, drift: changeAndDelete },
  { file: { ...workers(1), ...newest } },
];
const end: Stage = { file: { ...workers(1), ...newest }, isEnd: true };

/** A worker has other cores, another is gone. */
function changeAndDelete(world: FakeWorld): void {
  const { platform } = world;
  const [changed, lost] = [platform.guests.get(3000), platform.guests.get(3003)];
  if (changed === undefined || lost === undefined) throw new Error("no workers");
  changed.config["cores"] = "1";
  platform.handle("POST", `/nodes/${lost.node}/qemu/3003/status/stop`, {});
  platform.handle("DELETE", `/nodes/${lost.node}/qemu/3003`, {});
}

describe("a cluster", () => {
  test("from nothing to ready, and nothing to do after", async () => {
    const steps = await story.apply();
    expect(steps.filter((name) => name.startsWith("etcd.bootstrap"))).toEqual(["etcd.bootstrap prod-cp-1"]);
    expect(story.world.summary()).toMatchObject({
      members: ["prod-cp-1", "prod-cp-2", "prod-cp-3"],
      nodes: [{}, {}, {}, {}, {}],
    });
    await story.clock.sleep(1);
    expect(await story.apply()).toEqual([]);
    const lock = readLock(story.folder, "prod");
    expect(lock).toMatchObject({
      appliedAt: expect.stringMatching(/^2026/),
      contract: "v1.13",
      beginning: { machine: "prod-cp-1", doneAt: expect.stringMatching(/^2026/) },
      machines: { "prod-cp-1": { vmid: 2000, host: "pve1", addresses: ["10.0.0.10"] } },
    });
    expect(readdirSync(join(story.folder, ".deployer/prod/before"))).toHaveLength(2);
  });

  test("lives through growth, upgrades, a replacement and shrinking without losing etcd", async () => {
    for (const stage of life) await story.stage(stage);
    expect(story.world.quorumLosses).toBe(0);
    expect(story.world.clusters.all[0]?.bootstraps).toBe(1);
    expect(story.snapshots).toBeGreaterThan(0);
    expect(story.world.summary()).toMatchObject({
      members: ["prod-cp-1", "prod-cp-2", "prod-cp-3"],
      nodes: [{}, {}, {}, { name: "prod-worker-1", version: "1.36.4", isCordoned: false }],
    });
  });

  test("from templates: copies of a version's are gone with it, and all with the cluster", async () => {
    const templates = { templates: { controlPlane: 998, worker: 999 } };
    const shared = story.world.platform.storages;
    story.world.platform.storages = shared.map((storage) => ({ ...storage, shared: 1 }));
    await story.apply(templates);
    const own = () => [...story.world.platform.guests].filter(([, { template }]) => template === 1);
    const first = own().map(([vmid, { config }]) => [vmid, config["name"]]);
    expect(first.map(([vmid]) => vmid)).toEqual([998, 999]);
    expect(await story.apply(templates)).toEqual([]);
    await story.apply({ ...templates, ...newer });
    expect(own().map(([vmid]) => vmid)).toEqual([998, 999]);
    expect(own().map(([, { config }]) => config["name"])).not.toEqual(first.map(([, name]) => name));
    await story.open({ ...templates, ...newer }).destroy();
    expect([...story.world.platform.guests.keys()]).toEqual([]);
  });

  test("a machine that was changed or stopped by others is brought back", async () => {
    await story.apply();
    const [, guest] = [...story.world.platform.guests].find(([vmid]) => vmid === 3000) ?? [];
    if (guest === undefined) throw new Error("no worker");
    guest.config["tags"] = "mine";
    // Without our tag it is not ours any more: it answers, and is not made anew.
    expect(await story.open().apply()).toMatchObject({
      steps: [],
      findings: [{ id: "guest-hidden", subject: "prod-worker-1" }],
    });
    guest.config["tags"] = "talos-prod;mine";
    guest.config["cores"] = "1";
    expect(await story.apply()).toEqual([
      "node.drain prod-worker-1",
      "guest.stop prod-worker-1",
      "guest.change prod-worker-1",
      "guest.start prod-worker-1",
      "node.uncordon prod-worker-1",
    ]);
    expect(guest.config["cores"]).toBe("4");
  });

  test("a change of configuration is given without a reboot where the machine can, else it rolls", async () => {
    await story.apply();
    const boots = [...story.world.machines.values()].map(({ bootId }) => bootId);
    const light = await story.apply({
      network: { nodeCIDR: "10.0.0.0/24", gateway: "10.0.0.1", ntp: ["10.0.0.1"] },
    });
    expect(light.every((name) => name.startsWith("talos.reconfigure"))).toBe(true);
    expect([...story.world.machines.values()].map(({ bootId }) => bootId)).toEqual(boots);
  });
});

describe("without workers", () => {
  test("the last ones are protected as others are", async () => {
    await story.apply();
    const before = story.world.platform.done.length;
    const { findings } = await story.open(workers(0)).apply();
    expect(findings).toMatchObject([
      { id: "workers-protected", evidence: "0 would be left, protect.minWorkers is 1" },
    ]);
    expect(story.world.platform.done).toHaveLength(before);
    expect([...story.world.fakeKubernetes.nodes.values()].some(({ isCordoned }) => isCordoned)).toBe(false);
  });

  test("control planes take pods before the first worker is emptied", async () => {
    await story.apply();
    const steps = await story.apply({ ...workers(0), protect: { minWorkers: 0 } });
    expect(steps.slice(0, 4)).toEqual([
      "talos.reconfigure prod-cp-1",
      "talos.reconfigure prod-cp-2",
      "talos.reconfigure prod-cp-3",
      "node.drain prod-worker-1",
    ]);
    const names = [...story.world.platform.guests.values()].map(({ config }) => config["name"]);
    expect(names).toEqual(["prod-cp-1", "prod-cp-2", "prod-cp-3"]);
  });

  test("control planes that take pods only after an upgrade are upgraded first", async () => {
    await story.apply();
    const steps = await story.apply({ ...workers(0), ...newer, protect: { minWorkers: 0 } });
    const drain = steps.indexOf("node.drain prod-worker-1");
    const last = (kind: string): number =>
      Math.max(...[1, 2, 3].map((at) => steps.indexOf(`${kind} prod-cp-${at}`)));
    expect(last("talos.upgrade")).toBeLessThan(last("talos.reconfigure"));
    expect(last("talos.reconfigure")).toBeLessThan(drain);
    expect(steps).not.toContain("talos.upgrade prod-worker-1");
  });
});

describe("what goes wrong", () => {
  test("a machine that never answers is named, with what was tried", async () => {
    story.world.unreachable.add("prod-worker-2");
    await expect(story.open().apply()).rejects.toMatchObject({
      message: expect.stringContaining("cannot connect to the machine at 10.0.0.21:50000"),
      data: { finding: "machine-silent" },
    });
    expect(story.world.clusters.all).toEqual([]);
    expect(story.journal.written.at(-1)).toMatchObject({
      event: "failed",
      step: "talos.reach prod-worker-2",
    });
  });

  test("time out of sync is waited for, and told in the end", async () => {
    const opened = story.open();
    const at = await opened.apply({ only: "infrastructure" });
    expect(at.steps).toHaveLength(18);
    for (const machine of story.world.machines.values()) machine.isTimeInSync = false;
    await expect(opened.apply()).rejects.toMatchObject({
      message: expect.stringContaining("time is not in sync yet"),
      data: { finding: "etcd-not-begun" },
    });
    expect(story.world.clusters.all[0]?.bootstraps ?? 0).toBe(0);
  });

  test("an installer that is not there is told before anything is drained", async () => {
    await story.apply();
    story.world.machine("prod-worker-1").lacksInstallers = true;
    await expect(story.open(newer).apply()).rejects.toMatchObject({
      message: expect.stringContaining("failed to resolve reference"),
      data: { finding: "installer-missing" },
    });
    expect([...story.world.fakeKubernetes.nodes.values()].some(({ isCordoned }) => isCordoned)).toBe(false);
    story.world.machine("prod-worker-1").lacksInstallers = false;
    await story.apply(newer);
    // Once by each of the two, for all their machines.
    const [first, ...others] = story.registered;
    expect(first).toMatch(/\/image\/[0-9a-f]{64}\/v1\.13\.10\//);
    expect(others).toEqual([first]);
  });

  test("an installer that fails stops the wave", async () => {
    await story.apply();
    story.world.machine("prod-worker-1").installerExitCode = 1;
    await expect(story.open(newer).apply()).rejects.toThrow("exit code 1");
    story.world.machine("prod-worker-1").installerExitCode = 0;
    story.world.machine("prod-worker-1").failsToBootNew = true;
    await expect(story.open(newer).apply()).rejects.toMatchObject({
      data: { finding: "upgrade-rolled-back" },
    });
    const versions = [...story.world.machines.values()].map(({ version }) => version);
    expect(versions).toEqual(Array.from({ length: 5 }, () => "v1.13.9"));
  });

  test("an API that is away for a moment is asked again, and not for ever", async () => {
    await story.apply();
    story.world.fakeKubernetes.drops = 3;
    await story.apply(newer);
    expect(story.world.machine("prod-worker-1").version).toBe("v1.13.10");
    story.world.fakeKubernetes.drops = Infinity;
    await expect(story.open(workers(1)).apply()).rejects.toThrow("Kubernetes does not answer");
  });

  test("a budget that holds a pod stops the drain, unless the pool says otherwise", async () => {
    await story.apply();
    story.world.fakeKubernetes.addPod("prod-worker-1", "kept", { isKept: true });
    story.world.fakeKubernetes.addPod("prod-worker-1", "daemon", { owner: "DaemonSet" });
    await expect(story.open(newer).apply()).rejects.toMatchObject({
      message: expect.stringContaining("default/kept"),
      data: { finding: "drain-timeout" },
    });
    const deleting = workers(2, { upgrade: { drain: { policy: "evict-then-delete", timeout: "1m" } } });
    await story.apply({ ...newer, ...deleting });
    expect(story.world.machine("prod-worker-1").version).toBe("v1.13.10");
  });

  test("a node that dies in mid-upgrade keeps the others from being touched", async () => {
    await story.apply();
    const victim = story.world.machine("prod-cp-2");
    const boot = victim.boot.bind(victim);
    victim.boot = () => {
      boot();
      victim.isOn = false;
    };
    await expect(story.open(newer).apply()).rejects.toMatchObject({ data: { finding: "machine-silent" } });
    expect(story.world.machine("prod-cp-3").version).toBe("v1.13.9");
    expect(story.world.clusters.all[0]?.hasQuorum).toBe(true);
    const again = story.open(newer);
    await expect(again.apply()).rejects.toMatchObject({ data: { finding: "machine-silent" } });
    expect(story.world.machine("prod-cp-3").version).toBe("v1.13.9");
  });

  test("a guest that is not ours any more is not deleted at the last moment", async () => {
    await story.apply();
    const actual = story.world.platform;
    const opened = story.open(workers(1));
    const handle = actual.handle.bind(actual);
    actual.handle = (verb, path, values) => {
      const guest = actual.guests.get(3001);
      const answer = handle(verb, path, values);
      // Between the look and the deletion somebody else took the VMID.
      if (verb === "POST" && path.endsWith("/3001/status/stop") && guest !== undefined)
        guest.config["smbios1"] = "uuid=0";
      return answer;
    };
    await expect(opened.apply()).rejects.toMatchObject({ data: { finding: "vmid-taken" } });
    expect(actual.guests.has(3001)).toBe(true);
  });
});

test.each([
  { way: "machines of images", templates: {}, step: 41 },
  {
    way: "linked clones of templates",
    templates: { clone: "linked", controlPlane: 998, worker: 999 },
    step: 89,
  },
])(
  "$way, stopped after every line of the journal: the next run ends in the same state",
  async ({ way, templates, step }) => {
    const stages = [...life, end].map((stage) => ({ ...stage, file: { templates, ...stage.file } }));
    const wanted: unknown[] = [];
    for (const stage of stages) {
      await story.stage(stage);
      wanted.push(story.world.summary());
    }
    expect([...story.world.platform.guests.keys()]).toEqual([]);
    const total = story.journal.written.length;
    expect(total).toBeGreaterThan(100);
    // Every line is too much for every day: some of them here, all of them in the long run.
    const isLong = process.env["GPVE_TALOS_KILLS"] === "all";
    for (let at = 1; at < total; at += isLong ? 1 : step) {
      // A run of an hour says where it is.
      if (isLong && at % 50 === 0) process.stderr.write(`${way}: killed after ${at} of ${total} lines\n`);
      const other = new Story();
      try {
        other.journal.left = at;
        for (const [number, stage] of stages.entries()) {
          for (;;) {
            try {
              await other.stage(stage);
              break;
            } catch (err) {
              if (!(err instanceof Killed)) throw err;
              other.journal.left = Number.POSITIVE_INFINITY;
            }
          }
          expect(other.world.summary(), `killed after line ${at}`).toEqual(wanted[number]);
          // The end of a cluster is that of its etcd as well.
          if (stage.isEnd !== true) expect(other.world.quorumLosses, `killed after line ${at}`).toBe(0);
        }
        expect(other.world.clusters.all[0]?.bootstraps, `killed after line ${at}`).toBe(1);
      } finally {
        other.end();
      }
    }
  },
  3_600_000,
);
