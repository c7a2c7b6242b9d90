// Services of a node under the names PVE gives them. What gpve does itself runs when this answers; the host's own are
// asked of systemd; the rest of PVE's is not here.
import { ignore } from "@gpve/kit/background.ts";
import type { Exec } from "@gpve/kit/exec.ts";

export interface ServiceRow {
  readonly [key: string]: unknown;
  readonly service: string;
  readonly name: string;
  readonly desc: string;
  readonly state: string;
  readonly "active-state": string;
  readonly "unit-state": string;
}

export interface HostServicesDeps {
  readonly exec: Exec;
  /** Whether a server runs in this process, and not only the node's agent. */
  readonly withServer: boolean;
}

const OF_AGENT: Readonly<Record<string, string>> = {
  pvedaemon: "gpve agent: work on this node",
  pvestatd: "gpve agent: status and statistics of this node",
  qmeventd: "gpve agent: events of running VMs",
};
const OF_SERVER: Readonly<Record<string, string>> = {
  "pve-cluster": "gpve server: the cluster's records",
  pveproxy: "gpve server: the API",
  pvescheduler: "gpve server: jobs by calendar",
  spiceproxy: "gpve server: proxy for SPICE clients",
};
/** Services of the host, and the units they are. */
const OF_HOST: Readonly<Record<string, string>> = {
  chrony: "chrony.service",
  cron: "cron.service",
  ksmtuned: "ksmtuned.service",
  lxcfs: "lxcfs.service",
  // The plain unit only starts instances; the first one has no name.
  postfix: "postfix@-.service",
  sshd: "ssh.service",
  syslog: "syslog.service",
  "systemd-journald": "systemd-journald.service",
  "systemd-timesyncd": "systemd-timesyncd.service",
};
const ABSENT = [
  "corosync",
  "proxmox-firewall",
  "pve-firewall",
  "pve-ha-crm",
  "pve-ha-lrm",
  "pve-lxc-syscalld",
  "pvefw-logger",
];
const PROPERTIES = "Id,Description,LoadState,ActiveState,SubState,UnitFileState";

export class HostServices {
  readonly #deps: HostServicesDeps;

  constructor(deps: HostServicesDeps) {
    this.#deps = deps;
  }

  /** All of PVE's names, sorted. */
  async list(): Promise<readonly ServiceRow[]> {
    const units = await this.#units(Object.values(OF_HOST));
    const own = { ...OF_AGENT, ...(this.#deps.withServer ? OF_SERVER : {}) };
    const elsewhere = this.#deps.withServer ? [] : Object.keys(OF_SERVER);
    return [
      ...Object.entries(own).map(([name, desc]) => row(name, desc, "running", "active", "unknown")),
      ...[...ABSENT, ...elsewhere].map((name) => row(name, name, "dead", "inactive", "not-found")),
      ...Object.entries(OF_HOST).map(([name, unit]) => hostRow(name, units.get(unit))),
    ].toSorted((a, b) => (a.service < b.service ? -1 : 1));
  }

  async #units(names: readonly string[]): Promise<ReadonlyMap<string, Readonly<Record<string, string>>>> {
    try {
      const { stdout } = await this.#deps.exec("systemctl", [
        "show",
        `--property=${PROPERTIES}`,
        "--",
        ...names,
      ]);
      // One paragraph for each, in the order asked: what an alias names has an Id of its own.
      const paragraphs = stdout.trim().split(/\n{2,}/);
      return new Map(names.map((name, at) => [name, properties(paragraphs[at] ?? "")]));
    } catch (err) {
      ignore(err, "without systemd nothing is known of the host's services");
      return new Map();
    }
  }
}

function properties(paragraph: string): Readonly<Record<string, string>> {
  return Object.fromEntries(
    [...paragraph.matchAll(/^([^=\s]+)=(.*)$/gm)].map(([, key = "", value = ""]) => [key, value]),
  );
}

function hostRow(name: string, unit: Readonly<Record<string, string>> | undefined): ServiceRow {
  if (unit === undefined) return row(name, name, "unknown", "unknown", "unknown");
  const isMissing = unit["LoadState"] === "not-found";
  return row(
    name,
    unit["Description"] || name,
    unit["SubState"] || "unknown",
    unit["ActiveState"] || "unknown",
    isMissing ? "not-found" : unit["UnitFileState"] || "unknown",
  );
}

function row(name: string, desc: string, state: string, active: string, unit: string): ServiceRow {
  return { service: name, name, desc, state, "active-state": active, "unit-state": unit };
}
