// Machines by the PVE API, whoever carries the calls: gpve and pve-api over the network, qm on the host.
import { pveRows } from "@gpve/client/pve-client.ts";
import { isObject } from "@gpve/client/response-error.ts";
import { isAppError } from "@gpve/contracts/errors.ts";
import type {
  CloneRequest,
  Driver,
  GuestBackup,
  GuestConfig,
  GuestConsole,
  GuestPlace,
  ImageSource,
  LinkedClone,
  LocalImage,
  Observation,
  ObservedGuest,
  ObservedNode,
  ObservedStorage,
  PlatformAccount,
} from "./driver.ts";
import { ConsoleLines } from "./console-lines.ts";
import { makePveAccount } from "./pve-account.ts";
import type { PlatformCalls } from "./platform-calls.ts";

const MIB = 1024 ** 2;
const GIB = 1024 ** 3;

type Row = Readonly<Record<string, unknown>>;

export class PveDriver implements Driver {
  readonly name: string;
  readonly #calls: PlatformCalls;

  constructor(name: string, calls: PlatformCalls) {
    this.name = name;
    this.#calls = calls;
  }

  async observe(names: readonly string[]): Promise<Observation> {
    const version = await this.#calls.read("/version");
    const [nodes, guests, pools] = await Promise.all([
      this.#rows("/nodes"),
      this.#rows("/cluster/resources", { type: "vm" }),
      this.#rows("/pools"),
    ]);
    const wanted = nodes.filter(({ node }) => names.includes(text(node)));
    return {
      version: isObject(version) ? text(version["version"]) : "",
      nodes: await Promise.all(wanted.map((row) => this.#node(row))),
      guests: guests.map(guestOf),
      pools: pools.map(({ poolid }) => text(poolid)),
    };
  }

  async #node(row: Row): Promise<ObservedNode> {
    const name = text(row["node"]);
    const isOnline = row["status"] === "online";
    // What is asked of a node that is off would be waited for.
    const [storages, bridges] = isOnline
      ? await Promise.all([
          this.#rows(`/nodes/${name}/storage`),
          this.#rows(`/nodes/${name}/network`, { type: "any_bridge" }),
        ])
      : [[], []];
    return {
      name,
      isOnline,
      cpus: number(row["maxcpu"]),
      memoryMiB: Math.floor(number(row["maxmem"]) / MIB),
      memoryUsedMiB: Math.floor(number(row["mem"]) / MIB),
      storages: storages.map(storageOf),
      bridges: bridges.map(({ iface, mtu, type }) => ({
        name: text(iface),
        isVnet: type === "vnet",
        mtu: mtu === undefined || mtu === null ? undefined : number(mtu),
      })),
    };
  }

  async listen({ host, vmid }: GuestPlace): Promise<GuestConsole | undefined> {
    if (this.#calls.listen === undefined) return undefined;
    const console = new ConsoleLines();
    const close = await this.#calls.listen(`/nodes/${host}/qemu/${vmid}`, (bytes) => console.add(bytes));
    return {
      get lines() {
        return console.lines;
      },
      close,
    };
  }

  async guestConfig({ host, vmid }: GuestPlace): Promise<GuestConfig> {
    const config = await this.#calls.read(`/nodes/${host}/qemu/${vmid}/config`);
    const entries = Object.entries(isObject(config) ? config : {});
    return Object.fromEntries(entries.map(([key, value]) => [key, text(value)]));
  }

  async volumes(host: string, storage: string, content: string): Promise<readonly string[]> {
    const rows = await this.#rows(`/nodes/${host}/storage/${storage}/content`, { content });
    return rows.map(({ volid }) => text(volid));
  }

  async pciMappings(): Promise<ReadonlyMap<string, readonly string[]>> {
    const rows = await this.#rows("/cluster/mapping/pci");
    return new Map(
      rows.map(({ id, map }) => {
        const devices = Array.isArray(map) ? map.map(text) : [];
        return [text(id), devices.map((device) => /(?:^|,)node=([^,]+)/.exec(device)?.[1] ?? "")] as const;
      }),
    );
  }

  async vnet(name: string): Promise<{ readonly zone: string; readonly mtu: number | undefined } | undefined> {
    // Only those are listed that whoever asks may look at, and not those that he may but use.
    const found = (await this.#rows("/cluster/sdn/vnets")).find(({ vnet }) => text(vnet) === name);
    if (found === undefined) return undefined;
    const zone = text(found["zone"]);
    const own = (await this.#rows("/cluster/sdn/zones")).find((each) => text(each["zone"]) === zone);
    const mtu = own?.["mtu"];
    return { zone, mtu: mtu === undefined || mtu === null ? undefined : number(mtu) };
  }

  async address(): Promise<string | undefined> {
    try {
      const nodes = (await this.#rows("/cluster/status")).filter(({ type }) => type === "node");
      const own = nodes.find(({ local }) => number(local) === 1);
      return own === undefined || text(own["ip"]) === "" ? undefined : text(own["ip"]);
    } catch (err) {
      // It takes Sys.Audit on everything; only who does not answer is asked again.
      if (!isAppError(err) || err.kind === "unavailable" || err.kind === "timeout") throw err;
      return undefined;
    }
  }

  async privileges(path: string): Promise<ReadonlySet<string> | undefined> {
    if (this.#calls.isRoot) return undefined;
    const answer = await this.#calls.read("/access/permissions", { path });
    const held = isObject(answer) && isObject(answer[path]) ? answer[path] : {};
    return new Set(Object.keys(held));
  }

  downloadImage(host: string, storage: string, { name, content, url, sha256 }: ImageSource): Promise<void> {
    return this.#calls.work("POST", `/nodes/${host}/storage/${storage}/download-url`, {
      content,
      filename: name,
      url,
      ...(sha256 === undefined ? {} : { checksum: sha256, "checksum-algorithm": "sha256" }),
    });
  }

  uploadImage(host: string, storage: string, { name, content, path, sha256 }: LocalImage): Promise<void> {
    return this.#calls.upload(
      `/nodes/${host}/storage/${storage}/upload`,
      { content, filename: name, checksum: sha256, "checksum-algorithm": "sha256" },
      path,
    );
  }

  createGuest({ host, vmid }: GuestPlace, config: GuestConfig): Promise<void> {
    return this.#calls.work("POST", `/nodes/${host}/qemu`, { vmid, ...config });
  }

  changeGuest({ host, vmid }: GuestPlace, config: GuestConfig): Promise<void> {
    return this.#calls.work("POST", `/nodes/${host}/qemu/${vmid}/config`, config);
  }

  makeTemplate({ host, vmid }: GuestPlace): Promise<void> {
    return this.#calls.work("POST", `/nodes/${host}/qemu/${vmid}/template`);
  }

  cloneGuest(
    from: GuestPlace,
    to: GuestPlace,
    { name, description, isFull, pool }: CloneRequest,
  ): Promise<void> {
    return this.#calls.work("POST", `/nodes/${from.host}/qemu/${from.vmid}/clone`, {
      newid: to.vmid,
      name,
      description,
      full: isFull,
      ...(to.host === from.host ? {} : { target: to.host }),
      ...(pool === null ? {} : { pool }),
    });
  }

  async linkedClones(host: string, storage: string): Promise<readonly LinkedClone[]> {
    const rows = await this.#rows(`/nodes/${host}/storage/${storage}/content`, { content: "images" });
    // "../998/base-998-disk-0.qcow2", "base-998-disk-0@__base__", as the kind of storage has it.
    return rows.flatMap(({ vmid, parent }) => {
      const template = /(?:^|\/)base-(\d+)-/.exec(text(parent))?.[1];
      return template === undefined ? [] : [{ template: Number(template), guest: number(vmid) }];
    });
  }

  resizeDisk({ host, vmid }: GuestPlace, disk: string, gib: number): Promise<void> {
    return this.#calls.work("PUT", `/nodes/${host}/qemu/${vmid}/resize`, { disk, size: `${gib}G` });
  }

  start({ host, vmid }: GuestPlace): Promise<void> {
    return this.#calls.work("POST", `/nodes/${host}/qemu/${vmid}/status/start`);
  }

  stop({ host, vmid }: GuestPlace): Promise<void> {
    return this.#calls.work("POST", `/nodes/${host}/qemu/${vmid}/status/stop`);
  }

  deleteGuest({ host, vmid }: GuestPlace): Promise<void> {
    return this.#calls.work("DELETE", `/nodes/${host}/qemu/${vmid}`, { purge: true });
  }

  backupGuest({ host, vmid }: GuestPlace, storage: string, notes: string): Promise<void> {
    return this.#calls.work("POST", `/nodes/${host}/vzdump`, {
      vmid,
      storage,
      mode: "snapshot",
      compress: "zstd",
      "notes-template": notes,
    });
  }

  async backups(host: string, storage: string): Promise<readonly GuestBackup[]> {
    const rows = await this.#rows(`/nodes/${host}/storage/${storage}/content`, { content: "backup" });
    return rows
      .map(({ volid, vmid, ctime, size }) => ({
        volume: text(volid),
        vmid: number(vmid),
        at: number(ctime) * 1000,
        bytes: number(size),
      }))
      .toSorted((a, b) => a.at - b.at || (a.volume < b.volume ? -1 : 1));
  }

  async backupConfig(host: string, volume: string): Promise<GuestConfig> {
    const config = text(await this.#calls.read(`/nodes/${host}/vzdump/extractconfig`, { volume }));
    // What its snapshots had comes after.
    const [own = ""] = config.split(/^\[/m);
    return Object.fromEntries(
      own.split("\n").flatMap((line) => {
        const [, key, value] = /^([a-z]\w*): *(.*)$/.exec(line) ?? [];
        return key === undefined || value === undefined ? [] : [[key, value] as const];
      }),
    );
  }

  restoreGuest({ host, vmid }: GuestPlace, volume: string): Promise<void> {
    return this.#calls.work("POST", `/nodes/${host}/qemu`, { vmid, archive: volume, force: true });
  }

  deleteVolume(host: string, volume: string): Promise<void> {
    const [storage] = volume.split(":");
    const path = `/nodes/${host}/storage/${storage}/content/${encodeURIComponent(volume)}`;
    return this.#calls.work("DELETE", path);
  }

  makeAccount(account: PlatformAccount): Promise<{ readonly id: string; readonly secret: string }> {
    return makePveAccount(this.#calls, account);
  }

  close(): void {
    this.#calls.close();
  }

  async #rows(path: string, values: Readonly<Record<string, string>> = {}): Promise<readonly Row[]> {
    return pveRows(await this.#calls.read(path, values), `GET ${path}`);
  }
}

function guestOf(row: Row): ObservedGuest {
  return {
    vmid: number(row["vmid"]),
    name: text(row["name"]),
    host: text(row["node"]),
    isRunning: row["status"] === "running",
    isTemplate: number(row["template"]) === 1,
    tags: text(row["tags"])
      .split(/[;, ]+/)
      .filter((tag) => tag !== ""),
    memoryMiB: Math.floor(number(row["maxmem"]) / MIB),
  };
}

function storageOf(row: Row): ObservedStorage {
  return {
    name: text(row["storage"]),
    isActive: number(row["active"]) === 1 && row["enabled"] !== 0,
    contents: text(row["content"]).split(","),
    freeGiB: Math.floor(number(row["avail"]) / GIB),
    isShared: number(row["shared"]) === 1,
  };
}

function text(value: unknown): string {
  return typeof value === "string" ? value : typeof value === "number" ? String(value) : "";
}

function number(value: unknown): number {
  const found = Number(value ?? 0);
  return Number.isFinite(found) ? found : 0;
}
