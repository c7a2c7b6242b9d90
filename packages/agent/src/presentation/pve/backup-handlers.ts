// vzdump and what belongs to it.
import { AppError } from "@gpve/contracts/errors.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { requireVolumeId } from "@gpve/domain/storage/volume-id.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { BackupTools, Compression } from "@gpve/domain/backup/backup-ports.ts";
import { archivedConfigText } from "../../application/backup/restore-vm.ts";
import type { VmHost } from "../../application/vm/vm-host.ts";
import { vmKey } from "./vm-tasks.ts";

export interface BackupHandlerDeps {
  readonly host: VmHost;
  readonly tools: BackupTools;
  readonly engine: OperationEngine;
  readonly nameOf: (vmid: number) => string;
}

const COMPRESSIONS: Readonly<Record<string, Compression>> = {
  "0": "none",
  "1": "lzo",
  gzip: "gzip",
  lzo: "lzo",
  zstd: "zstd",
};

export function createBackupHandlers(deps: BackupHandlerDeps): PveHandlers {
  const { host, tools, engine } = deps;
  return {
    "POST /nodes/{node}/vzdump": async (params, ctx) => {
      const vmids = selectGuests(host, params);
      for (const vmid of vmids) ctx.access.require(`/vms/${vmid}`, ["VM.Backup"]);
      const storage = params.storage ?? "local";
      ctx.access.require(`/storage/${storage}`, ["Datastore.AllocateSpace"]);
      if (vmids.length === 0) return "OK";
      const { upid } = await engine.submit({
        type: "vzdump",
        resources: vmids.map(vmKey),
        args: {
          vmids,
          storage,
          mode: params.mode ?? "snapshot",
          compression: COMPRESSIONS[params.compress ?? "0"] ?? "none",
          ...(params["notes-template"] === undefined
            ? {}
            : { notes: notesOf(deps, params["notes-template"], vmids) }),
          isProtected: params.protected ?? false,
        },
        actor: ctx.actor?.authid ?? "",
        subject: vmids.length === 1 ? String(vmids[0]) : "",
        ...(ctx.traceparent === undefined ? {} : { traceparent: ctx.traceparent }),
      });
      return upid;
    },
    "GET /nodes/{node}/vzdump/extractconfig": ({ volume }, ctx) => {
      requireReadable(volume, ctx);
      return archivedConfigText(host, tools, volume);
    },
  };
}

function selectGuests(
  host: VmHost,
  params: { readonly vmid?: string; readonly all?: boolean; readonly exclude?: string },
): number[] {
  const excluded = new Set(splitIds(params.exclude));
  if (params.all === true) return host.configs.list().filter((vmid) => !excluded.has(vmid));
  const wanted = splitIds(params.vmid);
  if (wanted.length === 0) {
    throw new AppError("request.invalid", "Parameter verification failed.", {
      errors: { vmid: "property is missing and it is not optional" },
    });
  }
  // Guests of other nodes are somebody else's to save.
  return wanted.filter((vmid) => host.configs.has(vmid) && !excluded.has(vmid));
}

function splitIds(text: string | undefined): number[] {
  return (text ?? "")
    .split(/[,;\s]+/)
    .filter((part) => part !== "")
    .map(Number);
}

function notesOf(deps: BackupHandlerDeps, template: string, vmids: readonly number[]): string {
  const [vmid] = vmids;
  const known: Readonly<Record<string, string>> = {
    vmid: String(vmid ?? ""),
    node: deps.host.node,
    guestname: vmid === undefined ? "" : deps.nameOf(vmid),
    cluster: "",
  };
  return template
    .replaceAll("\\n", "\n")
    .replaceAll(/\{\{(\w+)\}\}/g, (whole, name: string) => known[name] ?? whole);
}

function requireReadable(volume: string, ctx: RequestContext): void {
  const { storage } = requireVolumeId(volume);
  ctx.access.require(`/storage/${storage}`, ["Datastore.AllocateSpace", "Datastore.Audit"], "any");
}
