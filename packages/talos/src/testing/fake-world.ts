// A whole world in memory: a platform whose guests are machines, their etcd, and a fake Kubernetes on top. It outlives
// whoever works on it, so that he can be stopped anywhere and another go on.
import { GpveClient } from "@gpve/client/client.ts";
import { FakeTransport } from "@gpve/client/testing/fake-api.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { BALANCER_TAG } from "../cluster/balancer.ts";
import { TEMPLATE_TAG } from "../cluster/templates.ts";
import { ConfigReader } from "../engine/config-parts.ts";
import type { MachineAddress, Machines } from "../engine/machines-port.ts";
import { PveDriver } from "../driver/pve-driver.ts";
import { RestCalls } from "../driver/rest-calls.ts";
import { RestKubernetes } from "../kubernetes/rest-kubernetes.ts";
import type { Kubernetes } from "../kubernetes/kubernetes.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";
import { trustedBy } from "../secrets/rotation.ts";
import { directMachine } from "./direct-machine.ts";
import { askedMarks, FakeKubernetes, type FakeKubelet } from "./fake-kubernetes.ts";
import { FakePlatform, PlatformApi } from "./fake-platform.ts";
import { StandInClusters } from "./stand-in/cluster-etcd.ts";
import { MachineState } from "./stand-in/machine-state.ts";

export class FakeWorld {
  readonly platform = new FakePlatform();
  readonly clusters = new StandInClusters();
  /** By SMBIOS UUID: a machine lives as long as its guest. */
  readonly machines = new Map<string, MachineState>();
  readonly fakeKubernetes = new FakeKubernetes({
    kubelets: () => this.#kubelets(),
    isUp: () => this.#hasApi(),
  });
  /** By name: faults of tests, thrown at whoever calls the machine. */
  readonly unreachable = new Set<string>();
  /** What a DHCP server gives, by the MAC in lower case. */
  readonly leases = new Map<string, string>();
  readonly #byAddress = new Map<string, string>();
  readonly #reader = new ConfigReader();
  readonly #version: string;
  /** Whether a step of ours ever left etcd without its quorum. */
  quorumLosses = 0;

  constructor(version = "v1.13.9") {
    this.#version = version;
    this.platform.onGuest = (event, config) => this.#guest(event, config);
  }

  driver(clock: Pick<Clock, "now" | "sleep">): PveDriver {
    const transport = new FakeTransport(new PlatformApi(this.platform));
    const credentials = { kind: "token", token: "root@pam!t=1" } as const;
    return new PveDriver("pve", new RestCalls(new GpveClient({ transport, credentials, clock })));
  }

