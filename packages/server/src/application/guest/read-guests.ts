// Reads of guests: all of them from memory, whatever node a guest is on and whether or not that node answers.
import { createHash } from "node:crypto";
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { GuestType } from "@gpve/domain/guest/guest-kinds.ts";
import { noSuchGuest } from "@gpve/domain/guest/guest-words.ts";
import type { GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { GuestRuntime, NodeBoard } from "@gpve/domain/node/runtime.ts";
import type { Viewer } from "@gpve/domain/request/context.ts";
import { apiConfig, apiValue } from "@gpve/domain/vm/config/api-config.ts";
import { parseVmConfig } from "@gpve/domain/vm/config/parse-config.ts";
import { effectiveValues, pendingRows } from "@gpve/domain/vm/change/pending.ts";
import type { VmConfig } from "@gpve/domain/vm/config/vm-config.ts";
import type { Collection, Entry } from "@gpve/store/records/port.ts";
import { Kept } from "../kept.ts";
import { VM_TYPE } from "@gpve/domain/vm/vm-type.ts";

export interface ReadGuestsDeps {
  readonly guests: Collection<GuestRecord>;
  readonly board: NodeBoard;
  /** Another object whenever anyone's permissions changed. */
  readonly permissions: () => unknown;
}

const KEPT_BYTES = 32 * 1024 * 1024;
const SEE = ["VM.Audit"];

export class ReadGuests {
  readonly #guests: Collection<GuestRecord>;
  readonly #board: NodeBoard;
  /** Parsed once per stored version. */
  readonly #parsed = new WeakMap<Entry<GuestRecord>, VmConfig>();
  readonly #shown = new WeakMap<Entry<GuestRecord>, Buffer>();
  readonly #permissions: () => unknown;
  readonly #onNode = new Kept<readonly Entry<GuestRecord>[]>({
    limit: 1_000_000,
    weigh: (all) => 1 + all.length,
  });
  readonly #lists = new Kept<Buffer>({ limit: KEPT_BYTES, weigh: (json) => json.length });

  constructor(deps: ReadGuestsDeps) {
    this.#guests = deps.guests;
    this.#board = deps.board;
    this.#permissions = deps.permissions;
  }

  /** Throws PVE's text when the guest does not exist on that node. */
  find(node: string, type: GuestType, vmid: number): Entry<GuestRecord> {
    const entry = this.#guests.get(String(vmid));
    if (entry === undefined || entry.value.type !== type || entry.value.node !== node) {
      throw noSuchGuest(type, node, vmid);
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
    const entry = this.find(node, VM_TYPE, vmid);
    let json = this.#shown.get(entry);
    if (json === undefined) {
      const config = this.config(entry);
      json = Buffer.from(JSON.stringify({ ...apiConfig(effectiveValues(config)), digest: config.digest }));
      this.#shown.set(entry, json);
    }
    return json;
  }

  /** Whether that answer is still the guest's. */
  isConfigJson(vmid: string, json: Buffer): boolean {
    const entry = this.#guests.get(vmid);
    return entry !== undefined && this.#shown.get(entry) === json;
  }

  /** Without pending changes, or as it was at a snapshot. */
  configView(node: string, vmid: number, view: { readonly snapshot?: string }): Record<string, unknown> {
    const config = this.config(this.find(node, VM_TYPE, vmid));
    if (view.snapshot === undefined) return { ...apiConfig(config.values), digest: config.digest };
    const snapshot = config.snapshots[view.snapshot];
    if (snapshot === undefined) {
      throw new AppError("object.not_found", `snapshot '${view.snapshot}' does not exist`);
    }
    return { ...apiConfig(snapshot), digest: config.digest };
  }

  /** Values are typed as in GET config: strict clients read both alike. */
  pending(node: string, vmid: number): readonly Record<string, unknown>[] {
    const config = this.config(this.find(node, VM_TYPE, vmid));
    const rows = pendingRows(config).map(({ key, value, pending, ...rest }) => ({
      key,
      ...(value === undefined ? {} : { value: apiValue(key, value) }),
      ...(pending === undefined ? {} : { pending: apiValue(key, pending) }),
      ...rest,
    }));
    return [...rows, { key: "digest", value: config.digest }];
  }

  /**
   * JSON text of GET /nodes/{node}/qemu, kept until something changes. A key that says "no" is left out where clients
   * read its presence as "yes".
   */
  listJson(node: string, type: GuestType, { actor, access }: Viewer): Buffer {
    const all = this.#guests.list();
    const facts = [all, this.#board.generation(), this.#permissions()];
    return this.#lists.get(facts, `${type} ${node} ${actor?.authid ?? ""}`, () => {
      const running = new Map(
        (this.#board.get(node)?.report?.guests ?? []).map((guest) => [guest.vmid, guest]),
      );
      const rows = this.#of(node, type, all)
        .filter(({ id }) => access.has(`/vms/${id}`, SEE))
        .map(({ value }) => guestListRow(value, running.get(value.vmid)));
      return Buffer.from(JSON.stringify(rows));
    });
  }

  #of(node: string, type: GuestType, all: readonly Entry<GuestRecord>[]): readonly Entry<GuestRecord>[] {
    return this.#onNode.get([all], `${type} ${node}`, () =>
      all.filter(({ value }) => value.node === node && value.type === type),
    );
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
    memhost: runtime?.memhost ?? 0,
    disk: 0,
    netin: runtime?.netin ?? 0,
    netout: runtime?.netout ?? 0,
    diskread: runtime?.diskread ?? 0,
    diskwrite: runtime?.diskwrite ?? 0,
    ...(summary.template ? { template: 1 } : {}),
    ...given({ tags: summary.tags, lock: summary.lock }),
    ...(summary.serial === undefined ? {} : { serial: 1 }),
    ...(summary.balloon === undefined
      ? {}
      : { balloon_min: summary.balloon.min, shares: summary.balloon.shares }),
    ...runtime?.extra,
  };
}

function sha1(text: string): string {
  return createHash("sha1").update(text).digest("hex");
}
