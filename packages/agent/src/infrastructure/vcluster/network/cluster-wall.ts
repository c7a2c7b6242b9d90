// What a virtual cluster can reach from its bridge: who called it, and nothing else. A tenant can have its API server call
// any address (webhooks do), and this machine's services and the other clusters are addresses too.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { OVERLAY_PORT } from "@gpve/domain/vcluster/overlay.ts";
import { readJsonFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import { ignore } from "@gpve/kit/background.ts";
import { clusterSubnet } from "@gpve/domain/vcluster/cluster-bridge.ts";
import { NOT_OUTSIDE } from "@gpve/domain/vcluster/vnode/outside-networks.ts";
import type { Exec } from "@gpve/kit/exec.ts";

export interface ClusterWallDeps {
  readonly exec: Exec;
  readonly instanceId: string;
  /** DIR/vclusters/run */
  readonly runFolder: string;
}

export interface WallGate {
  readonly bridge: string;
  /** Of its control plane, which alone may go out. */
  readonly from: string;
  /** The services that it may call, such as a store that somebody else runs. */
  readonly out: readonly WallWayOut[];
  /** Other nodes that have a part of it. */
  readonly peers?: readonly string[];
  /** All that is behind it may go out by the ways of this machine, in its name; not to clusters, nor to the machine itself. */
  readonly egress?: boolean;
  /** For now nothing goes out, whatever it may else; not even what has begun. */
  readonly isShut?: true;
}

export interface WallWayOut {
  readonly address: string;
  readonly port: number;
}

export class ClusterWall {
  readonly #exec: Exec;
  readonly #table: string;
  readonly #folder: string;
  #last: Promise<void> = Promise.resolve();
  /** Not what a former release put up. */
  #isOurs = false;

  constructor({ exec, instanceId, runFolder }: ClusterWallDeps) {
    this.#exec = exec;
    this.#table = `gpve_vc_${instanceId}`;
    this.#folder = runFolder;
  }

  /** Also where it stands already: others may have flushed the rules. One that is shut stays shut. */
  async add(wanted: Omit<WallGate, "isShut">): Promise<void> {
    await this.#last;
    const gate = { ...wanted, ...(this.#isShut(wanted.bridge) ? { isShut: true as const } : {}) };
    if (gate.out.length > 0 || gate.egress === true)
      await this.#exec("sysctl", ["-q", "-w", "net.ipv4.ip_forward=1"]);
    if (await this.#standsFor(gate)) return;
    await this.#change((gates) => [...without(gates, gate.bridge), gate]);
  }

  /** Until it is said again. */
  async shut(bridge: string, isShut: boolean): Promise<void> {
    await this.#last;
    if (this.#isShut(bridge) === isShut) return;
    await this.#change((gates) =>
      gates.map((gate) => {
        const { isShut: _before, ...kept } = gate;
        return gate.bridge === bridge ? { ...kept, ...(isShut ? { isShut } : {}) } : gate;
      }),
    );
  }

  async remove(bridge: string): Promise<void> {
    await this.#last;
    // One that was never awake has none.
    if (this.#gates().some((gate) => gate.bridge === bridge))
      await this.#change((gates) => without(gates, bridge));
  }

  /** As it was put up by this very program: who wakes one of a thousand need not put up all of them again. */
  async #standsFor(gate: WallGate): Promise<boolean> {
    await this.#last;
    const noted = this.#gates().find(({ bridge }) => bridge === gate.bridge);
    if (!this.#isOurs || JSON.stringify(noted) !== JSON.stringify(gate)) return false;
    const { stdout } = await this.#exec("nft", ["list", "tables", "inet"]);
    return stdout.split("\n").includes(`table inet ${this.#table}`);
  }

  /** One after the other: clusters come and go side by side. */
  #change(change: (gates: readonly WallGate[]) => readonly WallGate[]): Promise<void> {
    const done = this.#last.then(() =>
      this.#stand(change(this.#gates()).toSorted((a, b) => (a.bridge < b.bridge ? -1 : 1))),
    );
    this.#last = done.catch((err: unknown) => ignore(err, "told to whoever asked for it"));
    return done;
  }

  async #stand(gates: readonly WallGate[]): Promise<void> {
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    // Through a file: nft opens /dev/stdin by name, which fails where stdin is a socket, as Node's pipes are.
    const rules = join(this.#folder, "wall.nft");
    writeFileAtomic(rules, wallRules(this.#table, gates));
    await this.#exec("nft", ["-f", rules]);
    writeFileAtomic(this.#note, JSON.stringify(gates));
    this.#isOurs = true;
  }

  #isShut(bridge: string): boolean {
    return this.#gates().some((gate) => gate.bridge === bridge && gate.isShut === true);
  }

  #gates(): readonly WallGate[] {
    const noted = (readJsonFile(this.#note) as readonly (string | WallGate)[] | undefined) ?? [];
    // Names alone are what former releases noted.
    return noted.map((each) => (typeof each === "string" ? { bridge: each, from: "", out: [] } : each));
  }

  get #note(): string {
    return join(this.#folder, "wall.json");
  }
}

/** Never from a port that servers take for root's: those who know nodes by their address would let pods in. */
function outward(subnets: readonly string[]): readonly string[] {
  const from = `    ip saddr { ${subnets.join(", ")} } oifname != "vcb*"`;
  return [`${from} meta l4proto { tcp, udp } masquerade to :1024-65535`, `${from} masquerade`];
}

function without(gates: readonly WallGate[], bridge: string): readonly WallGate[] {
  return gates.filter((each) => each.bridge !== bridge);
}

/** Replaces the table as a whole; without bridges it goes. */
export function wallRules(table: string, gates: readonly WallGate[]): string {
  // Declared first, so that it can be deleted where it is not there.
  const cleared = [`table inet ${table}`, `delete table inet ${table}`];
  if (gates.length === 0) return `${cleared.join("\n")}\n`;
  const shut = gates.filter(({ isShut }) => isShut === true).map(({ bridge }) => `"${bridge}"`);
  const open = gates.filter(({ egress }) => egress === true).map(({ bridge }) => bridge);
  const closed = `{ ${NOT_OUTSIDE.join(", ")} }`;
  // Sets, not a rule for each: every packet of this machine goes through here, however many clusters there are.
  const names = gates.map(({ bridge }) => `"${bridge}"`).join(", ");
  const within = gates.map(({ bridge }) => `"${bridge}" . "${bridge}"`).join(", ");
  const own = gates.flatMap(({ bridge }) => {
    const subnet = clusterSubnet(bridge);
    return subnet === undefined ? [] : [{ bridge: `"${bridge}"`, pair: `"${bridge}" . ${subnet}` }];
  });
  const [known, pairs] = [own.map(({ bridge }) => bridge), own.map(({ pair }) => pair)];
  const ways = gates.flatMap(({ bridge, from, out }) =>
    out.map(({ address, port }) => ({
      bridge,
      match: `ip saddr ${from} ip daddr ${address} tcp dport ${port}`,
    })),
  );
  const peers = [...new Set(gates.flatMap((gate) => gate.peers ?? []))].toSorted();
  // What comes out of it is inside a cluster's network.
  const overlay = `    udp dport ${OVERLAY_PORT} ip saddr != { ${peers.join(", ")} } drop`;
  const chain = (hook: string): string[] => [
    `  chain ${hook} {`,
    `    type filter hook ${hook} priority -5; policy accept;`,
    ...(hook === "input" && peers.length > 0 ? [overlay] : []),
    // Where frames on a bridge go through these rules too: pods of one worker and another.
    ...(hook === "forward" ? [`    iifname . oifname { ${within} } accept`] : []),
    // Masqueraded it would bear this node's address, and other nodes would take it for their peer's.
    ...(hook === "forward" ? [`    iifname { ${names} } udp dport ${OVERLAY_PORT} drop`] : []),
    // Who bears another's address could speak for him in a connection that stands.
    ...(own.length === 0
      ? []
      : [`    iifname { ${known.join(", ")} } iifname . ip saddr != { ${pairs.join(", ")} } drop`]),
    ...(hook === "forward" && shut.length > 0 ? [`    iifname { ${shut.join(", ")} } drop`] : []),
    `    iifname { ${names} } ct state established,related accept`,
    ...ways.map(({ bridge, match }) => `    iifname "${bridge}" ${match} accept`),
    ...(hook === "forward"
      ? open.map((name) => `    iifname "${name}" oifname != "vcb*" ip daddr != ${closed} accept`)
      : []),
    `    iifname { ${names} } drop`,
    "  }",
  ];
  // Others do not know the way to a cluster's own addresses.
  const subnets = open.flatMap((name) => clusterSubnet(name) ?? []);
  const hidden = [
    ...ways.map(({ bridge, match }) => `    ${match} oifname != "${bridge}" masquerade`),
    ...(subnets.length === 0 ? [] : outward(subnets)),
  ];
  const nat = [
    "  chain postrouting {",
    "    type nat hook postrouting priority 100; policy accept;",
    ...hidden,
    "  }",
  ];
  return [
    ...cleared,
    `table inet ${table} {`,
    ...chain("input"),
    ...chain("forward"),
    ...(hidden.length > 0 ? nat : []),
    "}",
    "",
  ].join("\n");
}
