// A platform in memory, as the PVE API shows one: nodes, storages, bridges, guests. REST and pvesh are put before it.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { FakeApi, type FakeReply, type FakeRequest } from "@gpve/client/testing/fake-api.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { FakeAccounts } from "./fake-accounts.ts";
import { FakeBackups } from "./fake-backups.ts";

const GIB = 1024 ** 3;

/** Enough for everything that preflight asks for. */
export const DEPLOYER_PRIVILEGES =
  `VM.Allocate VM.Audit VM.Clone VM.PowerMgmt VM.Config.CDROM VM.Config.Cloudinit VM.Config.CPU VM.Config.Disk
   VM.Config.HWType VM.Config.Memory VM.Config.Network VM.Config.Options Datastore.AllocateSpace
   Datastore.AllocateTemplate Datastore.Audit SDN.Use Sys.Audit Sys.AccessNetwork`.split(/\s+/);

interface FakeGuest {
  node: string;
  status: "running" | "stopped";
  template?: number;
  /** The template that its disks read from. */
  base?: number;
  config: Record<string, string>;
}

export class FakePlatform {
  version = "9.0.3";
  readonly nodes = new Map(
    ["pve1", "pve2", "pve3"].map((name) => [
      name,
      { status: "online", maxcpu: 16, maxmem: 64 * GIB, mem: 4 * GIB },
    ]),
  );
  storages: Record<string, unknown>[] = ["local", "local-lvm"].map((storage) => ({
    storage,
    active: 1,
    enabled: 1,
    content: storage === "local" ? "iso,import,images" : "images,rootdir",
    avail: 1000 * GIB,
  }));
  bridges: Record<string, unknown>[] = [{ iface: "vmbr0", type: "bridge", mtu: "1500" }];
  /** In which nodes have their addresses. */
  subnet = "192.0.2";
  vnets: Record<string, unknown>[] = [];
  zones: Record<string, unknown>[] = [];
  pools: string[] = [];
  mappings: Record<string, unknown>[] = [];
  volumes: string[] = [];
  /** What an address gives, by the name that it is fetched as; of others nothing is known. */
  readonly served = new Map<string, string>();
  /** What was uploaded, by name. */
  readonly uploads = new Map<string, string>();
  /** undefined: root's own. */
  privileges: ((path: string) => readonly string[]) | undefined;
  readonly guests = new Map<number, FakeGuest>();
  /** Guests that are being made: in how many more lists they are missing. */
  readonly unlisted = new Map<number, number>();
  /** Guests that whoever asks may not see any more. */
  readonly hidden = new Set<number>();
  /** Guests whose configuration is not told, and what is said instead. */
  readonly unread = new Map<number, { readonly status: number; readonly message: string }>();
  readonly accounts = new FakeAccounts();
  readonly backups = new FakeBackups();
  /** Told of what happens to guests. */
  onGuest: (event: "create" | "start" | "stop" | "delete", config: Readonly<Record<string, string>>) => void =
    () => undefined;
  /** Everything that was asked for and changes something, in order. */
  readonly done: string[] = [];

  handle(verb: string, path: string, values: Readonly<Record<string, string>>): unknown {
    if (verb !== "GET") this.done.push(`${verb} ${path}`);
    const [, node = "", rest = ""] = /^\/nodes\/([^/]+)(\/.*)$/.exec(path) ?? [];
    if (node !== "" && !this.nodes.has(node)) throw refused(500, `hostname lookup '${node}' failed`);
    if (rest !== "") return this.#ofNode(verb, node, rest, values);
    if (path !== "/access/permissions" && path.startsWith("/access/")) {
      const answer = this.accounts.handle(verb, path, values);
      if (answer !== undefined) return answer;
    }
    switch (`${verb} ${path}`) {
      case "GET /version":
        return { version: this.version };
      case "GET /nodes":
        return [...this.nodes].map(([name, facts]) => ({ node: name, ...facts }));
      case "GET /cluster/resources":
        return [...this.guests]
          .filter(([vmid]) => this.#isListed(vmid))
          .map(([vmid, { node: host, status, template, config }]) => ({
            vmid,
            node: host,
            status,
            template: template ?? 0,
            name: config["name"],
            tags: config["tags"] ?? "",
            maxmem: Number(config["memory"] ?? 512) * 1024 ** 2,
          }));
      case "GET /cluster/status":
        return [...this.nodes.keys()].map((name, at) => ({
          type: "node",
          name,
          ip: `${this.subnet}.${at + 1}`,
          local: at === 0 ? 1 : 0,
        }));
      case "GET /cluster/sdn/vnets":
        return this.vnets;
      case "GET /cluster/sdn/zones":
        return this.zones;
      case "GET /pools":
        return this.pools.map((poolid) => ({ poolid }));
      case "GET /cluster/mapping/pci":
        return this.mappings;
      case "GET /access/permissions": {
        const asked = values["path"] ?? "/";
        return { [asked]: Object.fromEntries((this.privileges?.(asked) ?? []).map((name) => [name, 1])) };
      }
      default:
        throw refused(501, `Method '${verb} ${path}' not implemented`);
    }
  }

  /** By itself, as the machine in it does. */
  powerOff(uuid: string): void {
    const found = [...this.guests.values()].find(({ config }) => config["smbios1"]?.includes(uuid) === true);
    if (found?.status !== "running") return;
    found.status = "stopped";
    this.onGuest("stop", found.config);
  }

  #isListed(vmid: number): boolean {
    if (this.hidden.has(vmid)) return false;
    const left = this.unlisted.get(vmid) ?? 0;
    if (left > 0) this.unlisted.set(vmid, left - 1);
    return left === 0;
  }