  readonly talos: Machines = {
    member: async (machine) => directMachine(this.#reached(machine), true),
    stranger: async (machine) => directMachine(this.#reached(machine), false),
  };

  /** As the network does: who is not known by the other's authorities gets no further. */
  talosOf(secrets: () => SecretsBundle): Machines {
    const known = (machine: MachineAddress): MachineState => {
      const found = this.#reached(machine);
      const { config } = found;
      if (config === undefined) return found;
      const bundle = secrets();
      const isLetIn = [config.ca.crt, ...config.accepted].includes(bundle.certs.os.crt);
      if (isLetIn && trustedBy(bundle, "os").includes(config.ca.crt)) return found;
      throw new AppError("auth.failed", `${machine.name} has another authority`);
    };
    return {
      member: async (machine) => directMachine(known(machine), true),
      stranger: async (machine) => directMachine(this.#reached(machine), false),
    };
  }

  get kubernetes(): Kubernetes {
    return new RestKubernetes(this.fakeKubernetes.send);
  }

  machine(hostname: string): MachineState {
    const found = [...this.machines.values()].find((each) => each.hostname === hostname);
    if (found === undefined) throw new Error(`no machine ${hostname}`);
    return found;
  }

  /** A digest of everything that matters when all is done. */
  summary(): unknown {
    return {
      guests: [...this.platform.guests]
        .map(([vmid, { node, status, config }]) => ({
          vmid,
          node,
          status,
          name: config["name"],
          tags: config["tags"],
        }))
        .toSorted((a, b) => a.vmid - b.vmid),
      machines: [...this.machines.values()]
        .map((machine) => ({
          hostname: machine.hostname,
          version: machine.version,
          stage: machine.stage,
          config:
            machine.config === undefined
              ? ""
              : this.#reader.read(machine.hostname, machine.config.text).parts,
        }))
        .toSorted((a, b) => (a.hostname < b.hostname ? -1 : 1)),
      members: this.clusters.all.flatMap(({ members }) => members.map(({ hostname }) => hostname)).toSorted(),
      // Without a machine nobody tells of nodes; what was last known of them depends on the order of their ends.
      nodes: (this.machines.size === 0 ? [] : [...this.fakeKubernetes.nodes])
        .map(([name, { isReady, isCordoned, version }]) => ({ name, isReady, isCordoned, version }))
        .toSorted((a, b) => (a.name < b.name ? -1 : 1)),
      objects: [...this.fakeKubernetes.objects.keys()].toSorted(),
    };
  }

  #guest(event: "create" | "start" | "stop" | "delete", config: Readonly<Record<string, string>>): void {
    const before = this.clusters.all.filter(({ hasQuorum }) => hasQuorum);
    const uuid = /uuid=([0-9a-f-]+)/i.exec(config["smbios1"] ?? "")?.[1]?.toLowerCase() ?? "";
    const mac = /virtio=([0-9a-f:]+)/i.exec(config["net0"] ?? "")?.[1]?.toLowerCase() ?? "";
    const lease = /(?:^|,)ip=dhcp/.test(config["ipconfig0"] ?? "") ? this.leases.get(mac) : undefined;
    const address = /ip=([0-9.]+)\//.exec(config["ipconfig0"] ?? "")?.[1] ?? lease ?? "";
    // A template never runs; a clone is only known once it has its identity.
    if (config["tags"]?.includes(TEMPLATE_TAG) === true || config["tags"]?.includes(BALANCER_TAG) === true)
      return;
    if (event === "create" || (event === "start" && !this.machines.has(uuid))) {
      const iso = isoOf(config);
      const version = /talos-(v[\d.]+\d)/.exec(iso ?? config["scsi0"] ?? "")?.[1] ?? this.#version;
      const machine = new MachineState({ uuid, version, clusters: this.clusters });
      machine.isInstalled = iso === undefined;
      machine.disks = Object.entries(config).flatMap(([key, value]) => {
        const gib = /^[^:,]+:([1-9]\d*)(?:,|$)/.exec(value)?.[1];
        return /^scsi\d$/.test(key) && gib !== undefined ? [Number(gib)] : [];
      });
      machine.isOn = false;
      machine.onShutdown = () => this.platform.powerOff(uuid);
      this.machines.set(uuid, machine);
      this.#byAddress.set(address, uuid);
    }
    const machine = this.machines.get(uuid);
    if (machine === undefined) return;
    if (event === "start") {
      // From an empty disk nothing boots.
      machine.isOn = machine.isInstalled || isoOf(config) !== undefined;
      if (machine.isOn) machine.boot();
    }
    if (event === "stop") machine.isOn = false;
    if (event === "delete") this.machines.delete(uuid);
    this.quorumLosses += before.filter(({ hasQuorum, members }) => !hasQuorum && members.length > 1).length;
  }

  #reached({ name, address }: MachineAddress): MachineState {
    const machine = this.machines.get(this.#byAddress.get(address) ?? "");
    if (machine !== undefined && machine.isOn && !this.unreachable.has(name)) return machine;
    throw new AppError("node.unavailable", `cannot connect to the machine at ${address}:50000`);
  }

  #kubelets(): readonly FakeKubelet[] {
    return [...this.machines.values()].flatMap((machine) => {
      if (machine.config === undefined) return [];
      const { documents, parts } = this.#reader.read(machine.hostname, machine.config.text);
      const asks = askedMarks(documents, machine.config.isControlPlane);
      return [{ hostname: machine.announced, isOn: machine.isOn, version: parts.kubelet ?? "", asks }];
    });
  }

  #hasApi(): boolean {
    return this.clusters.all.some(({ hasQuorum }) => hasQuorum);
  }
}

const isoOf = (config: Readonly<Record<string, string>>): string | undefined =>
  Object.values(config).find((value) => value.includes(":iso/"));
