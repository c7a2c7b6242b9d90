// Machines of Talos on real VMs: each guest of a gpve passes port 50000 on to a stand-in on the host, which lives as long
// as the guest's disk. The guest has its address from its drive, as Talos has; nobody tells it. Beside them a local Image
// Factory that serves a small Linux, and Kubernetes: a fake API on real TLS, or a real one with a kubelet for each machine.
import { once } from "node:events";
import { createReadStream, statSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { AddressInfo } from "node:net";
import { messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { ignore } from "@gpve/kit/background.ts";
import { ConfigReader } from "../../packages/talos/src/engine/config-parts.ts";
import type { SecretsBundle } from "../../packages/talos/src/secrets/bundle.ts";
import { FakeKubernetes } from "../../packages/talos/src/testing/fake-kubernetes.ts";
import { serverCertificate } from "../../packages/talos/src/testing/kubernetes-certificate.ts";
import { StandInClusters } from "../../packages/talos/src/testing/stand-in/cluster-etcd.ts";
import type { MachineState } from "../../packages/talos/src/testing/stand-in/machine-state.ts";
import { TalosStandIn } from "../../packages/talos/src/testing/stand-in/talos-stand-in.ts";
import type { Api } from "./gpve.ts";
import { tinyImage } from "./images.ts";
import type { KubeletMachine, TalosKubernetes } from "./talos-kubernetes.ts";

interface LabMachine {
  readonly standIn: TalosStandIn;
  /** Another one when the guest was made anew. */
  readonly birth: string;
  isForwarded: boolean;
  /** Of a restore drill, and not of the cluster. */
  readonly isScratch: boolean;
}

export class TalosLab {
  readonly clusters = new StandInClusters();
  readonly kubernetes: FakeKubernetes;
  readonly #api: Api;
  readonly #host: string;
  readonly #machines = new Map<number, LabMachine>();
  readonly #reader = new ConfigReader();
  readonly #servers: Server[] = [];
  #secrets: SecretsBundle | undefined;
  #watching: Promise<void> = Promise.resolve();
  readonly #real: TalosKubernetes | undefined;
  /** Where the cluster's API is, and where this machine has that of a drill. */
  #apiPort = 0;
  /** Of the image that was fetched last: machines that are made from then on come with it. */
  #version = "v1.13.9";
  #scratchPort = 0;
  #bringing: Promise<void> | undefined;
  #isOver = false;

  /** `host`: the address by which guests reach this machine. `real`: instead of the fake Kubernetes. */
  constructor(api: Api, host: string, real?: TalosKubernetes) {
    this.#api = api;
    this.#host = host;
    this.#real = real;
    this.kubernetes = new FakeKubernetes({
      kubelets: () => this.#kubelets(),
      isUp: () => this.#isUp(),
    });
  }

  #isUp(): boolean {
    return this.clusters.all.some(({ hasQuorum }) => hasQuorum);
  }

  /** The URL of an Image Factory that has one image for everything. */
  async imageFactory(address = "127.0.0.1"): Promise<string> {
    const image = await tinyImage();
    const server = createServer((request, response) => {
      if (request.method === "POST") {
        request.resume();
        response.writeHead(201).end("{}");
        return;
      }
      const asked = /^\/image\/[0-9a-f]{64}\/(v[\d.]+)\/nocloud-amd64\.qcow2$/.exec(request.url ?? "");
      const isKnown = asked !== null;
      if (request.method === "GET") this.#version = asked?.[1] ?? this.#version;
      response.writeHead(isKnown ? 200 : 404, isKnown ? { "content-length": statSync(image).size } : {});
      if (isKnown && request.method === "GET") createReadStream(image).pipe(response);
      else response.end();
    });
    return `http://${address}:${await this.#listen(server, address)}`;
  }

  /** The port of a Kubernetes API that lets in administrators of the cluster. `scratch`: the address of a drill's machine. */
  async kubernetesApi(secrets: SecretsBundle, scratch = this.#host): Promise<number> {
    this.#secrets = secrets;
    if (this.#real === undefined) return this.#fakeApi(secrets);
    this.#scratchPort = await this.#real.scratchFront(secrets, this.#host, scratch);
    this.#apiPort = await this.#real.front(secrets, this.#host, () => this.#isUp());
    return this.#apiPort;
  }

  async #fakeApi(secrets: SecretsBundle): Promise<number> {
    const pair = await serverCertificate(secrets.certs.k8s, [this.#host]);
    const options = { ...pair, ca: secrets.certs.k8s.crt, requestCert: true, rejectUnauthorized: true };
    const server = createSecureServer(options, (request, response) => {
      const pieces: Buffer[] = [];
      request.on("data", (piece: Buffer) => pieces.push(piece));
      request.on("end", () => {
        const text = Buffer.concat(pieces).toString("utf8");
        const body = text === "" ? undefined : (JSON.parse(text) as unknown);
        this.kubernetes.send({ method: request.method as "GET", path: request.url ?? "", body }).then(
          (reply) => response.writeHead(reply.status).end(JSON.stringify(reply.body)),
          () => response.destroy(),
        );
      });
    });
    return this.#listen(server as unknown as Server, this.#host);
  }

  /** Guests come and go; each gets what runs in it. */
  watch(): void {
    this.#real?.follow(() => this.#machinesOf(false).map((machine) => this.#kubeletOf(machine)));
    this.#watching = (async () => {
      while (!this.#isOver) {
        await this.#look().catch((err: unknown) => ignore(err, "a guest went away while it was looked at"));
        await new Promise((done) => setTimeout(done, 500));
      }
    })();
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#watching;
    await this.#bringing;
    for (const { standIn } of this.#machines.values()) await standIn.stop();
    for (const server of this.#servers) {
      server.closeAllConnections();
      server.close();
    }
  }

  async #look(): Promise<void> {
    const { data } = await this.#api("GET", "/cluster/resources", { type: "vm" });
    const all = data as { vmid: number; node: string; status: string; template?: number; tags?: string }[];
    const guests = all.filter(({ template, tags }) => template !== 1 && !/talos-template/.test(tags ?? ""));
    for (const [vmid, { standIn }] of this.#machines) {
      if (guests.some((guest) => guest.vmid === vmid)) continue;
      standIn.machine.isOn = false;
      this.#machines.delete(vmid);
      await standIn.stop();
    }
    await Promise.all(guests.map((guest) => this.#lookAt(guest)));
    this.#bringing ??= this.#lookAtDrill();
  }

  /** A drill's Kubernetes is there once its etcd has begun from a snapshot, and goes with the machine. */
  #lookAtDrill(): Promise<void> | undefined {
    const [machine] = this.#machinesOf(true);
    if (this.#real === undefined || (machine !== undefined && machine.recovered === undefined))
      return undefined;
    const work =
      machine?.recovered === undefined
        ? this.#real.dropScratch()
        : this.#real.bringBack(machine.recovered, machine.hostname);
    return work
      .catch((err: unknown) => console.info(`the drill's Kubernetes: ${messageOf(err)}`))
      .finally(() => (this.#bringing = undefined));
  }

  #machinesOf(isScratch: boolean): readonly MachineState[] {
    return [...this.#machines.values()]
      .filter((machine) => machine.isScratch === isScratch)
      .map(({ standIn }) => standIn.machine);
  }

  #kubeletOf(machine: MachineState): KubeletMachine {
    const { hostname, config, isOn } = machine;
    const isMember = config?.isControlPlane === true ? machine.etcdService === "Running" : this.#isUp();
    const components =
      config === undefined ? undefined : this.#reader.read(hostname, config.text).parts.components;
    return { hostname, hasJoined: config !== undefined && isOn && isMember, components };
  }

  async #lookAt({ vmid, node, status }: { vmid: number; node: string; status: string }): Promise<void> {
    const vm = `/nodes/${node}/qemu/${vmid}`;
    const config = (await this.#api("GET", `${vm}/config`)).data as Record<string, string>;
    const machine = await this.#machineOf(vmid, config);
    // As seen from outside, where a machine that shuts down cuts its own power.
    machine.standIn.machine.onShutdown = () => {
      const cut = () => this.#api("POST", `${vm}/status/stop`);
      // Not before its answer is out.
      setTimeout(() => void cut().catch((err: unknown) => ignore(err, "the test is over")), 200);
    };
    if (status !== "running") {
      machine.standIn.machine.isOn = false;
      machine.isForwarded = false;
      return;
    }
    if (machine.isForwarded) return;
    const passOn = (port: number, to: number): string =>
      `nc -ll -p ${port} -e nc ${this.#host} ${to} </dev/null >/dev/null 2>&1 &`;
    const isApi = machine.isScratch && this.#scratchPort > 0;
    const script = `${passOn(50_000, machine.standIn.port)}${isApi ? ` ${passOn(this.#apiPort, this.#scratchPort)}` : ""}`;
    const words = ["/bin/sh", "-c", script].map((word): [string, string] => ["command", word]);
    const started = await this.#api(
      "POST",
      `${vm}/agent/exec`,
      {},
      {},
      new URLSearchParams(words).toString(),
    );
    // Its agent does not answer yet: it still boots.
    if (started.status !== 200) return;
    machine.isForwarded = true;
    machine.standIn.machine.isOn = true;
    machine.standIn.machine.boot();
  }

  async #machineOf(vmid: number, config: Readonly<Record<string, string>>): Promise<LabMachine> {
    // A clone has its identity a moment after it was made.
    const birth = `${config["vmgenid"] ?? config["meta"]} ${config["smbios1"]}`;
    const known = this.#machines.get(vmid);
    if (known?.birth === birth) return known;
    await known?.standIn.stop();
    const address = /ip=([\d.]+)\//.exec(config["ipconfig0"] ?? "")?.[1] ?? "";
    const standIn = await TalosStandIn.start({
      uuid: /uuid=([0-9a-f-]+)/.exec(config["smbios1"] ?? "")?.[1] ?? "",
      version: this.#version,
      clusters: this.clusters,
      host: this.#host,
      addresses: [address],
      ...given({ authority: this.#secrets?.certs.os }),
      ...(this.#real === undefined ? {} : { etcdContent: this.#real.save.bind(this.#real) }),
    });
    standIn.machine.isOn = false;
    const isScratch = /-drill-/.test(config["name"] ?? "");
    const made = { standIn, birth, isForwarded: false, isScratch };
    this.#machines.set(vmid, made);
    return made;
  }

  #kubelets() {
    return [...this.#machines.values()].flatMap(({ standIn: { machine } }) => {
      if (machine.config === undefined) return [];
      const { kubelet } = this.#reader.read(machine.hostname, machine.config.text).parts;
      return [{ hostname: machine.hostname, isOn: machine.isOn, version: kubelet ?? "" }];
    });
  }

  async #listen(server: Server, host: string): Promise<number> {
    this.#servers.push(server);
    server.listen(0, host);
    await once(server, "listening");
    return (server.address() as AddressInfo).port;
  }
}
