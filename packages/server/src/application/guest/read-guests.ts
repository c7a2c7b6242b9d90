// Reads of guests: all of them from memory, whatever node a guest is on and whether or not that node answers.
import { createHash } from "node:crypto";
import { AppError } from "@gpve/contracts/errors.ts";
import type { GuestRecord, GuestType } from "@gpve/domain/guest/guest-record.ts";
import type { GuestRuntime, NodeBoard } from "@gpve/domain/node/runtime.ts";
import { apiConfig } from "@gpve/domain/vm/api-config.ts";
import { parseVmConfig } from "@gpve/domain/vm/parse-config.ts";
import { effectiveValues, pendingRows, type PendingRow } from "@gpve/domain/vm/pending.ts";
import type { VmConfig } from "@gpve/domain/vm/vm-config.ts";
import type { Collection, Entry } from "@gpve/store/records/port.ts";

export class ReadGuests {
  readonly #guests: Collection<GuestRecord>;
  readonly #board: NodeBoard;
  /** Parsed once per stored version. */
  readonly #parsed = new WeakMap<Entry<GuestRecord>, VmConfig>();
  readonly #shown = new WeakMap<Entry<GuestRecord>, Buffer>();

  constructor(deps: { readonly guests: Collection<GuestRecord>; readonly board: NodeBoard }) {
    this.#guests = deps.guests;
    this.#board = deps.board;
  }

  /** Throws PVE's text when the guest does not exist on that node. */
  find(node: string, type: GuestType, vmid: number): Entry<GuestRecord> {
    const entry = this.#guests.get(String(vmid));
    if (entry === undefined || entry.value.type !== type || entry.value.node !== node) {
      const folder = type === "qemu" ? "qemu-server" : "lxc";
      throw new AppError(
        "object.not_found",
        `Configuration file 'nodes/${node}/${folder}/${vmid}.conf' does not exist`,
      );
    }
    return entry;
  }

  config(entry: Entry<GuestRecord>): VmConfig {
    let config = this.#parsed.get(entry);
    if (config === undefined) {
      config = parseVmConfig(entry.value.conf, { vmid: entry.value.vmid, digestOf: sha1 });
      this.#parsed.set(entry, config);
    }
    return config;
  }

  /** The answer of GET config as JSON text, kept until the guest changes. */
  configJson(node: string, vmid: number): Buffer {
    const entry = this.find(node, "qemu", vmid);
    let json = this.#shown.get(entry);
    if (json === undefined) {
      const config = this.config(entry);
      json = Buffer.from(JSON.stringify({ ...apiConfig(effectiveValues(config)), digest: config.digest }));
      this.#shown.set(entry, json);
    }
    return json;
  }

  /** Without pending changes, or as it was at a snapshot. */
  configView(node: string, vmid: number, view: { readonly snapshot?: string }): Record<string, unknown> {
    const config = this.config(this.find(node, "qemu", vmid));
    if (view.snapshot === undefined) return { ...apiConfig(config.values), digest: config.digest };
    const snapshot = config.snapshots[view.snapshot];
    if (snapshot === undefined) {
      throw new AppError("object.not_found", `snapshot '${view.snapshot}' does not exist`);
    }
    return { ...apiConfig(snapshot), digest: config.digest };
  }

  pending(node: string, vmid: number): readonly PendingRow[] {
    return pendingRows(this.config(this.find(node, "qemu", vmid)));
  }

  /** Rows of GET /nodes/{node}/qemu. A key that says "no" is left out where clients read its presence as "yes". */
  list(node: string, type: GuestType, maySee: (vmid: string) => boolean): readonly Record<string, unknown>[] {
    const running = new Map(
      (this.#board.get(node)?.report?.guests ?? []).map((guest) => [guest.vmid, guest]),
    );
    return this.#guests
      .list()
      .filter(({ value, id }) => value.node === node && value.type === type && maySee(id))
      .map(({ value }) => guestListRow(value, running.get(value.vmid)));
  }
}

function guestListRow(
  { vmid, summary }: GuestRecord,
  runtime: GuestRuntime | undefined,
): Record<string, unknown> {
  return {
    vmid,
    name: summary.name,
    status: runtime?.status ?? "stopped",
    cpus: summary.cpus,
    maxmem: summary.maxmem,
    maxdisk: summary.maxdisk,
    uptime: runtime?.uptimeSeconds ?? 0,
    cpu: runtime?.cpu ?? 0,
    mem: runtime?.mem ?? 0,
    disk: 0,
    netin: runtime?.netin ?? 0,
    netout: runtime?.netout ?? 0,
    diskread: runtime?.diskread ?? 0,
    diskwrite: runtime?.diskwrite ?? 0,
    ...(summary.template ? { template: 1 } : {}),
    ...(summary.tags === undefined ? {} : { tags: summary.tags }),
    ...(summary.lock === undefined ? {} : { lock: summary.lock }),
    ...runtime?.extra,
  };
}

function sha1(text: string): string {
  return createHash("sha1").update(text).digest("hex");
}