  #ofNode(verb: string, node: string, rest: string, values: Readonly<Record<string, string>>): unknown {
    const backedUp = this.backups.handle(`${verb} ${rest}`, node, values, this.guests, refused);
    if (backedUp !== undefined) return backedUp.answer;
    if (verb === "GET" && rest === "/storage") return this.storages;
    if (verb === "GET" && rest === "/network") return this.bridges;
    if (verb === "GET" && /^\/storage\/[^/]+\/content$/.test(rest)) {
      const kind = values["content"];
      if (kind === "images")
        return [...this.guests].flatMap(([vmid, { base }]) =>
          base === undefined
            ? []
            : [{ volid: `x:vm-${vmid}-disk-0`, vmid, parent: `base-${base}-disk-0@__base__` }],
        );
      return this.volumes
        .filter((volid) => kind === undefined || volid.includes(`:${kind}/`))
        .map((volid) => ({ volid }));
    }
    const [, storage = ""] = /^\/storage\/([^/]+)\/download-url$/.exec(rest) ?? [];
    if (verb === "POST" && storage !== "") {
      const served = this.served.get(values["filename"] ?? "");
      if (served !== undefined) requireSum(served, values["checksum"]);
      this.volumes.push(`${storage}:${values["content"]}/${values["filename"]}`);
      return null;
    }
    const [, target = ""] = /^\/storage\/([^/]+)\/upload$/.exec(rest) ?? [];
    if (verb === "POST" && target !== "") return this.#upload(target, values);
    if (verb === "POST" && rest === "/qemu") return this.#create(node, values);
    const [, id = "", action = ""] = /^\/qemu\/(\d+)(\/.*)?$/.exec(rest) ?? [];
    const guest = this.guests.get(Number(id));
    if (guest === undefined || guest.node !== node) {
      throw refused(500, `Configuration file 'nodes/${node}/qemu-server/${id}.conf' does not exist`);
    }
    return this.#ofGuest(`${verb} ${action}`, Number(id), guest, values);
  }

  #upload(
    storage: string,
    { filename = "", content: kind = "", tmpfilename, checksum, bytes }: Readonly<Record<string, string>>,
  ) {
    const content = bytes ?? readFileSync(tmpfilename ?? "", "utf8");
    requireSum(content, checksum);
    this.volumes.push(`${storage}:${kind}/${filename}`);
    this.uploads.set(filename, content);
    return null;
  }

  #ofGuest(what: string, vmid: number, guest: FakeGuest, values: Readonly<Record<string, string>>): unknown {
    switch (what) {
      case "GET /config": {
        const why = this.unread.get(vmid);
        if (why !== undefined) throw refused(why.status, why.message);
        return guest.config;
      }
      case "POST /config":
        Object.assign(guest.config, withDisks(vmid, values));
        return null;
      case "POST /template":
        guest.template = 1;
        for (const [key, value] of Object.entries(guest.config))
          guest.config[key] = value.replace(`:vm-${vmid}-`, `:base-${vmid}-`);
        return null;
      case "POST /clone":
        return this.#clone(vmid, guest, values);
      case "PUT /resize": {
        const disk = values["disk"] ?? "";
        guest.config[disk] =
          `${(guest.config[disk] ?? "").replace(/,size=[^,]*/, "")},size=${values["size"]}`;
        return null;
      }
      case "POST /status/start":
        if (guest.status === "running") throw refused(500, `VM ${vmid} already running`);
        guest.status = "running";
        this.onGuest("start", guest.config);
        return null;
      case "POST /status/stop":
        guest.status = "stopped";
        this.onGuest("stop", guest.config);
        return null;
      case "DELETE ":
        if (guest.status === "running") throw refused(500, `VM ${vmid} is running - destroy failed`);
        if (guest.config["protection"] === "1")
          throw refused(500, `can't remove VM ${vmid} - protection mode enabled`);
        if ([...this.guests.values()].some(({ base }) => base === vmid))
          throw refused(500, `base volume 'base-${vmid}-disk-0' is still in use by linked cloned`);
        this.guests.delete(vmid);
        this.onGuest("delete", guest.config);
        return null;
      default:
        throw refused(501, `Method '${what}' not implemented`);
    }
  }

  #clone(
    vmid: number,
    { node, template, config }: FakeGuest,
    values: Readonly<Record<string, string>>,
  ): null {
    const { newid = "", name = "", description = "", full, target } = values;
    if (this.guests.has(Number(newid)))
      throw refused(500, `unable to create VM ${newid}: config file already exists`);
    const isLinked = full === "0" || full === "false";
    if (isLinked && template !== 1) throw refused(500, "Linked clone feature is not supported for a guest");
    const own = Object.entries(config).map(([key, value]) => [
      key,
      value.replace(`:base-${vmid}-`, isLinked ? `:base-${vmid}-disk-0/vm-${newid}-` : `:vm-${newid}-`),
    ]);
    this.guests.set(Number(newid), {
      node: target ?? node,
      status: "stopped",
      ...(isLinked ? { base: vmid } : {}),
      // Identity and addresses are made up anew.
      config: {
        ...Object.fromEntries(own),
        name,
        description,
        smbios1: `uuid=00000000-0000-4000-8000-${newid.padStart(12, "0")}`,
      },
    });
    return null;
  }

  #create(node: string, { vmid: id = "", ...config }: Readonly<Record<string, string>>): null {
    if (this.guests.has(Number(id)))
      throw refused(500, `unable to create VM ${id} - VM ${id} already exists`);
    this.guests.set(Number(id), { node, status: "stopped", config: withDisks(Number(id), config) });
    this.onGuest("create", config);
    return null;
  }
}

