// Somebody with gpvectl and a folder of his own, who makes a Talos cluster on what a test has for it.
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parse, stringify } from "yaml";
import { given } from "@gpve/contracts/given.ts";
import { exec, type ExecResult, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { type Child, startChild } from "@gpve/kit/testing/child.ts";
import { parseBundle } from "../../packages/talos/src/secrets/bundle-file.ts";
import type { SecretsBundle } from "../../packages/talos/src/secrets/bundle.ts";
import type { Random } from "./fuzz/random.ts";
import { mainFile, nodeBinary, nodeOptions } from "./gpve.ts";
import type { TalosGround } from "./talos-ground.ts";

export interface WantedCluster {
  readonly planes: number;
  readonly workers: number;
  /** Of the Kubernetes API, at this machine's address among the guests. */
  readonly port: number;
  readonly factory: string;
  /** Left out: what `init` chooses. */
  readonly kubernetes?: string;
}

export type ProviderType = "gpve" | "pve-api" | "qm";

export class TalosOperator {
  readonly folder = mkdtempSync(join(tmpdir(), "gpve-talos-"));
  readonly #ground: TalosGround;
  readonly #commands = join(this.folder, "commands");
  #isOnNode = false;

  constructor(ground: TalosGround) {
    this.#ground = ground;
  }

  gpvectl(...args: readonly string[]): Promise<ExecResult> {
    const options = { cwd: this.folder, env: this.#env(), timeoutMs: 1_200_000, okCodes: [0, 1, 2] };
    return exec(nodeBinary, this.#argv(args), options);
  }

  /** To be killed. */
  start(...args: readonly string[]): Child {
    return startChild(nodeBinary, this.#argv(args), { cwd: this.folder, env: this.#env() });
  }

  /** Kills as many applies as that, each some lines of the journal further on. */
  async killApplies(kills: number, random: Random): Promise<void> {
    for (let kill = 0; kill < kills; kill += 1) {
      const until = this.journal().length + 2 + random.below(8);
      const child = this.start("apply", "--yes");
      let isOver = false;
      void child.exited.then(() => (isOver = true));
      while (!isOver && this.journal().length < until) await sleep(10);
      child.signal("SIGKILL");
      await child.exited;
    }
  }

  /** What is to be done, by each way to the platform; it ends with the way it began with. */
  async plans(): Promise<Readonly<Record<ProviderType, { readonly steps: readonly unknown[] }>>> {
    const plan = async (type: ProviderType) => {
      await this.reach(type);
      const { stdout, code } = await this.gpvectl("plan", "-o", "json");
      if (code !== 0) throw new Error(`no plan by ${type}: ${stdout}`);
      return JSON.parse(stdout) as { readonly steps: readonly unknown[] };
    };
    return { "pve-api": await plan("pve-api"), qm: await plan("qm"), gpve: await plan("gpve") };
  }

  journal(): readonly string[] {
    const path = join(this.folder, ".deployer/lab/journal.ndjson");
    return existsSync(path) ? readFileSync(path, "utf8").trimEnd().split("\n") : [];
  }

  /** The file of a cluster `lab`, as `init` writes it, and its secrets. */
  async init(): Promise<SecretsBundle> {
    const { credentials, nodes, network } = this.#ground;
    const { url, fingerprint } = credentials;
    const place = ["--provider", "gpve", "--endpoint", url, "--fingerprint", fingerprint, "--nodes"];
    const named = ["--yes", "--preset", "lab", "--name", "lab", "--network", `${network}.0/24`];
    await this.gpvectl("init", ...named, ...place, nodes.join(","));
    await this.gpvectl("secrets", "export", "secrets.yaml");
    return parseBundle(readFileSync(join(this.folder, "secrets.yaml"), "utf8"));
  }

  /** Changes it to machines that are as small as their guests, and need nothing from elsewhere. */
  want({ planes, workers, port, factory, kubernetes }: WantedCluster): void {
    const file = join(this.folder, "cluster.yaml");
    // The small Linux has no driver for q35's IDE; Talos has one.
    const drive = { cloudInitDrive: "scsi30" };
    const small = { cores: 1, memoryMiB: 1024, diskGiB: 6, cpu: "max", bios: "seabios", ...drive };
    const tree = parse(readFileSync(file, "utf8")) as Record<string, object> & { providers: object[] };
    const { storage, bridge, host } = this.#ground;
    const disks = { image: storage, vm: storage, efi: storage, cloudinit: storage };
    const text = stringify({
      ...tree,
      versions: { ...tree["versions"], ...given({ kubernetes }) },
      image: { factory },
      providers: tree.providers.map((provider) => ({ ...provider, storage: disks })),
      // Nobody beyond the test's own network is asked for the time.
      network: { ...tree["network"], bridge, ntp: [] },
      endpoint: { loadBalancer: { address: host }, port },
      controlPlane: { count: planes, machine: small },
      pools: [{ name: "worker", count: workers, machine: small }],
      // Nothing is fetched from elsewhere; add-ons have a test of their own.
      addons: {
        cni: { type: "flannel" },
        ccm: { proxmox: { enabled: false }, talos: { enabled: false } },
        metricsServer: false,
        monitoring: { prometheusCRDs: false },
      },
      templates: { controlPlane: 998, worker: 999, clone: "linked" },
      protect: { destroy: false },
    });
    writeFileSync(file, text);
  }

  /** Changes it to another way to the same platform, and nothing else. */
  async reach(type: ProviderType): Promise<void> {
    const file = join(this.folder, "cluster.yaml");
    const tree = parse(readFileSync(file, "utf8")) as { providers: Record<string, unknown>[] };
    const [{ endpoint: _, tokenRef: __, tls: ___, ...same } = {}] = tree.providers;
    const { url, fingerprint } = this.#ground.credentials;
    const access =
      type === "qm" ? {} : { endpoint: url, tokenRef: { env: "GPVE_TOKEN" }, tls: { fingerprint } };
    writeFileSync(file, stringify({ ...tree, providers: [{ ...same, type, ...access }] }));
    this.#isOnNode = type === "qm";
    if (this.#isOnNode && !existsSync(this.#commands))
      await exec(nodeBinary, [...nodeOptions, mainFile, "pve-commands", "install", this.#commands]);
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }

  #argv(args: readonly string[]): string[] {
    return [...nodeOptions, mainFile, "ctl", "talos", ...args];
  }

  #env(): Readonly<Record<string, string>> {
    const { data, credentials } = this.#ground;
    const env = { ...MINIMAL_ENV, HOME: this.folder };
    // On a node nobody needs a token.
    return this.#isOnNode
      ? { ...env, GPVE_DATA: data, PATH: `${this.#commands}:${MINIMAL_ENV["PATH"]}` }
      : { ...env, GPVE_TOKEN: credentials.token };
  }
}