/** What is asked for by its size is made. */
function withDisks(vmid: number, config: Readonly<Record<string, string>>): Record<string, string> {
  const own = Object.entries(config).map(([key, value]) => [
    key,
    /^scsi\d+$/.test(key)
      ? value.replace(/^([^:,]+):(\d+)(?=,|$)/, `$1:vm-${vmid}-disk-${key.slice(4)},size=$2G`)
      : value,
  ]);
  return Object.fromEntries(own) as Record<string, string>;
}

class Refused extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

const refused = (status: number, message: string): Refused => new Refused(status, message);

/** As Proxmox VE says it. */
function requireSum(content: string, wanted: string | undefined): void {
  const got = createHash("sha256").update(content).digest("hex");
  if (wanted !== undefined && wanted !== got)
    throw refused(500, `checksum mismatch: got '${got}' != expect '${wanted}'`);
}

/** The platform behind the client's scripted API. */
export class PlatformApi extends FakeApi {
  readonly #platform: FakePlatform;

  constructor(platform: FakePlatform) {
    super();
    this.#platform = platform;
  }

  override answer(request: FakeRequest): ReturnType<FakeApi["answer"]> {
    this.on(`${request.method} ${request.path}`, platformAnswer(this.#platform, request));
    return super.answer(request);
  }
}

/** What the platform answers to a request of the client. */
export function platformAnswer(
  platform: FakePlatform,
  { method, path, query, form, headers, body }: FakeRequest,
): FakeReply {
  try {
    const boundary = /boundary=(.+)$/.exec(headers["content-type"] ?? "")?.[1];
    const sent = boundary === undefined ? [...form] : multipartValues(body, boundary);
    const values = Object.fromEntries([...query, ...sent]);
    return { body: { data: platform.handle(method, path.replace(/^\/api2\/json/, ""), values) } };
  } catch (err) {
    if (!(err instanceof Refused)) throw err;
    return { status: err.status, reason: err.message, body: { data: null, message: `${err.message}\n` } };
  }
}

/** Fields by their names; the file's content is `bytes`. */
function multipartValues(body: string, boundary: string): readonly [string, string][] {
  return body.split(`--${boundary}`).flatMap((part): [string, string][] => {
    const [head = "", ...rest] = part.split("\r\n\r\n");
    const value = rest.join("\r\n\r\n").replace(/\r\n$/, "");
    const name = / name="([^"]*)"/.exec(head)?.[1];
    const file = / filename="([^"]*)"/.exec(head)?.[1];
    if (name === undefined) return [];
    return file === undefined
      ? [[name, value]]
      : [
          [name, file],
          ["bytes", value],
        ];
  });
}

/** The platform behind `pvesh`, as its arguments say. */
export function fakePvesh(platform: FakePlatform, seen: string[][] = []): Exec {
  const verbs: Readonly<Record<string, string>> = {
    get: "GET",
    create: "POST",
    set: "PUT",
    delete: "DELETE",
  };
  return async (program, args) => {
    seen.push([program, ...args]);
    const [command = "", path = "", ...rest] = args;
    const values = new Map<string, string>();
    for (let at = 0; at < rest.length; at += 2) values.set((rest[at] ?? "").slice(2), rest[at + 1] ?? "");
    values.delete("output-format");
    try {
      const data = platform.handle(verbs[command] ?? "", path, Object.fromEntries(values));
      return { code: 0, stdout: data === null ? "" : JSON.stringify(data), stderr: "" };
    } catch (err) {
      if (!(err instanceof Refused)) throw err;
      throw new AppError("operation.failed", `pvesh failed: ${err.message}`);
    }
  };
}
